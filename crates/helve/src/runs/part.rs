//! Calls within a run.

use std::sync::Arc;
use std::time::Instant;

use helve_core::record::{Attempt, EndStatus, Finished, HandlerEnd, Payload};
use helve_core::run::{
    EFFECT, EffectState, Finding, Part, PartReport, PartState, UNDO, WaitingFor, undoings,
};
use helve_core::{BoxFuture, Call, CallId, Context, ErrorCode, Outcome, Output, Status, ToolError, boxed};
use serde_json::Value;

use super::active::{ActiveRun, Done, UndoRecord};
use super::history::{Earlier, parse};
use super::phase::{Event, NoParts, Phase, Waiting};
use crate::pipeline::{self, Origin, PartOf, is_redacted};
use crate::registry::Registry;
use crate::runtime::Engine;

/// Deepest nesting of calls within calls.
const DEPTH_MAX: usize = 16;

/// The path of a tool's own step within a part, or within the run itself. Never one of ours.
fn join(outer: Option<&str>, step: Arc<str>) -> Arc<str> {
    // As in a JSON Pointer: a step's own slash is no border between steps.
    if *step == *UNDO || step.starts_with(EFFECT) || step.contains(['~', '/']) {
        let ours = if *step == *UNDO || step.starts_with(EFFECT) { "~2" } else { "" };
        return within(outer, &format!("{ours}{}", step.replace('~', "~0").replace('/', "~1")));
    }
    match outer {
        None => step,
        Some(_) => within(outer, &step),
    }
}

/// The path of a step within a part, or within the run itself.
pub(super) fn within(outer: Option<&str>, step: &str) -> Arc<str> {
    match outer {
        None | Some("") => step.into(),
        Some(outer) => format!("{outer}/{step}").into(),
    }
}

/// The path of the call that effect number `index` of the call at `path` makes.
pub(crate) fn cascade_path(path: &str, index: usize) -> Arc<str> {
    within(Some(path), &format!("{EFFECT}{index}"))
}

/// Whether the call at `path`, at or below `outer`, undoes another one of those there, or is a part of a
/// call that does.
pub(crate) fn undoes_below(outer: &str, path: &str) -> bool {
    undoings(path) > undoings(outer)
}

/// What the maker of a part does when it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// A composition goes on at once, so that the part's end can be written with what comes next.
    AtOnce,
    /// Who knows what other code does.
    Unknown,
}

/// A call within a run that is about to be made.
pub(crate) struct DuePart {
    engine: Arc<Engine>,
    what: Due,
}

enum Due {
    /// It goes through the pipeline.
    Call(Box<Call>, Origin),
    /// It was made before, and has ended.
    Replay(Box<Outcome>),
    Refusal(Box<Call>, ToolError),
}

impl DuePart {
    /// Makes it. The future is large: who makes parts one after the other keeps all of them in one place.
    pub(crate) async fn run(self) -> Outcome {
        let Self { engine, what } = self;
        match what {
            Due::Call(call, origin) => pipeline::run_call(&engine, call, origin).await,
            Due::Replay(outcome) => *outcome,
            Due::Refusal(call, error) => Box::pin(pipeline::refuse(&engine, *call, error)).await,
        }
    }

    /// The same in its own place.
    pub(crate) fn run_apart(self) -> BoxFuture<'static, Outcome> {
        boxed(|| self.run())
    }
}

/// A tool is to be called as a part of the call that `context` belongs to, in its run.
pub(crate) fn part_of(
    engine: Arc<Engine>,
    run: Option<Arc<ActiveRun>>,
    context: &Context,
    step: Arc<str>,
    mut call: Box<Call>,
    follow_up: FollowUp,
) -> DuePart {
    let Some(run) = run else {
        return DuePart { engine, what: Due::Refusal(call, no_parts_of_this()) };
    };
    if run.ask(Phase::is_over) {
        return DuePart { engine, what: Due::Refusal(call, no_parts_of_this()) };
    }
    let path = join(context.part().map(|part| &*part.path), step);
    call.cancellation.get_or_insert_with(|| context.cancellation().clone());
    // Its maker: parts are calls of the same caller. Nearly always it is said already.
    if !Arc::ptr_eq(&call.caller, context.caller()) {
        call.caller = Arc::clone(context.caller());
    }
    call.client = context.client().cloned();
    part_at(engine, run, path, call, Some(context.deadline()), follow_up)
}

