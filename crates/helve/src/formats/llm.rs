//! Plain JSON for a prompt of one's own.

use serde_json::{Value, json};

use super::call::{CallCollector, FormatError, RawCall, RawId};
use super::export::ExportOptions;
use super::result::AnsweredCall;
use crate::{Status, Tool};

pub(super) fn tool(tool: &Tool, options: &ExportOptions) -> Value {
    let definition = tool.definition();
    let name = tool.provider_name();
    let examples: Vec<_> = definition.examples.iter().map(|example| example.to_line(name)).collect();
    let mut entry = json!({
        "name": name,
        "description": definition.description,
        "whenToUse": definition.when_to_use.as_deref().unwrap_or_default(),
        "examples": examples,
        "requiresApproval": tool.needs_approval(options.ask_from),
    });
    entry["parameters"] = definition.input_schema.clone();
    entry
}

pub(super) const SHAPES: &[&str] = &["name", "toolName"];

/// A call, or a list of calls.
pub(super) fn find(answer: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    match answer {
        Value::Array(calls) => calls.iter().try_for_each(|item| call(item, found)),
        item => call(item, found),
    }
}

fn call(item: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    found.add(RawCall {
        item: "call",
        id: RawId::Optional("id", item.get("id")),
        name: item.get("name").or_else(|| item.get("toolName")),
        arguments: item.get("parameters").or_else(|| item.get("arguments")),
        extra: &[],
    })
}

pub(super) fn result(answer: &AnsweredCall<'_>) -> Value {
    let mut result = json!({
        "name": answer.call.name,
        "success": !answer.is_error,
        "result": answer.text,
    });
    if let Some(id) = &answer.call.id {
        result["id"] = id.as_str().into();
    }
    if let Status::Pending(pending) = &answer.outcome.status {
        result["approvalRequired"] = true.into();
        result["approvalId"] = pending.approval_id.to_string().into();
    }
    result
}
