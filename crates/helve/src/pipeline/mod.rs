//! The pipeline: every call, from whatever side, takes this way and no other.
//!
//! [`run_call`] opens the record and closes it with the outcome, once. [`stages`] is the way itself.
//! The order matters: nobody learns what a tool takes before they may use it (authorize before
//! prepare); a person is asked about exactly what will run (prepare before decide); nothing that
//! changes the world starts before its start is on disk (within execute).

mod ask;
mod authorize;
mod check_output;
mod decide;
mod effects;
mod execute;
mod hooks_after;
mod hooks_before;
mod judge;
mod labels;
mod origin;
mod prepare;
mod ready;
mod record;
mod resolve;
mod votes;

use std::ops::ControlFlow;
use std::sync::Arc;

use helve_core::hook::HookEvent;
use helve_core::{Call, ErrorCode, Outcome, Stage, Stance, Status, ToolError};
use tracing::Instrument;

use crate::conditions::completed;
use crate::hooks::HookRunner;
use crate::runs::{ActiveRun, Undoing};
use crate::runtime::Engine;
use authorize::AuthorizedCall;
pub(crate) use authorize::may_see;
pub(crate) use decide::denied;
use decide::{Decision, PermittedCall};
pub(crate) use effects::{guarded, roll_back};
use execute::Executed;
pub(crate) use execute::{have_answered, may_be_asked, may_be_at_work, recall_started as recall};
pub(crate) use origin::{Origin, PartOf};
use prepare::PreparedCall;
use ready::Readiness;
pub(crate) use ready::report;
use record::CallRecorder;
pub(crate) use record::{error_of_run, is_redacted, result_by_person, set_payload};
use resolve::ResolvedCall;

/// Runs a call and records it.
pub(crate) async fn run_call(engine: &Arc<Engine>, call: Box<Call>, origin: Origin) -> Outcome {
    let mut record = CallRecorder::open(engine, &call, origin);
    let denial = hooks_after::watch_denial(&engine.hooks, &call, record.subject.origin());
    let span = tracing::debug_span!("call", id = %record.subject.call_id(), tool = %call.tool.escape_debug());
    let result = if span.is_disabled() {
        stages(engine, call, &mut record).await
    } else {
        // On the heap: a span moves the future into itself, and this one is large.
        Box::pin(stages(engine, call, &mut record)).instrument(span).await
    };
    let result = match (result, denial) {
        (Err(error), Some(denial)) => {
            let (runner, before) = (HookRunner::of_calls(engine), &mut record.before_work());
            Err(Box::pin(denial.tell(&runner, &engine.settings, error, before)).await)
        }
        (result, _) => result,
    };
    let outcome = record.close(result).await;
    if outcome.is_success() && engine.registry.is_awaited(&outcome.tool) {
        completed::note(&engine.memory, &*engine.clock, record.subject.caller(), &outcome).await;
    }
    match record.result.is_secret() {
        true => Box::pin(labels::hand_over(&engine.judges.sessions, outcome, &record.subject)).await,
        false => outcome,
    }
}

/// Records a call that cannot be run because it could not even be read.
pub(crate) async fn refuse(engine: &Arc<Engine>, call: Call, error: ToolError) -> Outcome {
    let mut record = CallRecorder::open(engine, &call, Origin::Outside(None));
    let known = resolve(engine, Box::new(call), &mut record);
    record.enter(Stage::Prepare);
    // What is wrong with the arguments matters only if there is a tool for them.
    let error = match known.err() {
        Some(unknown) if error.code() == ErrorCode::ValidationFailed => unknown,
        Some(_) | None => error,
    };
    record.close(Err(error)).await
}

/// Finds the tool of a call.
fn resolve(
    engine: &Engine,
    call: Box<Call>,
    record: &mut CallRecorder<'_>,
) -> Result<ResolvedCall, ToolError> {
    let (registry, policy) = (&engine.registry, &engine.judges.policy);
    record.resolved(resolve::resolve(registry, policy, call, record.subject.origin()))
}

