//! Taking up what was left: resume, roll back, or ask a person. And undo and cancel from outside.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use helve_core::ports::{Holder, JournalError, KeyClaim, Ledger, OpenRun};
use helve_core::record::{Entry, Started};
use helve_core::run::{Finding, OnCrash, PartState, StepKind, WaitingFor};
use helve_core::{BoxFuture, Call, CallId, Caller, ErrorCode, Outcome, ToolError};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::OwnedMutexGuard;

use super::active::{ActiveRun, Done, step};
use super::claimed::{ClaimedRun, not_open};
use super::end::{at_work, end_apart, park};
use super::history::{Earlier, History, parse};
use super::part::done_before;
use super::settlement::{Settlement, of_what_it_waits_for, settled};
use super::watch::Watch;
use crate::pipeline::{self, Origin};
use crate::registry::Registry;
use crate::runtime::{Engine, Runtime};

/// How many runs are resumed at the same time.
const CONCURRENT_MAX: usize = 32;
/// How many open runs are looked at in one go.
const PAGE: usize = 1_000;

/// A run that could not be resumed, undone or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no such run.
    #[error("there is no run {0}")]
    NotFound(CallId),
    /// A process is at it.
    #[error("{0} is running in another process; it can be cancelled, but not taken over")]
    Busy(CallId),
    /// It has ended.
    #[error("{0} has ended; it can be undone, but not resumed or cancelled")]
    Ended(CallId),
    /// It has not ended.
    #[error("{0} has not ended; it can be undone once it has, or was cancelled")]
    Open(CallId),
    /// It only read, or never began.
    #[error("{0} changed nothing, so there is nothing to undo")]
    ChangedNothing(CallId),
    /// It was undone before, or undoes another one itself.
    #[error("{0} undoes another run; it cannot be undone itself")]
    IsUndo(CallId),
    /// It is known what became of the call, or it is none of this run.
    #[error("{0} is no call of this run of which nobody knows whether it had its effect")]
    NotInDoubt(CallId),
    /// This process is about to end, and resumes nothing.
    #[error("this Helve is stopping, so {0} is left for another process, or for the next one")]
    Stopping(CallId),
    /// A call that it had started has not happened so far, and may happen yet: it was sent moments before its
    /// process went.
    #[error(
        "a call that {run} had started may be at work still, so it is not made again yet; take it up in {seconds} s"
    )]
    AtWork {
        /// The run that was asked for.
        run: CallId,
        /// How long the call has left.
        seconds: u64,
    },
    /// The ledger cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A run that was left by a process that has gone.
#[derive(Debug)]
pub struct RecoveredRun {
    /// The run that was taken over.
    pub run: CallId,
    /// What became of it.
    pub resumption: Resumption,
}

/// What became of a run that was left.
#[derive(Debug)]
pub enum Resumption {
    /// It has ended.
    Ended(Outcome),
    /// It waits for a person.
    Waits(Outcome),
    /// It could not be resumed.
    Failed(RunError),
}

impl Resumption {
    fn into_outcome(self) -> Result<Outcome, RunError> {
        match self {
            Self::Ended(outcome) | Self::Waits(outcome) => Ok(outcome),
            Self::Failed(error) => Err(error),
        }
    }
}

impl Runtime {
    /// Takes up every run that was cut short when its process went: each goes on after the last
    /// step that had finished, is rolled back, or waits for a person, as its tool says. Runs that
    /// waited for an approval go on where it was decided.
    ///
    /// Nothing that had finished runs again. A run of which a call may be at work still, on the other side, is left
    /// and says so ([`RunError::AtWork`]); [`recover_left`](Self::recover_left) takes it up when that is over.
    pub async fn recover(&self) -> Result<Vec<RecoveredRun>, JournalError> {
        let engine = self.engine();
        // A ledger that takes nothing, say because entries of it are gone, tells no truth about what is open.
        engine.ledger.check()?;
        let (mut recovered, mut after) = (Vec::new(), None);
        loop {
            let page = engine.ledger.open_runs(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.run);
            let left = page.into_iter().filter(|open| match open.holder {
                Holder::Nobody => true,
                // The ledger failed in its middle, and may work again.
                Holder::Us => engine.runs.mark(open.run).is_some(),
                Holder::Others | Holder::Person => false,
            });
            let left = left.map(|open| (open.run, open.cancel_requested)).collect();
            recovered.extend(resume_all(engine, left, None).await);
        }
        recovered.extend(self.approvals().resume_decided().await?);
        Ok(recovered)
    }

