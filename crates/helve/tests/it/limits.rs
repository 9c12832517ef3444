use std::sync::Arc;
use std::time::Duration;

use helve::limit::{CountBy, LimitRule, Rate};
use helve::record::Entry;
use helve::{Call, Caller, ErrorCode, LocalLimiter, Outcome, Settings, Stage, Tool, ToolBuilder};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::advance;

use crate::support::{Bench, code, counter, echo, ran};

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn limited(tools: impl IntoIterator<Item = ToolBuilder>, rules: impl Into<Vec<LimitRule>>) -> Bench {
    Bench::with_settings(tools, |settings| settings.limits = rules.into())
}

async fn call_as(bench: &Bench, tool: &str, caller: Caller) -> Outcome {
    bench.runtime.call(Call::new(tool, json!({})).by(caller)).await
}

async fn code_as(bench: &Bench, tool: &str, caller: Caller) -> &'static str {
    code(&call_as(bench, tool, caller).await)
}

fn ada() -> Caller {
    Caller::principal("ada")
}

fn ben() -> Caller {
    Caller::principal("ben")
}

#[tokio::test(start_paused = true)]
async fn one_callers_limit_does_not_touch_another() {
    let rule = LimitRule::for_tools("web/*").by([CountBy::Caller]).rate(rate("3/1m"));
    let bench = limited([echo("web/search"), echo("web/fetch"), echo("mail")], [rule]);
    for tool in ["web/search", "web/fetch", "web/search"] {
        assert_eq!(code_as(&bench, tool, ada()).await, "none");
    }
    assert_eq!(code_as(&bench, "web/fetch", ada()).await, "rate_limit", "the tools are counted together");
    assert_eq!(
        code_as(&bench, "web/fetch", ada().session("new")).await,
        "rate_limit",
        "a session is no caller"
    );
    assert_eq!(code_as(&bench, "web/fetch", ben()).await, "none");
    assert_eq!(code_as(&bench, "mail", ada()).await, "none", "the rule is not about this tool");
}

#[tokio::test(start_paused = true)]
async fn the_error_says_when_to_call_again_and_then_the_call_passes() {
    let rule = LimitRule::for_tools("count").by([CountBy::Caller]).rate(rate("7/1m")).burst(2);
    let (tool, runs) = counter("count");
    let bench = limited([tool], [rule]);
    for _ in 0..2 {
        assert_eq!(code_as(&bench, "count", ada()).await, "none");
    }
    let refused = call_as(&bench, "count", ada()).await;
    let error = refused.error().unwrap();
    assert_eq!(error.message(), "calls to `count` are limited to 7/1m for each caller, and that is used up");
    assert_eq!((error.code(), error.stage()), (ErrorCode::RateLimit, Some(Stage::Execute)));
    assert_eq!(error.suggestions(), ["call again in 9 s"]);
    assert!(error.is_retryable());
    assert_eq!((refused.attempts, ran(&runs)), (0, 2));
    assert_eq!(bench.count(|entry| matches!(entry, Entry::Started(_))), 2, "a refused call never started");

    let wait = error.retry_after_hint().unwrap();
    advance(wait - Duration::from_millis(2)).await;
    assert_eq!(code_as(&bench, "count", ada()).await, "rate_limit");
    advance(Duration::from_millis(2)).await;
    assert_eq!(code_as(&bench, "count", ada()).await, "none");
    assert_eq!(code_as(&bench, "count", ada()).await, "rate_limit");
}

#[tokio::test(start_paused = true)]
async fn rules_count_by_tool_by_session_and_by_several_together() {
    let once = |by: &[CountBy]| [LimitRule::for_tools("*").by(by.iter().copied()).rate(rate("1/1m"))];
    let tools = || [echo("a"), echo("b")];
    let calls = [
        ("a", ada().session("1")),
        ("b", ada().session("1")),
        ("a", ada().session("2")),
        ("a", ben().session("1")),
        ("a", ada().session("1")),
    ];
    for (by, passing) in [
        (&[][..], [true, false, false, false, false]),
        (&[CountBy::Tool], [true, true, false, false, false]),
        (&[CountBy::Caller], [true, false, false, true, false]),
        (&[CountBy::Session], [true, false, true, true, false]),
        (&[CountBy::Caller, CountBy::Tool], [true, true, false, true, false]),
        (&[CountBy::Session, CountBy::Tool], [true, true, true, true, false]),
    ] {
        let bench = limited(tools(), once(by));
        let mut passed = Vec::new();
        for (tool, caller) in &calls {
            passed.push(code_as(&bench, tool, caller.clone()).await == "none");
        }
        assert_eq!(passed, passing, "{by:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_is_refused_takes_nothing_of_what_others_share() {
    // Written in the wrong order on purpose.
    let shared = LimitRule::for_tools("*").rate(rate("10/1m"));
    let own = LimitRule::for_tools("*").by([CountBy::Caller]).rate(rate("2/1m"));
    let bench = limited([echo("a")], [shared, own]);
    for _ in 0..100 {
        code_as(&bench, "a", ada()).await;
    }
    for number in 0..8 {
        assert_eq!(code_as(&bench, "a", Caller::principal(format!("caller {number}"))).await, "none");
    }
    assert_eq!(code_as(&bench, "a", ben()).await, "rate_limit", "ten in all");
}

#[tokio::test(start_paused = true)]
async fn another_name_for_a_tool_is_no_way_around_its_limit() {
    let rule = LimitRule::for_tools("web/search").rate(rate("1/1m"));
    let bench = limited([echo("web/search").alias("google")], [rule]);
    assert_eq!(code_as(&bench, "web/search", ada()).await, "none");
    for name in ["google", "web__search", "web/search"] {
        assert_eq!(code_as(&bench, name, ada()).await, "rate_limit", "{name}");
    }
}

/// A tool that waits for the test to let it go on.
fn gated(gate: &Arc<Semaphore>) -> ToolBuilder {
    let gate = gate.clone();
    Tool::builder("gated").description("Waits.").read_only().handler(move |_, _| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            Ok(json!("done"))
        }
    })
}

