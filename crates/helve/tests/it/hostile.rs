//! Schemas and arguments made to hurt: each ends in a clear error, soon.

use std::time::{Duration, Instant};

use helve::json::{JsonLimits, parse};
use helve::{Tool, ToolBuilder};
use serde_json::{Map, Value, json};

use crate::support::{Bench, code, echo};

/// Generous: what these inputs are made for takes hours, and the machines are noisy.
const SOON: Duration = Duration::from_secs(60);

fn with_schema(schema: Value) -> ToolBuilder {
    Tool::builder("hostile")
        .description("Has a hostile schema.")
        .input_schema(schema)
        .handler(|_, _| async { Ok(json!(null)) })
}

#[test]
fn hostile_schemas_are_refused_at_registration() {
    let nest = |levels: usize, wrap: fn(Value) -> Value| {
        (0..levels).fold(json!({ "type": "object" }), |inner, _| wrap(inner))
    };
    let mut doubling = Map::new();
    for level in 0..64 {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        doubling.insert(format!("d{level}"), json!({ "properties": { "x": next, "y": next } }));
    }
    doubling.insert("d64".into(), json!(true));
    let object = |more: Value| {
        let mut schema = json!({ "type": "object" });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let cases = [
        (
            "deep nesting",
            object(json!({ "properties": { "x": nest(500, |inner| json!({ "not": inner })) } })),
            "deeper",
        ),
        ("a reference to itself", object(json!({ "$ref": "#" })), "without ever descending"),
        (
            "a reference loop",
            object(json!({ "allOf": [{ "$ref": "#/$defs/a" }], "$defs": {
            "a": { "oneOf": [{ "$ref": "#/$defs/b" }] }, "b": { "$ref": "#/$defs/a" } } })),
            "without ever descending",
        ),
        (
            "exponential references",
            object(json!({ "properties": { "x": { "$ref": "#/$defs/d0" } }, "$defs": doubling })),
            "100000 parts",
        ),
        (
            "a remote reference",
            object(json!({ "properties": { "x": { "$ref": "http://127.0.0.1:1/x" } } })),
            "nothing is fetched",
        ),
        (
            "a file reference",
            object(json!({ "properties": { "x": { "$ref": "file:///etc/passwd" } } })),
            "nothing is fetched",
        ),
        ("a broken pattern", object(json!({ "properties": { "x": { "pattern": "(" } } })), "pattern"),
        (
            "a huge pattern",
            object(json!({ "properties": { "x": { "pattern": "(a{1000}){1000}{1000}" } } })),
            "pattern",
        ),
        ("a NUL", object(json!({ "title": "a\0b" })), "NUL"),
        (
            "fifty thousand fields",
            object(
                json!({ "properties": (0..60_000).map(|n| (n.to_string(), json!(true))).collect::<Map<_, _>>() }),
            ),
            "more than",
        ),
        ("not an object", json!({ "type": "array" }), "object schema"),
        ("not a schema", json!([1, 2]), "object schema"),
        ("no type", json!({ "properties": {} }), "object schema"),
    ];
    for (what, schema, expected) in cases {
        let before = Instant::now();
        let refused = with_schema(schema).build().expect_err(what).to_string();
        assert!(refused.contains(expected), "{what}: {refused:.300}");
        assert!(refused.len() < 2_000, "{what} makes a long message");
        assert!(before.elapsed() < SOON, "{what} took {:?}", before.elapsed());
    }
}

#[tokio::test]
async fn hostile_arguments_end_in_a_clear_error() {
    let tool = |schema: Value| with_schema(schema);
    let recursive = json!({ "type": "object", "properties": { "x": { "anyOf": [{ "$ref": "#" }, { "allOf": [{ "$ref": "#" }] }] } } });
    let pattern =
        json!({ "type": "object", "properties": { "x": { "type": "string", "pattern": "^(a+)+$" } } });
    let lookahead = json!({ "type": "object", "properties": { "x": { "type": "string", "pattern": "^(?=(a+)+$)(a|b|ab)*c$" } } });
    let open = json!({ "type": "object" });
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "x": inner }));
    let cases = [
        ("nested beyond the limit", open.clone(), nested(80), "deeper than 64"),
        ("exponential work", recursive, nested(60), "too deeply nested"),
        (
            "lists that double at every level",
            json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/n" } }, "$defs": { "n": { "anyOf": [
                { "type": "string" }, { "type": "array", "items": { "$ref": "#/$defs/n" } },
                { "type": "array", "items": { "$ref": "#/$defs/n" } } ] } } }),
            json!({ "x": (0..30).fold(json!(1), |inner, _| json!([inner])) }),
            "too deeply nested",
        ),
        ("an exponential pattern", pattern, json!({ "x": "a".repeat(50_000) + "b" }), "matching"),
        (
            "an exponential pattern with look-ahead",
            lookahead.clone(),
            json!({ "x": "ab".repeat(1_000) }),
            "matching",
        ),
        ("the same with a long text", lookahead, json!({ "x": "ab".repeat(20_000) }), "bounded time"),
        ("fifty megabytes", open.clone(), json!({ "x": "y".repeat(50 << 20) }), "larger than"),
        ("a million values", open.clone(), json!({ "x": vec![0; 1_000_000] }), "more than"),
        ("a NUL", open.clone(), json!({ "a": { "b": ["x\0y"] } }), "`/a/b/0` contains a NUL"),
        ("not an object", open, json!([1, 2, 3]), "expected object"),
    ];
    for (what, schema, arguments, expected) in cases {
        let bench = Bench::new([tool(schema)]);
        let before = Instant::now();
        let outcome = bench.call("hostile", arguments).await;
        assert_eq!(code(&outcome), "validation_failed", "{what}");
        let message = outcome.error().unwrap().message();
        assert!(message.contains(expected), "{what}: {message:.300}");
        assert!(message.len() < 2_000, "{what} makes a long message");
        assert!(before.elapsed() < SOON, "{what} took {:?}", before.elapsed());
        // The record stays small too.
        assert!(format!("{:?}", bench.last_record()).len() < 600_000, "{what}");
    }
}

