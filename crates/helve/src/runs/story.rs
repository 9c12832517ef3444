//! What the journal says of one run, put together.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use helve_core::ports::OpenRun;
use helve_core::record::{EndStatus, Entry, Facts, Finished, Started};
use helve_core::run::{Finding, PartReport, PartState, StepKind, WaitingFor, is_effect, undoings};
use helve_core::{ApprovalId, CallId, ErrorCode, ToolError};
use serde::Serialize;

use super::part::{left_in_doubt, left_standing};
use super::state::{RunState, UndoneLater};

/// One run, as the journal tells it.
pub struct Story {
    /// The id of the run.
    pub run: CallId,
    /// How it stands.
    pub state: RunState,
    /// What is known of it from the beginning.
    pub facts: Facts,
    /// How it ended, or ended last.
    pub finished: Option<Box<Finished>>,
    /// What it is made of, in the order in which it began, without the calls that undo.
    pub parts: Vec<PartReport>,
    /// What it waits for, or waited for last.
    pub waiting: Option<StoryWaiting>,
    /// Everything that is recorded of it.
    pub entries: Vec<Entry>,
    calls: HashMap<CallId, CallStory>,
    /// Whether what its parts did is being taken back.
    is_rolled_back: bool,
    /// Paths of calls that have parts, the empty one for the run itself.
    composed: HashSet<Box<str>>,
}

/// What a run waits for.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct StoryWaiting {
    /// What must happen before the run goes on.
    #[serde(rename = "for")]
    pub reason: WaitingFor,
    /// The call that it is about.
    pub call_id: CallId,
    /// The question that was put to a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// Why it cannot go on by itself.
    #[serde(skip)]
    pub why: Option<ToolError>,
}

/// How a run stands, as programs are told: over HTTP and by `helve runs --json` alike.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Standing {
    /// In a word.
    pub state: RunState,
    /// What it waits for, while it waits for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<StoryWaiting>,
    /// Calls of which nobody knows whether they had their effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_doubt: Vec<CallId>,
}

/// What is known of one call of a run.
#[derive(Default)]
struct CallStory {
    facts: Option<Facts>,
    ended: Option<(EndStatus, Option<ErrorCode>)>,
    /// Whether nobody knows if it had its effect.
    in_doubt: bool,
    /// Whether its tool did what it does, whatever became of the call.
    did_it: bool,
    /// What was found out about it.
    settled: Option<Finding>,
    undo: Undo,
    /// Effects that were applied and not taken back.
    applied: HashSet<u32>,
    /// Effects that could not be taken back.
    not_taken_back: HashSet<u32>,
}

/// How far undoing a call has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Undo {
    #[default]
    NotTried,
    Begun,
    Undone,
    Failed,
}

impl Story {
    /// `None` where nothing tells of this run. `open` is what is known of it while it has not ended.
    pub fn new(run: CallId, entries: Vec<Entry>, open: Option<&OpenRun>) -> Option<Self> {
        let mut calls = HashMap::<CallId, CallStory>::new();
        let (mut order, mut waiting, mut finished, mut undone_later) = (Vec::new(), None, None, false);
        let mut is_rolled_back = false;
        for entry in &entries {
            let known = calls.entry(entry.call_id()).or_insert_with(|| {
                order.push(entry.call_id());
                CallStory::default()
            });
            match entry {
                Entry::Started(started) => known.note_start(started),
                Entry::Finished(ended) => {
                    // What came first tells when it came; a run that was resumed came again.
                    known.facts.get_or_insert_with(|| ended.facts.clone());
                    known.ended = Some((ended.ending.status, ended.ending.code));
                    known.in_doubt = left_in_doubt(ended);
                    known.did_it = left_standing(ended);
                    if ended.facts.call_id == run {
                        finished = Some(ended.clone());
                    }
                }
                Entry::Step(step) => {
                    known.note_step(&step.kind);
                    if let StepKind::Waiting { reason, approval_id } = step.kind {
                        let why =
                            step.payload.as_ref().and_then(|said| serde_json::from_str(said.get()).ok());
                        waiting = Some(StoryWaiting { reason, call_id: step.call_id, approval_id, why });
                    }
                    is_rolled_back |= matches!(step.kind, StepKind::RollingBack | StepKind::UndoStarted);
                    undone_later |= finished.is_some()
                        && matches!(step.kind, StepKind::Undone | StepKind::EffectRolledBack { .. });
                }
            }
        }
        let facts = calls.get(&run)?.facts.clone()?;
        let mut story = Self {
            run,
            state: RunState::Running,
            facts,
            finished,
            parts: Vec::new(),
            waiting,
            entries,
            calls,
            is_rolled_back,
            composed: HashSet::new(),
        };
        story.composed = story.find_composed();
        story.parts = order.into_iter().filter_map(|call_id| story.part(call_id)).collect();
        story.keep_last_tries();
        story.judge_composed();
        story.state = story.judge(open, undone_later);
        Some(story)
    }

