//! Taking back what was done, newest first.

use std::sync::Arc;

use helve_core::expression::Scope;
use helve_core::record::Entry;
use helve_core::run::{EffectState, PartState, StepKind, UNDO, Undo};
use helve_core::{BoxFuture, Call, ErrorCode, Status, ToolError};

use super::active::{ActiveRun, Done, UndoRecord, UndoState, is_below};
use super::end::clear_up;
use super::part::{FollowUp, part_at, undoes_below, within};
use crate::pipeline::{error_of_run, guarded, is_redacted, roll_back, set_payload};
use crate::runtime::Engine;

/// Undoes the parts of a run at and below `path`. Returns whether nothing of them stands.
///
/// One that cannot be undone does not keep the others from it, unless a person must be asked.
pub(crate) fn undo_below<'a>(
    engine: &'a Arc<Engine>,
    run: &'a Arc<ActiveRun>,
    path: &'a str,
) -> BoxFuture<'a, bool> {
    Box::pin(undo_all(engine, run, path))
}

async fn undo_all(engine: &Arc<Engine>, run: &Arc<ActiveRun>, path: &str) -> bool {
    let mut all = true;
    clear_up(engine, run, path).await;
    let parts_done = run.parts_below(path).into_iter().filter(|done| !undoes_below(path, &done.report.path));
    for mut done in parts_done.rev() {
        // Taking back another one's effects may have undone it meanwhile.
        done.report.state = run.state_of(&done.report.path).unwrap_or(done.report.state);
        // A tool can succeed and its effects fail: then its call has failed, and its deed stands.
        let (PartState::Done | PartState::Failed, Some(undo_record)) = (done.report.state, &done.undo_record)
        else {
            all &= !matches!(done.report.state, PartState::UndoFailed | PartState::Unknown);
            continue;
        };
        // Its parts are undone by themselves.
        if undo_record.tool.is_composed() {
            continue;
        }
        let state = undo(engine, run, undo_record).await;
        run.set_state(&done.report.path, state);
        all &= state == PartState::Undone;
        if run.is_interrupted() {
            return false;
        }
    }
    mark_composed(run, path);
    all
}

/// A composed part is what its parts are: it was undone where some of them were and none stands.
fn mark_composed(run: &ActiveRun, path: &str) {
    let all = run.parts_below(path);
    let is_composed =
        |done: &&Done| done.undo_record.as_ref().is_none_or(|undo_record| undo_record.tool.is_composed());
    let stands = |done: &&Done| match done.report.state {
        PartState::Done | PartState::Failed => !is_composed(done),
        PartState::UndoFailed | PartState::Unknown => true,
        PartState::Running | PartState::Cancelled | PartState::Waiting | PartState::Undone => false,
    };
    let done = all.iter().filter(|done| done.report.state == PartState::Done);
    for outer in done.filter(is_composed) {
        let outer = &*outer.report.path;
        let within =
            |done: &&Done| is_below(&done.report.path, outer) && !undoes_below(outer, &done.report.path);
        let mut parts = all.iter().filter(within);
        let undone = parts.clone().any(|done| done.report.state == PartState::Undone);
        if undone && !parts.any(|done| stands(&done)) {
            run.set_state(outer, PartState::Undone);
        }
    }
}

