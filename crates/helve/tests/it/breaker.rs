use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use helve::record::Entry;
use helve::retry::RetryPolicy;
use helve::{Call, ErrorCode, Stage, Tool, ToolBuilder, ToolError};
use serde_json::json;
use tokio::time::advance;
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, code, echo, flaky, offline, ran};

const COOL_DOWN: Duration = Duration::from_secs(30);

/// A tool that fails while it is down, takes a second, and counts how often it ran.
struct Remote {
    down: Arc<AtomicBool>,
    runs: Arc<AtomicU32>,
}

impl Remote {
    fn new(name: &str) -> (Self, ToolBuilder) {
        let remote = Self { down: Arc::new(AtomicBool::new(true)), runs: Arc::new(AtomicU32::new(0)) };
        let (down, runs) = (remote.down.clone(), remote.runs.clone());
        let tool = Tool::builder(name).description("Asks another machine.").handler(move |_, _| {
            let down = down.clone();
            runs.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if down.load(Ordering::SeqCst) { Err(offline()) } else { Ok(json!("up")) }
            }
        });
        (remote, tool)
    }

    fn repair(&self) {
        self.down.store(false, Ordering::SeqCst);
    }
}

async fn fail(bench: &Bench, tool: &str, times: u32) {
    for _ in 0..times {
        assert_eq!(code(&bench.call(tool, json!({})).await), "network");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_keeps_failing_is_left_alone_and_refusals_were_never_started() {
    let (remote, tool) = Remote::new("remote");
    let bench = Bench::new([tool, echo("other")]);
    fail(&bench, "remote", 5).await;
    advance(Duration::from_secs(10)).await;
    let started = bench.count(|entry| matches!(entry, Entry::Started(_)));
    let outcome = bench.call("remote", json!({})).await;
    let error = outcome.error().unwrap();
    assert_eq!((error.code(), error.stage()), (ErrorCode::ServerError, Some(Stage::Execute)));
    assert_eq!(
        error.message(),
        "`remote` failed 5 times in a row and has been left alone for 10 s; it is tried again in 20 s"
    );
    assert_eq!(error.retry_after_hint(), Some(Duration::from_secs(20)));
    assert_eq!(error.suggestions(), ["call again in 20 s, or do without `remote` until then"]);
    assert_eq!((outcome.attempts, ran(&remote.runs)), (0, 5));
    assert!(bench.last_record().ending.attempts.is_empty());
    assert_eq!(bench.count(|entry| matches!(entry, Entry::Started(_))), started);
    assert!(bench.call("other", json!({})).await.is_success(), "other tools do not suffer");
}

#[tokio::test(start_paused = true)]
async fn after_the_cool_down_exactly_one_of_many_callers_tries() {
    let (remote, tool) = Remote::new("remote");
    let bench = Bench::new([tool]);
    fail(&bench, "remote", 5).await;
    // Still down: the probe fails, and the tool is left alone again.
    advance(COOL_DOWN).await;
    let outcomes = futures(&bench, 20).await;
    assert_eq!(ran(&remote.runs), 6);
    assert_eq!(outcomes.iter().filter(|code| **code == "network").count(), 1);
    assert_eq!(outcomes.iter().filter(|code| **code == "server_error").count(), 19);
    assert_eq!(code(&bench.call("remote", json!({})).await), "server_error");

    // Up again: the probe closes it for all.
    remote.repair();
    advance(COOL_DOWN).await;
    let outcomes = futures(&bench, 20).await;
    assert_eq!(outcomes.iter().filter(|code| **code == "none").count(), 1);
    assert_eq!(ran(&remote.runs), 7);
    assert!(futures(&bench, 20).await.iter().all(|code| *code == "none"));
}

/// The codes of so many calls at once.
async fn futures(bench: &Bench, calls: usize) -> Vec<&'static str> {
    let running: Vec<_> = (0..calls)
        .map(|_| {
            let runtime = bench.runtime.clone();
            tokio::spawn(async move { runtime.call(Call::new("remote", json!({}))).await })
        })
        .collect();
    let mut codes = Vec::new();
    for call in running {
        codes.push(code(&call.await.unwrap()));
    }
    codes
}

#[tokio::test(start_paused = true)]
async fn waiting_as_long_as_the_error_says_is_enough() {
    let (remote, tool) = Remote::new("remote");
    let bench = Bench::with_settings([tool], |settings| settings.breaker.cool_down /= 7);
    fail(&bench, "remote", 5).await;
    remote.repair();
    advance(Duration::from_micros(1_234)).await;
    let refused = bench.call("remote", json!({})).await;
    advance(refused.error().unwrap().retry_after_hint().unwrap()).await;
    assert!(bench.call("remote", json!({})).await.is_success());
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_finds_nothing_out_leaves_it_to_the_next() {
    let (remote, tool) = Remote::new("remote");
    let bench = Bench::new([tool]);
    fail(&bench, "remote", 5).await;
    remote.repair();
    advance(COOL_DOWN).await;
    // Its caller goes away.
    let dropped = tokio::time::timeout(Duration::from_millis(500), bench.call("remote", json!({}))).await;
    assert!(dropped.is_err());
    // Its caller takes it back.
    let token = CancellationToken::new();
    let call = bench.runtime.call(Call::new("remote", json!({})).cancellation(token.clone()));
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        token.cancel();
    };
    let (outcome, ()) = tokio::join!(call, cancel);
    assert_eq!(code(&outcome), "cancelled");
    assert_eq!(ran(&remote.runs), 7, "both were let through");
    assert!(bench.call("remote", json!({})).await.is_success());
    assert_eq!(futures(&bench, 5).await, ["none"; 5]);
}

#[tokio::test(start_paused = true)]
async fn only_errors_that_say_unwell_count_and_an_answer_starts_the_count_anew() {
    for (error, opens) in [
        (ErrorCode::Network, true),
        (ErrorCode::ServerError, true),
        (ErrorCode::Timeout, true),
        (ErrorCode::McpConnection, false),
        (ErrorCode::ExecutionFailed, false),
        (ErrorCode::RateLimit, false),
        (ErrorCode::NotAuthorized, false),
    ] {
        let (tool, runs) = flaky(u32::MAX, move || ToolError::new(error, "it failed"));
        let bench = Bench::new([tool]);
        for _ in 0..8 {
            bench.call("flaky", json!({})).await;
        }
        assert_eq!(ran(&runs), if opens { 5 } else { 8 }, "{error}");
    }

    let number = Arc::new(AtomicU32::new(0));
    let tool = Tool::builder("mixed").description("Fails four times out of five.").handler(move |_, _| {
        let answers = number.fetch_add(1, Ordering::SeqCst) % 5 == 4;
        std::future::ready(if answers { Ok(json!(1)) } else { Err(offline()) })
    });
    let bench = Bench::new([tool]);
    for _ in 0..50 {
        assert_ne!(code(&bench.call("mixed", json!({})).await), "server_error");
    }
}

#[tokio::test(start_paused = true)]
async fn callers_in_a_hurry_cannot_shut_a_tool_for_all() {
    let slow = Tool::builder("slow").description("Takes a second.").handler(|_, _| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(json!(1))
    });
    let bench = Bench::new([slow]);
    for _ in 0..20 {
        let hurried = Call::new("slow", json!({})).timeout(Duration::from_millis(1));
        assert_eq!(code(&bench.runtime.call(hurried).await), "timeout");
    }
    assert!(bench.call("slow", json!({})).await.is_success());
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted_and_not_their_attempts() {
    let (tool, runs) = flaky(u32::MAX, offline);
    let bench = Bench::with_settings([tool.read_only().retry(RetryPolicy::quick())], |settings| {
        settings.retry_budget.enabled = false;
    });
    fail(&bench, "flaky", 5).await;
    assert_eq!(ran(&runs), 20);
    assert_eq!(code(&bench.call("flaky", json!({})).await), "server_error");
}

#[tokio::test(start_paused = true)]
async fn it_can_be_turned_off_for_all_tools_or_for_some() {
    for change in [(|settings| settings.breaker.enabled = false) as fn(&mut helve::Settings), |settings| {
        settings.breaker.without = vec!["rem*".to_owned()]
    }] {
        let (remote, tool) = Remote::new("remote");
        let bench = Bench::with_settings([tool], change);
        fail(&bench, "remote", 10).await;
        assert_eq!(ran(&remote.runs), 10);
    }
}
