//! Runs the tool: recorded before it starts where it matters, confined in time, repeated where
//! that is safe and wanted.

mod admit;
mod attempt;
mod repeat;
mod start;

use std::time::Duration;

use helve_core::{Call, Context, Stage, Status, Tool, ToolError};
use serde_json::Value;
use tokio::time::Instant;

use super::decide::PermittedCall;
use super::record::OpenRecord;
use crate::runtime::Parts;
use start::Start;

pub(super) enum Executed {
    /// The tool ran.
    Answered(Answer),
    /// It ran before, under the same idempotency key, and this is how that ended.
    Replayed(Status),
}

/// What came out of the tool, not yet checked.
pub(super) struct Answer {
    pub(super) tool: Tool,
    pub(super) result: Result<Value, ToolError>,
}

pub(super) async fn execute(
    parts: &Parts,
    permitted: PermittedCall,
    record: &mut OpenRecord<'_>,
) -> Result<Executed, ToolError> {
    let (tool, mut call) = permitted.into_parts();
    parts.pulse.call();
    let deadline = Instant::now() + timeout(parts, &tool, &call);
    if call.cancellation.as_ref().is_some_and(|token| token.is_cancelled()) {
        return Err(attempt::cancelled());
    }
    // Before the start: a call that is refused here never began. Held until the tool has ended,
    // and given back however that is.
    let admitted = admit::admit(parts, &tool, &call)?;
    match start::start(parts, &tool, &call, record, deadline).await? {
        Start::Run => {}
        Start::Replay(status) => return Ok(Executed::Replayed(status)),
    }
    let arguments = std::mem::take(&mut call.arguments);
    let result = attempts(parts, &tool, &call, arguments, deadline, record).await;
    admitted.ended(parts, &tool, &call, &result);
    Ok(Executed::Answered(Answer { tool, result: result.map_err(|error| error.at(Stage::Execute)) }))
}

/// The time that the tool has of itself, within what any tool may have.
fn time_allowed(parts: &Parts, tool: &Tool) -> Duration {
    let of_tool = tool.definition().timeout_ms.map(Duration::from_millis);
    of_tool.unwrap_or(parts.settings.timeout_default).min(parts.settings.timeout_max)
}

fn timeout(parts: &Parts, tool: &Tool, call: &Call) -> Duration {
    let allowed = time_allowed(parts, tool);
    call.timeout.map_or(allowed, |asked| asked.min(allowed))
}

async fn attempts(
    parts: &Parts,
    tool: &Tool,
    call: &Call,
    mut arguments: Value,
    deadline: Instant,
    record: &mut OpenRecord<'_>,
) -> Result<Value, ToolError> {
    let retries_max = tool.definition().retry.retries_max;
    let mut number = 1;
    loop {
        let context =
            Context::new(record.call_id(), tool.name().clone(), call.caller.clone(), deadline.into_std())
                .with_attempt(number)
                .with_idempotency_key(call.idempotency_key.clone());
        let context = match &call.cancellation {
            Some(token) => context.with_cancellation(token.child_token()),
            None => context,
        };
        // Only an attempt that others may follow leaves them a copy.
        let given = if number > retries_max { std::mem::take(&mut arguments) } else { arguments.clone() };
        let error = match attempt::attempt(parts, tool, call, context, given, deadline, record).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let Some(wait) = repeat::wait(parts, tool, &error, number, record.last_attempt(), deadline) else {
            return Err(error);
        };
        attempt::wait_or_cancel(wait, call).await?;
        number += 1;
    }
}
