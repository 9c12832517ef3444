use std::sync::atomic::Ordering;

use helve_core::ErrorCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::{ComposedBuilder, OnError, Parallel, Step, parallel};
use super::{host, host_on_record};

fn waiting(times_ms: &[u64]) -> ComposedBuilder<Parallel> {
    times_ms.iter().enumerate().fold(parallel("all"), |tool, (index, ms)| {
        tool.step(Step::call(format!("w{index}"), "wait").arguments(json!({ "ms": ms })))
    })
}

#[tokio::test]
async fn each_tool_gets_the_fields_that_it_names() {
    let host = host();
    let tool =
        host.built(parallel("both").step(Step::of("math/add")).step(Step::of("text/upper")).step(
            Step::of("echo").arguments(json!({ "who": "{{ context.session }}", "a": "{{ input.a }}" })),
        ));
    let result = host.call(&tool, json!({ "a": 1, "b": 2, "text": "x" })).await.unwrap();
    assert_eq!(
        result,
        json!({ "add": { "sum": 3.0 }, "upper": { "text": "X" }, "echo": { "who": "s-1", "a": 1 } })
    );
    assert_eq!(host.arguments("add"), json!({ "a": 1, "b": 2 }));
    assert_eq!(host.arguments("upper"), json!({ "text": "x" }));
}

#[tokio::test(start_paused = true)]
async fn the_window_slides_and_a_slow_first_call_holds_nobody_up() {
    let host = host();
    let tool = host.built(waiting(&[100, 10, 10, 10, 10, 10]).concurrency(2));
    let started = Instant::now();
    host.call(&tool, json!({})).await.unwrap();
    assert_eq!(host.running_max.load(Ordering::SeqCst), 2);
    // In batches of two it would have been 120.
    let took = started.elapsed().as_millis();
    assert!((100..110).contains(&took), "{took}");
    let ends: Vec<_> = host.ends.lock().unwrap().iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(ends, ["w1", "w2", "w3", "w4", "w5", "w0"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_all_run_at_once() {
    let host = host();
    let tool = host.built(waiting(&[10; 12]));
    host.call(&tool, json!({})).await.unwrap();
    assert_eq!(host.running_max.load(Ordering::SeqCst), 12);
}

#[tokio::test(start_paused = true)]
async fn a_failure_takes_the_rest_back_and_starts_no_more() {
    let host = host();
    let tool = host
        .built(waiting(&[60_000, 10]).step(Step::of("fail")).step(Step::call("late", "echo")).concurrency(2));
    let started = Instant::now();
    let error = host.call(&tool, json!({})).await.unwrap_err();
    assert_eq!(error.message(), "step `fail` failed: the line is dead");
    assert!(started.elapsed().as_millis() < 1_000);
    assert_eq!(host.paths(), ["w0", "w1", "fail"]);
    let ends = host.ends.lock().unwrap();
    let (path, status) = ends.last().unwrap();
    assert_eq!(path, "w0", "it was waited for");
    assert!(serde_json::to_string(status).unwrap().contains("cancelled"));
}

#[tokio::test]
async fn with_continue_errors_stand_in_the_place_of_results() {
    let host = host();
    let tool = host.built(
        parallel("some")
            .step(Step::of("fail"))
            .step(Step::of("fail-softly"))
            .step(Step::of("echo").arguments(json!({ "ok": true })))
            .on_error(OnError::Continue),
    );
    let result = host.call(&tool, json!({})).await.unwrap();
    assert_eq!(result["echo"], json!({ "ok": true }));
    assert_eq!(result["fail"]["error"]["code"], "network");
    assert_eq!(result["fail_softly"]["error"]["message"], "not today");
}

#[tokio::test]
async fn an_output_template_sees_steps_and_errors() {
    let host = host();
    let tool = host.built(
        parallel("shaped")
            .step(Step::of("fail"))
            .step(Step::of("math/add"))
            .on_error(OnError::Continue)
            .output(json!({ "sum": "{{ steps.add.sum }}", "why": "{{ errors.fail.message }}" })),
    );
    let result = host.call(&tool, json!({ "a": 1, "b": 1 })).await.unwrap();
    assert_eq!(result, json!({ "sum": 2.0, "why": "the line is dead" }));
}

#[tokio::test(start_paused = true)]
async fn a_question_lets_the_others_finish_but_starts_none() {
    let host = host();
    let tool = host.built(
        parallel("asks")
            .step(Step::of("wait").arguments(json!({ "ms": 50 })))
            .step(Step::of("ask"))
            .step(Step::of("echo"))
            .concurrency(2),
    );
    let error = host.call(&tool, json!({})).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied);
    assert_eq!(host.paths(), ["wait", "ask"]);
    let ends: Vec<_> = host.ends.lock().unwrap().iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(ends, ["ask", "wait"], "what ran was not taken back");
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_in_order_is_told_whichever_came_first_in_time() {
    let host = host();
    let slow = Step::call("slow", "wait")
        .arguments(json!({ "ms": 50 }))
        .timeout(std::time::Duration::from_millis(5));
    let tool = host.built(parallel("two").step(slow).step(Step::of("fail")).on_error(OnError::Stop));
    let first = host.call(&tool, json!({})).await.unwrap_err();
    assert_eq!(first.message(), "step `fail` failed: the line is dead", "the slow one was taken back");
    let again = host_on_record(&host);
    let second = again.call(&tool, json!({})).await.unwrap_err();
    assert_eq!(first.message(), second.message());
}

#[tokio::test]
async fn taken_back_from_outside_it_says_so() {
    let host = host();
    let tool = host.built(waiting(&[60_000, 60_000, 60_000]).concurrency(1));
    let context = host.context(&tool);
    let token = context.cancellation().clone();
    let running = tokio::spawn(tool.handler().call(Value::Null, context));
    tokio::task::yield_now().await;
    token.cancel();
    assert_eq!(running.await.unwrap().unwrap_err().code(), ErrorCode::Cancelled);
    assert!(host.paths().len() <= 1);
}
