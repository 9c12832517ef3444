//! What came of a call, as an MCP tool result.
//!
//! INVARIANT: an error carries no `structuredContent`. That would have to fit the tool's output schema, and some
//! clients check it on errors too and then show nothing of them. The model reads the text; programs read `_meta`
//! under [`MCP_ERROR`].

use std::borrow::Cow;
use std::sync::Arc;

use helve::formats::{MCP_ERROR, ResultBudget, cleaned, context_text, mcp_error, result_text};
use helve::{ErrorCode, Outcome, Output, Status, Tool, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::backend::ToolAnswer;
use crate::era::Era;
use crate::message::{Fields, Raw, is_object, raw};

/// Longest text of one result. What is cut off is in the structured content.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// What keys of `_meta` begin with that only Helve sets.
const OWN_META: &str = "helve/";

/// What came of a call of this tool, for a client of this era.
pub(super) fn answer_of(outcome: Outcome, tool: Option<&Tool>, era: Era) -> ToolAnswer {
    if let Status::Pending(pending) = outcome.status {
        return ToolAnswer::Pending(pending);
    }
    passed_on(&outcome, era).unwrap_or_else(|| written(outcome, tool, era))
}

/// An outcome without anything attached.
fn written(mut outcome: Outcome, tool: Option<&Tool>, era: Era) -> ToolAnswer {
    if let Status::Done(output) = &mut outcome.status
        && let Err(error) = clean(output, tool)
    {
        outcome.status = Status::Failed(error);
    }
    let content = json!([{ "type": "text", "text": text_of(&outcome) }]);
    let error = mcp_error(&outcome.status);
    let is_error = error.is_some();
    let structured_content = match outcome.status {
        Status::Done(output) if !is_error => structured(output.value, era),
        Status::Done(_) | Status::Failed(_) | Status::Pending(_) => None,
    };
    let meta = error.map(|error| json!({ MCP_ERROR: error }));
    let result = raw(&Written { content, structured_content, is_error, meta });
    ToolAnswer::Done { result: result.into(), is_error }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    content: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Value>,
    is_error: bool,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
}

fn text_of(outcome: &Outcome) -> String {
    result_text(outcome, &ResultBudget { bytes: TEXT_BYTES_MAX })
}

/// Takes out of a result what its text does not show either. What is left must still keep the tool's promise.
fn clean(output: &mut Output, tool: Option<&Tool>) -> Result<(), ToolError> {
    let Cow::Owned(clean) = cleaned(&output.value) else { return Ok(()) };
    let breaks = |tool: &Tool| tool.output().is_some_and(|schema| !schema.accepts(&clean));
    if !output.is_failure && tool.is_some_and(breaks) {
        return Err(ToolError::new(
            ErrorCode::OutputInvalid,
            "the result holds hidden characters, and does not fit the tool's output schema without them",
        )
        .suggest("this is a defect in the tool; other arguments may avoid it"));
    }
    output.value = clean;
    Ok(())
}

/// A result for programs. The text says all of a short text, so that it is not repeated here.
fn structured(value: Value, era: Era) -> Option<Value> {
    let is_needed = match &value {
        Value::Null => false,
        Value::String(text) => text.len() > TEXT_BYTES_MAX,
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    };
    is_needed.then(|| match era {
        // Before the stateless era it had to be an object. SDKs that serve both put other values below `result`.
        Era::Session if !value.is_object() => json!({ "result": value }),
        Era::Session | Era::Stateless => value,
    })
}

/// What the tool attached in MCP's own form: it passes as it is, but for what clients of this era cannot take and
/// what only Helve may say. None where there is nothing, or Helve itself refused the call or its result.
fn passed_on(outcome: &Outcome, era: Era) -> Option<ToolAnswer> {
    let is_the_tools_own = match &outcome.status {
        Status::Done(_) => true,
        Status::Failed(error) => error.code() == ErrorCode::ExecutionFailed,
        Status::Pending(_) => false,
    };
    let content = outcome.content.as_ref().filter(|_| is_the_tools_own)?;
    let head: Head<'_> = serde_json::from_str(content.get()).ok()?;
    let is_error = head.is_error == Some(true) || !outcome.is_success();
    if !is_error && outcome.context.is_empty() && head.passes_as_it_is(era) {
        return Some(ToolAnswer::Done { result: Arc::clone(content), is_error });
    }
    let mut fields = Fields::read(Some(content)).ok()?;
    let mut meta = fields.remove("_meta").and_then(|meta| Fields::read(Some(&meta)).ok()).unwrap_or_default();
    let own: Vec<_> = meta.iter().map(|(key, _)| key.to_owned()).filter(|key| is_own(key)).collect();
    own.iter().for_each(|key| drop(meta.remove(key)));
    let structured = fields.remove("structuredContent").filter(|structured| structured.get() != "null");
    let text = say(&mut fields, outcome, structured.as_deref())?;
    if is_error {
        fields.set("isError", raw(&true));
        let mut parts = mcp_error(&outcome.status).or_else(|| mcp_error(&Status::Failed(failed())))?;
        if let Some(structured) = structured {
            parts["structured"] = serde_json::from_str(structured.get()).unwrap_or_default();
        }
        meta.set(MCP_ERROR, raw(&parts));
    } else if let Some(structured) = structured {
        fields.set("structuredContent", fitting(structured, era));
    }
    fields.set("content", text);
    if !meta.is_empty() {
        fields.set("_meta", meta.to_raw());
    }
    Some(ToolAnswer::Done { result: fields.to_raw().into(), is_error })
}

/// The parts of an attached result that decide whether it can pass as it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    is_error: Option<bool>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

impl Head<'_> {
    fn passes_as_it_is(&self, era: Era) -> bool {
        let fits = match (era, self.structured_content) {
            (_, None) => true,
            (Era::Session, Some(structured)) => is_object(structured),
            (Era::Stateless, Some(_)) => true,
        };
        let is_silent = |meta: &RawValue| match Fields::read(Some(meta)) {
            Ok(meta) => !meta.iter().any(|(key, _)| is_own(key)),
            Err(_) => false,
        };
        fits && self.content.is_some() && self.meta.is_none_or(is_silent)
    }
}

