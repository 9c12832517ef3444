//! OpenAI's Responses API, and what it shares with Chat Completions.

use serde_json::{Value, json};

use super::call::{CallCollector, FormatError, RawCall, RawId};
use super::describe::Description;
use super::export::{ExportOptions, Strictness};
use super::result::AnsweredCall;
use super::{schema, strict};
use crate::Tool;

pub(super) fn tool(tool: &Tool, options: &ExportOptions) -> Value {
    let mut entry = function(tool, options);
    entry["type"] = "function".into();
    entry
}

/// Name, description, parameters and strictness, the same in both APIs.
pub(super) fn function(tool: &Tool, options: &ExportOptions) -> Value {
    let mut description = Description::of(tool, tool.provider_name());
    let input_schema = &tool.definition().input_schema;
    let strict = match options.strictness {
        Strictness::Off => None,
        Strictness::Usual | Strictness::WhereAllowed => strict::openai(input_schema).ok(),
    };
    let is_strict = strict.is_some();
    let parameters = strict.map(|strict| strict.schema).unwrap_or_else(|| {
        let written = schema::for_openai(input_schema);
        if let Some(note) = written.note {
            description.note(note);
        }
        written.schema
    });
    let mut function = json!({
        "name": tool.provider_name(),
        "description": description.into_text(options),
        "strict": is_strict,
    });
    function["parameters"] = parameters;
    function
}

pub(super) const SHAPES: &[&str] = &["output", "type"];

pub(super) fn find(answer: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    match answer {
        Value::Array(items) => items.iter().try_for_each(|item| call(item, found)),
        _ if answer.get("type").is_some() => call(answer, found),
        _ => {
            let items = answer.get("output").and_then(Value::as_array).into_iter().flatten();
            items.into_iter().try_for_each(|item| call(item, found))
        }
    }
}

fn call(item: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    if item["type"] != "function_call" {
        return Ok(());
    }
    found.add(RawCall {
        item: "function_call",
        id: RawId::Required("call_id", item.get("call_id")),
        name: item.get("name"),
        arguments: item.get("arguments"),
        extra: &[("caller", item.get("caller")), ("namespace", item.get("namespace"))],
    })
}

pub(super) fn result(answer: &AnsweredCall<'_>) -> Value {
    let mut item = json!({
        "type": "function_call_output",
        "call_id": answer.call.id,
        "output": answer.text,
    });
    if let Some(caller) = answer.call.extra.get("caller") {
        item["caller"] = caller.clone();
    }
    item
}
