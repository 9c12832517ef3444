//! A run of this process, from its start to its end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use helve_core::ports::{Journal, JournalError};
use helve_core::record::Entry;
use helve_core::run::{EFFECT, EffectState, PartReport, PartState, Step, StepKind, UNDO};
use helve_core::trace::SpanContext;
use helve_core::{CallId, Caller, Tool, ToolName};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::here::Left;
use super::history::History;
use super::phase::{Conclusion, EndOf, Event, NoParts, OnStop, Phase};
use super::progress::ProgressTree;

/// A run that has not ended.
pub(crate) struct ActiveRun {
    pub(crate) id: CallId,
    /// Stops all of it.
    pub(crate) cancellation: CancellationToken,
    /// What had happened before it was resumed.
    pub(crate) history: History,
    /// The binding of the call that it is, where that is made of others.
    outer: OnceLock<String>,
    /// Where it stands in a trace, if calls are traced.
    place: OnceLock<Place>,
    /// What becomes of it where the process stops in its middle.
    on_stop: OnStop,
    state: Mutex<State>,
    quiet: Notify,
    /// Told when this process is no longer at it.
    over: Notify,
}

/// Where a call stands in a trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Its own span.
    pub(crate) span: SpanContext,
    /// The span that it belongs to.
    pub(crate) parent: Option<SpanContext>,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// Entries that are to be written with the next entry that a caller waits for. What they tell is
    /// known to nobody outside the run yet.
    buffered: Vec<Entry>,
    /// What is going on: the run itself under the empty path, and its parts. Few at any time.
    going_on: Vec<GoingOn>,
    /// How many have begun so far.
    entered: u64,
    /// Whether a task waits until nothing goes on.
    quiet_is_awaited: bool,
    /// How many handlers of it are at work in tasks of their own. One that blocks its thread is so for longer
    /// than its call goes on, where that is dropped.
    at_work: usize,
    parts: Vec<Done>,
    /// Texts that calls of the run were given or answered as secrets.
    secrets: Vec<String>,
    /// How it is left, where it has to be.
    left: Left,
    progress: ProgressTree,
    /// Why calls could not be undone.
    not_undone: HashMap<CallId, String>,
}

/// A call that is going on.
struct GoingOn {
    number: u64,
    path: Arc<str>,
    tool: Tool,
}

/// A part that has ended, and what it takes to undo it.
#[derive(Clone)]
pub(crate) struct Done {
    /// The run that its story belongs to.
    pub(crate) run: CallId,
    pub(crate) report: PartReport,
    pub(crate) undo_record: Option<Arc<UndoRecord>>,
}

impl Done {
    /// What could not be undone is tried again at the next request.
    pub(crate) fn once_more(mut self) -> Self {
        if self.report.state == PartState::UndoFailed {
            // Without what it did, that is found out anew.
            let known = self.undo_record.is_some();
            self.report.state = if known { PartState::Done } else { PartState::Unknown };
        }
        self
    }
}

/// What a call did, as far as undoing it needs to know.
#[derive(Clone)]
pub(crate) struct UndoRecord {
    pub(crate) call_id: CallId,
    /// The run that its story belongs to.
    pub(crate) run: CallId,
    pub(crate) caller: Arc<Caller>,
    pub(crate) path: Arc<str>,
    pub(crate) tool: Tool,
    pub(crate) arguments: Value,
    pub(crate) result: Value,
    /// What became of each effect.
    pub(crate) effects: Vec<EffectState>,
    /// What their own code said when it applied them.
    pub(crate) notes: HashMap<u32, Value>,
    /// Whether arguments or result are not what they were: secrets are not kept.
    pub(crate) withheld: bool,
    pub(crate) undone: UndoState,
}

/// How far undoing had come before the run was resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum UndoState {
    #[default]
    NotTried,
    Undone,
    Failed,
}

