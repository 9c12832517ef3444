//! Traces of others, runs and their parts.

use std::sync::Arc;

use helve::compose::{self, Step};
use helve::trace::SpanContext;
use helve::{Call, Layer, Risk, Settings, Tool, VolatileLedger};
use serde_json::json;

use crate::collector::{Collector, LONG, runtime, telemetry, text};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test]
async fn a_call_goes_on_in_the_trace_of_whoever_called() {
    let (collector, address) = Collector::start(&[]).await;
    // The service that began the trace decides whether it is kept.
    let telemetry = telemetry(address, |options| options.sample_ratio(0.0).unwrap());
    let runtime = runtime(&telemetry, |builder| builder);
    let parent: SpanContext = PARENT.parse().unwrap();
    let call = || Call::new("greet", json!({}));
    runtime.call(call().trace_parent(parent)).await;
    runtime.call(call().trace_parent(SpanContext { sampled: false, ..parent })).await;
    runtime.call(call()).await;
    runtime.flush_traces(LONG).await;
    let calls = collector.calls();
    assert_eq!(calls.len(), 1, "neither what nobody keeps, nor what begins here");
    assert_eq!((&*calls[0].trace_id, &*calls[0].parent_span_id), (&parent.trace_id[..], &parent.span_id[..]));
    assert_ne!(calls[0].span_id, parent.span_id);
}

#[tokio::test]
async fn parts_of_a_run_are_children_of_their_run() {
    let (collector, address) = Collector::start(&[]).await;
    let runtime = runtime(&telemetry(address, |options| options), |builder| builder);
    let both = compose::sequence("both")
        .step(Step::of("greet").arguments(json!({ "name": "Ada" })))
        .step(Step::of("fail").arguments(json!({})))
        .description("Greets twice.")
        .build(runtime.registry())
        .unwrap();
    runtime.registry().register(Layer::Project, both).unwrap();
    for parent in [None, Some(PARENT.parse().unwrap())] {
        let mut call = Call::new("both", json!({}));
        call.trace_parent = parent;
        let outcome = runtime.call(call).await;
        runtime.flush_traces(LONG).await;
        let calls = collector.calls();
        let [.., greet, fail, run] = &calls[..] else { panic!("{calls:?}") };
        assert_eq!(run.name, "execute_tool both");
        for (part, path) in [(greet, "greet"), (fail, "fail")] {
            assert_eq!((&part.trace_id, &part.parent_span_id), (&run.trace_id, &run.span_id));
            assert_eq!(text(part, "helve.run.id"), Some(outcome.call_id.to_string()));
            assert_eq!(text(part, "helve.part").as_deref(), Some(path));
            assert!(part.start_time_unix_nano >= run.start_time_unix_nano);
        }
        match parent {
            Some(parent) => assert_eq!(run.parent_span_id, parent.span_id),
            None => assert!(run.parent_span_id.is_empty()),
        }
    }
    assert_eq!(collector.calls().len(), 6);
}

#[tokio::test]
async fn a_run_that_another_process_resumes_stays_in_the_trace_of_whoever_called() {
    let (collector, address) = Collector::start(&[]).await;
    let telemetry = telemetry(address, |options| options);
    let ledger = Arc::new(VolatileLedger::default());
    // The second knows nothing of the first but what the ledger has.
    let process = |ask_from: Risk| {
        let send = Tool::builder("send").description("Sends.").risk(Risk::High);
        let send = send.handler(async |_: serde_json::Value, _| Ok(json!("sent")));
        let settings = Settings { ask_from, ..Settings::default() };
        let runtime = runtime(&telemetry, |builder| {
            builder.ledger(ledger.clone()).settings(settings).tool(send).unwrap()
        });
        let mail = compose::sequence("mail").step(Step::of("send").arguments(json!({})));
        let mail = mail.description("Mails.").build(runtime.registry()).unwrap();
        runtime.registry().register(Layer::Project, mail).unwrap();
        runtime
    };
    let parent: SpanContext = PARENT.parse().unwrap();
    let waits = process(Risk::High).call(Call::new("mail", json!({})).trace_parent(parent)).await;
    assert!(matches!(waits.status, helve::Status::Pending(_)), "{waits:?}");
    let later = process(Risk::Critical);
    let resumed = later.resume_run(waits.call_id, None).await.unwrap();
    assert!(resumed.is_success(), "{resumed:?}");
    later.flush_traces(LONG).await;
    let runs: Vec<_> =
        collector.calls().into_iter().filter(|call| call.name == "execute_tool mail").collect();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!((&*run.trace_id, &*run.parent_span_id), (&parent.trace_id[..], &parent.span_id[..]));
    }
}

#[tokio::test]
async fn a_share_of_traces_is_whole_traces() {
    let (collector, address) = Collector::start(&[]).await;
    let telemetry = telemetry(address, |options| options.sample_ratio(0.5).unwrap());
    let runtime = runtime(&telemetry, |builder| builder);
    let one = compose::sequence("one").step(Step::of("greet").arguments(json!({})));
    let one = one.description("Greets.").build(runtime.registry()).unwrap();
    runtime.registry().register(Layer::Project, one).unwrap();
    for _ in 0..200 {
        runtime.call(Call::new("one", json!({}))).await;
    }
    runtime.flush_traces(LONG).await;
    let calls = collector.calls();
    let runs = calls.iter().filter(|call| call.name == "execute_tool one").count();
    // One in 10^20 runs of this test has it otherwise.
    assert!((40..160).contains(&runs), "{runs} of 200");
    assert_eq!(calls.len(), 2 * runs);
}
