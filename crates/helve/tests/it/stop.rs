//! Stopping a runtime: what is refused, what has time, and how what has none left ends.

use std::sync::Arc;
use std::time::Duration;

use helve::compose::{self, OnError, Step};
use helve::ports::{Holder, Runs};
use helve::record::Entry;
use helve::run::StepKind;
use helve::{Call, Layer, Risk, Runtime, Settings, Status, Tool, ToolBuilder, ToolError, VolatileLedger};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::code;

const MOMENT: Duration = Duration::from_secs(5);

fn tool(name: &str) -> ToolBuilder {
    Tool::builder(name).description("Does something.").input_schema(json!({ "type": "object" }))
}

/// A tool that tells when it has begun, and ends when it is let.
fn waits(name: &str, begun: &Arc<Notify>, go: &Arc<Notify>) -> ToolBuilder {
    let (begun, go) = (Arc::clone(begun), Arc::clone(go));
    tool(name).handler(move |_, _| {
        let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
        async move {
            begun.notify_one();
            go.notified().await;
            Ok(json!({}))
        }
    })
}

struct Bench {
    runtime: Runtime,
    ledger: Arc<VolatileLedger>,
    begun: Arc<Notify>,
    go: Arc<Notify>,
}

fn bench() -> Bench {
    let (ledger, begun, go) = (Arc::new(VolatileLedger::default()), Arc::default(), Arc::default());
    let quick = || tool("quick").handler(|_, _| async { Ok(json!({})) });
    let asks = tool("asks").risk(Risk::High).handler(|_, _| async { Ok(json!({})) });
    let runtime = Runtime::builder().ledger(ledger.clone()).settings(Settings::default());
    let runtime =
        runtime.tool(waits("slow", &begun, &go)).unwrap().tool(quick()).unwrap().tool(asks).unwrap();
    let runtime = runtime.build();
    let saga = compose::sequence("saga")
        .step(Step::of("quick").arguments(json!({})))
        .step(Step::of("slow").arguments(json!({})))
        .description("A saga.")
        .on_error(OnError::Undo);
    runtime.registry().register(Layer::Project, saga.build(runtime.registry()).unwrap()).unwrap();
    Bench { runtime, ledger, begun, go }
}

