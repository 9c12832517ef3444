//! The pipeline: every call, from whatever side, takes this way and no other.
//!
//! [`run`] opens the record and closes it with the outcome, once. [`stages`] is the way itself.
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
use crate::runs::{ActiveRun, Undoing};
use crate::runtime::Parts;
pub(crate) use authorize::may_see;
pub(crate) use decide::denied;
use decide::{Decision, PermittedCall};
pub(crate) use effects::{guarded, roll_back};
pub(crate) use execute::{have_answered, may_be_asked, may_be_at_work, recall_started as recall};
pub(crate) use origin::{Origin, PartOf};
use ready::Readiness;
pub(crate) use ready::report;
use record::OpenRecord;

/// Runs a call and records it.
pub(crate) async fn run(parts: &Arc<Parts>, call: Box<Call>, origin: Origin) -> Outcome {
    let mut record = OpenRecord::open(parts, &call, origin);
    let denial = hooks_after::watch_denial(parts, &call, record.origin());
    let span = tracing::debug_span!("call", id = %record.call_id(), tool = %call.tool.escape_debug());
    let result = if span.is_disabled() {
        stages(parts, call, &mut record).await
    } else {
        // On the heap: a span moves the future into itself, and this one is large.
        Box::pin(stages(parts, call, &mut record)).instrument(span).await
    };
    let result = match (result, denial) {
        (Err(error), Some(denial)) => Err(Box::pin(denial.tell(parts, error, &mut record)).await),
        (result, _) => result,
    };
    let outcome = record.close(result).await;
    if outcome.is_success() && parts.registry.is_awaited(&outcome.tool) {
        completed::note(parts, record.caller(), &outcome).await;
    }
    match record.answered_secret() {
        true => Box::pin(labels::hand_over(parts, outcome, &record)).await,
        false => outcome,
    }
}

/// Records a call that cannot be run because it could not even be read.
pub(crate) async fn refuse(parts: &Arc<Parts>, call: Call, error: ToolError) -> Outcome {
    let mut record = OpenRecord::open(parts, &call, Origin::Outside);
    let known = resolve::resolve(parts, Box::new(call), &mut record);
    record.enter(Stage::Prepare);
    // What is wrong with the arguments matters only if there is a tool for them.
    let error = match known.err() {
        Some(unknown) if error.code() == ErrorCode::ValidationFailed => unknown,
        Some(_) | None => error,
    };
    record.close(Err(error)).await
}

async fn stages(
    parts: &Arc<Parts>,
    call: Box<Call>,
    record: &mut OpenRecord<'_>,
) -> Result<Status, ToolError> {
    let resolved = resolve::resolve(parts, call, record)?;
    record.refuse_without_journal()?;

    record.go_on_to(Stage::Authorize);
    let authorized = authorize::authorize(parts, resolved, record)?;

    record.enter(Stage::Prepare);
    let prepared = prepare::prepare(parts, authorized, record)?;

    let permitted = match decide::permitted_before(prepared, record) {
        ControlFlow::Break(permitted) => permitted,
        ControlFlow::Continue(prepared) => {
            let listening =
                hooks_before::listening(parts, &HookEvent::PreToolUse, &prepared.0.call, record.origin());
            let prepared = match listening {
                Some(hooks) => Box::pin(hooks_before::ask(parts, hooks, prepared, record)).await?,
                None => prepared,
            };

            record.enter(Stage::Ready);
            let ready = match ready::ready(parts, prepared)? {
                Readiness::Ready(ready) => {
                    record.go_on_to(Stage::Decide);
                    ready
                }
                Readiness::Conditional(call) => {
                    let checked = Box::pin(async {
                        record.settle_run().await?;
                        ready::check(parts, call, record).await
                    });
                    let ready = checked.await?;
                    record.enter(Stage::Decide);
                    ready
                }
            };

            match decide::decide(parts, ready, record).await? {
                Decision::Allow(permitted) => permitted,
                Decision::Ask(pending) => {
                    record.decided(Stance::Ask);
                    return Ok(Status::Pending(pending));
                }
                Decision::Known(known) => return Box::pin(known_before(parts, known, record)).await,
            }
        }
    };

    let watched = hooks_after::watch(parts, &permitted, record.origin());
    let result = perform(parts, permitted, record).await;
    match watched {
        Some(watched) => Box::pin(watched.tell(parts, result, record)).await,
        None => result,
    }
}

