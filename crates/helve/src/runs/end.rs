//! Ending a run that does not end by itself: what its parts did is found out, undone or listed.

use std::sync::Arc;
use std::time::Duration;

use helve_core::ports::Clock;
use helve_core::record::{Entry, Facts, HandlerEnd, RawJson, Started};
use helve_core::run::{Finding, OnCrash, PartReport, PartState, Recalled, StepKind, WaitingFor, is_undo};
use helve_core::{Call, CallId, ErrorCode, Outcome, Status, Tool, ToolError};

use super::active::{ActiveRun, Done, UndoRecord, is_below, step};
use super::here::ActiveRuns;
use super::history::{Earlier, History, parse};
use super::part::{effects_so_far, undoes_below, without_effect};
use super::phase::{Event, Waiting};
use super::undo::undo_below;
use crate::pipeline;
use crate::runtime::{Engine, Settings};

/// How long the parts of a run have to stop, once they were told to.
const STOP_MAX: Duration = Duration::from_secs(10);

/// Leaves the run to a person.
pub(super) async fn park(
    engine: &Arc<Engine>,
    call: Call,
    run: Arc<ActiveRun>,
    reason: WaitingFor,
    message: String,
) -> Outcome {
    run.feed(Event::Waits(Waiting { reason, call_id: run.id, pending: None }));
    pipeline::wind_up(engine, call, run, ToolError::new(ErrorCode::OutcomeUnknown, message)).await
}

/// Ends the run in its own task: what has begun to be taken back is, even if the caller goes away.
pub(super) async fn end_apart(
    engine: &Arc<Engine>,
    call: Call,
    run: Arc<ActiveRun>,
    tool: Option<Tool>,
    error: ToolError,
) -> Outcome {
    let (engine, id, name) = (Arc::clone(engine), run.id, Arc::from(&*call.tool));
    let ended = tokio::spawn(async move { end(&engine, call, run, tool, error).await });
    ended.await.unwrap_or_else(|_| {
        let error = ToolError::new(ErrorCode::OutcomeUnknown, format!("ending {id} broke off; look at it"));
        Outcome::new(id, name, Status::Failed(error))
    })
}

/// Ends the run: what its parts did is undone where the tool wants that, and listed in any case.
async fn end(
    engine: &Arc<Engine>,
    call: Call,
    run: Arc<ActiveRun>,
    tool: Option<Tool>,
    error: ToolError,
) -> Outcome {
    let rolls_back = tool.as_ref().is_some_and(|tool| {
        tool.handler().undoes_on_error() || tool.definition().on_crash == OnCrash::RollBack
    });
    find_out(engine, &run, "", Unknown::List).await;
    if rolls_back {
        undo_below(engine, &run, "").await;
    }
    if error.code() == ErrorCode::Cancelled {
        // A caller that cancels wants an end: what could not be undone is listed.
        run.feed(Event::WaitsNoMore);
    }
    let unknown = run.reports().into_iter().filter(|part| part.state == PartState::Unknown);
    let unknown: Vec<_> = unknown.map(|part| format!("`{}` ({})", part.tool, part.call_id)).collect();
    let error = if unknown.is_empty() {
        error
    } else {
        let message = format!("{error}; nobody knows whether these had their effect: {}", unknown.join(", "));
        ToolError::new(ErrorCode::OutcomeUnknown, message)
            .suggest("find out what they did, and undo it by hand")
    };
    pipeline::wind_up(engine, call, run, error).await
}

/// What to do about a call of which nobody knows whether it had its effect.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Unknown {
    /// Ask a person, and go on then.
    Ask,
    /// List the call as unknown, and end the run.
    List,
}

/// Adds calls at and below `path` that had started, had not ended and will not go on, to the parts
/// of a run: what they did is undone with the rest where that is known.
pub(crate) async fn find_out(engine: &Arc<Engine>, run: &Arc<ActiveRun>, path: &str, unknown: Unknown) {
    for (call_id, started, earlier) in run.history.cut_short() {
        let own = started.facts.part.as_ref().map(|part| &*part.path).unwrap_or_default();
        if !(path.is_empty() || is_below(own, path)) || run.has_ended(own) {
            continue;
        }
        let tool = engine.registry.tool(&started.facts.tool);
        // The parts of a composition tell by themselves; and taking back goes on by itself.
        if tool.as_ref().is_some_and(Tool::is_composed)
            || started.facts.part.as_ref().is_some_and(|part| is_undo(&part.path))
        {
            continue;
        }
        let Some(done) = cut_short(engine, run.id, call_id, started, earlier, tool).await else { continue };
        if done.report.state == PartState::Unknown && unknown == Unknown::Ask {
            let reason = WaitingFor::UnknownOutcome;
            run.feed(Event::Waits(Waiting { reason, call_id, pending: None }));
            return;
        }
        run.add(done);
    }
}

