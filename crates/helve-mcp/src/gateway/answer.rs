//! What a client asks of a server, as a call, and what came of that, as the client is told.

use std::sync::Arc;

use helve::formats::mcp_error;
use helve::{Call, Caller, ErrorCode, Outcome, Status, ToolError};
use helve_net::Url;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::link::LinkError;
use crate::message::{RpcError, raw};
use crate::server::{HowToApprove, Incoming, arguments};
use crate::servers::Server;

/// Helve itself refused, and another caller may not be refused.
const REFUSED: i64 = -32000;

/// What a client asks to read, as a call.
pub(super) fn call_of(tool: &str, arguments: Value, incoming: Incoming) -> Call {
    let mut call = Call::new(tool, arguments)
        .by(incoming.visitor.caller)
        .cancellation(incoming.cancellation)
        .client(incoming.client);
    call.trace_parent = incoming.trace_parent;
    call
}

/// What a client asks for, without what it said of its own requests.
pub(super) fn arguments_of(params: &RawValue) -> Result<Value, RpcError> {
    let mut arguments = arguments(Some(params))?;
    if let Some(fields) = arguments.as_object_mut() {
        for own in ["_meta", "inputResponses", "requestState", "task"] {
            fields.remove(own);
        }
    }
    Ok(arguments)
}

/// What came of reading: what the server answered as it is, unless Helve itself refused.
pub(super) fn answer_of(
    outcome: Outcome,
    page: Option<&Url>,
    hidden: impl FnOnce() -> RpcError,
) -> Result<Arc<RawValue>, RpcError> {
    let said = outcome.content;
    match outcome.status {
        // Without what the server said, a hook has put something else in its place.
        Status::Done(output) => Ok(said.unwrap_or_else(|| raw(&output.value).into())),
        Status::Failed(error) if error.code() == ErrorCode::NotAuthorized => Err(hidden()),
        Status::Failed(error) => {
            let own = said.filter(|_| error.code() == ErrorCode::ExecutionFailed);
            let own = own.and_then(|said| serde_json::from_str::<RpcError>(said.get()).ok());
            Err(own.unwrap_or_else(|| refusal(&error)))
        }
        Status::Pending(pending) => {
            let how = HowToApprove::of(&pending, page);
            let message = format!(
                "a person must approve this first ({}): {}. {} Ask for it again once it is approved.",
                pending.approval_id,
                pending.reasons.join("; "),
                how.in_words(),
            );
            let mut data = mcp_error(&Status::Pending(pending)).unwrap_or_default();
            how.describe(&mut data);
            Err(RpcError::new(REFUSED, message).with_data(&data))
        }
    }
}

/// Why nothing was read, as a client sees it.
fn refusal(error: &ToolError) -> RpcError {
    let mut message = error.message().to_owned();
    for advice in error.suggestions() {
        message.push_str(&format!("; {advice}"));
    }
    let data = mcp_error(&Status::Failed(error.clone())).unwrap_or_default();
    let code = match error.code() {
        ErrorCode::PermissionDenied
        | ErrorCode::HookDenied
        | ErrorCode::ApprovalDenied
        | ErrorCode::ApprovalExpired
        | ErrorCode::ApprovalStale
        | ErrorCode::RateLimit => REFUSED,
        _ => RpcError::INTERNAL,
    };
    RpcError::new(code, message).with_data(&data)
}

/// A server's failure to answer, as its client sees it.
pub(super) fn gone(server: &Server, error: &LinkError, caller: &Caller) -> RpcError {
    let mut message = format!("MCP server `{}`: {error}", server.name());
    if let Some(advice) = error.advice(server.name(), server.principal_of(caller)) {
        message.push_str(&format!("; {advice}"));
    }
    RpcError::new(RpcError::INTERNAL, message)
}