impl Bench {
    fn calling(&self, tool: &str) -> tokio::task::JoinHandle<helve::Outcome> {
        let (runtime, call) = (self.runtime.clone(), Call::new(tool, json!({})));
        tokio::spawn(async move { runtime.call(call).await })
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_end_within_the_grace_are_waited_for_and_new_ones_are_refused() {
    let bench = bench();
    let slow = bench.calling("slow");
    bench.begun.notified().await;
    let stopping = {
        let runtime = bench.runtime.clone();
        tokio::spawn(async move { runtime.stop("SIGTERM", MOMENT).await })
    };
    bench.runtime.until_stopping().await;
    let refused = bench.runtime.call(Call::new("quick", json!({}))).await;
    let error = refused.error().unwrap();
    assert_eq!((code(&refused), error.did_nothing(), error.is_retryable()), ("stopping", true, true));
    assert!(error.message().contains("SIGTERM"), "{error}");
    bench.go.notify_one();
    assert!(slow.await.unwrap().is_success());
    assert_eq!(stopping.await.unwrap().unfinished, 0);
    let ends = bench.ledger.entries().into_iter().filter(|entry| matches!(entry, Entry::Finished(_)));
    assert_eq!(ends.count(), 2, "the refusal is recorded too");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlives_the_grace_ends_in_doubt_and_is_recorded() {
    let bench = bench();
    let slow = bench.calling("slow");
    bench.begun.notified().await;
    let stopped = bench.runtime.stop("SIGTERM", MOMENT).await;
    assert_eq!((stopped.unfinished, stopped.is_flushed), (0, true));
    let outcome = slow.await.unwrap();
    let error = outcome.error().unwrap();
    assert_eq!((code(&outcome), error.may_have_happened()), ("cancelled", true), "{error}");
    assert!(error.message().contains("SIGTERM"), "{error}");
    assert!(bench.ledger.open_runs(None, 1).await.unwrap().is_empty(), "it has ended");
}

#[tokio::test(start_paused = true)]
async fn a_composed_run_is_left_open_and_says_who_stopped_it() {
    let bench = bench();
    let saga = bench.calling("saga");
    bench.begun.notified().await;
    bench.runtime.stop("SIGTERM", Duration::ZERO).await;
    let outcome = saga.await.unwrap();
    let error = outcome.error().unwrap();
    assert_eq!((code(&outcome), error.may_have_happened(), error.is_retryable()), ("stopping", true, false));
    let open = bench.ledger.open_runs(None, 2).await.unwrap();
    assert_eq!((open.len(), open[0].run, open[0].holder), (1, outcome.call_id, Holder::Us));
    let history = bench.ledger.history(outcome.call_id).await.unwrap();
    let says_so = |entry: &&Entry| matches!(entry, Entry::Step(step) if step.kind == StepKind::Stopped { by: "SIGTERM".to_owned() });
    assert_eq!(history.iter().filter(says_so).count(), 1);
    // This process does not go on with it, even if asked.
    assert!(bench.runtime.recover_left().await.unwrap().is_empty());
    assert!(bench.runtime.resume_run(outcome.call_id, None).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn hurrying_ends_the_grace_and_means_nothing_before() {
    let bench = bench();
    bench.runtime.hurry();
    assert!(
        !bench.runtime.is_stopping() && bench.runtime.call(Call::new("quick", json!({}))).await.is_success()
    );
    let slow = bench.calling("slow");
    bench.begun.notified().await;
    let began = tokio::time::Instant::now();
    let hurrying = async {
        bench.runtime.until_stopping().await;
        bench.runtime.hurry();
    };
    tokio::join!(bench.runtime.stop("Ctrl-C", Duration::from_secs(3_600)), hurrying);
    assert!(began.elapsed() < MOMENT, "the clock is the test's own");
    assert_eq!(code(&slow.await.unwrap()), "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_question_stands_and_its_caller_is_told_so() {
    let bench = bench();
    let asks = {
        let runtime = bench.runtime.clone();
        let call = Call::new("asks", json!({})).wait_for_approval(Duration::from_secs(3_600));
        tokio::spawn(async move { runtime.call(call).await })
    };
    let mut events = bench.runtime.subscribe();
    events.next().await.unwrap();
    bench.runtime.stop("SIGTERM", Duration::from_secs(3_600)).await;
    assert!(matches!(asks.await.unwrap().status, Status::Pending(_)));
}

#[tokio::test(start_paused = true)]
async fn a_plain_tool_starts_no_parts_once_the_grace_is_over() {
    let (begun, parts) = (Arc::new(Notify::new()), Arc::new(std::sync::Mutex::new(Vec::new())));
    let (tell, seen) = (Arc::clone(&begun), Arc::clone(&parts));
    let stubborn = tool("stubborn").handler(move |_, context| {
        let (tell, seen) = (Arc::clone(&tell), Arc::clone(&seen));
        async move {
            tell.notify_one();
            // It does not care that it is cancelled.
            context.cancellation().cancelled().await;
            let part = context.call_part("part", Call::new("quick", json!({}))).await;
            seen.lock().unwrap().push(part.error().map(ToolError::code));
            Ok(json!({}))
        }
    });
    let bench = bench();
    bench.runtime.registry().register(Layer::Project, stubborn.build().unwrap()).unwrap();
    let calling = bench.calling("stubborn");
    begun.notified().await;
    bench.runtime.stop("the test", Duration::ZERO).await;
    let _ended = calling.await.unwrap();
    let parts = parts.lock().unwrap();
    assert!(matches!(&parts[..], [Some(helve::ErrorCode::Stopping)]), "{parts:?}");
}
