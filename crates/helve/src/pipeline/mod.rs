//! The pipeline: every call, from whatever side, takes this way and no other.
//!
//! [`run`] opens the record and closes it with the outcome, once. [`stages`] is the way itself.
//! The order matters: nobody learns what a tool takes before they may use it (authorize before
//! prepare); a person is asked about exactly what will run (prepare before decide); nothing that
//! changes the world starts before its start is on disk (within execute).

mod authorize;
mod check_output;
mod decide;
mod execute;
mod prepare;
mod ready;
mod record;
mod resolve;

use helve_core::{Call, Outcome, Stage, Status, ToolError};
use tracing::Instrument;

use crate::conditions::completed;
use crate::runtime::Parts;
use decide::Decision;
use ready::Readiness;
pub(crate) use ready::report;
use record::OpenRecord;

/// Runs a call and records it.
pub(crate) async fn run(parts: &Parts, call: Call) -> Outcome {
    let mut record = OpenRecord::open(parts, &call);
    let span = tracing::debug_span!("call", id = %record.call_id(), tool = %call.tool.escape_debug());
    let result = if span.is_disabled() {
        stages(parts, call, &mut record).await
    } else {
        // On the heap: a span moves the future into itself, and this one is large.
        Box::pin(stages(parts, call, &mut record)).instrument(span).await
    };
    let outcome = record.close(result).await;
    if outcome.is_success() && parts.registry.is_awaited(&outcome.tool) {
        completed::note(parts, record.caller(), &outcome).await;
    }
    outcome
}

/// Records a call that cannot be run because it could not even be read.
pub(crate) async fn refuse(parts: &Parts, call: Call, error: ToolError) -> Outcome {
    let mut record = OpenRecord::open(parts, &call);
    let known = resolve::resolve(parts, call, &mut record);
    record.enter(Stage::Prepare);
    // Which tool it was for matters only if there is one.
    record.close(Err(known.err().unwrap_or(error))).await
}

async fn stages(parts: &Parts, call: Call, record: &mut OpenRecord<'_>) -> Result<Status, ToolError> {
    let resolved = resolve::resolve(parts, call, record)?;
    record.refuse_without_journal()?;

    record.enter(Stage::Authorize);
    let authorized = authorize::authorize(parts, resolved, record)?;

    record.enter(Stage::Prepare);
    let prepared = prepare::prepare(parts, authorized, record)?;

    record.enter(Stage::Ready);
    let ready = match ready::ready(parts, prepared)? {
        Readiness::Ready(ready) => ready,
        Readiness::Conditional(call) => ready::check(parts, call, record).await?,
    };

    record.enter(Stage::Decide);
    let permitted = match decide::decide(parts, ready)? {
        Decision::Allow(permitted) => permitted,
        Decision::Ask(pending) => return Ok(Status::Pending(pending)),
    };

    record.enter(Stage::Execute);
    let answer = match execute::execute(parts, permitted, record).await? {
        execute::Executed::Answered(answer) => answer,
        execute::Executed::Replayed(status) => return Ok(status),
    };

    record.enter(Stage::CheckOutput);
    check_output::check(parts, answer, record)
}
