//! A call that ended without an answer: nobody is told to make it again before it is known that it did nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use helve::compose::{self, Step};
use helve::formats::{
    Format, ParseLimits, ResultBudget, mcp_error, parse_calls, result_message, result_text,
};
use helve::retry::RetryPolicy;
use helve::run::Recalled;
use helve::runs::left_in_doubt;
use helve::{Call, ErrorCode, Layer, Outcome, Tool, ToolBuilder, ToolError};
use serde_json::json;

use crate::support::{Bench, code, counter, flaky, ran};

/// A tool that does its work and whose answer is lost.
fn lost(fail: ErrorCode) -> (ToolBuilder, Arc<AtomicU32>) {
    let (tool, done) = flaky(u32::MAX, move || ToolError::new(fail, "the connection broke off"));
    (tool.input_schema(json!({ "type": "object" })), done)
}

/// What a model and a program read about an outcome, in all forms.
fn told(outcome: &Outcome) -> (String, serde_json::Value) {
    (result_text(outcome, &ResultBudget::default()), mcp_error(&outcome.status).unwrap())
}

fn assert_in_doubt(outcome: &Outcome) {
    let error = outcome.error().unwrap();
    assert!(error.may_have_happened() && !error.is_retryable(), "{error:?}");
    let (text, parts) = told(outcome);
    assert!(!text.contains("Calling again may help"), "{text}");
    assert!(text.contains("may have happened") && text.contains("helve runs show call_"), "{text}");
    assert_eq!((&parts["may_have_happened"], &parts["retryable"]), (&json!(true), &json!(false)));
    let json = serde_json::to_value(outcome).unwrap();
    assert_eq!(
        (&json["error"]["may_have_happened"], &json["error"]["retryable"]),
        (&json!(true), &json!(false))
    );
}

#[tokio::test]
async fn a_lost_answer_is_in_doubt_and_not_retryable() {
    for fail in [ErrorCode::Network, ErrorCode::Timeout, ErrorCode::ServerError, ErrorCode::McpConnection] {
        let (tool, done) = lost(fail);
        let bench = Bench::new([tool.retry(RetryPolicy::aggressive())]);
        let outcome = bench.call("flaky", json!({})).await;
        assert_eq!((code(&outcome), ran(&done)), (fail.as_str(), 1), "once, and its code stays");
        assert_in_doubt(&outcome);
        let record = bench.last_record();
        assert!(left_in_doubt(&record));
        assert!(record.payload.error.unwrap().may_have_happened());
    }
}

#[tokio::test]
async fn every_format_for_models_says_so() {
    let (tool, _) = lost(ErrorCode::Network);
    let outcome = Bench::new([tool]).call("flaky", json!({})).await;
    let asked = json!({ "content": [{ "type": "tool_use", "id": "id-1", "name": "flaky", "input": {} }] });
    let call = &parse_calls(Format::Anthropic, &asked, &ParseLimits::default()).unwrap()[0];
    for format in
        [Format::Anthropic, Format::OpenAi, Format::OpenAiChat, Format::Gemini, Format::Mcp, Format::Llm]
    {
        let message = result_message(format, call, &outcome, &ResultBudget::default()).to_string();
        assert!(message.contains("may have happened"), "{format:?}: {message}");
        assert!(!message.contains("Calling again may help"), "{format:?}: {message}");
    }
}

#[tokio::test]
async fn a_tool_that_may_be_repeated_stays_retryable() {
    let repeatable: [fn(ToolBuilder) -> ToolBuilder; 2] = [ToolBuilder::read_only, ToolBuilder::idempotent];
    for change in repeatable {
        let (tool, _) = lost(ErrorCode::Network);
        let outcome = Bench::new([change(tool)]).call("flaky", json!({})).await;
        let error = outcome.error().unwrap();
        assert!(error.is_retryable() && !error.may_have_happened(), "{error:?}");
    }
}

#[tokio::test]
async fn an_error_that_says_that_nothing_was_done_stays_retryable() {
    let refused = || ToolError::new(ErrorCode::Network, "connection refused").nothing_done();
    let slow_down = || ToolError::new(ErrorCode::RateLimit, "too many");
    let errors: [fn() -> ToolError; 2] = [refused, slow_down];
    for error in errors {
        let (tool, _) = flaky(u32::MAX, error);
        let bench = Bench::new([tool]);
        let outcome = bench.call("flaky", json!({})).await;
        let error = outcome.error().unwrap();
        assert!(error.is_retryable() && error.did_nothing() && !error.may_have_happened(), "{error:?}");
        assert!(told(&outcome).0.contains("Calling again may help"));
        assert!(!left_in_doubt(&bench.last_record()));
    }
}

