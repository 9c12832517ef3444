//! Compositions that go on without a part that failed: they have a result, say what it lacks, and have not succeeded.

use helve::compose::{self, OnError, Step};
use helve::formats::{ResultBudget, mcp_error, result_text};
use helve::record::EndStatus;
use helve::{Layer, Outcome, Status, Tool, ToolBuilder, ToolError};
use serde_json::{Value, json};

use crate::support::{Bench, echo, offline};

fn broken(name: &str, error: impl Fn() -> ToolError + Send + Sync + 'static) -> ToolBuilder {
    Tool::builder(name)
        .description("Fails.")
        .input_schema(json!({ "type": "object" }))
        .read_only()
        .handler(move |_, _| std::future::ready(Err(error())))
}

fn bench() -> Bench {
    let own = || ToolError::recoverable("NO_STOCK", "none of `card 4111` is left");
    Bench::new([echo("works"), broken("offline", offline), broken("empty", own)])
}

fn add(bench: &Bench, tool: Tool) {
    bench.runtime.registry().register(Layer::Project, tool).unwrap();
}

fn value(outcome: &Outcome) -> &Value {
    match &outcome.status {
        Status::Done(output) => &output.value,
        other => panic!("{other:?}"),
    }
}

fn check(bench: &Bench, outcome: &Outcome, degraded: &[&str]) {
    assert!(!outcome.is_success(), "as in the seed, it succeeds where every part does");
    assert!(outcome.error().is_none(), "and it has a result");
    assert_eq!(outcome.degraded, degraded);
    let record = bench.last_record();
    assert_eq!((record.ending.status, &record.ending.degraded), (EndStatus::Returned, &outcome.degraded));
    assert_eq!(
        record.payload.result.unwrap().get(),
        value(outcome).to_string(),
        "the journal keeps the result"
    );
}

#[tokio::test]
async fn a_sequence_tells_which_steps_failed() {
    let bench = bench();
    let tool = compose::sequence("all")
        .description("Does all it can.")
        .step(Step::call("one", "works"))
        .step(Step::call("two", "offline").arguments(json!({})))
        .step(Step::call("three", "empty").arguments(json!({})))
        .on_error(OnError::Continue)
        .build(bench.runtime.registry())
        .unwrap();
    add(&bench, tool);
    let outcome = bench.call("all", json!({ "a": 1 })).await;
    check(&bench, &outcome, &["step `two` failed (network)", "step `three` failed (NO_STOCK)"]);
    assert!(!serde_json::to_string(&outcome.degraded).unwrap().contains("4111"), "what stays holds no data");
    assert_eq!(value(&outcome)["results"]["one"]["a"], 1);
    assert_eq!(value(&outcome)["errors"]["three"]["tool_code"], "NO_STOCK");

    let text = result_text(&outcome, &ResultBudget::default());
    assert!(text.contains("[Not all of it worked: step `two` failed (network);"), "{text}");
    let error = mcp_error(&outcome.status).unwrap();
    assert_eq!(error["structured"]["results"]["one"]["a"], 1, "programs get the result with the error");
}

#[tokio::test]
async fn so_do_parallel_ones_and_maps_in_the_order_of_their_parts() {
    let bench = bench();
    let tool = compose::parallel("side")
        .description("Does all at once.")
        .step(Step::call("b", "offline").arguments(json!({})))
        .step(Step::call("a", "empty").arguments(json!({})))
        .step(Step::call("c", "works"))
        .on_error(OnError::Continue)
        .build(bench.runtime.registry())
        .unwrap();
    add(&bench, tool);
    let outcome = bench.call("side", json!({})).await;
    check(&bench, &outcome, &["step `b` failed (network)", "step `a` failed (NO_STOCK)"]);

    let tool = compose::map("each", "offline", "input.items")
        .description("Does each.")
        .input_schema(json!({ "type": "object", "properties": { "items": { "type": "array" } } }))
        .on_error(OnError::Continue)
        .build(bench.runtime.registry())
        .unwrap();
    add(&bench, tool);
    let outcome = bench.call("each", json!({ "items": vec![json!({}); 40] })).await;
    assert!(!outcome.is_success());
    assert_eq!((outcome.degraded.len(), outcome.degraded[32].as_str()), (33, "and 8 more"));
    assert_eq!(value(&outcome).as_array().unwrap().len(), 40);
}

#[tokio::test]
async fn where_output_makes_something_of_it_the_call_succeeds_and_still_says_so() {
    let bench = bench();
    let tool = compose::sequence("fallback")
        .description("Has another way.")
        .step(Step::call("first", "offline").arguments(json!({})))
        .step(Step::call("second", "works").arguments(json!({ "way": 2 })))
        .on_error(OnError::Continue)
        .output(json!("{{ steps.second.way }}"))
        .build(bench.runtime.registry())
        .unwrap();
    add(&bench, tool);
    let outcome = bench.call("fallback", json!({})).await;
    assert!(outcome.is_success());
    assert_eq!(
        (value(&outcome), outcome.degraded.as_slice()),
        (&json!(2), &["step `first` failed (network)".to_owned()][..])
    );
}

#[tokio::test]
async fn a_composition_around_one_that_fell_short_sees_a_failure() {
    let bench = bench();
    let inner = compose::parallel("inner")
        .description("Half of it works.")
        .step(Step::call("good", "works"))
        .step(Step::call("bad", "offline").arguments(json!({})))
        .on_error(OnError::Continue)
        .build(bench.runtime.registry())
        .unwrap();
    add(&bench, inner);
    let outer = compose::sequence("outer")
        .description("Needs all of it.")
        .step(Step::call("all", "inner"))
        .step(Step::call("then", "works"))
        .build(bench.runtime.registry())
        .unwrap();
    add(&bench, outer);
    let outcome = bench.call("outer", json!({})).await;
    let error = outcome.error().unwrap();
    assert_eq!(error.message(), "step `all` failed: step `bad` failed (network)", "{error}");
}

#[tokio::test]
async fn nothing_is_said_where_every_part_works() {
    let bench = bench();
    let tool = compose::parallel("fine")
        .description("Works.")
        .step(Step::call("a", "works"))
        .on_error(OnError::Continue)
        .build(bench.runtime.registry())
        .unwrap();
    add(&bench, tool);
    let outcome = bench.call("fine", json!({})).await;
    assert!(outcome.is_success() && outcome.degraded.is_empty());
}
