//! Runs the tool: recorded before it starts where it matters, confined in time, repeated where
//! that is safe and wanted.

mod attempt;
mod start;

use std::time::Duration;

use helve_core::record::{Attempt, HandlerEnd};
use helve_core::{Call, Context, ErrorCode, Stage, Status, Tool, ToolError};
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
    match start::start(parts, &tool, &call, record, deadline).await? {
        Start::Run => {}
        Start::Replay(status) => return Ok(Executed::Replayed(status)),
    }
    let arguments = std::mem::take(&mut call.arguments);
    let result = attempts(parts, &tool, &call, arguments, deadline, record).await;
    Ok(Executed::Answered(Answer { tool, result: result.map_err(|error| error.at(Stage::Execute)) }))
}

fn timeout(parts: &Parts, tool: &Tool, call: &Call) -> Duration {
    let of_tool = tool.definition().timeout_ms.map(Duration::from_millis);
    let allowed = of_tool.unwrap_or(parts.settings.timeout_default).min(parts.settings.timeout_max);
    call.timeout.map_or(allowed, |asked| asked.min(allowed))
}

async fn attempts(
    parts: &Parts,
    tool: &Tool,
    call: &Call,
    arguments: Value,
    deadline: Instant,
    record: &mut OpenRecord<'_>,
) -> Result<Value, ToolError> {
    let policy = &tool.definition().retry;
    let mut number = 1;
    loop {
        let context =
            Context::new(record.call_id(), tool.name().clone(), call.caller.clone(), deadline.into_std())
                .with_attempt(number)
                .with_idempotency_key(call.idempotency_key.clone())
                .with_degraded(record.degraded());
        let context = match &call.cancellation {
            Some(token) => context.with_cancellation(token.child_token()),
            None => context,
        };
        let last = number > policy.retries_max;
        if last {
            return attempt::attempt(parts, tool, call, context, arguments, deadline, record).await;
        }
        let error =
            match attempt::attempt(parts, tool, call, context, arguments.clone(), deadline, record).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
        let repeat = policy.allows(&error, number) && safe_to_repeat(tool, &error, record.last_attempt());
        let wait = error.retry_after_hint().unwrap_or_else(|| policy.backoff.delay(number, fastrand::f64()));
        // A retry that could not finish before the deadline would only delay the error.
        if !repeat || Instant::now() + wait >= deadline {
            return Err(error);
        }
        attempt::wait_or_cancel(wait, call).await?;
        number += 1;
    }
}

/// Whether another attempt can do no harm: the tool may be repeated, or says that it did nothing.
fn safe_to_repeat(tool: &Tool, error: &ToolError, last: Option<&Attempt>) -> bool {
    let stopped = last.is_some_and(|attempt| attempt.handler != HandlerEnd::Abandoned);
    let did_nothing = matches!(error.code(), ErrorCode::RateLimit | ErrorCode::Lock);
    stopped && (tool.definition().repeatable() || did_nothing)
}
