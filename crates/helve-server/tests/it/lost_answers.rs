//! What a client of the HTTP API reads about a call that may have happened, and about one that happened before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use helve::compose::{self, Step};
use helve::ports::JournalError;
use helve::record::Entry;
use helve::{BoxFuture, CallId, ErrorCode, Layer, Runtime, Tool, ToolBuilder, ToolError, VolatileLedger};
use helve_server::ServerConfig;
use helve_server::records::{Record, RecordError, RecordQuery, Records};
use helve_testkit::FaultyLedger;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::harness::ADA;
use crate::identity::{Api, api, api_of, api_on};

fn pay() -> ToolBuilder {
    Tool::builder("pay").description("Pays.").input_schema(json!({ "type": "object" }))
}

fn add(api: &Api, tool: ToolBuilder) {
    api.server.registry.register(Layer::Project, tool.build().unwrap()).unwrap();
}

#[tokio::test]
async fn a_lost_answer_is_in_doubt_and_says_where_to_look() {
    let api = api().await;
    add(&api, pay().handler(|_, _| async { Err(ToolError::new(ErrorCode::Network, "it broke off")) }));
    let reply = api.ask("POST /v1/calls", ADA, json!({ "tool": "pay" })).await;
    let said = reply.json();
    assert_eq!((reply.status, &said["code"]), (502, &json!("network")), "{reply:?}");
    assert_eq!((&said["may_have_happened"], &said["retryable"]), (&json!(true), &json!(false)), "{said}");
    let place = format!("/v1/calls/{}", said["instance"].as_str().unwrap());
    assert_eq!((&said["outcome_at"], &*reply.headers["location"]), (&json!(place), &*place));
    assert!(!reply.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn what_ended_in_doubt_is_counted_and_a_clear_failure_is_not() {
    let api = api().await;
    add(&api, pay().handler(|_, _| async { Err(ToolError::new(ErrorCode::Network, "it broke off")) }));
    let refuse = Tool::builder("refuse").description("Refuses.").input_schema(json!({ "type": "object" }));
    add(&api, refuse.handler(|_, _| async { Err(ToolError::failed("no").nothing_done()) }));
    for tool in ["refuse", "pay"] {
        api.ask("POST /v1/calls", ADA, json!({ "tool": tool })).await;
    }
    let mut text = String::new();
    for _ in 0..100 {
        text = api.get("/metrics", ADA).await.body;
        if text.contains("tool=\"pay\"") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let doubted: Vec<_> =
        text.lines().filter(|line| line.starts_with("helve_calls_in_doubt_total")).collect();
    assert_eq!(doubted, ["helve_calls_in_doubt_total{tool=\"pay\"} 1"], "{text}");
}

#[tokio::test]
async fn a_503_for_a_call_that_has_begun_invites_nobody_to_come_back() {
    let broken = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&broken);
    let ledger = FaultyLedger::new(
        Arc::new(VolatileLedger::default()),
        Arc::new(move |_| match fails.load(SeqCst) {
            true => Err(JournalError::new("the disk is full")),
            false => Ok(()),
        }),
    );
    let api = api_on(Runtime::builder().ledger(Arc::new(ledger)), ServerConfig::default()).await;
    let breaks = Arc::clone(&broken);
    add(
        &api,
        pay().handler(move |_, _| {
            breaks.store(true, SeqCst);
            async { Ok(json!("paid")) }
        }),
    );
    let begun = api.ask("POST /v1/calls", ADA, json!({ "tool": "pay" })).await;
    let said = begun.json();
    assert_eq!((begun.status, &said["retryable"]), (503, &json!(false)), "{begun:?}");
    assert!(!begun.headers.contains_key("retry-after"), "{begun:?}");
    assert!(said["outcome_at"].as_str().unwrap().starts_with("/v1/calls/call_"), "{said}");
    // One that did not begin may come back.
    let refused = api.ask("POST /v1/calls", ADA, json!({ "tool": "pay" })).await;
    assert_eq!((refused.status, &*refused.headers["retry-after"]), (503, "5"), "{refused:?}");
}

#[tokio::test]
async fn a_key_is_used_up_by_what_was_done_and_a_replay_says_so() {
    let api = api().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    add(
        &api,
        pay().handler(move |_, _| {
            let number = count.fetch_add(1, SeqCst);
            async move {
                match number {
                    0 => Err(ToolError::new(ErrorCode::RateLimit, "too many")),
                    _ => Ok(json!(number)),
                }
            }
        }),
    );
    let call = || api.ask("POST /v1/calls", ADA, json!({ "tool": "pay", "idempotency_key": "k" }));
    assert_eq!(call().await.status, 429);
    let first = call().await;
    assert_eq!((first.status, &first.json()["result"]), (200, &json!(1)), "{first:?}");
    assert!(!first.headers.contains_key("idempotency-replayed") && first.json().get("replayed").is_none());
    let again = call().await;
    assert_eq!((&again.json()["result"], &again.json()["replayed"]), (&json!(1), &json!(true)));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(calls.load(SeqCst), 2);
}

/// The runs of a ledger, as records with nothing in them.
struct Told(Arc<VolatileLedger>);

impl Told {
    fn records(&self) -> Vec<Record> {
        let starts = self.0.entries().into_iter().filter_map(|entry| match entry {
            Entry::Started(started) if started.facts.part.is_none() => Some(started.facts),
            Entry::Started(_) | Entry::Step(_) | Entry::Finished(_) => None,
        });
        let record = |facts: helve::record::Facts| {
            let mut body = json!({ "status": "started", "payload": {}, "chain": [] });
            let Value::Object(known) = json!(facts) else { panic!("facts are an object") };
            body.as_object_mut().unwrap().extend(known);
            Record {
                id: facts.call_id,
                principal: facts.caller.principal.clone(),
                body: serde_json::value::to_raw_value(&body).unwrap(),
            }
        };
        starts.map(record).collect()
    }
}

impl Records for Told {
    fn list(&self, _: RecordQuery) -> BoxFuture<'_, Result<Vec<Record>, RecordError>> {
        Box::pin(async { Ok(self.records()) })
    }

    fn show(&self, id: CallId) -> BoxFuture<'_, Result<Option<Record>, RecordError>> {
        Box::pin(async move { Ok(self.records().into_iter().find(|record| record.id == id)) })
    }
}