    /// A part that waited, or was cut short, is called again under its path: what became of it last counts.
    fn keep_last_tries(&mut self) {
        let last: HashMap<_, _> =
            self.parts.iter().map(|part| (Arc::clone(&part.path), part.call_id)).collect();
        self.parts.retain(|part| last.get(&part.path) == Some(&part.call_id));
    }

    /// A composed part is what its parts are: it was undone where some of them were and none stands.
    fn judge_composed(&mut self) {
        let stands: HashSet<_> = self.stands().into_iter().chain(self.in_doubt()).collect();
        let stands: HashSet<_> = stands.into_iter().filter_map(|call_id| self.path(call_id)).collect();
        let outer = |path: &str| {
            let ends: Vec<_> = path.match_indices('/').map(|(end, _)| end).collect();
            ends.into_iter().map(|end| Box::from(&path[..end])).collect::<Vec<Box<str>>>()
        };
        let undone = self.parts.iter().filter(|part| part.state == PartState::Undone);
        let undone: HashSet<_> = undone.flat_map(|part| outer(&part.path)).collect();
        let standing: HashSet<_> = stands.iter().flat_map(|path| outer(path)).collect();
        for part in self.parts.iter_mut().filter(|part| part.state == PartState::Done) {
            let is_composed = self.composed.contains(&*part.path);
            if is_composed && undone.contains(&*part.path) && !standing.contains(&*part.path) {
                part.state = PartState::Undone;
            }
        }
    }

    fn judge(&self, open: Option<&OpenRun>, undone_later: bool) -> RunState {
        match (open, &self.finished) {
            (Some(open), _) => {
                let is_undone = self.facts.undo_of.is_some() || self.is_rolled_back;
                RunState::of_open(open, self.waiting.as_ref().map(|waiting| waiting.reason), is_undone)
            }
            (None, Some(finished)) => {
                let undone = match undone_later {
                    false => UndoneLater::Nothing,
                    true if self.stands().is_empty() && self.in_doubt().is_empty() => UndoneLater::All,
                    true => UndoneLater::Some,
                };
                let in_doubt = finished.ending.status != EndStatus::Done && !self.in_doubt().is_empty();
                RunState::of_ended(&finished.ending, undone, in_doubt)
            }
            // It ended between two looks.
            (None, None) => RunState::Running,
        }
    }

    /// What was done and not undone: calls that may have changed the world, or whose effects should be gone.
    pub fn stands(&self) -> Vec<CallId> {
        let stands = |(call_id, known): (&CallId, &CallStory)| {
            let facts = known.facts.as_ref()?;
            let did_it = known.did_it || known.in_doubt && known.settled == Some(Finding::Happened);
            let own = facts.changes_world && did_it && known.undo != Undo::Undone;
            let is_counted = !self.is_composed(facts) && !self.undoes(facts);
            (is_counted && (own || known.effects_stand())).then_some(*call_id)
        };
        self.calls.iter().filter_map(stands).collect()
    }