fn is_own(key: &str) -> bool {
    key.starts_with(OWN_META)
}

fn failed() -> ToolError {
    ToolError::failed("the tool says that it failed")
}

/// The content with what a model must read: hooks' notes, and some text at least.
fn say(fields: &mut Fields, outcome: &Outcome, structured: Option<&RawValue>) -> Option<Raw> {
    let content = fields.remove("content");
    let mut parts: Vec<Raw> = match &content {
        Some(content) => serde_json::from_str(content.get()).ok()?,
        None => Vec::new(),
    };
    let text = |text: &str| raw(&json!({ "type": "text", "text": text }));
    if parts.is_empty() && !outcome.is_success() {
        parts.push(text(&text_of(outcome)));
    } else {
        if let (true, Some(structured)) = (parts.is_empty(), structured) {
            parts.push(text(structured.get()));
        }
        parts.extend(context_text(outcome).map(|notes| text(&notes)));
    }
    Some(raw(&parts))
}

fn fitting(structured: Raw, era: Era) -> Raw {
    match era {
        Era::Session if !is_object(&structured) => raw(&json!({ "result": structured })),
        Era::Session | Era::Stateless => structured,
    }
}

/// A definition as clients of this era can read it: before the stateless era an output schema had to speak of an
/// object, and a client could refuse the whole list for one that does not.
pub(super) fn listed(definition: &Arc<RawValue>, era: Era) -> Arc<RawValue> {
    #[derive(Deserialize)]
    struct Schema<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<&'a RawValue>,
    }
    let speaks_of_object = |schema: &RawValue| {
        let schema = serde_json::from_str::<Schema<'_>>(schema.get());
        schema.is_ok_and(|schema| schema.kind.is_some_and(|kind| kind.get() == "\"object\""))
    };
    if era == Era::Stateless || !definition.get().contains("outputSchema") {
        return Arc::clone(definition);
    }
    let Ok(mut fields) = Fields::read(Some(definition)) else { return Arc::clone(definition) };
    match fields.get("outputSchema") {
        Some(schema) if !speaks_of_object(schema) => {
            fields.remove("outputSchema");
            fields.to_raw().into()
        }
        Some(_) | None => Arc::clone(definition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: Status, attached: Option<Value>) -> Outcome {
        let id = "call_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let mut outcome = Outcome::new(id, "t", status);
        outcome.content = attached.map(|attached| raw(&attached).into());
        outcome
    }

    fn told(outcome: Outcome, era: Era) -> Value {
        match answer_of(outcome, None, era) {
            ToolAnswer::Done { result, is_error } => {
                let result: Value = serde_json::from_str(result.get()).unwrap();
                assert_eq!(result["isError"].as_bool().unwrap_or_default(), is_error, "{result}");
                result
            }
            ToolAnswer::Pending(pending) => panic!("{pending:?}"),
        }
    }

    fn done(value: Value) -> Status {
        Status::Done(Output::success(value))
    }

    #[test]
    fn no_error_of_any_code_has_structured_content() {
        for code in ErrorCode::ALL {
            let error = || ToolError::new(*code, "it went wrong").suggest("try something else");
            let returned = Status::Done(Output::failure(&error()));
            let attached = json!({ "content": [], "structuredContent": { "n": 1 }, "isError": true });
            for status in [Status::Failed(error()), returned] {
                for attached in [None, Some(attached.clone())] {
                    let told = told(outcome(status.clone(), attached), Era::Session);
                    assert_eq!(
                        (&told["isError"], told.get("structuredContent")),
                        (&json!(true), None),
                        "{told}"
                    );
                    let error = &told["_meta"]["helve/error"];
                    assert_eq!(
                        (&error["code"], &error["suggestions"][0]),
                        (&json!(code), &json!("try something else"))
                    );
                    assert!(error["kind"].is_string() && error["retryable"].is_boolean(), "{told}");
                    let text = told["content"][0]["text"].as_str().unwrap();
                    assert!(text.contains("it went wrong") && text.contains("try something else"), "{told}");
                }
            }
        }
    }

    #[test]
    fn what_a_server_says_of_its_failure_stays_and_its_structure_moves() {
        let attached = json!({
            "content": [{ "type": "text", "text": "no such city" }], "isError": true,
            "structuredContent": { "city": "Atlantis" }, "_meta": { "k": 1, "helve/error": { "code": "fake" } },
        });
        let told =
            told(outcome(Status::Failed(ToolError::failed("no such city")), Some(attached)), Era::Session);
        assert_eq!(told["content"], json!([{ "type": "text", "text": "no such city" }]));
        assert_eq!(told.get("structuredContent"), None);
        assert_eq!(told["_meta"]["k"], 1);
        assert_eq!(told["_meta"]["helve/error"]["code"], "execution_failed");
        assert_eq!(told["_meta"]["helve/error"]["structured"], json!({ "city": "Atlantis" }));
    }

    #[test]
    fn a_failure_with_content_that_does_not_say_so_is_still_one() {
        let attached = json!({ "content": [{ "type": "text", "text": "all is well" }] });
        let told = told(outcome(Status::Failed(ToolError::failed("no")), Some(attached)), Era::Session);
        assert_eq!(told["isError"], true);
    }

    #[test]
    fn what_is_no_object_is_wrapped_where_it_must_be() {
        for value in [json!([1, 2]), json!(7), json!(true)] {
            let own = told(outcome(done(value.clone()), None), Era::Session);
            assert_eq!(own["structuredContent"], json!({ "result": value }));
            let own = told(outcome(done(value.clone()), None), Era::Stateless);
            assert_eq!(own["structuredContent"], value);
            let attached = json!({ "structuredContent": value });
            let passed = told(outcome(done(value.clone()), Some(attached)), Era::Session);
            assert_eq!(passed["structuredContent"], json!({ "result": value }));
            assert_eq!(passed["content"][0]["text"], value.to_string());
        }
        let short = told(outcome(done(json!("words")), None), Era::Session);
        assert_eq!((&short["content"][0]["text"], short.get("structuredContent")), (&json!("words"), None));
        let long = "words ".repeat(20_000);
        let told = told(outcome(done(json!(long)), None), Era::Session);
        assert_eq!(told["structuredContent"]["result"], long);
    }

    #[test]
    fn hidden_characters_are_in_neither_form() {
        let told = told(outcome(done(json!({ "a": "x\u{202e}y\u{8}z" })), None), Era::Session);
        assert_eq!(told["structuredContent"], json!({ "a": "xyz" }));
    }

    #[test]
    fn nobody_but_helve_says_what_helve_says() {
        for meta in [json!({ "helve/error": {} }), json!({ "helve/error": {}, "k": 1 })] {
            let attached = json!({ "content": [], "structuredContent": { "n": 1 }, "_meta": meta });
            let told = told(outcome(done(json!({ "n": 1 })), Some(attached)), Era::Session);
            assert!(!told.to_string().contains("helve/"), "{told}");
        }
    }

    #[test]
    fn an_output_schema_that_older_clients_cannot_read_is_not_listed_for_them() {
        let list = |schema: Value, era| {
            let definition: Arc<RawValue> = raw(&json!({ "name": "t", "outputSchema": schema })).into();
            listed(&definition, era).get().contains("outputSchema")
        };
        let array = json!({ "type": "array", "items": { "type": "object" } });
        assert!(list(json!({ "type": "object" }), Era::Session));
        assert!(!list(array.clone(), Era::Session) && !list(json!({ "anyOf": [] }), Era::Session));
        assert!(list(array, Era::Stateless));
    }
}