/// What a call that was cut short did, as far as anybody knows. `None`: nothing.
async fn cut_short(
    engine: &Arc<Engine>,
    run: CallId,
    call_id: CallId,
    started: &Started,
    earlier: &Earlier,
    tool: Option<Tool>,
) -> Option<Done> {
    let path = started.facts.part.as_ref().map(|part| Arc::clone(&part.path)).unwrap_or_default();
    let mut report = PartReport {
        path: Arc::clone(&path),
        call_id,
        tool: Arc::clone(&started.facts.tool),
        state: PartState::Unknown,
    };
    let unknown = |report| Some(Done { run, report, undo_record: None });
    let Some(tool) = tool else { return unknown(report) };
    let arguments = parse(&started.arguments);
    let (result, withheld) = match (&earlier.executed, &earlier.settled) {
        (Some((result, withheld)), _) => (result.clone(), *withheld),
        (None, Some((Finding::Happened, result))) => (result.clone(), pipeline::is_redacted(result)),
        (None, Some((Finding::DidNotHappen, _))) => return None,
        (None, None) if !tool.definition().changes_world() => return None,
        (None, None) => match pipeline::recall(engine, &tool, call_id, started).await {
            Ok(Recalled::Happened(result)) => (result, false),
            Ok(Recalled::WillNotHappen) => return None,
            Ok(Recalled::DidNotHappen)
                if !may_happen_yet(&engine.settings, &*engine.clock, &tool, earlier) =>
            {
                return None;
            }
            // What comes later must be neither forgotten nor called undone.
            Ok(Recalled::DidNotHappen | Recalled::Unknown) | Err(_) => return unknown(report),
        },
    };
    report.state = PartState::Done;
    let undo_record = UndoRecord {
        call_id,
        run,
        path,
        caller: Arc::clone(&started.facts.caller),
        effects: effects_so_far(tool.definition().effects.len(), earlier),
        notes: earlier.effects.iter().map(|(index, (_, value))| (*index, value.clone())).collect(),
        tool,
        arguments,
        result,
        withheld: withheld || started.withheld,
        undone: earlier.undone,
    };
    Some(Done { run, report, undo_record: Some(Arc::new(undo_record)) })
}

/// Finds out about the parts at and below `path` that have ended in doubt: they were stopped, took too long or
/// got no answer. Undoing them asks first, as resuming a run does.
pub(super) async fn clear_up(engine: &Arc<Engine>, run: &Arc<ActiveRun>, path: &str) {
    let in_doubt = |done: &Done| done.report.state == PartState::Unknown && done.undo_record.is_none();
    let mut doubtful = run.parts_below(path);
    doubtful.retain(|done| in_doubt(done) && !undoes_below(path, &done.report.path));
    let Some(story) = doubtful.first().map(|done| done.run) else { return };
    // All of them are of one run: this one, or the one that it undoes.
    let entries = match run.settle(&*engine.ledger).await {
        Ok(()) => engine.ledger.history(story).await,
        Err(error) => Err(error),
    };
    let history = match entries {
        Ok(entries) => History::new(entries),
        Err(error) => return tracing::error!(run = %story, %error, "what became of its parts is not known"),
    };
    for done in doubtful {
        let Some(earlier) = history.call(done.report.call_id) else { continue };
        if let Some(found) = look_into(engine, run, done, earlier).await {
            run.correct(found);
        }
    }
}