    /// Calls of which nobody knows whether they had their effect.
    pub fn in_doubt(&self) -> Vec<CallId> {
        let in_doubt = |(call_id, known): (&CallId, &CallStory)| {
            let facts =
                known.facts.as_ref().filter(|facts| !self.is_composed(facts) && !self.undoes(facts))?;
            (known.state(self.is_composed(facts)) == PartState::Unknown).then_some(*call_id)
        };
        let mut found: Vec<_> = self.calls.iter().filter_map(in_doubt).collect();
        found.sort_unstable();
        found
    }

    /// How it stands, as programs are told.
    pub fn standing(&self) -> Standing {
        let waiting = self.waiting.clone().filter(|_| self.state.is_waiting());
        Standing { state: self.state, waiting, in_doubt: self.in_doubt() }
    }

    /// Where a call stands within the run; nothing for the run itself.
    pub fn path(&self, call_id: CallId) -> Option<Arc<str>> {
        let facts = self.calls.get(&call_id)?.facts.as_ref()?;
        facts.part.as_ref().map(|part| Arc::clone(&part.path))
    }

    /// Which effects of a call were applied and not taken back.
    pub fn applied(&self, call_id: CallId) -> impl Iterator<Item = u32> {
        self.calls.get(&call_id).into_iter().flat_map(|known| known.applied.iter().copied())
    }

    /// The tool that a call is of.
    pub fn tool(&self, call_id: CallId) -> &str {
        let facts = self.calls.get(&call_id).and_then(|known| known.facts.as_ref());
        facts.map_or("", |facts| &*facts.tool)
    }

    fn find_composed(&self) -> HashSet<Box<str>> {
        let path = |known: &'_ CallStory| Some(Arc::clone(&known.facts.as_ref()?.part.as_ref()?.path));
        // What an effect of a call has called is no part of it.
        let parts = self.calls.values().filter_map(path);
        let parts = parts.filter(|path| !self.is_undo(path) && !is_effect(path));
        parts.map(|path| path.rsplit_once('/').map_or("", |(outer, _)| outer).into()).collect()
    }

    /// Whether a call has parts: then they are what it did.
    fn is_composed(&self, facts: &Facts) -> bool {
        self.composed.contains(facts.part.as_ref().map_or("", |part| &*part.path))
    }

    /// Whether a call is there to undo another one of this run, or is a part of such a one.
    fn undoes(&self, facts: &Facts) -> bool {
        facts.part.as_ref().is_some_and(|part| self.is_undo(&part.path))
    }

    fn is_undo(&self, path: &str) -> bool {
        // In a run that undoes another one, that is what its own parts do.
        undoings(path) > usize::from(self.facts.undo_of.is_some())
    }

    fn part(&self, call_id: CallId) -> Option<PartReport> {
        let known = self.calls.get(&call_id)?;
        let facts = known.facts.as_ref().filter(|facts| !self.undoes(facts))?;
        let path = Arc::clone(&facts.part.as_ref()?.path);
        let state = known.state(self.is_composed(facts));
        Some(PartReport { path, call_id, tool: Arc::clone(&facts.tool), state })
    }

    /// How many of its steps are done, undone, and there at all.
    pub fn counts(&self) -> Counts {
        let steps = self.parts.iter().filter(|part| !part.path.contains('/'));
        steps.fold(Counts::default(), |mut counts, part| {
            counts.total += 1;
            counts.undone += usize::from(part.state == PartState::Undone);
            counts.done += usize::from(matches!(
                part.state,
                PartState::Done | PartState::Undone | PartState::UndoFailed
            ));
            counts
        })
    }
}

/// How many of a run's steps are done. Those of steps are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Those that did what they do.
    pub done: usize,
    /// Those that were undone.
    pub undone: usize,
    /// How many have begun; nobody knows how many will.
    pub total: usize,
}