/// Calls a tool because another one's effect says so.
pub(crate) async fn cascade(
    engine: &Arc<Engine>,
    run: &Arc<ActiveRun>,
    undo_record: &UndoRecord,
    path: Arc<str>,
    call: Call,
) -> Result<(), ToolError> {
    let chain = run.ancestors(&undo_record.path);
    let called = engine.registry.tool(&call.tool);
    if let Some(tool) = &called
        && chain.contains(tool.name())
    {
        let chain = chain.iter().map(|tool| format!("`{tool}`")).collect::<Vec<_>>().join(" → ");
        let message = format!("effects go round in a circle: {chain} → `{}`", tool.name());
        return Err(ToolError::new(ErrorCode::EffectFailed, message));
    }
    let call = call.by(Arc::clone(&undo_record.caller)).cancellation(run.cancellation.child_token());
    let (engine, run) = (Arc::clone(engine), Arc::clone(run));
    let outcome = part_at(engine, run, path, Box::new(call), None, FollowUp::Unknown).run_apart().await;
    match outcome.status {
        Status::Done(output) if !output.is_failure => Ok(()),
        Status::Done(_) => Err(ToolError::new(ErrorCode::EffectFailed, format!("`{}` failed", outcome.tool))),
        Status::Failed(error) => Err(error),
        Status::Pending(pending) => Err(pending.into_error()),
    }
}

/// A tool is to be called at a place within a run, unless it was called there before and has ended.
pub(super) fn part_at(
    engine: Arc<Engine>,
    run: Arc<ActiveRun>,
    path: Arc<str>,
    call: Box<Call>,
    until: Option<Instant>,
    follow_up: FollowUp,
) -> DuePart {
    if let Some(outcome) = replay(&run, &path) {
        return DuePart { engine, what: Due::Replay(Box::new(outcome)) };
    }
    let refusal = if path.bytes().filter(|byte| *byte == b'/').count() >= DEPTH_MAX {
        let message = format!("calls within calls are nested deeper than {DEPTH_MAX}");
        Some(ToolError::new(ErrorCode::ExecutionFailed, message))
    } else if let Some(error) = engine.stop.refuses_part_of(&run, engine.clock.now()) {
        Some(error)
    } else {
        run.refuses_parts().map(refusal)
    };
    if let Some(error) = refusal {
        return DuePart { engine, what: Due::Refusal(call, error) };
    }
    let part = Part { run: run.id, path };
    let origin = Origin::Part(PartOf { run, part, until, follow_up });
    DuePart { engine, what: Due::Call(call, origin) }
}

/// Why the run starts no new part.
fn refusal(why: NoParts) -> ToolError {
    match why {
        NoParts::Halted => {
            let message = "the journal has failed in the middle of the run; nothing new starts";
            ToolError::new(ErrorCode::JournalUnavailable, message)
        }
        // Not cancelled: that would take back what runs at the same time, and is still wanted.
        NoParts::Waiting => {
            ToolError::new(ErrorCode::OutcomeUnknown, "the run waits for a person; nothing new starts")
        }
    }
}

fn no_parts_of_this() -> ToolError {
    ToolError::new(ErrorCode::Internal, "this call has ended, or cannot have parts")
}

/// How a part ended before its run was cut short.
fn replay(run: &ActiveRun, path: &str) -> Option<Outcome> {
    let (call_id, earlier) = run.history.part(path)?;
    let finished = earlier.finished.as_ref()?;
    let status = match recorded(finished) {
        // It was asked for, and may be allowed by now; or it was refused for lack of a journal.
        Recorded::NotRun => return None,
        Recorded::Ended(status) => status,
        Recorded::Withheld => {
            let reason = WaitingFor::Cancel;
            run.feed(Event::Waits(Waiting { reason, call_id, pending: None }));
            let message =
                "this part has ended, but its result was not kept: it holds a secret or is too large";
            let error = ToolError::new(ErrorCode::OutcomeUnknown, message);
            Status::Failed(error.suggest("the run cannot go on; cancel it"))
        }
    };
    let mut outcome = Outcome::new(call_id, Arc::clone(&finished.facts.tool), status);
    outcome.attempts = u32::try_from(finished.ending.attempts.len()).unwrap_or(u32::MAX);
    outcome.degraded.clone_from(&finished.ending.degraded);
    Some(outcome)
}

/// How a call ended, as far as the record has kept it.
pub(crate) fn told(finished: &Finished) -> Option<Outcome> {
    let Recorded::Ended(status) = recorded(finished) else { return None };
    let mut outcome = Outcome::new(finished.facts.call_id, Arc::clone(&finished.facts.tool), status);
    outcome.attempts = u32::try_from(finished.ending.attempts.len()).unwrap_or(u32::MAX);
    outcome.degraded.clone_from(&finished.ending.degraded);
    Some(outcome)
}