    /// Takes up the runs that this process had to leave in their middle because its journal failed,
    /// once that works again. For a process that stays, every now and then: where there are none it
    /// costs nothing. One that cannot be resumed is tried again later, less and less often.
    pub async fn recover_left(&self) -> Result<Vec<RecoveredRun>, JournalError> {
        let engine = self.engine();
        let Some(looking) = engine.runs.begin_looking() else { return Ok(Vec::new()) };
        let left = engine.runs.due();
        if left.is_empty() || engine.stop.has_begun() {
            return Ok(Vec::new());
        }
        engine.ledger.check()?;
        // What was refused and kept is written first: that a run waits, or has ended.
        engine.ledger.flush().await?;
        let open = all_open(&*engine.ledger).await?;
        let (mut cut_short, mut some_wait) = (Vec::new(), false);
        for (run, mark) in left {
            match open.get(&run).map(|open| open.holder) {
                // It waits after all, and belongs to the person it waits for.
                Some(Holder::Person) => {
                    engine.runs.forget_as(run, mark);
                    some_wait = true;
                }
                Some(Holder::Others) => engine.runs.forget_as(run, mark),
                Some(Holder::Us | Holder::Nobody) | None => {
                    cut_short.push((run, open.get(&run).is_some_and(|open| open.cancel_requested)));
                }
            }
        }
        let decided = async {
            // What it waits for may have been decided before anybody could see that it waits.
            if some_wait { self.approvals().resume_decided().await } else { Ok(Vec::new()) }
        };
        let resuming = resume_all(engine, cut_short, Some(looking));
        let (mut recovered, decided) = futures_util::future::join(resuming, decided).await;
        recovered.extend(decided?);
        // They are looked at again when their time is over.
        recovered.retain(|one| !matches!(one.resumption, Resumption::Failed(RunError::AtWork { .. })));
        Ok(recovered)
    }

    /// Takes up one run that was left or waits. `settlement` answers what it waits for, where that
    /// is a call whose outcome is unknown.
    pub async fn resume_run(&self, run: CallId, settlement: Option<Settlement>) -> Result<Outcome, RunError> {
        // A caller asked for it, so what the tool says of crashes does not count.
        let asked = ResumeRequest { settlement };
        resume_open(self.engine(), run, Some(asked), false).await?.into_outcome()
    }