impl State {
    fn feed(&mut self, run: CallId, event: Event) {
        let (phase, write) = std::mem::take(&mut self.phase).step(event);
        self.phase = phase;
        self.buffered.extend(write.map(|write| Entry::Step(step(write.at, run, run, write.kind))));
    }
}

impl ActiveRun {
    /// Says which call it is, by its binding. What was said first holds.
    pub(crate) fn set_binding(&self, outer: String) {
        let _said = self.outer.set(outer);
    }

    /// The binding of the call that it is, where that is made of others.
    pub(crate) fn outer(&self) -> Option<&str> {
        self.outer.get().map(String::as_str)
    }

    /// A run that begins.
    pub(crate) fn new(id: CallId, cancellation: CancellationToken, on_stop: OnStop) -> Self {
        Self {
            id,
            cancellation,
            history: History::default(),
            outer: OnceLock::new(),
            place: OnceLock::new(),
            on_stop,
            state: Mutex::default(),
            quiet: Notify::new(),
            over: Notify::new(),
        }
    }

    /// One that goes on. `left`: how it was left, and would be left again.
    pub(crate) fn resumed(id: CallId, history: History, left: Left) -> Self {
        let state = State { phase: Phase::Running, left, ..State::default() };
        let new = Self::new(id, CancellationToken::new(), OnStop::Leave);
        Self { history, state: Mutex::new(state), ..new }
    }

    /// Moves it to the phase that follows, and keeps what the journal gets of that.
    pub(crate) fn feed(&self, event: Event) {
        self.lock().feed(self.id, event);
    }

    /// The process stops. A run that the next one can go on with starts nothing more and concludes nothing, as where
    /// the ledger has failed. Any other ends by being cancelled.
    pub(crate) fn halt(&self, by: &Arc<str>, at: jiff::Timestamp) {
        self.feed(Event::Stopped { by: Arc::clone(by), at, on_stop: self.on_stop });
    }

