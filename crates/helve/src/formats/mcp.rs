//! The Model Context Protocol: entries of `tools/list`, and `tools/call`.

use serde_json::{Value, json};

use super::call::{FormatError, Found, RawCall, RawId};
use super::describe::Description;
use super::export::ExportOptions;
use super::result::Answer;
use crate::{Status, Tool};

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
pub(super) fn find(answer: &Value, found: &mut Found<'_>) -> Result<(), FormatError> {
    if let Value::Array(requests) = answer {
        return requests.iter().try_for_each(|request| call(request, found));
    }
    call(answer, found)
}

fn call(request: &Value, found: &mut Found<'_>) -> Result<(), FormatError> {
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

pub(super) fn result(answer: &Answer<'_>) -> Value {
    let mut result = json!({
        "content": [{ "type": "text", "text": answer.text }],
        "isError": answer.is_error,
    });
    // All of it, even where the text is shortened: it must fit the output schema.
    if let Status::Done(output) = &answer.outcome.status
        && output.value.is_object()
        && !output.is_failure
    {
        result["structuredContent"] = output.value.clone();
    }
    result
}
