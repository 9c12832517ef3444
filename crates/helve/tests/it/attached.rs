//! What a tool attaches to its answer in MCP's own form: as much a part of its output as the value.

use std::sync::Arc;

use helve::json::sha256_hex;
use helve::record::{AttachedRecord, Entry};
use helve::{Call, Outcome, Runtime, Settings, Tool, ToolError, VolatileLedger};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::support::code;

struct Bench {
    runtime: Runtime,
    ledger: Arc<VolatileLedger>,
}

/// A runtime whose tool answers this, and attaches that.
fn bench(answer: Result<Value, &'static str>, attached: Value, bytes_max: usize) -> Bench {
    let content: Arc<RawValue> = to_raw_value(&attached).unwrap().into();
    let tool = Tool::builder("show")
        .description("Shows.")
        .input_schema(json!({ "type": "object" }))
        .output_schema(json!({ "type": "object", "required": ["n"] }))
        .handler(move |_, context| {
            context.attach(Arc::clone(&content));
            let answer = answer.clone().map_err(ToolError::failed);
            async move { answer }
        });
    let ledger = Arc::new(VolatileLedger::default());
    let settings = Settings { result_bytes_max: bytes_max, ..Settings::default() };
    let runtime = Runtime::builder().ledger(ledger.clone()).settings(settings).tool(tool).unwrap().build();
    Bench { runtime, ledger }
}

impl Bench {
    async fn call(&self) -> Outcome {
        self.runtime.call(Call::new("show", json!({}))).await
    }

    fn recorded(&self) -> Option<AttachedRecord> {
        match self.ledger.entries().last() {
            Some(Entry::Finished(finished)) => finished.payload.attached.clone(),
            other => panic!("{other:?}"),
        }
    }
}

fn image(bytes: usize) -> Value {
    json!({ "content": [{ "type": "image", "mimeType": "image/png", "data": "A".repeat(bytes) }],
        "structuredContent": { "n": 1 } })
}

fn told(outcome: &Outcome) -> Option<&str> {
    outcome.content.as_deref().map(RawValue::get)
}

#[tokio::test]
async fn what_is_attached_counts_toward_the_limit() {
    let bench = bench(Ok(json!({ "n": 1 })), image(14 << 20), 2_000);
    let outcome = bench.call().await;
    assert_eq!(code(&outcome), "output_too_large", "{:?}", outcome.status);
    assert_eq!((told(&outcome), bench.recorded()), (None, None));
    assert!(outcome.error().unwrap().message().contains("at most 2000 are allowed"));
}

#[tokio::test]
async fn a_failure_drops_what_is_too_large_and_keeps_its_message() {
    let bench = bench(Err("no such city"), image(1 << 20), 2_000);
    let outcome = bench.call().await;
    assert_eq!(outcome.error().map(ToolError::message), Some("no such city"));
    assert_eq!(told(&outcome), None);
}

#[tokio::test]
async fn what_is_attached_is_in_the_journal_by_size_and_digest() {
    let bench = bench(Ok(json!({ "n": 1 })), image(500), 2_000);
    let outcome = bench.call().await;
    let text = told(&outcome).unwrap();
    let expected = AttachedRecord { bytes: text.len() as u64, sha256: sha256_hex(text.as_bytes()) };
    assert_eq!(bench.recorded(), Some(expected));
}

#[tokio::test]
async fn hidden_characters_are_taken_out_of_it() {
    let hiding = json!({ "content": [{ "type": "text", "text": "a\u{202e}b\u{1b}[31mc\u{8}" }],
        "_meta": { "k\u{e0041}": "x\u{2066}" } });
    let bench = bench(Ok(json!({ "n": 1 })), hiding, 2_000);
    let outcome = bench.call().await;
    let clean = json!({ "content": [{ "type": "text", "text": "abc" }], "_meta": { "k": "x" } });
    assert_eq!(serde_json::from_str::<Value>(told(&outcome).unwrap()).unwrap(), clean);
}

#[tokio::test]
async fn what_is_refused_is_not_handed_out_beside_the_refusal() {
    let bench = bench(Ok(json!({ "m": 1 })), image(10), 2_000);
    let outcome = bench.call().await;
    assert_eq!((code(&outcome), told(&outcome)), ("output_invalid", None));
}