#[tokio::test]
async fn runs_say_how_they_stand_and_what_they_wait_for() {
    let ledger = Arc::new(VolatileLedger::default());
    let records = Some(Arc::new(Told(ledger.clone())) as Arc<dyn Records>);
    let api = api_of(Runtime::builder().ledger(ledger.clone()), ServerConfig::default(), records).await;
    let begun = Arc::new(Notify::new());
    let told = Arc::clone(&begun);
    let simple =
        |name: &str| Tool::builder(name).description("A tool.").input_schema(json!({ "type": "object" }));
    add(&api, pay().handler(|_, _| async { Err(ToolError::new(ErrorCode::Network, "it broke off")) }));
    add(&api, simple("fine").handler(|_, _| async { Ok(json!(1)) }));
    let hangs = simple("hangs").handler(move |_, _| {
        told.notify_one();
        std::future::pending()
    });
    add(&api, hangs);
    let asks = compose::sequence("asks").description("Asks.").step(Step::of("deed").arguments(json!({})));
    let asks = asks.build(&api.server.registry).unwrap();
    api.server.registry.register(Layer::Project, asks).unwrap();
    for (tool, status) in [("pay", 502), ("fine", 200), ("asks", 202)] {
        let reply = api.ask("POST /v1/calls", ADA, json!({ "tool": tool, "wait_ms": 0 })).await;
        assert_eq!(reply.status, status, "{reply:?}");
    }
    let runtime = api.server.runtime.clone();
    let running = tokio::spawn(async move { runtime.call(helve::Call::new("hangs", json!({}))).await });
    begun.notified().await;

    let runs: Value = api.get("/v1/runs", ADA).await.json();
    let of = |tool: &str| runs.as_array().unwrap().iter().find(|run| run["tool"] == tool).unwrap().clone();
    let states = ["pay", "fine", "asks", "hangs"].map(|tool| of(tool)["state"].clone());
    assert_eq!(states, ["in_doubt", "done", "waiting_for_approval", "running"], "{runs}");
    assert_eq!(of("pay")["in_doubt"].as_array().unwrap().len(), 1);
    assert_eq!(of("asks")["waiting"]["for"], "approval");
    assert!(of("asks")["waiting"]["approval_id"].as_str().unwrap().starts_with("apr_"));
    // One run says the same.
    let id = ledger.entries().iter().find_map(|entry| match entry {
        Entry::Started(started) if &*started.facts.tool == "pay" => Some(started.facts.call_id),
        Entry::Started(_) | Entry::Step(_) | Entry::Finished(_) => None,
    });
    let shown = api.get(&format!("/v1/runs/{}", id.unwrap()), ADA).await.json();
    assert_eq!(shown, of("pay"));
    running.abort();
}
