//! Whether a failed attempt is followed by another, and when.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use helve_core::record::{Attempt, HandlerEnd};
use helve_core::{Tool, ToolError};
use tokio::time::Instant;

use crate::limits::Health;

/// How long to wait before the next attempt; nothing if there is none.
pub(super) fn wait(
    health: &Health,
    tool: &Tool,
    error: &ToolError,
    number: u32,
    last: Option<&Attempt>,
    deadline: Instant,
) -> Option<Duration> {
    let policy = &tool.definition().retry;
    // Asked about every failure of this sort, also without a repeat: the budget counts them.
    let affordable = policy.retries_max == 0 || !policy.covers(error) || health.spend(tool.name());
    if !policy.allows(error, number) || !safe_to_repeat(tool, error, last) || !worth_it(tool, error, number) {
        return None;
    }
    if !affordable {
        tracing::debug!(tool = %tool.name(), "not repeated: too many attempts fail");
        return None;
    }
    let wait = error.retry_after_hint().unwrap_or_else(|| policy.backoff.delay(number, fastrand::f64()));
    // A retry that could not finish before the deadline would only delay the error.
    let at = Instant::now().checked_add(wait)?;
    (at < deadline).then_some(wait)
}

/// Whether another attempt can do no harm: the tool may be repeated, or says that it did nothing,
/// or its author takes the risk. One that could not be stopped may be at work still.
fn safe_to_repeat(tool: &Tool, error: &ToolError, last: Option<&Attempt>) -> bool {
    let definition = tool.definition();
    let stopped = last.is_some_and(|attempt| attempt.handler != HandlerEnd::Abandoned);
    stopped && (definition.repeatable() || error.did_nothing() || definition.retry.retry_unknown)
}

/// The tool's own judgement. One that panics is a no.
fn worth_it(tool: &Tool, error: &ToolError, number: u32) -> bool {
    let Some(retry_if) = tool.retry_if() else { return true };
    catch_unwind(AssertUnwindSafe(|| retry_if(error, number))).unwrap_or(false)
}