impl CallStory {
    fn note_start(&mut self, started: &Started) {
        self.facts.get_or_insert_with(|| started.facts.clone());
        // A part that is tried again has not ended.
        self.ended = None;
    }

    fn note_step(&mut self, kind: &StepKind) {
        match kind {
            StepKind::UndoStarted => self.undo = Undo::Begun,
            StepKind::Undone => self.undo = Undo::Undone,
            StepKind::UndoFailed { .. } => self.undo = Undo::Failed,
            StepKind::EffectApplied { index } => drop(self.applied.insert(*index)),
            StepKind::EffectRolledBack { index } => {
                self.applied.remove(index);
                self.not_taken_back.remove(index);
            }
            StepKind::RollbackFailed { index } => drop(self.not_taken_back.insert(*index)),
            StepKind::Settled { answer, by: _ } => self.settled = Some(*answer),
            // That it did not happen is good for one time: it is done again.
            StepKind::Resumed => self.settled = self.settled.filter(|answer| *answer == Finding::Happened),
            StepKind::Attempted { .. }
            | StepKind::Executed { .. }
            | StepKind::EffectSkipped { .. }
            | StepKind::EffectFailed { .. }
            | StepKind::Waiting { .. }
            | StepKind::Asked { .. }
            | StepKind::Decided { .. }
            | StepKind::Labelled { .. }
            | StepKind::RuleUsed { .. }
            | StepKind::RuleRevoked { .. }
            | StepKind::CancelRequested
            | StepKind::Stopped { .. }
            | StepKind::RollingBack
            | StepKind::Told => {}
        }
    }

    fn effects_stand(&self) -> bool {
        !self.not_taken_back.is_empty()
    }