/// Undoes one call: its effects, then what the tool itself did. Either is tried again where it failed before,
/// and neither is done twice.
pub(super) async fn undo(engine: &Arc<Engine>, run: &Arc<ActiveRun>, undo_record: &UndoRecord) -> PartState {
    let mut undo_record = undo_record.clone();
    let given_up = undo_record.effects.iter_mut().filter(|state| **state == EffectState::RollbackFailed);
    given_up.for_each(|state| *state = EffectState::Applied);
    roll_back(engine, run, &mut undo_record).await;
    if run.is_interrupted() {
        return PartState::Done;
    }
    let effects_stand = undo_record.effects.contains(&EffectState::RollbackFailed);
    if effects_stand {
        run.note_undo_failure(undo_record.call_id, "an effect of it could not be taken back");
    }
    if undo_record.undone == UndoState::Undone {
        return if effects_stand { PartState::UndoFailed } else { PartState::Undone };
    }
    let Some(declared) = undo_record.tool.definition().undo.clone() else {
        // Nothing to be done, or nothing that can be.
        return match undo_record.tool.definition().changes_world() {
            true => PartState::Done,
            false if effects_stand => PartState::UndoFailed,
            false => PartState::Undone,
        };
    };
    run.buffer(Entry::Step(undo_record.step(&*engine.clock, StepKind::UndoStarted)));
    let undone = match declared {
        Undo::Handler if undo_record.withheld => Err(not_kept()),
        Undo::Handler => by_handler(engine, run, &undo_record).await,
        Undo::Tool { tool, arguments } => {
            let scope =
                Scope::new().with("arguments", &undo_record.arguments).with("result", &undo_record.result);
            match arguments.render(&scope) {
                // Only what it takes to undo must be known.
                Ok(arguments) if undo_record.withheld && is_redacted(&arguments) => Err(not_kept()),
                Ok(arguments) => by_tool(engine, run, &undo_record, Call::new(tool, arguments)).await,
                Err(_) if undo_record.withheld => Err(not_kept()),
                Err(error) => Err(ToolError::new(ErrorCode::ExecutionFailed, error.to_string())),
            }
        }
    };
    if run.is_interrupted() {
        return PartState::Done;
    }
    let mut step = undo_record.step(&*engine.clock, StepKind::Undone);
    let state = match undone {
        Ok(()) if effects_stand => PartState::UndoFailed,
        Ok(()) => PartState::Undone,
        Err(error) => {
            tracing::warn!(call_id = %undo_record.call_id, tool = %undo_record.tool.name(), %error, "a call could not be undone");
            step.kind = StepKind::UndoFailed { code: error.code() };
            run.note_undo_failure(undo_record.call_id, error.message());
            set_payload(&mut step, error_of_run(&error, run).to_json());
            PartState::UndoFailed
        }
    };
    if let Err(error) = run.commit(&*engine.ledger, Entry::Step(step)).await {
        tracing::error!(call_id = %undo_record.call_id, %error, "that a call was undone could not be recorded");
    }
    state
}

/// Nothing can be undone with what the record leaves out.
pub(crate) fn not_kept() -> ToolError {
    ToolError::failed("what it takes to undo it was not kept: it holds a secret or is too large")
        .suggest("undo it by hand")
}

async fn by_handler(
    engine: &Arc<Engine>,
    run: &ActiveRun,
    undo_record: &UndoRecord,
) -> Result<(), ToolError> {
    let Some(handler) = undo_record.tool.undo_handler() else {
        return Err(ToolError::failed("the tool has lost the code that undoes it"));
    };
    run.settle(&*engine.ledger).await.map_err(|error| ToolError::failed(error.to_string()))?;
    let undoing =
        handler.undo(undo_record.arguments.clone(), undo_record.result.clone(), undo_record.context(engine));
    guarded(engine.settings.timeout_default, undoing).await
}

async fn by_tool(
    engine: &Arc<Engine>,
    run: &Arc<ActiveRun>,
    undo_record: &UndoRecord,
    call: Call,
) -> Result<(), ToolError> {
    let path = within(Some(&undo_record.path), UNDO);
    // Not the run's own cancellation: a run is undone because it was cancelled.
    let call = call.by(Arc::clone(&undo_record.caller));
    let (engine, run) = (Arc::clone(engine), Arc::clone(run));
    let outcome = part_at(engine, run, path, Box::new(call), None, FollowUp::Unknown).run_apart().await;
    match outcome.status {
        Status::Done(output) if !output.is_failure => Ok(()),
        Status::Done(_) => Err(ToolError::failed(format!("`{}` failed", outcome.tool))),
        Status::Failed(error) => Err(error),
        Status::Pending(pending) => Err(pending.into_error()),
    }
}