    /// Stops a run, wherever it is. One of this process stops at once, one of another process
    /// within moments; one that nobody is at is ended here: what its parts did is undone, or
    /// listed, as its tool says.
    pub async fn cancel_run(&self, run: CallId) -> Result<Option<Outcome>, RunError> {
        let engine = self.engine();
        if !engine.ledger.request_cancel(run).await? {
            return Err(not_open(&*engine.ledger, run).await);
        }
        if let Some(active) = engine.runs.get(run) {
            active.cancellation.cancel();
            return Ok(None);
        }
        match resume_open(engine, run, None, true).await {
            Ok(resumption) => resumption.into_outcome().map(Some),
            Err(RunError::Busy(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says what a person found out about a call of a finished run that was stopped or got no answer, so that
    /// undoing the run can take it into account. What was said once holds. `by` is who says so, as the record
    /// names them.
    pub async fn settle_call(
        &self,
        run: CallId,
        call_id: CallId,
        answer: Finding,
        result: Option<Value>,
        by: Option<String>,
    ) -> Result<(), RunError> {
        let engine = self.engine();
        let undoing = undoing(&*engine.ledger, &engine.registry, run).await?;
        let mut of_run = undoing.done.iter().map(|done| &done.report);
        let part = of_run.find(|part| part.call_id == call_id && part.state == PartState::Unknown);
        let part = part.ok_or(RunError::NotInDoubt(call_id))?;
        let tool = engine.registry.tool(&part.tool);
        let settlement = Settlement { call_id: Some(call_id), answer, result, by };
        engine.ledger.commit(settled(engine, run, call_id, tool.as_ref(), &settlement)).await?;
        // Another process may have been faster, with another answer.
        let history = History::new(engine.ledger.history(run).await?);
        let claimed =
            history.call(call_id).and_then(|earlier| earlier.settled.as_ref()).map(|(claimed, _)| *claimed);
        if claimed == Some(answer) { Ok(()) } else { Err(RunError::NotInDoubt(call_id)) }
    }

    /// Undoes a finished run: its effects and what its tools did, newest first, as far as that can
    /// be undone. Nothing is undone twice. A tool that undoes may need approval: then the outcome is
    /// pending, and resuming it goes on.
    pub async fn undo_run(&self, run: CallId, caller: Arc<Caller>) -> Result<Outcome, RunError> {
        let engine = self.engine();
        let undoing = undoing(&*engine.ledger, &engine.registry, run).await?;
        if let Some(open) = open_undo(&*engine.ledger, run).await? {
            // One that was cut short or waits goes on; nothing is undone twice.
            return match open.holder {
                Holder::Us | Holder::Others => Err(RunError::Busy(open.run)),
                Holder::Nobody | Holder::Person => self.resume_run(open.run, None).await,
            };
        }
        let call = Call::new(&*undoing.started.facts.tool, parse(&undoing.started.arguments)).by(caller);
        Ok(pipeline::undo(engine, call, Origin::Outside(None), undoing).await)
    }
}

/// Takes up a run whose question was decided.
pub(crate) async fn resume(engine: &Arc<Engine>, run: CallId) -> Result<Outcome, RunError> {
    resume_open(engine, run, Some(ResumeRequest { settlement: None }), false).await?.into_outcome()
}

/// Takes up a run that was cut short, because its call is made again, if its tool is what it was. Boxed, because that leads
/// through the pipeline, and so back to whoever repeats a call.
pub(crate) fn resume_same(
    engine: Arc<Engine>,
    run: CallId,
    digest: Arc<str>,
) -> BoxFuture<'static, Result<Outcome, RunError>> {
    Box::pin(async move {
        let history = History::new(engine.ledger.history(run).await?);
        let started = history.call(run).and_then(|earlier| earlier.started.as_ref());
        match started {
            Some(started) if started.digest == digest => {
                resume_open(&engine, run, None, false).await?.into_outcome()
            }
            Some(_) | None => Err(RunError::NotFound(run)),
        }
    })
}

/// A finished run that is to be undone.
pub(crate) struct Undoing {
    pub(crate) run: CallId,
    pub(crate) done: Vec<Done>,
    /// How often something of it could not be undone, or was found out since.
    failures: usize,
    started: Started,
}

impl Undoing {
    /// A run is undone by one call at a time. What came of it is the answer to the next asker,
    /// until there is something to be tried again.
    pub(crate) fn claim(&self) -> KeyClaim {
        let scoped_key = Sha256::digest(format!("helve undo {} {}", self.run, self.failures)).into();
        KeyClaim { scoped_key, fingerprint: [0; 32], repeatable: false }
    }
}

/// The open run that undoes another one.
async fn open_undo(ledger: &dyn Ledger, run: CallId) -> Result<Option<OpenRun>, RunError> {
    // From the first: ids follow the clock, and one that was set back puts an undo before what it undoes.
    let mut after = None;
    loop {
        let page = ledger.open_runs(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(None) };
        after = Some(last.run);
        for open in page {
            let history = ledger.history(open.run).await?;
            if history.first().and_then(Entry::facts).is_some_and(|facts| facts.undo_of == Some(run)) {
                return Ok(Some(open));
            }
        }
    }
}

async fn undoing(ledger: &dyn Ledger, registry: &Registry, run: CallId) -> Result<Undoing, RunError> {
    let entries = ledger.history(run).await?;
    let leaves_more = |entry: &&Entry| {
        matches!(entry, Entry::Step(step) if matches!(step.kind,
            StepKind::UndoFailed { .. }
            | StepKind::RollbackFailed { .. }
            | StepKind::Waiting { reason: WaitingFor::UnknownOutcome, .. }
            | StepKind::Settled { .. }))
    };
    let failures = entries.iter().filter(leaves_more).count();
    let history = History::new(entries);
    let Some(root) = history.call(run) else { return Err(RunError::NotFound(run)) };
    let Some(started) = root.started.clone() else {
        // What changes something says so before it starts.
        let ended = root.finished.is_some();
        return Err(if ended { RunError::ChangedNothing(run) } else { RunError::NotFound(run) });
    };
    if started.facts.undo_of.is_some() {
        return Err(RunError::IsUndo(run));
    }
    if root.finished.is_none() {
        return Err(RunError::Open(run));
    }
    let composed = registry.tool(&started.facts.tool).is_some_and(|tool| tool.is_composed());
    let done = history
        .ended()
        .filter(|(call_id, _)| *call_id != run || !composed)
        .filter_map(|(call_id, earlier)| done_before(registry, run, call_id, earlier))
        .map(Done::once_more)
        .collect();
    Ok(Undoing { run, done, failures, started })
}

/// Every open run.
async fn all_open(ledger: &dyn Ledger) -> Result<HashMap<CallId, OpenRun>, JournalError> {
    let (mut all, mut after) = (HashMap::new(), None);
    loop {
        let page = ledger.open_runs(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(all) };
        after = Some(last.run);
        all.extend(page.into_iter().map(|open| (open.run, open)));
    }
}

/// Takes up runs that were left, each with whether a stop was requested. Nobody else looks for such
/// runs until these are taken.
async fn resume_all(
    engine: &Arc<Engine>,
    runs: Vec<(CallId, bool)>,
    looking: Option<Arc<OwnedMutexGuard<()>>>,
) -> Vec<RecoveredRun> {
    let resuming = runs.into_iter().map(|(run, cancel)| {
        let looking = looking.clone();
        async move {
            let claimed = ClaimedRun::take(engine, run, false).await;
            drop(looking);
            go_on_with_left(engine, run, claimed, cancel).await
        }
    });
    let resuming: Vec<_> = resuming.collect();
    drop(looking);
    let resuming = futures_util::stream::iter(resuming).buffer_unordered(CONCURRENT_MAX);
    resuming.filter_map(std::future::ready).collect().await
}

/// Takes up one run that was left. None where there is nothing to say of it: another process was faster.
pub(super) async fn resume_left(engine: &Arc<Engine>, run: CallId, cancel: bool) -> Option<RecoveredRun> {
    let claimed = ClaimedRun::take(engine, run, false).await;
    go_on_with_left(engine, run, claimed, cancel).await
}

async fn go_on_with_left(
    engine: &Arc<Engine>,
    run: CallId,
    claimed: Result<ClaimedRun, RunError>,
    cancel: bool,
) -> Option<RecoveredRun> {
    let resumption = match claimed {
        Ok(claimed) => go_on_with(engine, claimed, None, cancel).await.unwrap_or_else(Resumption::Failed),
        Err(error) => Resumption::Failed(error),
    };
    match resumption {
        // Another process was faster. Should they leave it again, that is theirs to say.
        Resumption::Failed(RunError::Busy(_) | RunError::Stopping(_)) => return None,
        // Its end had got there after all.
        Resumption::Failed(RunError::Ended(_)) => {
            engine.runs.forget(run);
            return None;
        }
        // Nothing of it is in the ledger, so nothing of it was begun.
        Resumption::Failed(RunError::NotFound(absent)) if absent == run => engine.runs.forget(run),
        Resumption::Ended(_) | Resumption::Waits(_) | Resumption::Failed(_) => {}
    }
    Some(RecoveredRun { run, resumption })
}

/// A request to resume a run.
struct ResumeRequest {
    settlement: Option<Settlement>,
}

async fn resume_open(
    engine: &Arc<Engine>,
    run: CallId,
    asked: Option<ResumeRequest>,
    cancel: bool,
) -> Result<Resumption, RunError> {
    let claimed = ClaimedRun::take(engine, run, asked.is_some()).await?;
    go_on_with(engine, claimed, asked.and_then(|asked| asked.settlement), cancel).await
}

/// Goes on with a run that is ours.
async fn go_on_with(
    engine: &Arc<Engine>,
    claimed: ClaimedRun,
    settlement: Option<Settlement>,
    cancel: bool,
) -> Result<Resumption, RunError> {
    let (run, by_hand) = (claimed.run(), claimed.is_asked());
    let mut entries = engine.ledger.history(run).await?;
    let settlement = settlement.and_then(|settlement| of_what_it_waits_for(&entries, settlement));
    if let Some((call_id, settlement)) = &settlement {
        let tool = entries.iter().filter_map(Entry::facts).find(|facts| facts.call_id == *call_id);
        let tool = tool.and_then(|facts| engine.registry.tool(&facts.tool));
        let entry = settled(engine, run, *call_id, tool.as_ref(), settlement);
        engine.ledger.commit(entry.clone()).await?;
        entries.push(entry);
    }
    let ending = Ending::of(&entries, cancel);
    let mut history = History::new(entries);
    if let Some((call_id, Settlement { result: Some(result), .. })) = settlement {
        history.set_settled_result(call_id, result);
    }
    let started = match history.call(run) {
        Some(Earlier { finished: Some(_), .. }) => return Err(RunError::Ended(run)),
        Some(Earlier { started: Some(started), .. }) => started.clone(),
        Some(Earlier { started: None, .. }) | None => return Err(RunError::NotFound(run)),
    };
    let undoing = match started.facts.undo_of {
        Some(undone) => Some(undoing(&*engine.ledger, &engine.registry, undone).await?),
        None => None,
    };
    // A caller that cancels wants an end now: what is not known then is listed.
    if ending != Ending::Cancelled
        && let Some(wait) = at_work(engine, &history).await
    {
        claimed.postpone(wait);
        return Err(RunError::AtWork { run, seconds: wait.as_secs() + 1 });
    }
    let active = activate(engine, claimed, history);
    let outcome = match undoing {
        Some(undoing) => {
            pipeline::undo(engine, call_of(&started), Origin::Resumed(Arc::clone(&active)), undoing).await
        }
        None => go_on(engine, &started, Arc::clone(&active), ending, by_hand).await,
    };
    Ok(if active.is_interrupted() { Resumption::Waits(outcome) } else { Resumption::Ended(outcome) })
}

/// Whether a run had begun to be ended before it was cut short. Then it is not gone on with,
/// the process that resumes it.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    No,
    Cancelled,
    RollingBack,
}

impl Ending {
    fn of(entries: &[Entry], cancel: bool) -> Self {
        let was = |kind: &StepKind| {
            entries.iter().any(|entry| matches!(entry, Entry::Step(step) if step.kind == *kind))
        };
        if cancel || was(&StepKind::CancelRequested) {
            Self::Cancelled
        } else if was(&StepKind::RollingBack) {
            Self::RollingBack
        } else {
            Self::No
        }
    }
}

/// Resumes, rolls back or asks, as the tool says of crashes.
async fn go_on(
    engine: &Arc<Engine>,
    started: &Started,
    active: Arc<ActiveRun>,
    ending: Ending,
    by_hand: bool,
) -> Outcome {
    let call = call_of(started);
    let tool = engine.registry.tool(&started.facts.tool);
    let rolled_back = || ToolError::failed("the run was cut short by a crash, and rolled back");
    match ending {
        Ending::Cancelled => {
            let error = ToolError::new(ErrorCode::Cancelled, "the run was cancelled after it was cut short");
            return end_apart(engine, call, active, tool, error).await;
        }
        Ending::RollingBack => return end_apart(engine, call, active, tool, rolled_back()).await,
        Ending::No => {}
    }
    let Some(tool) = tool else {
        let message =
            format!("there is no tool `{}` any more, so the run cannot go on; cancel it", started.facts.tool);
        return park(engine, call, active, WaitingFor::Cancel, message).await;
    };
    let policy = tool.definition().on_crash;
    if started.digest != *tool.digest() {
        let message = format!(
            "`{}` has changed since the run began, so it cannot go on; cancel it, or make the tool what it was",
            tool.name()
        );
        return park(engine, call, active, WaitingFor::Cancel, message).await;
    }
    if started.withheld {
        let message =
            "its arguments hold a secret, which is not kept, so it cannot go on; cancel it".to_owned();
        return park(engine, call, active, WaitingFor::Cancel, message).await;
    }
    match policy {
        OnCrash::Ask if !by_hand => {
            let message =
                format!("`{}` says that a person decides after a crash; resume or cancel it", tool.name());
            park(engine, call, active, WaitingFor::Decision, message).await
        }
        OnCrash::RollBack if !by_hand => {
            // A person may have to be asked in the middle of it, and then it must still be known.
            let kind = StepKind::RollingBack;
            active.buffer(Entry::Step(step(engine.clock.now(), active.id, active.id, kind)));
            end_apart(engine, call, active, Some(tool), rolled_back()).await
        }
        OnCrash::Resume | OnCrash::Ask | OnCrash::RollBack => {
            pipeline::run_call(engine, Box::new(call), Origin::Resumed(active)).await
        }
    }
}

/// The run as it is resumed: what its parts did is known. From here on its record knows what to do where
/// nobody waits for it any more.
fn activate(engine: &Arc<Engine>, claimed: ClaimedRun, history: History) -> Arc<ActiveRun> {
    let (run, left) = claimed.begins();
    let active = ActiveRun::resumed(run, history, left);
    let ended = active.history.ended().filter(|(call_id, _)| *call_id != run);
    ended
        .filter_map(|(call_id, earlier)| done_before(&engine.registry, run, call_id, earlier))
        .for_each(|done| active.add(done));
    let active = Arc::new(active);
    engine.runs.insert(&active);
    // All others may have been halted while this one was asked about: then it is left for the next process, too.
    if let Some(by) = engine.stop.is_over() {
        active.halt(by, engine.clock.now());
    }
    Watch::begin(engine);
    active
}

fn call_of(started: &Started) -> Call {
    let mut call =
        Call::new(&*started.facts.tool, parse(&started.arguments)).by(Arc::clone(&started.facts.caller));
    call.idempotency_key = started.facts.idempotency_key.clone();
    call.correlation_id = started.facts.correlation_id.clone();
    call.trace_parent = started.facts.trace_parent;
    call
}