#[tokio::test]
async fn an_attempt_that_did_nothing_does_not_clear_an_earlier_one() {
    let number = Arc::new(AtomicU32::new(0));
    let tool = Tool::builder("pay").description("Pays.").handler(move |_, _| {
        let code = match number.fetch_add(1, SeqCst) {
            0 => ErrorCode::Network,
            _ => ErrorCode::RateLimit,
        };
        std::future::ready(Err(ToolError::new(code, "no")))
    });
    let mut policy = RetryPolicy::quick();
    (policy.retries_max, policy.retry_unknown) = (1, true);
    let outcome = Bench::new([tool.retry(policy)]).call("pay", json!({})).await;
    assert_eq!((code(&outcome), outcome.attempts), ("rate_limit", 2));
    assert_in_doubt(&outcome);
}

#[tokio::test]
async fn a_tool_that_crashed_or_was_stopped_is_in_doubt() {
    let crashes = Tool::builder("crashes").description("Crashes.").handler(|_, _| async { panic!("no") });
    let hangs = Tool::builder("hangs")
        .description("Never ends.")
        .timeout(Duration::from_millis(20))
        .handler(|_, _| std::future::pending());
    let bench = Bench::new([crashes, hangs]);
    for (name, is) in [("crashes", "execution_failed"), ("hangs", "timeout")] {
        let outcome = bench.call(name, json!({})).await;
        assert_eq!(code(&outcome), is);
        assert_in_doubt(&outcome);
    }
}

/// A tool whose answer is lost, and that is asked about it: what it says, and how often it was asked.
fn recalled(tool: ToolBuilder, knows: Recalled) -> (ToolBuilder, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    let tool = tool.recall_handled(move |arguments, _| {
        assert_eq!(arguments, json!({ "to": "Ada" }), "it is asked about this very call");
        counted.fetch_add(1, SeqCst);
        let knows = knows.clone();
        async move { Ok(knows) }
    });
    (tool, asked)
}

#[tokio::test]
async fn whoever_knows_is_asked_once() {
    let cases = [
        (Recalled::Happened(json!("receipt 7")), "none"),
        (Recalled::DidNotHappen, "execution_failed"),
        (Recalled::Unknown, "execution_failed"),
    ];
    for (knows, is) in cases {
        let done = Arc::new(AtomicU32::new(0));
        let counted = done.clone();
        let crashes =
            Tool::builder("flaky").description("Crashes.").input_schema(json!({ "type": "object" }));
        let crashes = crashes.handler(move |_, _| {
            counted.fetch_add(1, SeqCst);
            async { panic!("no") }
        });
        let (tool, asked) = recalled(crashes, knows.clone());
        let bench = Bench::new([tool]);
        let outcome = bench.call("flaky", json!({ "to": "Ada" })).await;
        assert_eq!((code(&outcome), ran(&done), ran(&asked)), (is, 1, 1), "{outcome:?}");
        match knows {
            Recalled::Happened(receipt) => assert_eq!(outcome.into_result().unwrap(), receipt),
            Recalled::DidNotHappen | Recalled::WillNotHappen => {
                let error = outcome.error().unwrap();
                assert!(error.did_nothing() && !error.may_have_happened(), "{error:?}");
                assert!(!left_in_doubt(&bench.last_record()));
            }
            Recalled::Unknown => assert_in_doubt(&outcome),
        }
    }
}

#[tokio::test]
async fn what_did_not_happen_before_the_connection_was_lost_may_happen_yet() {
    for fail in [ErrorCode::Network, ErrorCode::ServerError, ErrorCode::McpConnection] {
        let (tool, done) = lost(fail);
        let (tool, asked) = recalled(tool, Recalled::DidNotHappen);
        let bench = Bench::new([tool]);
        for is_first in [true, false] {
            let call = Call::new("flaky", json!({ "to": "Ada" })).idempotency_key("k");
            let outcome = bench.runtime.call(call).await;
            // The key is used up, and whoever comes back with it makes that it is asked again.
            let times = if is_first { 1 } else { 2 };
            assert_eq!((code(&outcome), ran(&done), ran(&asked)), (fail.as_str(), 1, times));
            assert_in_doubt(&outcome);
            assert_eq!(left_in_doubt(&bench.last_record()), is_first);
        }
    }
}

#[tokio::test]
async fn what_did_not_happen_may_happen_yet_for_an_earlier_attempt() {
    let number = Arc::new(AtomicU32::new(0));
    let tool = Tool::builder("pay").description("Pays.").input_schema(json!({ "type": "object" }));
    let tool = tool.handler(move |_, _| {
        let code = if number.fetch_add(1, SeqCst) == 0 { ErrorCode::Network } else { ErrorCode::RateLimit };
        std::future::ready(Err(ToolError::new(code, "no")))
    });
    let mut policy = RetryPolicy::quick();
    (policy.retries_max, policy.retry_unknown) = (1, true);
    let (tool, asked) = recalled(tool.retry(policy), Recalled::DidNotHappen);
    let outcome = Bench::new([tool]).call("pay", json!({ "to": "Ada" })).await;
    assert_eq!((code(&outcome), outcome.attempts, ran(&asked)), ("rate_limit", 2, 1));
    assert_in_doubt(&outcome);
}