/// A call whose run waited for a person: its outcome, as if it had just ended.
async fn known_before(
    parts: &Arc<Parts>,
    known: Box<Outcome>,
    record: &mut OpenRecord<'_>,
) -> Result<Status, ToolError> {
    let is_over = !matches!(known.status, Status::Pending(_));
    if is_over && parts.settings.labels.holds_for(record.caller()) {
        labels::enter_run(parts, known.call_id, record).await?;
    }
    match known.status {
        Status::Failed(error) => Err(error),
        status @ (Status::Done(_) | Status::Pending(_)) => Ok(status),
    }
}

/// From a permitted call to its result.
async fn perform(
    parts: &Arc<Parts>,
    permitted: PermittedCall,
    record: &mut OpenRecord<'_>,
) -> Result<Status, ToolError> {
    record.decided(Stance::Allow);
    let is_labelled = parts.settings.labels.holds_for(record.caller());
    if is_labelled {
        Box::pin(labels::enter(parts, record)).await?;
    }
    record.enter(Stage::Execute);
    let mut answer = match execute::execute(parts, permitted, record).await {
        Ok(execute::Executed::Answered(answer)) => answer,
        Ok(execute::Executed::Replayed(status)) => {
            if is_labelled {
                Box::pin(labels::leave(parts, Ok(&status), record)).await?;
            }
            return Ok(status);
        }
        Err(error) => {
            if is_labelled {
                Box::pin(labels::brings_words(parts, record)).await?;
            }
            return Err(error);
        }
    };
    let doing = answer.deed.take();
    let (deed, failed) = if answer.result.is_ok() { (doing, None) } else { (None, doing) };

    record.enter(Stage::CheckOutput);
    let checked = check_output::check(parts, answer, record);
    if is_labelled {
        Box::pin(labels::leave(parts, checked.as_ref(), record)).await?;
    }

    match (deed, checked) {
        (Some(deed), Ok(status)) => {
            record.enter(Stage::Effects);
            // Rare and large, so on the heap, as are conditions.
            Box::pin(effects::apply(parts, deed, status, record)).await
        }
        (Some(deed), Err(error)) => {
            effects::keep_undescribed(parts, deed, &error, record);
            Err(error)
        }
        (None, checked) => {
            if let Some(doing) = failed {
                effects::failed(parts, &doing, &checked, record);
            }
            checked
        }
    }
}

/// Ends a run that was cut short without going on with it.
pub(crate) async fn wind_up(
    parts: &Arc<Parts>,
    call: Call,
    run: Arc<ActiveRun>,
    error: ToolError,
) -> Outcome {
    let mut record = OpenRecord::open(parts, &call, Origin::Resumed(run));
    record.keep_unchecked_arguments(&call.arguments);
    match resolve::resolve(parts, Box::new(call), &mut record) {
        Ok(resolved) => execute::reclaim(&resolved.tool, &resolved.call, &mut record),
        Err(_gone) => record.must_survive(),
    }
    record.enter(Stage::Execute);
    record.close(Err(error)).await
}

/// Undoes a finished run, as a call of its own.
pub(crate) async fn undo(parts: &Arc<Parts>, call: Call, origin: Origin, undoing: Undoing) -> Outcome {
    let mut record = OpenRecord::open(parts, &call, origin);
    record.undoes(undoing.run);
    let result = undo_stages(parts, call, undoing, &mut record).await;
    record.close(result).await
}

async fn undo_stages(
    parts: &Arc<Parts>,
    call: Call,
    undoing: Undoing,
    record: &mut OpenRecord<'_>,
) -> Result<Status, ToolError> {
    let resolved = resolve::resolve(parts, Box::new(call), record)?;
    record.refuse_without_journal()?;

    record.enter(Stage::Authorize);
    let authorized = authorize::authorize(parts, resolved, record)?;
    record.keep_arguments(&authorized.0.call.arguments);

    record.enter(Stage::Execute);
    execute::undo(parts, authorized.0.tool, undoing, record).await
}
