//! A call that ended without an answer: whether its tool has done its work is found out where it can be, and said
//! where it cannot.

use std::sync::Arc;
use std::time::Duration;

use helve_core::record::{Attempt, HandlerEnd};
use helve_core::run::{PartState, Recalled};
use helve_core::{Call, CallId, ErrorCode, Tool, ToolError};
use serde_json::Value;
use tokio::time::Instant;

use super::super::record::CallRecorder;
use super::resume::recall;
use crate::runs::{ActiveRun, is_below};
use crate::runtime::Engine;

/// How long a call that has ended already waits for the tool that can tell what became of it.
pub(super) const RECALL_MAX: Duration = Duration::from_secs(10);

/// Whether a failure of this tool may need to be asked about, so that its arguments are kept until then.
pub(crate) fn may_be_asked(tool: &Tool) -> bool {
    !tool.definition().repeatable() && (tool.recall_handler().is_some() || tool.definition().recall.is_some())
}

/// What the caller reads about a failure of a tool that is not composed.
///
/// Where the tool may have done its work and doing it twice would do harm, the tool that knows is asked, once. What
/// they do not know is in doubt: nobody is told to call again.
pub(super) async fn clear_up(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &Call,
    error: ToolError,
    record: &mut CallRecorder<'_>,
) -> Result<Value, ToolError> {
    if tool.definition().repeatable() || !record.work.is_in_doubt() {
        return Err(error);
    }
    let run = record.subject.run().map_or(record.subject.call_id(), |run| run.id);
    // A caller that took the call back does not wait for more. And parts are asked about when their run is undone.
    let is_asked =
        may_be_asked(tool) && record.subject.part().is_none() && error.code() != ErrorCode::Cancelled;
    if !is_asked {
        return Err(in_doubt(error, tool, run));
    }
    let context = super::context(engine, tool, call, None, 1, record, Instant::now() + RECALL_MAX);
    // Rare and large, so on the heap.
    let asked = Box::pin(recall(engine, tool, &call.arguments, context));
    match tokio::time::timeout(RECALL_MAX, asked).await {
        Ok(Ok(Recalled::Happened(result))) => {
            record.work.settle_as_done();
            Ok(result)
        }
        Ok(Ok(Recalled::DidNotHappen | Recalled::WillNotHappen)) if have_answered(record.work.attempts()) => {
            record.work.settle_as_undone();
            Err(error.nothing_done().suggest("it was looked into: the call had no effect"))
        }
        Ok(Ok(Recalled::DidNotHappen | Recalled::WillNotHappen)) => {
            let error = in_doubt(error, tool, run);
            Err(error.suggest("it had no effect so far, but the other side may be at work on it still"))
        }
        Ok(Ok(Recalled::Unknown)) | Err(_) => Err(in_doubt(error, tool, run)),
        // It was asked, and says more than that it does not know.
        Ok(Err(known)) if known.code() == ErrorCode::OutcomeUnknown => {
            Err(in_doubt(error, tool, run).suggest(known.message().to_owned()))
        }
        Ok(Err(failed)) => {
            let failed = format!("whether it had its effect could not be found out: {failed}");
            Err(in_doubt(error, tool, run).suggest(failed))
        }
    }
}

/// Whether each attempt ended because its tool said so, or did nothing: then nobody can be at work on the call any
/// more. Where the time was up or the connection was lost nobody said anything, and the other side may be.
pub(crate) fn have_answered(attempts: &[Attempt]) -> bool {
    use ErrorCode::{McpConnection, Network, ServerError, Timeout};
    let has_answered = |attempt: &Attempt| {
        let is_lost = matches!(attempt.code, Some(Timeout | Network | ServerError | McpConnection));
        let is_over = matches!(attempt.handler, HandlerEnd::Returned | HandlerEnd::Panicked);
        attempt.nothing_done || (is_over && !is_lost)
    };
    !attempts.is_empty() && attempts.iter().all(has_answered)
}

fn in_doubt(error: ToolError, tool: &Tool, run: CallId) -> ToolError {
    let error = error
        .in_doubt()
        .suggest("find out whether it happened before you call it again")
        .suggest(format!("`helve runs show {run}` says what is recorded of it, and how to settle it"));
    match &tool.definition().recall {
        Some(recall) => error.suggest(format!("`{}` can tell whether it happened", recall.tool)),
        None => error,
    }
}

/// What the caller reads about a failure of a composed tool: what its parts did, or may have done, is not done again.
pub(super) fn of_parts(tool: &Tool, run: &ActiveRun, path: &str, error: ToolError) -> ToolError {
    if tool.definition().repeatable() {
        return error;
    }
    let below = |part: &helve_core::run::PartReport| path.is_empty() || is_below(&part.path, path);
    let parts: Vec<_> = run.reports().into_iter().filter(below).collect();
    let unknown = parts.iter().find(|part| part.state == PartState::Unknown);
    match unknown {
        // Who failed for that part has said so already.
        Some(_) if error.may_have_happened() => error,
        Some(part) => error
            .in_doubt()
            .suggest(format!("find out whether step `{}` ({}) happened", part.path, part.call_id))
            .suggest(format!("`helve runs show {}` says what is recorded of it", run.id)),
        None if error.may_have_happened() && error.code() != ErrorCode::OutcomeUnknown => {
            // What was in doubt has been found out since.
            error.something_done()
        }
        None if parts.iter().any(|part| matches!(part.state, PartState::Done | PartState::UndoFailed)) => {
            error.something_done().retryable(false)
        }
        None => error,
    }
}