#[tokio::test]
async fn what_did_not_happen_within_its_time_may_happen_yet() {
    let hangs = Tool::builder("hangs")
        .description("Never ends.")
        .input_schema(json!({ "type": "object" }))
        .timeout(Duration::from_millis(20))
        .handler(|_, _| std::future::pending());
    let (tool, asked) = recalled(hangs, Recalled::DidNotHappen);
    let outcome = Bench::new([tool]).call("hangs", json!({ "to": "Ada" })).await;
    assert_eq!(ran(&asked), 1);
    assert_in_doubt(&outcome);
}

#[tokio::test]
async fn a_composition_says_that_a_step_may_have_happened() {
    let (tool, done) = lost(ErrorCode::Network);
    let bench = Bench::new([tool]);
    let step = Step::of("flaky").arguments(json!({}));
    let both = compose::sequence("both").description("Does it.").step(step);
    bench.runtime.registry().register(Layer::Project, both.build(bench.runtime.registry()).unwrap()).unwrap();
    let outcome = bench.call("both", json!({})).await;
    assert_eq!((code(&outcome), ran(&done)), ("network", 1));
    assert_in_doubt(&outcome);
}

#[tokio::test]
async fn an_end_that_did_nothing_uses_up_no_key() {
    let refused = || ToolError::new(ErrorCode::Network, "connection refused").nothing_done();
    let slow_down = || ToolError::new(ErrorCode::RateLimit, "too many");
    let errors: [fn() -> ToolError; 2] = [refused, slow_down];
    for error in errors {
        let (tool, done) = flaky(1, error);
        let bench = Bench::new([tool]);
        let call = || bench.runtime.call(Call::new("flaky", json!({})).idempotency_key("k"));
        assert!(call().await.error().unwrap().did_nothing());
        assert_eq!(call().await.into_result().unwrap(), 2, "the same key runs for real");
        let replayed = call().await;
        assert_eq!(serde_json::to_value(&replayed).unwrap()["replayed"], true);
        assert_eq!((replayed.into_result().unwrap(), ran(&done)), (json!(2), 2));
    }
}

#[tokio::test]
async fn a_composition_that_did_something_uses_up_its_key() {
    let (first, done) = counter("first");
    let (limited, _) = flaky(1, || ToolError::new(ErrorCode::RateLimit, "too many"));
    let bench = Bench::new([first, limited]);
    let steps = ["first", "flaky"].map(|tool| Step::of(tool).arguments(json!({})));
    let both = steps.into_iter().fold(compose::sequence("both"), |both, step| both.step(step));
    let both = both.description("Does both.").build(bench.runtime.registry()).unwrap();
    bench.runtime.registry().register(Layer::Project, both).unwrap();
    for replayed in [false, true] {
        let outcome = bench.runtime.call(Call::new("both", json!({})).idempotency_key("k")).await;
        assert_eq!((code(&outcome), outcome.replay_of.is_some()), ("rate_limit", replayed));
        assert!(!outcome.error().unwrap().is_retryable() && !outcome.error().unwrap().did_nothing());
        assert_eq!(ran(&done), 1);
    }
}

#[tokio::test]
async fn a_key_brings_the_doubt_back_and_does_nothing_twice() {
    let (tool, done) = lost(ErrorCode::Network);
    let bench = Bench::new([tool]);
    for replayed in [false, true] {
        let outcome = bench.runtime.call(Call::new("flaky", json!({})).idempotency_key("k")).await;
        assert_eq!((ran(&done), outcome.replay_of.is_some()), (1, replayed));
        assert_in_doubt(&outcome);
    }
}

#[tokio::test]
async fn what_is_known_to_have_happened_by_now_is_the_answer_to_its_key() {
    let (tool, done) = lost(ErrorCode::Timeout);
    let asked = Arc::new(AtomicU32::new(0));
    let tool = tool.recall_handled(move |_, _| {
        let first = asked.fetch_add(1, SeqCst) == 0;
        let unknown = || ToolError::new(ErrorCode::OutcomeUnknown, "look for parcel 17");
        std::future::ready(if first { Err(unknown()) } else { Ok(Recalled::Happened(json!("parcel 17"))) })
    });
    let bench = Bench::new([tool]);
    let call = || bench.runtime.call(Call::new("flaky", json!({})).idempotency_key("k"));
    let first = call().await;
    assert_in_doubt(&first);
    let says = first.error().unwrap().suggestions().iter().any(|text| text == "look for parcel 17");
    assert!(says, "what the tool knows of it is told: {first:?}");
    let second = call().await;
    assert_eq!((second.replay_of, second.into_result().unwrap()), (Some(first.call_id), json!("parcel 17")));
    assert_eq!(ran(&done), 1);
}
