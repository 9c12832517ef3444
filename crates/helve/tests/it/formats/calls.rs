//! Calls as they come back: found in every shape of answer, bounded, never trusted.

use helve::formats::{
    ExportOptions, Format, FormatError, ParseLimits, ProviderCall, drop_absent, export_one, parse_calls,
};
use helve::{Caller, ErrorCode, Runtime, Tool};
use serde_json::{Value, json};

fn parse(format: Format, answer: Value) -> Result<Vec<ProviderCall>, FormatError> {
    parse_calls(format, &answer, &ParseLimits::default())
}

fn names(format: Format, answer: Value) -> Vec<String> {
    parse(format, answer).unwrap().into_iter().map(|call| call.name).collect()
}

#[test]
fn anthropic_calls_are_found_in_blocks_messages_and_lists() {
    let block = |name: &str| json!({ "type": "tool_use", "id": "t1", "name": name, "input": { "a": 1 } });
    let text = json!({ "type": "text", "text": "{\"type\": \"tool_use\"}" });
    assert_eq!(names(Format::Anthropic, block("a")), ["a"]);
    assert_eq!(names(Format::Anthropic, json!([text, block("a"), block("b")])), ["a", "b"]);
    let thinking = json!({ "type": "thinking", "thinking": "…", "signature": "s" });
    let message = json!({ "type": "message", "role": "assistant", "content": [thinking, block("a")] });
    assert_eq!(names(Format::Anthropic, message), ["a"]);
    assert!(names(Format::Anthropic, json!({ "role": "assistant", "content": "just text" })).is_empty());
    let nested = json!({ "type": "tool_result", "tool_use_id": "t0", "content": [block("evil")] });
    assert!(names(Format::Anthropic, json!({ "role": "user", "content": [nested.clone()] })).is_empty());
    assert!(names(Format::Anthropic, nested).is_empty());
}

#[test]
fn responses_calls_are_found_in_items_lists_and_responses() {
    let item = json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "a", "arguments": "{\"x\": [1]}" });
    let reasoning = json!({ "type": "reasoning", "summary": [] });
    for answer in
        [item.clone(), json!([reasoning, item]), json!({ "object": "response", "output": [reasoning, item] })]
    {
        let calls = parse(Format::OpenAi, answer).unwrap();
        assert_eq!(calls[0].id.as_deref(), Some("c1"));
        assert_eq!(calls[0].arguments.as_ref().unwrap(), &json!({ "x": [1] }));
    }
}

#[test]
fn chat_calls_are_found_and_only_the_first_choice_counts() {
    let call =
        |name: &str| json!({ "id": "c1", "type": "function", "function": { "name": name, "arguments": "" } });
    let message = |name: &str| json!({ "role": "assistant", "content": null, "tool_calls": [call(name)] });
    let choice = |name: &str| json!({ "index": 0, "finish_reason": "tool_calls", "message": message(name) });
    for answer in [
        call("a"),
        json!([call("a")]),
        message("a"),
        choice("a"),
        json!([choice("a"), choice("b")]),
        json!({ "choices": [choice("a"), choice("b")] }),
    ] {
        let calls = parse(Format::OpenAiChat, answer).unwrap();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].arguments.as_ref().unwrap(), &json!({}));
    }
    let custom = json!([{ "id": "c", "type": "custom", "custom": { "name": "x", "input": "" } }]);
    assert!(names(Format::OpenAiChat, custom).is_empty());
    assert!(names(Format::OpenAiChat, json!({ "role": "assistant", "tool_calls": null })).is_empty());
}

#[test]
fn gemini_calls_are_found_with_their_signature() {
    let part = json!({ "functionCall": { "name": "a", "args": { "x": 1 } }, "thoughtSignature": "c2ln" });
    let snake = json!({ "function_call": { "id": "1", "name": "a", "args": { "x": 1 } }, "thought_signature": "c2ln" });
    let content = json!({ "role": "model", "parts": [{ "text": "hm", "thought": true }, part] });
    for answer in [
        part.clone(),
        snake,
        json!([part]),
        content.clone(),
        json!({ "content": content }),
        json!([{ "content": content }, { "content": content }]),
        json!({ "candidates": [{ "content": content }, { "content": content }] }),
    ] {
        let calls = parse(Format::Gemini, answer).unwrap();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].extra["thoughtSignature"], "c2ln");
        assert_eq!(calls[0].arguments.as_ref().unwrap(), &json!({ "x": 1 }));
    }
}