    fn state(&self, composed: bool) -> PartState {
        match (self.ended, self.undo) {
            (None, _) => PartState::Running,
            (Some(_), Undo::Undone) if self.effects_stand() => PartState::UndoFailed,
            // Also what failed: a tool can succeed and its effects fail.
            (Some(_), Undo::Undone) => PartState::Undone,
            (Some(_), Undo::Failed) => PartState::UndoFailed,
            (Some((EndStatus::Done, _)), Undo::NotTried | Undo::Begun) => PartState::Done,
            (Some((EndStatus::Pending, _)), _) => PartState::Waiting,
            (Some((EndStatus::Returned | EndStatus::Failed | EndStatus::Denied, code)), _) => {
                // Of a composed one its parts tell.
                let in_doubt = self.in_doubt && !composed || code == Some(ErrorCode::OutcomeUnknown);
                match (self.settled, code) {
                    (None, _) if in_doubt => PartState::Unknown,
                    (Some(Finding::Happened), _) if in_doubt => PartState::Done,
                    (_, Some(ErrorCode::Cancelled)) => PartState::Cancelled,
                    (_, Some(_) | None) => PartState::Failed,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_testkit::entries::SampleCall;
    use serde_json::json;

    fn story(call: &SampleCall, entries: impl IntoIterator<Item = Entry>) -> Story {
        let entries = [call.started()].into_iter().chain(entries).collect();
        Story::new(call.id(), entries, None).unwrap()
    }

    fn step(call: &SampleCall, kind: StepKind) -> Entry {
        Entry::Step(call.step(kind))
    }

    #[test]
    fn an_effect_that_could_not_be_taken_back_stands_until_it_is() {
        let pay = SampleCall::new("pay");
        let mut entries = vec![
            pay.done(json!(1)),
            step(&pay, StepKind::RollbackFailed { index: 0 }),
            step(&pay, StepKind::Undone),
        ];
        let partly = story(&pay, entries.clone());
        assert_eq!((partly.state, partly.stands()), (RunState::PartlyUndone, vec![pay.id()]));
        entries.push(step(&pay, StepKind::EffectRolledBack { index: 0 }));
        let undone = story(&pay, entries);
        assert_eq!((undone.state, undone.stands()), (RunState::Undone, vec![]));
    }

    #[test]
    fn what_failed_after_its_tool_had_done_it_stands() {
        let pay = SampleCall::new("pay");
        let failed = pay.failed(ErrorCode::OutputInvalid);
        assert_eq!(story(&pay, [failed.clone()]).stands(), [], "the tool itself has failed");
        let Entry::Finished(mut afterwards) = failed else { panic!("it is an end") };
        afterwards.ending.attempts[0].code = None;
        assert_eq!(story(&pay, [Entry::Finished(afterwards)]).stands(), [pay.id()]);
    }

    #[test]
    fn the_call_that_undoes_a_run_is_no_part_of_it_but_one_of_a_run_that_undoes() {
        let mut pay = SampleCall::new("pay");
        let undo = SampleCall::new("unpay").part_of(&pay, "undo");
        let entries = [undo.started(), undo.done(json!(1)), pay.failed(ErrorCode::Cancelled)];
        let cut_short = story(&pay, entries.clone());
        assert_eq!((cut_short.parts.len(), cut_short.stands()), (0, vec![]));
        pay.facts.undo_of = Some(undo.id());
        assert_eq!(story(&pay, entries).parts.len(), 1);
    }

    #[test]
    fn a_part_that_is_tried_again_counts_once() {
        let run = SampleCall::new("contract");
        let tries = ["sign", "sign", "sign"].map(|tool| SampleCall::new(tool).part_of(&run, "second"));
        let [first, second, third] = &tries;
        let pending = |call: &SampleCall| {
            let Entry::Finished(mut end) = call.failed(ErrorCode::Cancelled) else { panic!("it is an end") };
            end.ending.status = EndStatus::Pending;
            Entry::Finished(end)
        };
        let waits = story(&run, [pending(first), pending(second)]);
        assert_eq!(waits.counts(), Counts { done: 0, undone: 0, total: 1 });
        let done = story(&run, [pending(first), pending(second), third.started(), third.done(json!(1))]);
        assert_eq!(done.counts(), Counts { done: 1, undone: 0, total: 1 });
    }

    #[test]
    fn a_composed_part_is_undone_where_its_parts_are() {
        let run = SampleCall::new("outer");
        let inner = SampleCall::new("inner").part_of(&run, "inner");
        let [write, burn] =
            ["write", "burn"].map(|tool| SampleCall::new(tool).part_of(&run, &format!("inner/{tool}")));
        let mut entries = vec![inner.started(), write.started(), write.done(json!(1)), inner.done(json!(1))];
        entries.push(step(&write, StepKind::Undone));
        let state = |entries: Vec<Entry>| story(&run, entries).parts[0].state;
        assert_eq!(state(entries.clone()), PartState::Undone);
        entries.extend([burn.started(), burn.done(json!(1))]);
        assert_eq!(state(entries), PartState::Done, "`burn` stands");
    }

    #[test]
    fn a_call_whose_effect_has_called_another_still_stands_itself() {
        let pay = SampleCall::new("pay");
        let told = SampleCall::new("tell").part_of(&pay, "effect-0");
        let told = [told.started(), told.failed(ErrorCode::ExecutionFailed)];
        let failed = story(&pay, told.into_iter().chain([pay.failed(ErrorCode::EffectFailed)]));
        assert_eq!(failed.stands(), [pay.id()]);
    }

    #[test]
    fn a_call_in_doubt_is_what_was_found_out() {
        let pay = SampleCall::new("pay");
        let states = [None, Some(Finding::Happened), Some(Finding::DidNotHappen)].map(|answer| {
            let settled = answer.map(|answer| step(&pay, StepKind::Settled { answer, by: None }));
            let story = story(&pay, [pay.failed(ErrorCode::Timeout)].into_iter().chain(settled));
            (story.in_doubt().len(), story.stands().len())
        });
        assert_eq!(states, [(1, 0), (0, 1), (0, 0)]);
    }
}
