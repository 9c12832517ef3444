//! What calls cost: declared, reported, recorded, added up and limited.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use helve::cost::{Amount, Price};
use helve::limit::{CountBy, LimitRule};
use helve::{
    Call, Caller, ErrorCode, Outcome, Runtime, Settings, Tool, ToolBuilder, ToolError, VolatileLedger,
};
use helve_testkit::clock::ManualClock;
use helve_testkit::faulty::FaultyLedger;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Bench, code, counter, echo, ran};

fn usd(text: &str) -> Price {
    format!("{text} USD").parse().unwrap()
}

fn micros(outcome: &Outcome) -> Option<u64> {
    outcome.cost.as_ref().map(|cost| cost.micros)
}

fn limited(cost: &str, by: &[CountBy]) -> Settings {
    let rule = LimitRule::for_tools("*").by(by.iter().copied()).cost(cost.parse().unwrap());
    Settings { limits: vec![rule], ..Settings::default() }
}

#[tokio::test]
async fn a_price_is_kept_with_the_end_of_each_call_whose_tool_ran() {
    let fails = |error: fn() -> ToolError| move |_: Value, _| std::future::ready(Err::<Value, _>(error()));
    let tools = [
        echo("fixed").cost(usd("0.004")),
        echo("tells").cost(usd("0.001").reported_at("/usage/cost")),
        Tool::builder("charges")
            .description("Charges.")
            .cost(Price::reported("EUR".parse().unwrap()))
            .handler(|_, context| async move {
                context.charge("0.25".parse::<Amount>().unwrap());
                context.charge("0.25".parse::<Amount>().unwrap());
                Ok(json!(1))
            }),
        echo("free"),
        Tool::builder("broke")
            .description("Fails.")
            .cost(usd("0.5"))
            .handler(fails(|| ToolError::failed("no"))),
        Tool::builder("refused")
            .description("Never left.")
            .cost(usd("0.5"))
            .handler(fails(|| ToolError::new(ErrorCode::Network, "refused").nothing_done())),
    ];
    let bench = Bench::new(tools);
    for (tool, arguments, expected) in [
        ("fixed", json!({}), Some(4_000)),
        ("tells", json!({ "usage": { "cost": 0.02 } }), Some(21_000)),
        ("tells", json!({ "usage": { "cost": "a lot" } }), Some(1_000)),
        ("charges", json!({}), Some(500_000)),
        ("free", json!({}), None),
        ("broke", json!({}), Some(500_000)),
        ("refused", json!({}), None),
    ] {
        let outcome = bench.call(tool, arguments).await;
        assert_eq!(micros(&outcome), expected, "{tool}");
        assert_eq!(bench.last_record().ending.cost, outcome.cost, "{tool}: the journal keeps it");
    }
    // What never ran costs nothing.
    let wrong = bench.runtime.call(Call::new("fixed", json!([]))).await;
    assert_eq!((code(&wrong), micros(&wrong)), ("validation_failed", None));

    let all = bench.runtime.costs(jiff::Timestamp::UNIX_EPOCH, CountBy::Tool, |_| true).await.unwrap();
    let rows: Vec<_> =
        all.iter().map(|one| (one.tool.as_deref().unwrap(), one.calls, one.amount.as_str())).collect();
    assert_eq!(
        rows,
        [("charges", 1, "0.5"), ("broke", 1, "0.5"), ("tells", 2, "0.022"), ("fixed", 1, "0.004")]
    );
    let some =
        bench.runtime.costs(jiff::Timestamp::UNIX_EPOCH, CountBy::Tool, |one| one.tool == "fixed").await;
    assert_eq!(some.unwrap().len(), 1);
}

#[tokio::test]
async fn a_limit_holds_before_the_call_by_caller_and_by_session() {
    let bench = Bench::with([echo("paid").cost(usd("0.4")), echo("free")], |builder| {
        builder.settings(limited("1 USD/1d", &[CountBy::Caller]))
    });
    let call = |who: &str, session: &str| {
        bench.runtime.call(Call::new("paid", json!({})).by(Caller::principal(who).session(session)))
    };
    assert!(call("ada", "s").await.is_success() && call("ada", "t").await.is_success());
    let refused = call("ada", "u").await;
    let error = refused.error().unwrap();
    assert_eq!((code(&refused), micros(&refused)), ("rate_limit", None));
    assert!(
        error.message().contains("1 USD/1d for each caller") && error.message().contains("0.8"),
        "{error}"
    );
    assert!(error.did_nothing() && error.retry_after_hint().is_some());
    assert!(call("bob", "s").await.is_success(), "others have their own");
    let free = bench.runtime.call(Call::new("free", json!({})).by(Caller::principal("ada"))).await;
    assert!(free.is_success(), "what costs nothing is not limited");

    let bench = Bench::with([echo("paid").cost(usd("0.4"))], |builder| {
        builder.settings(limited("0.5 USD", &[CountBy::Session]))
    });
    let call = |session: &str| {
        bench.runtime.call(Call::new("paid", json!({})).by(Caller::principal("ada").session(session)))
    };
    assert!(call("s").await.is_success() && call("t").await.is_success());
    let refused = call("s").await;
    assert_eq!((code(&refused), refused.error().unwrap().is_retryable()), ("rate_limit", false));
}

