use std::time::Duration;

use helve::{Call, Caller, Delivery, Layer, Subscription, Tool};
use serde_json::json;

use crate::support::{Bench, echo};

async fn next_name(subscription: &mut Subscription) -> &'static str {
    match subscription.next().await {
        Some(Delivery::Event(event)) => event.name(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn listeners_learn_of_calls_and_of_changes() {
    let bench = Bench::new([echo("echo"), echo("risky").risk(helve::Risk::High)]);
    let mut events = bench.runtime.subscribe();
    bench.call("echo", json!({})).await;
    bench.call("nobody", json!({})).await;
    bench.call("risky", json!({})).await;
    let registry = bench.runtime.registry();
    registry.register(Layer::Project, echo("new").build().unwrap()).unwrap();
    registry.replace(Layer::Project, echo("new").build().unwrap()).unwrap();
    registry.unregister(Layer::Project, "new").unwrap();
    let mut names = Vec::new();
    for _ in 0..6 {
        names.push(next_name(&mut events).await);
    }
    assert_eq!(
        names,
        [
            "tools.executed",
            "tools.failed",
            "tools.pending",
            "tools.registered",
            "tools.replaced",
            "tools.unregistered"
        ]
    );
}

#[tokio::test]
async fn a_slow_listener_slows_no_call_and_learns_what_it_missed() {
    let bench = Bench::new([echo("echo")]);
    let mut slow = bench.runtime.subscribe();
    for _ in 0..3_000 {
        assert!(bench.call("echo", json!({})).await.is_success());
    }
    match slow.next().await {
        Some(Delivery::Missed(count)) => assert!((1_900..3_000).contains(&count), "{count}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(next_name(&mut slow).await, "tools.executed");
}

#[tokio::test]
async fn an_event_has_the_seeds_name_and_payload() {
    let bench = Bench::new([echo("echo")]);
    let mut events = bench.runtime.subscribe();
    let outcome = bench.call("echo", json!({})).await;
    let Some(Delivery::Event(event)) = events.next().await else { panic!("no event") };
    let json = serde_json::to_value(&*event).unwrap();
    assert_eq!(json["type"], "tools.executed");
    assert_eq!(json["payload"]["tool"], "echo");
    assert_eq!(json["payload"]["call_id"], json!(outcome.call_id));
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_is_told_of_and_that_it_may_have_happened() {
    let pay = Tool::builder("pay")
        .description("Pays, and never answers.")
        .input_schema(json!({ "type": "object" }))
        .handler(async |_, _| std::future::pending().await);
    let bench = Bench::new([pay]);
    let mut events = bench.runtime.subscribe();
    let call = bench.runtime.call(Call::new("pay", json!({})).by(Caller::agent("bot")));
    assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
    match events.next().await {
        Some(Delivery::Event(event)) => {
            let told = serde_json::to_value(&*event).unwrap();
            let payload = &told["payload"];
            assert_eq!(
                (&payload["code"], &payload["may_have_happened"]),
                (&json!("cancelled"), &json!(true))
            );
        }
        other => panic!("{other:?}"),
    }
}