#[test]
fn mcp_and_plain_calls_are_found() {
    let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "a", "arguments": {} } });
    assert_eq!(names(Format::Mcp, request), ["a"]);
    assert_eq!(names(Format::Mcp, json!({ "name": "a" })), ["a"]);
    assert!(names(Format::Mcp, json!({ "method": "ping" })).is_empty());
    assert_eq!(
        names(Format::Llm, json!([{ "name": "a", "arguments": {} }, { "toolName": "b", "parameters": {} }])),
        ["a", "b"]
    );
}

#[test]
fn a_malformed_argument_string_does_not_spoil_its_neighbours() {
    let item = |arguments: &str| json!({ "type": "function_call", "call_id": "c", "name": "a", "arguments": arguments });
    let items = [
        "{\"x\": 1}",
        "{\"x\": 1",
        "{\"x\": 1, \"x\": 2}",
        "",
        "  ",
        "null",
        "{\"n\": 99999999999999999999}",
    ];
    let calls = parse(Format::OpenAi, items.iter().map(|text| item(text)).collect()).unwrap();
    let read: Vec<_> = calls.iter().map(|call| call.arguments.as_ref().ok()).collect();
    let (x, none) = (json!({ "x": 1 }), json!({}));
    assert_eq!(read, [Some(&x), None, None, Some(&none), Some(&none), Some(&none), None]);
    let error = calls[1].to_call(Caller::local()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ValidationFailed);
    assert!(error.message().contains("not valid JSON: EOF"), "{error}");
    assert!(calls[2].arguments.as_ref().unwrap_err().message().contains("`x` stands twice"));
}

#[test]
fn a_call_keeps_its_id_as_correlation_and_its_caller() {
    let calls = parse(Format::Anthropic, json!({ "type": "tool_use", "id": "t1", "name": "a", "input": {} }))
        .unwrap();
    let call = calls[0].to_call(Caller::agent("bot")).unwrap();
    assert_eq!(call.correlation_id.as_deref(), Some("t1"));
    assert_eq!(call.caller.agent.as_deref(), Some("bot"));
    assert_eq!(call.idempotency_key, None);
}

#[tokio::test]
async fn a_strict_call_runs_under_its_provider_name_without_its_nulls() {
    let names: Vec<_> = (0..40).map(|n| format!("f{n}")).collect();
    let fields: serde_json::Map<_, _> =
        names.iter().map(|name| (name.clone(), json!({ "type": "string" }))).collect();
    let tool = Tool::builder("mail/find.all")
        .description("Finds mail by any of its fields.")
        .input_schema(json!({ "type": "object", "properties": fields }))
        .handler(|arguments, _| async { Ok(arguments) })
        .build()
        .unwrap();
    let entry = export_one(&tool, Format::OpenAi, &ExportOptions::default());
    assert_eq!(entry["strict"], true);
    let mut arguments: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), Value::Null)).collect();
    arguments.insert("f7".to_owned(), json!("ada"));
    let item = json!({ "type": "function_call", "call_id": "c", "name": entry["name"],
        "arguments": Value::Object(arguments).to_string() });
    let mut call = parse(Format::OpenAi, item).unwrap()[0].to_call(Caller::local()).unwrap();
    drop_absent(&tool.definition().input_schema, &mut call.arguments);
    let runtime = Runtime::builder().tool(tool).unwrap().build();
    assert_eq!(runtime.call(call).await.into_result().unwrap(), json!({ "f7": "ada" }));
}