/// Checks that the caller may use the tool.
fn authorize(
    engine: &Engine,
    resolved: ResolvedCall,
    record: &mut CallRecorder<'_>,
) -> Result<AuthorizedCall, ToolError> {
    let (settings, policy) = (&engine.settings, &engine.judges.policy);
    record.authorized(authorize::authorize(settings, policy, resolved, record.subject.origin()))
}

/// The way of a call, from its name to its result.
async fn stages(
    engine: &Arc<Engine>,
    call: Box<Call>,
    record: &mut CallRecorder<'_>,
) -> Result<Status, ToolError> {
    let resolved = resolve(engine, call, record)?;
    record.refuse_without_journal()?;

    record.go_on_to(Stage::Authorize);
    let authorized = authorize(engine, resolved, record)?;

    record.enter(Stage::Prepare);
    let prepared = prepare::prepare(&engine.settings, authorized, &mut record.arguments)?;

    let permitted = match decide::permitted_before(prepared, &mut record.before_work()) {
        ControlFlow::Break(permitted) => permitted,
        ControlFlow::Continue(prepared) => match gate(engine, prepared, record).await? {
            Decision::Allow(permitted) => permitted,
            Decision::Ask(pending) => {
                record.gate.decide(Stance::Ask);
                return Ok(Status::Pending(pending));
            }
            Decision::Known(known) => return Box::pin(known_before(engine, known, record)).await,
        },
    };

    let watched = hooks_after::watch(&engine.hooks, &permitted, record.subject.origin());
    let result = perform(engine, permitted, record).await;
    match watched {
        Some(watched) if watched.is_told(&result, &record.work) => {
            record.enter(Stage::HooksAfter);
            let runner = HookRunner::of_calls(engine);
            Box::pin(watched.tell(&runner, &engine.settings, result, &mut record.after_work())).await
        }
        Some(_) | None => result,
    }
}

/// From prepared arguments to the decision whether the tool runs.
async fn gate(
    engine: &Arc<Engine>,
    prepared: PreparedCall,
    record: &mut CallRecorder<'_>,
) -> Result<Decision, ToolError> {
    let origin = record.subject.origin();
    let prepared =
        match hooks_before::listening(&engine.hooks, &HookEvent::PreToolUse, &prepared.0.call, origin) {
            Some(hooks) => {
                record.enter(Stage::HooksBefore);
                let (runner, before) = (HookRunner::of_calls(engine), &mut record.before_work());
                Box::pin(hooks_before::ask(&runner, &engine.settings, hooks, prepared, before)).await?
            }
            None => prepared,
        };

    record.enter(Stage::Ready);
    let ready = match ready::ready(&engine.registry, &*engine.conditions.integrations, prepared)? {
        Readiness::Ready(ready) => {
            record.go_on_to(Stage::Decide);
            ready
        }
        Readiness::Conditional(call) => {
            let (ready, degraded) = Box::pin(ready::check(engine, call, &record.subject)).await?;
            record.messages.set_degraded(degraded, record.arguments.scrubber());
            record.enter(Stage::Decide);
            ready
        }
    };

    decide::decide(engine, ready, &mut record.before_work()).await
}

/// A call whose run waited for a person: its outcome, as if it had just ended.
async fn known_before(
    engine: &Arc<Engine>,
    known: Box<Outcome>,
    record: &mut CallRecorder<'_>,
) -> Result<Status, ToolError> {
    record.work.set_replay(known.call_id);
    let is_over = !matches!(known.status, Status::Pending(_));
    if let Some(sessions) = engine.judges.sessions.where_labelled(record.subject.caller())
        && is_over
    {
        labels::enter_run(sessions, &engine.registry, known.call_id, &record.subject).await?;
    }
    match known.status {
        Status::Failed(error) => Err(error),
        status @ (Status::Done(_) | Status::Pending(_)) => Ok(status),
    }
}

