use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve::retry::{Backoff, RetryPolicy, RetryableCode};
use helve::{Call, ErrorCode, Tool, ToolBuilder, ToolError};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, code, flaky, offline, ran};

/// A policy that waits `delay_ms` and repeats what the standard one does.
fn patient(delay_ms: u64) -> RetryPolicy {
    RetryPolicy { backoff: Backoff::Fixed { delay_ms }, ..RetryPolicy::standard() }
}

/// A tool that always fails, and when its attempts began, in milliseconds from the first.
fn failing(error: fn() -> ToolError) -> (ToolBuilder, Arc<Mutex<Vec<Instant>>>) {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let noted = starts.clone();
    let tool =
        Tool::builder("failing").description("Always fails.").read_only().handler(move |_, context| {
            let mut starts = noted.lock().unwrap();
            starts.push(Instant::now());
            assert_eq!(context.attempt() as usize, starts.len());
            std::future::ready(Err(error()))
        });
    (tool, starts)
}

fn waits_ms(starts: &Mutex<Vec<Instant>>) -> Vec<u128> {
    starts.lock().unwrap().windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_preset_keeps_its_times() {
    let linear = RetryPolicy {
        backoff: Backoff::Linear { base_ms: 100, increment_ms: 50 },
        ..RetryPolicy::standard()
    };
    let at_once = RetryPolicy { backoff: Backoff::None {}, ..RetryPolicy::standard() };
    for (policy, expected) in [
        (RetryPolicy::none(), vec![]),
        (RetryPolicy::quick(), vec![1_000, 1_000, 1_000]),
        (RetryPolicy::standard(), vec![1_000, 2_000, 4_000]),
        (linear, vec![100, 150, 200]),
        (at_once, vec![0, 0, 0]),
    ] {
        let (tool, starts) = failing(offline);
        let bench = Bench::new([tool.retry(policy)]);
        assert_eq!(code(&bench.call("failing", json!({})).await), "network");
        // The clock of a paused test moves in whole milliseconds, sometimes one late.
        let waits = waits_ms(&starts);
        let near = waits.iter().zip(&expected).all(|(wait, expected)| wait.abs_diff(*expected) <= 1);
        assert!(near && waits.len() == expected.len(), "{waits:?} instead of {expected:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_aggressive_preset_spreads_its_waits_around_doubling_ones() {
    let (tool, starts) = failing(|| ToolError::new(ErrorCode::Lock, "somebody else has it"));
    let bench = Bench::new([tool.retry(RetryPolicy::aggressive())]);
    assert_eq!(bench.call("failing", json!({})).await.attempts, 6);
    for (wait, base) in waits_ms(&starts).into_iter().zip([500, 1_000, 2_000, 4_000, 8_000]) {
        assert!(wait.abs_diff(base) <= base / 10 + 1, "{wait} is not within ten per cent of {base}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_repeated_by_policy_and_each_is_recorded() {
    let (tool, _) = flaky(2, offline);
    let bench = Bench::new([tool.read_only().retry(RetryPolicy::standard())]);
    let before = Instant::now();
    let outcome = bench.call("flaky", json!({})).await;
    assert_eq!(outcome.attempts, 3);
    assert_eq!(outcome.into_result().unwrap(), 3);
    assert_eq!(before.elapsed().as_secs(), 3, "1 s and 2 s of waiting");
    let codes: Vec<_> = bench.last_record().ending.attempts.iter().map(|attempt| attempt.code).collect();
    assert_eq!(codes, [Some(ErrorCode::Network), Some(ErrorCode::Network), None]);
}

#[tokio::test(start_paused = true)]
async fn codes_that_no_policy_names_or_that_one_excludes_end_the_call() {
    let once = |error: fn() -> ToolError, policy: RetryPolicy| async move {
        let (tool, attempts) = flaky(u32::MAX, error);
        Bench::new([tool.read_only().retry(policy)]).call("flaky", json!({})).await;
        ran(&attempts)
    };
    assert_eq!(once(|| ToolError::failed("no"), RetryPolicy::standard()).await, 1);
    let never = RetryPolicy { never_codes: vec![RetryableCode::Network], ..RetryPolicy::standard() };
    assert_eq!(once(offline, never.clone()).await, 1, "never wins");
    assert_eq!(once(|| ToolError::new(ErrorCode::Lock, "held"), never.clone()).await, 1);
    assert_eq!(once(|| ToolError::new(ErrorCode::ServerError, "500"), never).await, 4);
    assert_eq!(once(|| offline().retryable(false), RetryPolicy::standard()).await, 1, "the error says so");
}

#[tokio::test(start_paused = true)]
async fn a_tools_own_judgement_makes_the_policy_stricter_and_never_laxer() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let (tool, attempts) = flaky(u32::MAX, offline);
    let tool = tool.read_only().retry(RetryPolicy::standard()).retry_if(move |error, attempt| {
        noted.lock().unwrap().push((error.code(), attempt));
        attempt < 2
    });
    // In a namespace, too: the tool is made anew there.
    let workspace = helve::Workspace::builder().toolbox("ns").tool(tool).build().unwrap();
    let bench = Bench::new([]);
    bench.runtime.registry().register_workspace(helve::Layer::Project, workspace).unwrap();
    bench.call("ns/flaky", json!({})).await;
    assert_eq!(ran(&attempts), 2);
    assert_eq!(*asked.lock().unwrap(), [(ErrorCode::Network, 1), (ErrorCode::Network, 2)]);

    let (tool, attempts) = flaky(u32::MAX, || ToolError::failed("no"));
    let bench = Bench::new([tool.read_only().retry(RetryPolicy::standard()).retry_if(|_, _| true)]);
    bench.call("flaky", json!({})).await;
    assert_eq!(ran(&attempts), 1, "a yes adds nothing to the policy");

    let (tool, attempts) = flaky(u32::MAX, offline);
    let bench = Bench::new([tool.read_only().retry(RetryPolicy::standard()).retry_if(|_, _| panic!("oops"))]);
    assert_eq!(code(&bench.call("flaky", json!({})).await), "network");
    assert_eq!(ran(&attempts), 1, "a judgement that breaks is a no");
}

#[tokio::test(start_paused = true)]
async fn what_may_have_happened_already_is_not_repeated() {
    // Neither read-only nor idempotent: a lost answer may mean that the mail was sent.
    for lost in [ErrorCode::Network, ErrorCode::Timeout, ErrorCode::ServerError] {
        let (tool, attempts) = flaky(1, move || ToolError::new(lost, "the answer is lost"));
        let bench = Bench::new([tool.retry(RetryPolicy::standard())]);
        assert_eq!(code(&bench.call("flaky", json!({})).await), lost.as_str());
        assert_eq!(ran(&attempts), 1);

        let (tool, attempts) = flaky(1, move || ToolError::new(lost, "the answer is lost"));
        let bench = Bench::new([tool.idempotent().retry(RetryPolicy::standard())]);
        assert!(bench.call("flaky", json!({})).await.is_success());
        assert_eq!(ran(&attempts), 2, "what can be repeated is");

        let (tool, attempts) = flaky(1, move || ToolError::new(lost, "the answer is lost"));
        let policy = RetryPolicy { retry_unknown: true, ..RetryPolicy::standard() };
        let bench = Bench::new([tool.retry(policy)]);
        assert!(bench.call("flaky", json!({})).await.is_success());
        assert_eq!(ran(&attempts), 2, "its author takes the risk");
    }
    // "Too many requests" and "somebody holds it" say that nothing was done.
    for nothing in [ErrorCode::RateLimit, ErrorCode::Lock] {
        let (tool, attempts) = flaky(1, move || ToolError::new(nothing, "not now"));
        let bench = Bench::new([tool.retry(RetryPolicy::aggressive())]);
        assert!(bench.call("flaky", json!({})).await.is_success());
        assert_eq!(ran(&attempts), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_that_the_other_side_asks_for_is_kept() {
    let (tool, starts) = failing(|| offline().retry_after(Duration::from_millis(7_500)));
    let bench = Bench::new([tool.retry(RetryPolicy::standard())]);
    bench.call("failing", json!({})).await;
    let waits = waits_ms(&starts);
    assert!(waits.len() == 3 && waits.iter().all(|wait| wait.abs_diff(7_500) <= 1), "{waits:?}");

    // No attempt begins after the deadline, and none is waited for in vain.
    for hint in [Duration::from_secs(60), Duration::MAX] {
        let (tool, attempts) = flaky(u32::MAX, move || offline().retry_after(hint));
        let bench = Bench::new([tool.read_only().retry(RetryPolicy::quick())]);
        let before = Instant::now();
        assert_eq!(code(&bench.call("flaky", json!({})).await), "network");
        assert_eq!(ran(&attempts), 1);
        assert!(before.elapsed() < Duration::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn retries_end_with_their_number_and_at_the_deadline() {
    let (tool, attempts) = flaky(u32::MAX, offline);
    let bench = Bench::new([tool.read_only().retry(RetryPolicy::quick())]);
    assert_eq!(code(&bench.call("flaky", json!({})).await), "network");
    assert_eq!(ran(&attempts), 4);

    let (tool, attempts) = flaky(u32::MAX, offline);
    let bench = Bench::new([tool.read_only().retry(patient(400)).timeout(Duration::from_secs(1))]);
    let before = Instant::now();
    assert_eq!(code(&bench.call("flaky", json!({})).await), "network");
    assert_eq!(ran(&attempts), 3, "at 0, 400 and 800 ms");
    assert!(before.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn taking_a_call_back_ends_a_wait_at_once() {
    let (tool, attempts) = flaky(u32::MAX, offline);
    let bench = Bench::new([tool.read_only().retry(patient(20_000))]);
    let token = CancellationToken::new();
    let call = bench.runtime.call(Call::new("flaky", json!({})).cancellation(token.clone()));
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        token.cancel();
    };
    let before = Instant::now();
    let (outcome, ()) = tokio::join!(call, cancel);
    assert_eq!(code(&outcome), "cancelled");
    assert_eq!(ran(&attempts), 1);
    assert!(before.elapsed() < Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn during_an_outage_first_attempts_go_on_and_repeats_stop() {
    let down = Arc::new(AtomicU32::new(1));
    let (state, attempts) = (down.clone(), Arc::new(AtomicU32::new(0)));
    let counted = attempts.clone();
    let tool =
        Tool::builder("shaky").description("Fails while it is down.").read_only().handler(move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            let is_down = state.load(Ordering::SeqCst) == 1;
            std::future::ready(if is_down { Err(offline()) } else { Ok(json!("up")) })
        });
    let bench = Bench::with_settings([tool.retry(patient(10))], |settings| {
        settings.breaker.enabled = false;
        settings.retry_budget.tokens = 10;
    });
    let mut made = Vec::new();
    for _ in 0..6 {
        made.push(bench.call("shaky", json!({})).await.attempts);
    }
    // Ten tokens: the fifth failure leaves five, which is not more than half.
    assert_eq!(made, [4, 1, 1, 1, 1, 1]);
    assert_eq!(ran(&attempts), 9);

    // Nine failures left one token. Fifty successes bring five back: more than half again.
    down.store(0, Ordering::SeqCst);
    for _ in 0..60 {
        assert!(bench.call("shaky", json!({})).await.is_success());
    }
    down.store(1, Ordering::SeqCst);
    assert_eq!(bench.call("shaky", json!({})).await.attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_rested_long_enough_may_be_repeated_again() {
    let (tool, _) = flaky(u32::MAX, offline);
    let bench = Bench::with_settings([tool.read_only().retry(patient(10))], |settings| {
        settings.breaker.enabled = false;
        settings.retry_budget.tokens = 10;
    });
    for _ in 0..10 {
        bench.call("flaky", json!({})).await;
    }
    assert_eq!(bench.call("flaky", json!({})).await.attempts, 1);
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert_eq!(bench.call("flaky", json!({})).await.attempts, 4);
}

#[tokio::test(start_paused = true)]
async fn one_tools_failures_do_not_cost_another_its_retries() {
    let (failing, _) = failing(offline);
    let (other, _) = flaky(3, offline);
    let tools = [failing.retry(patient(10)), other.read_only().retry(patient(10))];
    let bench = Bench::with_settings(tools, |settings| settings.retry_budget.tokens = 8);
    for _ in 0..4 {
        bench.call("failing", json!({})).await;
    }
    assert_eq!(bench.call("flaky", json!({})).await.attempts, 4);
}