/// What became of a part that has ended in doubt; `None` where nobody can tell.
async fn look_into(
    engine: &Arc<Engine>,
    run: &Arc<ActiveRun>,
    mut done: Done,
    earlier: &Earlier,
) -> Option<Done> {
    let (started, call_id) = (earlier.started.as_ref()?, done.report.call_id);
    let tool = engine.registry.tool(&started.facts.tool).filter(|tool| !tool.is_composed())?;
    let undo_is_declared = tool.definition().undo.is_some();
    let found = cut_short(engine, done.run, call_id, started, earlier, Some(tool)).await;
    let answer = match &found {
        Some(found) if found.report.state == PartState::Unknown => return None,
        // What undoes it tells for itself.
        Some(_) if undo_is_declared => return found,
        Some(_) => Finding::Happened,
        None if is_at_work_here(started, earlier) => return None,
        None => Finding::DidNotHappen,
    };
    let kind = StepKind::Settled { answer, by: None };
    run.buffer(Entry::Step(step(engine.clock.now(), call_id, done.run, kind)));
    let code = earlier.finished.as_ref().and_then(|finished| finished.ending.code);
    done.report.state = without_effect(code);
    found.or(Some(done))
}

/// Whether a call that had no effect so far may have it yet: nobody answered it, and its time is not over.
fn may_happen_yet(settings: &Settings, clock: &dyn Clock, tool: &Tool, earlier: &Earlier) -> bool {
    let finished = earlier.finished.as_ref();
    let is_answered = finished.is_some_and(|finished| pipeline::have_answered(&finished.ending.attempts));
    !is_answered && pipeline::may_be_at_work(settings, clock, tool, earlier.begun_at).is_some()
}

/// Whether this process may be at work on a call still, or the call was asked about with less than it was given.
fn is_at_work_here(started: &Started, earlier: &Earlier) -> bool {
    let last = earlier.finished.as_ref().and_then(|finished| finished.ending.attempts.last());
    started.withheld || last.is_some_and(|last| last.handler == HandlerEnd::Abandoned)
}

/// How long to wait before a run is resumed: a call that it had started had no effect so far, and may have it yet.
pub(super) async fn at_work(engine: &Arc<Engine>, history: &History) -> Option<Duration> {
    let mut longest = None;
    for (call_id, started, earlier) in history.cut_short() {
        let tool = engine.registry.tool(&started.facts.tool);
        let Some(tool) = tool.filter(|tool| !tool.is_composed() && pipeline::may_be_asked(tool)) else {
            continue;
        };
        if earlier.executed.is_some() || earlier.settled.is_some() || started.withheld {
            continue;
        }
        let (settings, clock) = (&engine.settings, &*engine.clock);
        let Some(left) = pipeline::may_be_at_work(settings, clock, &tool, earlier.begun_at) else { continue };
        if let Ok(Recalled::DidNotHappen) = pipeline::recall(engine, &tool, call_id, started).await {
            longest = longest.max(Some(left));
        }
    }
    longest
}

/// Ends a composed run whose caller went away: its parts are stopped, then undone or listed.
pub(crate) fn wind_up_dropped(
    engine: &Arc<Engine>,
    run: &Arc<ActiveRun>,
    facts: &Facts,
    arguments: Option<&RawJson>,
) {
    let arguments = arguments.map(parse).unwrap_or_default();
    let mut call = Call::new(&*facts.tool, arguments).by(Arc::clone(&facts.caller));
    call.idempotency_key = facts.idempotency_key.clone();
    let (engine, run) = (Arc::clone(engine), Arc::clone(run));
    run.cancellation.cancel();
    tokio::spawn(async move {
        run.until_quiet(engine.settings.cancel_grace + STOP_MAX).await;
        let tool = engine.registry.tool(&call.tool);
        let error = ToolError::new(ErrorCode::Cancelled, "the caller went away before the run had ended");
        end(&engine, call, run, tool, error).await
    });
}

/// Leaves a run whose caller went away after the ledger had failed in its middle: not before its parts have
/// stopped, or the process that resumes it would do the same at the same time.
pub(crate) fn leave_dropped(engine: &Arc<Engine>, run: &Arc<ActiveRun>) {
    let (engine, run) = (Arc::clone(engine), Arc::clone(run));
    run.cancellation.cancel();
    let leave = |runs: &ActiveRuns, run: &Arc<ActiveRun>| {
        runs.leave(run.id, run.left());
        runs.remove(run);
    };
    let Ok(handle) = tokio::runtime::Handle::try_current() else { return leave(&engine.runs, &run) };
    handle.spawn(async move {
        run.until_quiet(engine.settings.cancel_grace + STOP_MAX).await;
        leave(&engine.runs, &run);
    });
}