#[tokio::test]
async fn a_limit_survives_a_restart_and_another_unit_does_not_count() {
    let ledger = Arc::new(VolatileLedger::default());
    let runtime = || {
        Runtime::builder()
            .ledger(ledger.clone())
            .settings(limited("1 USD/1d", &[]))
            .tool(echo("paid").cost(usd("0.6")))
            .unwrap()
            .tool(echo("other").cost("100 credits".parse().unwrap()))
            .unwrap()
            .build()
    };
    let first = runtime();
    assert!(first.call(Call::new("paid", json!({}))).await.is_success());
    assert!(first.call(Call::new("other", json!({}))).await.is_success());
    let second = runtime();
    assert_eq!(code(&second.call(Call::new("paid", json!({}))).await), "rate_limit");
    assert!(second.call(Call::new("other", json!({}))).await.is_success());
}

#[tokio::test]
async fn what_was_spent_is_free_again_when_its_time_is_over() {
    let clock = Arc::new(ManualClock::new(jiff::Timestamp::now()));
    let bench = Bench::with([echo("paid").cost(usd("1"))], |builder| {
        builder.clock(clock.clone()).settings(limited("1 USD/1h", &[]))
    });
    assert!(bench.call("paid", json!({})).await.is_success());
    let refused = bench.call("paid", json!({})).await;
    let wait = refused.error().unwrap().retry_after_hint().unwrap();
    assert!(wait <= Duration::from_secs(3_700) && wait >= Duration::from_secs(3_500), "{wait:?}");
    clock.advance(wait);
    assert!(bench.call("paid", json!({})).await.is_success(), "after the wait that was told");
}

fn slow(go: &Arc<Notify>, running: &Arc<AtomicU32>) -> ToolBuilder {
    let (go, running) = (Arc::clone(go), Arc::clone(running));
    Tool::builder("slow").description("Waits.").read_only().cost(usd("0.4")).handler(move |_, _| {
        let (go, running) = (Arc::clone(&go), Arc::clone(&running));
        async move {
            running.fetch_add(1, Ordering::SeqCst);
            go.notified().await;
            Ok(json!(1))
        }
    })
}

#[tokio::test]
async fn calls_at_once_cannot_spend_the_same_money_and_one_that_hangs_up_has_spent_it() {
    let (go, running) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
    let bench = Bench::with([slow(&go, &running)], |builder| builder.settings(limited("1 USD", &[])));
    let start = || {
        let runtime = bench.runtime.clone();
        tokio::spawn(async move { runtime.call(Call::new("slow", json!({}))).await })
    };
    let (first, second) = (start(), start());
    while running.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    let refused = start().await.unwrap();
    assert_eq!(code(&refused), "rate_limit");
    assert!(refused.error().unwrap().message().contains("held"), "{refused:?}");
    first.abort();
    let _gone = first.await;
    assert_eq!(bench.last_record().ending.cost.map(|cost| cost.micros), Some(400_000));
    assert_eq!(code(&start().await.unwrap()), "rate_limit", "the tool was at it, waited for or not");
    go.notify_one();
    assert!(second.await.unwrap().is_success());
    assert_eq!(code(&start().await.unwrap()), "rate_limit");
    assert_eq!(running.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_limit_holds_for_callers_that_hang_up() {
    let (go, running) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
    let ledger = Arc::new(VolatileLedger::default());
    let runtime = || {
        let builder = Runtime::builder().ledger(ledger.clone()).settings(limited("1 USD", &[]));
        builder.tool(slow(&go, &running)).unwrap().build()
    };
    let first = runtime();
    for _ in 0..10 {
        let hurried = Duration::from_millis(20);
        let _gone = tokio::time::timeout(hurried, first.call(Call::new("slow", json!({})))).await;
    }
    assert_eq!(running.load(Ordering::SeqCst), 2, "1 USD is two times 0.4");
    let refused = runtime().call(Call::new("slow", json!({}))).await;
    assert_eq!(code(&refused), "rate_limit", "the journal has it for the next process");
}

#[tokio::test]
async fn what_a_tool_only_reports_is_counted_afterwards() {
    let bench = Bench::with(
        [echo("tells").cost(Price::reported("USD".parse().unwrap()).reported_at("/cost"))],
        |builder| builder.settings(limited("1 USD/1d", &[])),
    );
    assert!(bench.call("tells", json!({ "cost": 0.9 })).await.is_success());
    assert!(bench.call("tells", json!({ "cost": 5 })).await.is_success(), "nobody could know before");
    assert_eq!(code(&bench.call("tells", json!({ "cost": 0 })).await), "rate_limit");
}

#[tokio::test]
async fn a_limit_that_cannot_be_checked_denies() {
    let (paid, ran_often) = counter("paid");
    let ledger = FaultyLedger::failing_after(Arc::new(VolatileLedger::default()), 0);
    let runtime = Runtime::builder()
        .ledger(Arc::new(ledger))
        .settings(limited("1 USD", &[]))
        .tool(paid.cost(usd("0.1")))
        .unwrap()
        .build();
    let outcome = runtime.call(Call::new("paid", json!({}))).await;
    assert_eq!((code(&outcome), ran(&ran_often)), ("journal_unavailable", 0));
}