enum Recorded {
    Ended(Status),
    NotRun,
    Withheld,
}

fn recorded(finished: &Finished) -> Recorded {
    let error = || {
        let lost = || ToolError::new(ErrorCode::ExecutionFailed, "it failed; why was erased");
        finished.payload.error.clone().unwrap_or_else(lost)
    };
    match finished.ending.status {
        EndStatus::Done => match &finished.payload.result {
            Some(result) if !finished.ending.withheld => {
                Recorded::Ended(Status::Done(Output::success(parse(result))))
            }
            Some(_) | None => Recorded::Withheld,
        },
        EndStatus::Returned => Recorded::Ended(Status::Done(match &finished.payload {
            // A composition that went on without a part: it has a result, and no error of its own.
            Payload { error: None, result: Some(result), .. } if !finished.ending.withheld => {
                Output { value: parse(result), is_failure: true }
            }
            _ => Output::failure(&error()),
        })),
        // Nothing runs without a journal, and what had run before it failed is not recorded so.
        EndStatus::Failed if finished.ending.code == Some(ErrorCode::JournalUnavailable) => Recorded::NotRun,
        EndStatus::Failed | EndStatus::Denied => Recorded::Ended(Status::Failed(error())),
        EndStatus::Pending => Recorded::NotRun,
    }
}

/// Whether nobody knows if the tool had its effect.
pub(crate) fn in_doubt(attempts: &[Attempt]) -> bool {
    // A later attempt that did nothing says nothing of an earlier one.
    let failed = attempts.last().is_some_and(|last| last.code.is_some());
    failed && attempts.iter().any(Attempt::is_in_doubt)
}

/// Whether nobody knows if a call that has failed had its effect. Of a composed one its parts tell.
pub fn left_in_doubt(finished: &Finished) -> bool {
    let failed =
        matches!(finished.ending.status, EndStatus::Failed | EndStatus::Returned | EndStatus::Denied);
    failed && finished.facts.changes_world && in_doubt(&finished.ending.attempts)
}

/// Whether what the tool itself did stands, unless it was undone since. A call can fail after that: an effect
/// fails, its answer is not what it promises, a hook withholds it.
pub fn left_standing(finished: &Finished) -> bool {
    let ending = &finished.ending;
    let has_answered = |last: &Attempt| last.code.is_none() && last.handler == HandlerEnd::Returned;
    match ending.status {
        EndStatus::Done => true,
        EndStatus::Failed | EndStatus::Denied => {
            finished.facts.changes_world
                && (ending.code == Some(ErrorCode::EffectFailed)
                    || ending.attempts.last().is_some_and(has_answered))
        }
        EndStatus::Returned | EndStatus::Pending => false,
    }
}

/// Whether an effect that should have been taken back could not be.
fn effects_stand(earlier: &Earlier) -> bool {
    use helve_core::run::StepKind;
    earlier.effects.values().any(|(kind, _)| matches!(kind, StepKind::RollbackFailed { .. }))
}

fn is_composed(registry: &Registry, finished: &Finished) -> bool {
    registry.tool(&finished.facts.tool).is_some_and(|tool| tool.is_composed())
}

/// What became of a part that has ended, by the record alone.
fn became(registry: &Registry, finished: &Finished, earlier: &Earlier) -> PartState {
    use super::UndoState::{Failed, NotTried, Undone};
    match (finished.ending.status, earlier.undone) {
        (EndStatus::Done, NotTried) => PartState::Done,
        (_, Undone) if effects_stand(earlier) => PartState::UndoFailed,
        (EndStatus::Done, Undone) => PartState::Undone,
        (EndStatus::Done, Failed) => PartState::UndoFailed,
        (EndStatus::Pending, _) => PartState::Waiting,
        (_, Undone) => PartState::Undone,
        (_, Failed) => PartState::UndoFailed,
        (EndStatus::Returned | EndStatus::Failed | EndStatus::Denied, NotTried) => {
            let in_doubt = left_in_doubt(finished) && !is_composed(registry, finished);
            let in_doubt = in_doubt || finished.ending.code == Some(ErrorCode::OutcomeUnknown);
            match earlier.settled {
                None if in_doubt => PartState::Unknown,
                Some((Finding::Happened, _)) if in_doubt => PartState::Done,
                Some(_) | None => without_effect(finished.ending.code),
            }
        }
    }
}

