//! The Model Context Protocol: entries of `tools/list`, and `tools/call`.

use serde_json::{Value, json};

use super::call::{CallCollector, FormatError, RawCall, RawId};
use super::clean::cleaned;
use super::cut::{cut_text, cut_value};
use super::describe::Description;
use super::export::ExportOptions;
use super::result::AnsweredCall;
use crate::{Pending, Status, Tool, ToolError};

/// Where in `_meta` an MCP result says, for programs, why it is an error.
pub const MCP_ERROR: &str = "helve/error";

pub(super) fn tool(tool: &Tool, options: &ExportOptions) -> Value {
    let definition = tool.definition();
    let name = tool.name().mcp_name();
    let hints = &definition.annotations;
    let mut entry = json!({
        "name": name,
        "description": Description::of(tool, &name).into_text(options),
        "annotations": {
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
    });
    entry["inputSchema"] = definition.input_schema.clone();
    if let Some(title) = &hints.title {
        entry["title"] = title.as_str().into();
        entry["annotations"]["title"] = title.as_str().into();
    }
    // Structured content is an object in all but the newest version of the protocol.
    if let Some(schema) = definition.output_schema.as_ref().filter(|schema| schema["type"] == "object") {
        entry["outputSchema"] = schema.clone();
    }
    entry
}

pub(super) const SHAPES: &[&str] = &["method", "params", "name"];

/// A request, or its parameters.
pub(super) fn find(answer: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    if let Value::Array(requests) = answer {
        return requests.iter().try_for_each(|request| call(request, found));
    }
    call(answer, found)
}

fn call(request: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    let params = request.get("params").unwrap_or(request);
    if request.get("method").is_some_and(|method| method != "tools/call") || !params.is_object() {
        return Ok(());
    }
    // A request's id may be a number, and its answer's envelope, not the result, carries it.
    found.add(RawCall {
        item: "tools/call",
        id: RawId::Optional("id", request.get("id").filter(|id| id.is_string())),
        name: params.get("name"),
        arguments: params.get("arguments"),
        extra: &[("_meta", params.get("_meta"))],
    })
}

/// Why a call gave no result, for programs: what stands in `_meta` of an MCP result under [`MCP_ERROR`].
/// None where there is a result.
///
/// `structuredContent` must fit the tool's output schema, and clients check that on errors too, so an error
/// has none.
///
/// ```
/// use helve::formats::mcp_error;
/// use helve::{ErrorCode, Status, ToolError};
/// let error = ToolError::new(ErrorCode::Timeout, "no answer within 30 s");
/// let parts = mcp_error(&Status::Failed(error)).unwrap();
/// assert_eq!((parts["code"].as_str(), parts["retryable"].as_bool()), (Some("timeout"), Some(true)));
/// ```
pub fn mcp_error(status: &Status) -> Option<Value> {
    let parts = match status {
        Status::Done(output) => match output.error() {
            Some(error) => failure(&error),
            None if output.is_failure => shortfall(&output.value),
            None => return None,
        },
        Status::Failed(error) => failure(error),
        Status::Pending(pending) => question(pending),
    };
    Some(cleaned(&parts).into_owned())
}

fn failure(error: &ToolError) -> Value {
    /// Most of a message, and of all the rest.
    const MESSAGE_BYTES_MAX: usize = 4 << 10;
    const REST_BYTES_MAX: usize = 16 << 10;
    let mut parts = json!(error);
    let message = cut_text(error.message(), MESSAGE_BYTES_MAX).to_owned();
    parts["message"] = Value::Null;
    let mut parts = cut_value(&parts, REST_BYTES_MAX).value;
    parts["message"] = message.into();
    parts
}

/// A result that counts as failed: programs find it here, because an error has no `structuredContent`.
fn shortfall(value: &Value) -> Value {
    const VALUE_BYTES_MAX: usize = 64 << 10;
    let mut parts = failure(&ToolError::failed("some of its steps failed; the result says which"));
    parts["structured"] = cut_value(value, VALUE_BYTES_MAX).value;
    parts
}

fn question(pending: &Pending) -> Value {
    json!({
        "code": "approval_required",
        "kind": "approval",
        "retryable": true,
        "approval_id": pending.approval_id,
        "reasons": pending.reasons,
    })
}

pub(super) fn result(answer: &AnsweredCall<'_>) -> Value {
    let mut result = json!({
        "content": [{ "type": "text", "text": answer.text }],
        "isError": answer.is_error,
    });
    if let Some(error) = mcp_error(&answer.outcome.status) {
        result["_meta"] = json!({ MCP_ERROR: error });
    }
    // All of it, even where the text is shortened: it must fit the output schema.
    if let Status::Done(output) = &answer.outcome.status
        && output.value.is_object()
        && !output.is_failure
    {
        result["structuredContent"] = output.value.clone();
    }
    result
}