fn at_once(most: u32) -> [LimitRule; 1] {
    [LimitRule::for_tools("*").by([CountBy::Caller]).concurrency(most)]
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_run_at_once_than_allowed() {
    let gate = Arc::new(Semaphore::new(0));
    let bench = limited([gated(&gate)], at_once(2));
    let start = |caller: Caller| {
        let runtime = bench.runtime.clone();
        tokio::spawn(async move { runtime.call(Call::new("gated", json!({})).by(caller)).await })
    };
    let running = [start(ada()), start(ada()), start(ben())];
    tokio::task::yield_now().await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let refused = call_as(&bench, "gated", ada()).await;
    let error = refused.error().unwrap();
    assert_eq!(
        error.message(),
        "calls to `*` are limited to 2 at once for each caller, and that many are running"
    );
    assert_eq!(error.code(), ErrorCode::RateLimit);
    assert_eq!(error.retry_after_hint(), Some(Duration::from_secs(1)));
    gate.add_permits(4);
    for call in running {
        assert!(call.await.unwrap().is_success());
    }
    assert_eq!(code_as(&bench, "gated", ada()).await, "none", "the slots are free again");
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_free_again_however_the_call_ended() {
    let never = || Tool::builder("never").description("Never ends.").handler(|_, _| std::future::pending());
    let bench = limited(
        [
            never().timeout(Duration::from_secs(1)),
            Tool::builder("panics").description("Panics.").handler(|_, _| async { panic!("oops") }),
            echo("fine"),
        ],
        at_once(1),
    );
    assert_eq!(code_as(&bench, "never", ada()).await, "timeout");
    assert_eq!(code_as(&bench, "fine", ada()).await, "none");
    assert_eq!(code_as(&bench, "panics", ada()).await, "execution_failed");
    assert_eq!(code_as(&bench, "fine", ada()).await, "none");
    let dropped = tokio::time::timeout(Duration::from_millis(10), call_as(&bench, "never", ada())).await;
    assert!(dropped.is_err(), "its caller went away");
    assert_eq!(code_as(&bench, "fine", ada()).await, "none");
}

#[tokio::test(start_paused = true)]
async fn a_call_too_many_at_once_uses_up_no_rate() {
    let gate = Arc::new(Semaphore::new(0));
    let rule = LimitRule::for_tools("*").by([CountBy::Caller]).rate(rate("2/1h")).concurrency(1);
    let bench = limited([gated(&gate)], [rule]);
    let first = call_as(&bench, "gated", ada());
    let others = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        for _ in 0..10 {
            assert_eq!(code_as(&bench, "gated", ada()).await, "rate_limit");
        }
        gate.add_permits(2);
    };
    let (first, ()) = tokio::join!(first, others);
    assert!(first.is_success());
    assert_eq!(code_as(&bench, "gated", ada()).await, "none");
    assert_eq!(code_as(&bench, "gated", ada()).await, "rate_limit");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_invented_sessions_fill_no_memory_and_shut_nobody_out_for_long() {
    let limiter = Arc::new(LocalLimiter::with_keys_max(1_600));
    let settings = Settings {
        limits: vec![LimitRule::for_tools("*").by([CountBy::Session]).rate(rate("1/1m")).concurrency(1)],
        ..Settings::default()
    };
    let bench = Bench::with([echo("a")], |builder| builder.settings(settings).limiter(limiter.clone()));
    assert_eq!(code_as(&bench, "a", ben().session("at work")).await, "none");
    let mut refused = 0;
    for number in 0..10_000 {
        let outcome = call_as(&bench, "a", ada().session(format!("{number}{}", "x".repeat(100)))).await;
        refused += usize::from(code(&outcome) == "rate_limit");
        assert!(limiter.keys() <= 1_600);
    }
    assert!(refused >= 8_000, "{refused}");
    assert_eq!(code_as(&bench, "a", ben().session("at work")).await, "rate_limit", "still counted");
    advance(Duration::from_secs(61)).await;
    assert_eq!(code_as(&bench, "a", ben().session("at work")).await, "none");
    assert_eq!(code_as(&bench, "a", ben().session("another")).await, "none");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_uses_up_no_idempotency_key() {
    let (tool, runs) = counter("count");
    let bench = limited([tool], [LimitRule::for_tools("count").rate(rate("1/1m"))]);
    let keyed = |key: &str| bench.runtime.call(Call::new("count", json!({})).idempotency_key(key));
    assert!(keyed("first").await.is_success());
    assert_eq!(code(&keyed("second").await), "rate_limit");
    advance(Duration::from_secs(60)).await;
    let outcome = keyed("second").await;
    assert_eq!((outcome.replay_of, ran(&runs)), (None, 2));
    assert!(outcome.is_success());
}

#[tokio::test(start_paused = true)]
async fn a_rules_repetition_counts_once_and_one_that_limits_nothing_is_ignored() {
    let rule = LimitRule::for_tools("*").rate(rate("2/1m"));
    let bench = limited([echo("a")], [rule.clone(), rule, LimitRule::for_tools("*").burst(1)]);
    assert_eq!(code_as(&bench, "a", ada()).await, "none");
    assert_eq!(code_as(&bench, "a", ada()).await, "none");
    assert_eq!(code_as(&bench, "a", ada()).await, "rate_limit");
}