/// What is said of a call that has failed and had no effect.
pub(super) fn without_effect(code: Option<ErrorCode>) -> PartState {
    if code == Some(ErrorCode::Cancelled) { PartState::Cancelled } else { PartState::Failed }
}

/// What a person found out that a call has answered which ended in doubt.
fn settled_result(finished: &Finished, earlier: &Earlier) -> Option<Value> {
    match &earlier.settled {
        Some((Finding::Happened, result)) if left_in_doubt(finished) => Some(result.clone()),
        Some(_) | None => None,
    }
}

/// What the record says of the parts that have ended, so that they can be undone.
pub(super) fn done_before(
    registry: &Registry,
    run: CallId,
    call_id: CallId,
    earlier: &Earlier,
) -> Option<Done> {
    let finished = earlier.finished.as_ref()?;
    let path = finished.facts.part.as_ref().map(|part| Arc::clone(&part.path)).unwrap_or_default();
    let state = became(registry, finished, earlier);
    let settled = settled_result(finished, earlier);
    let report =
        PartReport { path: Arc::clone(&path), call_id, tool: Arc::clone(&finished.facts.tool), state };
    let tool = registry.tool(&finished.facts.tool).filter(|_| left_standing(finished) || settled.is_some());
    let undo_record = tool.map(|tool| {
        let json = |json: Option<&_>| json.map_or(Value::Null, parse);
        let arguments_withheld = earlier.started.as_ref().is_some_and(|started| started.withheld);
        // The end leaves out what the start has.
        let started_with = earlier.started.as_ref().map(|started| &started.arguments);
        let arguments = finished.payload.arguments.as_ref().or(started_with);
        UndoRecord {
            call_id,
            run,
            path,
            caller: Arc::clone(&finished.facts.caller),
            arguments: json(arguments),
            result: settled.clone().unwrap_or_else(|| json(finished.payload.result.as_ref())),
            effects: effects_before(tool.definition().effects.len(), finished, earlier),
            notes: earlier.effects.iter().map(|(index, (_, value))| (*index, value.clone())).collect(),
            withheld: arguments_withheld
                || finished.ending.withheld
                || arguments.is_none()
                || settled.as_ref().map_or(finished.payload.result.is_none(), is_redacted),
            undone: earlier.undone,
            tool,
        }
    });
    Some(Done { run, report, undo_record: undo_record.map(Arc::new) })
}

/// What had become of the effects of a call that has not ended.
pub(super) fn effects_so_far(count: usize, earlier: &Earlier) -> Vec<EffectState> {
    let state = |index: usize| {
        let step = u32::try_from(index).ok().and_then(|index| earlier.effects.get(&index));
        step.and_then(|(kind, _)| EffectState::after(kind)).unwrap_or(EffectState::NotReached)
    };
    (0..count).map(state).collect()
}

fn effects_before(count: usize, finished: &Finished, earlier: &Earlier) -> Vec<EffectState> {
    use helve_core::run::StepKind;
    let state = |index: usize| {
        let step = u32::try_from(index).ok().and_then(|index| earlier.effects.get(&index));
        match step.map(|(kind, _)| kind) {
            Some(StepKind::EffectRolledBack { .. }) => EffectState::RolledBack,
            Some(StepKind::RollbackFailed { .. }) => EffectState::RollbackFailed,
            _ => finished.ending.effects.get(index).map_or(EffectState::NotReached, |report| report.state),
        }
    };
    (0..count).map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_core::run::is_undo;

    #[test]
    fn a_tools_own_steps_never_look_like_ours() {
        assert_eq!(&*join(None, "web/fetch".into()), "web~1fetch");
        assert_eq!(&*join(Some("a"), "b".into()), "a/b");
        for step in ["undo", "effect-0", "~2undo"] {
            assert_ne!(join(Some("a"), step.into()), within(Some("a"), step), "{step}");
            assert!(!is_undo(&join(Some("a"), step.into())), "{step}");
        }
        assert!(is_undo(&within(Some("a"), UNDO)) && is_undo(&within(None, UNDO)));
        assert!(
            undoes_below("", "a/undo") && undoes_below("", "a/undo/b") && undoes_below("a", "a/b/undo/c")
        );
        assert!(
            !undoes_below("a/undo", "a/undo")
                && !undoes_below("a/undo", "a/undo/b")
                && !undoes_below("", "a/~2undo")
        );
    }
}