#[test]
fn hostile_answers_end_in_clear_short_errors() {
    let call = json!({ "type": "tool_use", "id": "t", "name": "a", "input": {} });
    let big = "x".repeat(50 << 20);
    let cases = [
        (json!(null), "not an answer in the format `anthropic`: null"),
        (json!("tool_use"), "not an answer"),
        (json!({ "choices": [] }), "not an answer"),
        (json!(vec![call; 10_000]), "more than 128 calls"),
        (json!({ "type": "tool_use", "name": "a", "input": {} }), "non-empty string as `id`; it has none"),
        (json!({ "type": "tool_use", "id": 7, "name": "a" }), "`id`; it has 7"),
        (json!({ "type": "tool_use", "id": "t", "name": ["a"] }), "`name`; it has array of 1"),
        (json!({ "type": "tool_use", "id": "t", "name": "" }), "`name`; it has \"\""),
        (json!({ "type": "tool_use", "id": "t", "name": big }), "`name` of a `tool_use` is larger than 1024"),
        (json!({ "type": "tool_use", "id": big, "name": "a" }), "`id` of a `tool_use` is larger than 512"),
        (json!({ "type": "tool_use", "id": "t", "name": "a", "caller": big }), "`caller`"),
        (json!([{ "role": "user", "content": [] }]), "this is a conversation"),
    ];
    for (answer, expected) in cases {
        let error = parse(Format::Anthropic, answer).unwrap_err().to_string();
        assert!(error.contains(expected) && error.len() < 300, "{error:.300}");
    }
    let huge = json!({ "type": "function_call", "call_id": "c", "name": "a", "arguments": big });
    let calls = parse(Format::OpenAi, huge).unwrap();
    assert!(calls[0].arguments.as_ref().unwrap_err().message().len() < 300);
    let answered = json!([{ "type": "function_call", "call_id": "c", "name": "a", "arguments": "" },
        { "type": "function_call_output", "call_id": "c", "output": "" }]);
    assert_eq!(parse(Format::OpenAi, answered).unwrap_err(), FormatError::History);
}

#[test]
fn wrong_types_never_panic() {
    let junk = [json!(null), json!(1), json!("x"), json!([]), json!([[]]), json!([null, 1, {}]), json!({})];
    let keys = [
        "type",
        "content",
        "output",
        "choices",
        "message",
        "tool_calls",
        "candidates",
        "parts",
        "functionCall",
        "function",
        "params",
        "method",
        "name",
        "role",
    ];
    for format in Format::ALL {
        for key in keys {
            for value in &junk {
                let _ = parse(format, json!({ key: value }));
                let _ = parse(format, json!([{ key: value }]));
                let _ = parse(format, json!({ key: { key: value } }));
            }
        }
    }
}

#[test]
fn the_old_single_call_of_chat_completions_is_read_and_answered_by_name() {
    let message = json!({ "role": "assistant", "content": null,
        "function_call": { "name": "add", "arguments": "{\"a\": 1}" } });
    let answers = [
        json!({ "choices": [{ "message": message.clone() }] }),
        json!({ "message": message.clone() }),
        message,
    ];
    for answer in answers {
        let calls = parse_calls(Format::OpenAiChat, &answer, &ParseLimits::default()).unwrap();
        assert_eq!(calls.len(), 1, "{answer}");
        assert_eq!((&calls[0].id, &*calls[0].name), (&None, "add"));
        assert_eq!(calls[0].arguments.as_ref().unwrap(), &json!({ "a": 1 }));
    }
    // New servers write both, with nothing in the old one.
    let both = json!({ "role": "assistant", "function_call": null, "tool_calls":
        [{ "id": "c", "type": "function", "function": { "name": "add", "arguments": "{}" } }] });
    let calls = parse_calls(Format::OpenAiChat, &both, &ParseLimits::default()).unwrap();
    assert_eq!(calls[0].id.as_deref(), Some("c"));
}

#[test]
fn calls_in_another_format_than_the_named_one_are_not_taken_for_no_calls() {
    let anthropic = json!({ "role": "assistant", "content":
        [{ "type": "tool_use", "id": "t", "name": "add", "input": {} }] });
    let chat = json!({ "role": "assistant", "tool_calls":
        [{ "id": "c", "type": "function", "function": { "name": "add", "arguments": "{}" } }] });
    let gemini = json!({ "parts": [{ "functionCall": { "name": "add", "args": {} } }] });
    for (named, answer, says) in [
        (Format::Gemini, &anthropic, "its `content` is"),
        (Format::OpenAiChat, &anthropic, "it is one in the format `anthropic`"),
        (Format::Gemini, &chat, "`gemini`"),
        (Format::Anthropic, &chat, "`anthropic`"),
        (Format::OpenAi, &gemini, "`openai`"),
    ] {
        let error = parse_calls(named, answer, &ParseLimits::default()).unwrap_err().to_string();
        assert!(error.contains(says), "{named:?}: {error}");
    }
    // A last word has no calls in any format.
    let last = json!({ "role": "assistant", "content": [{ "type": "text", "text": "hi" }] });
    assert!(parse_calls(Format::OpenAiChat, &last, &ParseLimits::default()).unwrap().is_empty());
}
