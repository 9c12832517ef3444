//! OpenAI's Chat Completions API.

use serde_json::{Value, json};

use super::call::{CallCollector, FormatError, RawCall, RawId};
use super::export::ExportOptions;
use super::openai;
use super::result::AnsweredCall;
use crate::Tool;

pub(super) fn tool(tool: &Tool, options: &ExportOptions) -> Value {
    let mut entry = json!({ "type": "function" });
    entry["function"] = openai::function(tool, options);
    entry
}

pub(super) const SHAPES: &[&str] = &["choices", "message", "tool_calls", "function_call", "role", "function"];

pub(super) fn find(answer: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    match answer {
        // A list of choices: the others are alternatives to the first.
        Value::Array(choices) if choices.first().is_some_and(|choice| choice.get("message").is_some()) => {
            message(&choices[0]["message"], found)
        }
        Value::Array(calls) => calls.iter().try_for_each(|item| call(item, found)),
        _ if answer.get("choices").is_some() => message(&answer["choices"][0]["message"], found),
        _ if answer.get("message").is_some() => message(&answer["message"], found),
        _ => message(answer, found),
    }
}

/// A message, or one of its calls.
fn message(part: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    let is_there = |field: &&Value| !field.is_null();
    match (part.get("tool_calls").filter(is_there), part.get("function_call").filter(is_there)) {
        (Some(Value::Array(calls)), _) => calls.iter().try_for_each(|item| call(item, found)),
        (_, Some(one)) => old_call(one, found),
        _ => call(part, found),
    }
}

/// The form from before there were several calls in a message: one alone, without an id. Servers that imitate the
/// old API still write it.
fn old_call(call: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    found.add(RawCall {
        item: "function_call",
        id: RawId::Absent,
        name: call.get("name"),
        arguments: call.get("arguments"),
        extra: &[],
    })
}

fn call(item: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    // Some servers leave the type out.
    let Some(function) =
        item.get("function").filter(|_| item["type"].is_null() || item["type"] == "function")
    else {
        return Ok(());
    };
    found.add(RawCall {
        item: "tool call",
        id: RawId::Required("id", item.get("id")),
        name: function.get("name"),
        arguments: function.get("arguments"),
        extra: &[],
    })
}

pub(super) fn result(answer: &AnsweredCall<'_>) -> Value {
    // The old form is answered in the old form: by name, because there is no id.
    if answer.call.id.is_none() {
        return json!({ "role": "function", "name": answer.call.name, "content": answer.text });
    }
    json!({ "role": "tool", "tool_call_id": answer.call.id, "content": answer.text })
}
