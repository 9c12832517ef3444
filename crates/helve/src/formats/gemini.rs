//! Google's Gemini API.

use serde_json::{Value, json};

use super::call::{CallCollector, FormatError, RawCall, RawId};
use super::clean::cleaned;
use super::describe::Description;
use super::export::ExportOptions;
use super::format::Format;
use super::result::AnsweredCall;
use super::schema;
use crate::Tool;
use crate::json::brief;

/// `parametersJsonSchema` takes the schema as it is; `parameters` would take only a part of it.
pub(super) fn tool(tool: &Tool, options: &ExportOptions) -> Value {
    let mut entry = json!({
        "name": tool.provider_name(),
        "description": Description::of(tool, tool.provider_name()).into_text(options),
    });
    entry["parametersJsonSchema"] = schema::for_gemini(&tool.definition().input_schema);
    entry
}

pub(super) const SHAPES: &[&str] =
    &["candidates", "content", "parts", "functionCall", "function_call", "text", "thought"];

pub(super) fn find(answer: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    match answer {
        // A list of candidates: the others are alternatives to the first.
        Value::Array(candidates)
            if candidates.first().is_some_and(|first| first.get("content").is_some()) =>
        {
            content(&candidates[0]["content"], found)
        }
        Value::Array(parts) => parts.iter().try_for_each(|item| part(item, found)),
        _ if answer.get("candidates").is_some() => content(&answer["candidates"][0]["content"], found),
        _ if answer.get("content").is_some() => content(&answer["content"], found),
        _ => content(answer, found),
    }
}

/// A content, or one of its parts.
fn content(value: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    // Other providers have blocks or a text as `content`, and its calls would not be found.
    if matches!(value, Value::Array(_) | Value::String(_)) {
        let found = format!("its `content` is {}, where Gemini has an object with `parts`", brief(value));
        return Err(FormatError::Unrecognized { format: Format::Gemini, found });
    }
    match value.get("parts").and_then(Value::as_array) {
        Some(parts) => parts.iter().try_for_each(|item| part(item, found)),
        None => part(value, found),
    }
}

/// The wire writes camelCase, Google's Python SDK snake_case.
fn part(part: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    let either = |camel: &str, snake: &str| part.get(camel).or_else(|| part.get(snake));
    let Some(call) = either("functionCall", "function_call").filter(|call| !call.is_null()) else {
        return Ok(());
    };
    found.add(RawCall {
        item: "functionCall",
        id: RawId::Optional("id", call.get("id")),
        name: call.get("name"),
        arguments: call.get("args"),
        extra: &[("thoughtSignature", either("thoughtSignature", "thought_signature"))],
    })
}

pub(super) fn results(answers: &[AnsweredCall<'_>]) -> Value {
    let mut content = json!({ "role": "user" });
    content["parts"] = answers.iter().map(part_of).collect();
    content
}

fn part_of(answer: &AnsweredCall<'_>) -> Value {
    let mut part = json!({ "functionResponse": { "name": answer.call.name, "response": {} } });
    let response = &mut part["functionResponse"];
    let key = if answer.is_error { "error" } else { "output" };
    response["response"][key] =
        answer.whole.map_or_else(|| answer.text.clone().into(), |value| cleaned(value).into_owned());
    if let Some(id) = &answer.call.id {
        response["id"] = id.as_str().into();
    }
    part
}
