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

pub(super) const SHAPES: &[&str] = &["choices", "message", "tool_calls", "role", "function"];

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
    match part.get("tool_calls").and_then(Value::as_array) {
        Some(calls) => calls.iter().try_for_each(|item| call(item, found)),
        None => call(part, found),
    }
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
    json!({ "role": "tool", "tool_call_id": answer.call.id, "content": answer.text })
}