/// From a permitted call to its result.
async fn perform(
    engine: &Arc<Engine>,
    permitted: PermittedCall,
    record: &mut CallRecorder<'_>,
) -> Result<Status, ToolError> {
    record.gate.decide(Stance::Allow);
    if permitted.tool().tells_reads().is_some() {
        Box::pin(labels::find_out(&engine.settings, &permitted, &mut record.work)).await;
    }
    let labelled = engine.judges.sessions.where_labelled(record.subject.caller());
    // Rare and large, so on the heap, as are conditions and effects.
    if let Some(sessions) = labelled {
        Box::pin(labels::enter(sessions, &record.subject, record.gate.ballot.votes(), record.work.reads()))
            .await?;
    }

    record.enter(Stage::Execute);
    let executed = execute::execute(engine, permitted, record).await;
    if let Some(sessions) = labelled {
        Box::pin(labels::executed(sessions, &executed, &mut record.after_work())).await?;
    }
    let (answer, doing) = match executed? {
        Executed::Answered(answer, doing) => (answer, doing),
        Executed::Replayed(status) => return Ok(status),
    };
    let has_answered = answer.result.is_ok();

    record.enter(Stage::CheckOutput);
    let checked = check_output::check(&engine.settings, answer, &mut record.after_work());
    if let Some(sessions) = labelled {
        let (subject, work) = (&record.subject, &record.work);
        Box::pin(labels::leave(sessions, checked.as_ref(), subject, &record.result, work.reads())).await?;
    }

    match (doing, checked) {
        (Some(doing), Ok(status)) if has_answered => {
            record.enter(Stage::Effects);
            let announced = match effects::are_due(&doing, &status, &record.subject) {
                true => record.announce_answer().await,
                false => Ok(()),
            };
            Box::pin(effects::apply(engine, doing, status, announced, &mut record.after_work())).await
        }
        (Some(doing), Err(error)) if has_answered => {
            effects::keep_undescribed(engine.registry.bus(), doing, &error, &mut record.after_work());
            Err(error)
        }
        (Some(doing), checked) => {
            effects::failed(engine.registry.bus(), &doing, &checked, &mut record.after_work());
            checked
        }
        (None, checked) => checked,
    }
}

/// Ends a run that was cut short without going on with it.
pub(crate) async fn wind_up(
    engine: &Arc<Engine>,
    call: Call,
    run: Arc<ActiveRun>,
    error: ToolError,
) -> Outcome {
    let mut record = CallRecorder::open(engine, &call, Origin::Resumed(run));
    record.arguments.keep_unchecked(&call.arguments);
    match resolve(engine, Box::new(call), &mut record) {
        Ok(resolved) => execute::reclaim(&resolved.tool, &resolved.call, &mut record),
        Err(_gone) => record.require_durable_end(),
    }
    record.enter(Stage::Execute);
    record.close(Err(error)).await
}

/// Undoes a finished run, as its own call.
pub(crate) async fn undo(engine: &Arc<Engine>, call: Call, origin: Origin, undoing: Undoing) -> Outcome {
    let mut record = CallRecorder::open(engine, &call, origin);
    record.set_undo_of(undoing.run);
    let result = undo_stages(engine, call, undoing, &mut record).await;
    record.close(result).await
}

async fn undo_stages(
    engine: &Arc<Engine>,
    call: Call,
    undoing: Undoing,
    record: &mut CallRecorder<'_>,
) -> Result<Status, ToolError> {
    let resolved = resolve(engine, Box::new(call), record)?;
    record.refuse_without_journal()?;

    record.enter(Stage::Authorize);
    let authorized = authorize(engine, resolved, record)?;
    record.arguments.keep(&authorized.0.call.arguments);

    record.enter(Stage::Execute);
    execute::undo(engine, authorized.0.tool, undoing, record).await
}