#[test]
fn hostile_json_text_is_refused_before_it_becomes_a_value() {
    for (what, text) in [
        ("duplicate keys", r#"{"to": "a", "to": "b"}"#.to_owned()),
        ("a huge integer", r#"{"n": 123456789012345678901234567890}"#.to_owned()),
        ("an infinite number", r#"{"n": 1e999999}"#.to_owned()),
        ("deep nesting", "[".repeat(10_000_000)),
        ("fifty megabytes", format!("\"{}\"", "x".repeat(50 << 20))),
        ("a NUL byte", "{\"a\": \"\0\"}".to_owned()),
        ("an escaped NUL", r#"{"a": "\u0000"}"#.to_owned()),
        ("a lone surrogate", r#"{"a": "\ud800"}"#.to_owned()),
    ] {
        let before = Instant::now();
        let refused = parse(text.as_bytes(), JsonLimits::default()).expect_err(what).to_string();
        assert!(refused.len() < 300, "{what}");
        assert!(before.elapsed() < SOON, "{what}");
    }
}

#[tokio::test]
async fn a_hostile_tool_name_makes_a_short_error() {
    let bench = Bench::new([echo("echo")]);
    for name in
        ["", "\0", "\u{1b}[31mred", &"x".repeat(10 << 20), "../../etc/passwd", "echo\n", "\u{202e}ohce"]
    {
        let outcome = bench.call(name, json!({})).await;
        assert_eq!(code(&outcome), "tool_not_found");
        let message = outcome.error().unwrap().message();
        assert!(message.len() < 400 && !message.contains(['\u{1b}', '\u{202e}', '\n', '\0']), "{message:?}");
        assert!(bench.last_record().facts.tool.len() <= 512);
    }
}