    /// Asks something of its phase.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&Phase) -> T) -> T {
        question(&self.lock().phase)
    }

    /// Whether it goes on later, if at all: nothing new starts, and nothing is given up.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.ask(Phase::is_interrupted)
    }

    /// Why it starts no new parts, if so.
    pub(crate) fn refuses_parts(&self) -> Option<NoParts> {
        self.ask(Phase::refuses_parts)
    }

    /// How a call of it may end now.
    pub(crate) fn conclude(&self, end_of: EndOf) -> Conclusion {
        self.ask(|phase| phase.conclude(end_of))
    }

    /// This process is no longer at it.
    pub(super) fn end(&self) {
        self.feed(Event::Over);
        self.over.notify_waiters();
    }

    /// Waits until this process is no longer at it.
    pub(super) async fn until_over(&self) {
        let over = self.over.notified();
        if !self.ask(Phase::is_over) {
            over.await;
        }
    }

    /// Where it stands in a trace, if calls are traced.
    pub(crate) fn place(&self) -> Option<Place> {
        self.place.get().copied()
    }

    /// Says where it stands in a trace. What was said first holds.
    pub(crate) fn set_place(&self, place: Place) {
        self.place.get_or_init(|| place);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an entry to write it with the next entry that a caller waits for.
    pub(crate) fn buffer(&self, entry: Entry) {
        self.lock().buffered.push(entry);
    }

    /// Hands what is buffered to the journal without waiting.
    pub(crate) fn release(&self, journal: &dyn Journal) -> Result<(), JournalError> {
        let buffered = std::mem::take(&mut self.lock().buffered);
        buffered.into_iter().try_for_each(|entry| journal.append(entry))
    }

    /// Writes what is buffered, and waits for it.
    pub(crate) async fn settle(&self, journal: &dyn Journal) -> Result<(), JournalError> {
        let buffered = std::mem::take(&mut self.lock().buffered);
        if buffered.is_empty() { Ok(()) } else { self.write(journal, buffered).await }
    }

    /// Writes what is buffered and an entry, and waits for it.
    pub(crate) async fn commit(&self, journal: &dyn Journal, entry: Entry) -> Result<(), JournalError> {
        let entries = {
            let mut state = self.lock();
            // The run's own start may be lost with another part's; nothing of it may run.
            if let (Entry::Started(_), Some(halt)) = (&entry, state.phase.halt()) {
                return Err(halt.error());
            }
            let mut entries = std::mem::take(&mut state.buffered);
            entries.push(entry);
            entries
        };
        self.write(journal, entries).await
    }

    /// Writes entries, and keeps in mind what became of it.
    async fn write(&self, journal: &dyn Journal, entries: Vec<Entry>) -> Result<(), JournalError> {
        let goes_on = entries.iter().any(|entry| !matches!(entry, Entry::Step(_)));
        let written = journal.commit_all(entries).await;
        match written {
            Ok(()) => {
                let mut state = self.lock();
                state.feed(self.id, Event::Written);
                // Once a part of it has begun or ended, being cut short is a crash as any other.
                state.left.asked &= !goes_on;
            }
            // The ledger works; it is the approval that cannot be used.
            Err(ref error) if error.is_spent().is_some() => {}
            Err(ref error) => self.feed(Event::Refused(error.clone())),
        }
        written
    }

    /// How it is left, where it has to be.
    pub(crate) fn left(&self) -> Left {
        self.lock().left
    }

    /// The run itself or a part of it begins. It ends when the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, path: &Arc<str>, tool: &Tool) -> InFlight {
        let mut state = self.lock();
        state.entered += 1;
        let number = state.entered;
        state.going_on.push(GoingOn { number, path: Arc::clone(path), tool: tool.clone() });
        InFlight { run: Arc::clone(self), number }
    }

    /// A handler begins to work in its own task. It has ended when the guard is dropped.
    pub(crate) fn at_work(self: &Arc<Self>) -> AtWork {
        self.lock().at_work += 1;
        AtWork(Arc::clone(self))
    }

    /// Waits until none of its parts goes on, but not for ever.
    pub(crate) async fn until_quiet(&self, at_most: Duration) {
        let quiet = async {
            loop {
                let changed = self.quiet.notified();
                if self.is_quiet() {
                    return;
                }
                changed.await;
            }
        };
        if tokio::time::timeout(at_most, quiet).await.is_err() {
            tracing::warn!(run = %self.id, "parts of a cancelled run did not stop in time");
        }
    }

    fn is_quiet(&self) -> bool {
        let mut state = self.lock();
        state.quiet_is_awaited = true;
        state.at_work == 0 && state.going_on.iter().all(|one| one.path.is_empty())
    }

    /// Something of it has ended.
    fn leave(&self, end: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        end(&mut state);
        if state.quiet_is_awaited {
            self.quiet.notify_waiters();
        }
    }

    /// Keeps the end of the part at `path` for the next entry that is waited for, where nothing else runs next to
    /// it and those it lies within, so that whatever it leaves behind is followed up at once. Else gives it back.
    pub(crate) fn buffer_if_alone(&self, path: &Arc<str>, end: Entry) -> Option<Entry> {
        let is_apart = |one: &GoingOn| {
            let other = &one.path;
            !other.is_empty() && !Arc::ptr_eq(other, path) && *other != *path && !is_below(path, other)
        };
        let mut state = self.lock();
        if state.going_on.iter().any(is_apart) {
            return Some(end);
        }
        state.buffered.push(end);
        None
    }

    /// The tools of the parts that `path` lies within, from the outside in.
    pub(crate) fn ancestors(&self, path: &str) -> Vec<ToolName> {
        let state = self.lock();
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let outer = std::iter::once(0).chain(ends.filter(|end| *end > 0));
        outer
            .filter_map(|end| state.going_on.iter().find(|one| *one.path == path[..end]))
            .map(|one| one.tool.name().clone())
            .collect()
    }

    /// The tools whose handlers are at work while the part at `path` is, and learn what it answers. What a
    /// composition learns only its other parts get, and what effects and undoing call, nobody waits for.
    pub(crate) fn learning_of(&self, path: &str) -> Vec<Tool> {
        let learns = |one: &&GoingOn| {
            let below = match &*one.path {
                "" => Some(path),
                outer => path.strip_prefix(outer).and_then(|rest| rest.strip_prefix('/')),
            };
            let step = below.and_then(|below| below.split('/').next()).unwrap_or_default();
            !one.tool.is_composed() && !step.is_empty() && step != UNDO && !step.starts_with(EFFECT)
        };
        self.lock().going_on.iter().filter(learns).map(|one| one.tool.clone()).collect()
    }

    /// Notes how a part ended.
    pub(crate) fn add(&self, done: Done) {
        let mut state = self.lock();
        state.progress.forget(&done.report.path);
        // A part that is tried again replaces what it was before.
        if !self.history.is_empty() {
            state.parts.retain(|earlier| earlier.report.path != done.report.path);
        }
        state.parts.push(done);
    }

    /// What became of a part.
    pub(crate) fn state_of(&self, path: &str) -> Option<PartState> {
        self.lock().parts.iter().find(|done| &*done.report.path == path).map(|done| done.report.state)
    }

    /// Changes what is said of a part.
    pub(crate) fn set_state(&self, path: &str, part_state: PartState) {
        if let Some(done) = self.lock().parts.iter_mut().find(|done| &*done.report.path == path) {
            done.report.state = part_state;
        }
    }

    /// Says of a part what was found out about it, in its place.
    pub(crate) fn correct(&self, found: Done) {
        let mut state = self.lock();
        if let Some(done) = state.parts.iter_mut().find(|done| done.report.call_id == found.report.call_id) {
            *done = found;
        }
    }

    /// Remembers why a call could not be undone, for the caller that asked for it.
    pub(crate) fn note_undo_failure(&self, call_id: CallId, why: &str) {
        self.lock().not_undone.insert(call_id, why.to_owned());
    }

    /// Why a call could not be undone.
    pub(crate) fn why_not_undone(&self, call_id: CallId) -> Option<String> {
        self.lock().not_undone.get(&call_id).cloned()
    }

    /// Whether a part has ended, now or before.
    pub(crate) fn has_ended(&self, path: &str) -> bool {
        self.lock().parts.iter().any(|done| &*done.report.path == path)
    }

    /// The parts at and below `path`, in the order in which they ended.
    pub(crate) fn parts_below(&self, path: &str) -> Vec<Done> {
        let below =
            |done: &&Done| path.is_empty() || *done.report.path == *path || is_below(&done.report.path, path);
        self.lock().parts.iter().filter(below).cloned().collect()
    }

    pub(crate) fn reports(&self) -> Vec<PartReport> {
        self.lock().parts.iter().map(|done| done.report.clone()).collect()
    }

    /// Keeps texts out of what is recorded of the run.
    pub(crate) fn hide(&self, secrets: &[String]) {
        if !secrets.is_empty() {
            self.lock().secrets.extend_from_slice(secrets);
        }
    }

    /// Texts to be kept out of what is recorded of the run.
    pub(crate) fn secrets(&self) -> Vec<String> {
        self.lock().secrets.clone()
    }

    pub(crate) fn with_progress<T>(&self, change: impl FnOnce(&mut ProgressTree) -> T) -> T {
        change(&mut self.lock().progress)
    }
}

/// Whether a path lies within another.
pub(crate) fn is_below(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

/// A part that is going on.
pub(crate) struct InFlight {
    run: Arc<ActiveRun>,
    number: u64,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.run.leave(|state| state.going_on.retain(|one| one.number != self.number));
    }
}

/// A handler that is at work for a run.
pub(crate) struct AtWork(Arc<ActiveRun>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.leave(|state| state.at_work -= 1);
    }
}

/// A step of a run, now.
pub(crate) fn step(at: jiff::Timestamp, call_id: CallId, run: CallId, kind: StepKind) -> Box<Step> {
    Box::new(Step { at, call_id, run, kind, payload: None })
}
