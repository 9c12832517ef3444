use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helve::record::{Entry, HandlerEnd};
use helve::{Call, ErrorCode, Settings, Tool, ToolBuilder};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, code};

fn sleeper(name: &str) -> ToolBuilder {
    Tool::builder(name).description("Never ends.").handler(|_, _| std::future::pending())
}

fn last_handler_end(bench: &Bench) -> HandlerEnd {
    bench.last_record().ending.attempts.last().unwrap().handler
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_stopped_at_its_deadline() {
    let bench = Bench::new([sleeper("slow").timeout(Duration::from_millis(200)), sleeper("default")]);
    let before = tokio::time::Instant::now();
    let outcome = bench.call("slow", json!({})).await;
    assert_eq!(code(&outcome), "timeout");
    assert!(outcome.error().unwrap().may_have_happened());
    assert!(before.elapsed() >= Duration::from_millis(200) && before.elapsed() < Duration::from_secs(1));
    assert_eq!(last_handler_end(&bench), HandlerEnd::Stopped);

    let before = tokio::time::Instant::now();
    bench.call("default", json!({})).await;
    assert!(before.elapsed() >= Duration::from_secs(30) && before.elapsed() < Duration::from_secs(31));
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_more_time_than_the_maximum_and_a_caller_can_ask_for_less() {
    let bench = Bench::new([sleeper("greedy").timeout(Duration::from_secs(86_400))]);
    let before = tokio::time::Instant::now();
    bench.call("greedy", json!({})).await;
    assert_eq!(before.elapsed().as_secs(), 300);
    let before = tokio::time::Instant::now();
    bench.runtime.call(Call::new("greedy", json!({})).timeout(Duration::from_secs(2))).await;
    assert_eq!(before.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_listens_can_clean_up_before_it_is_stopped() {
    let cleaned = Arc::new(AtomicBool::new(false));
    let tidy = |name: &str| {
        let flag = cleaned.clone();
        Tool::builder(name).description("Cleans up.").timeout(Duration::from_secs(1)).handler(
            move |_, context| {
                let flag = flag.clone();
                async move {
                    context.cancelled().await;
                    flag.store(true, Ordering::SeqCst);
                    Ok(json!("too late"))
                }
            },
        )
    };
    let bench = Bench::new([tidy("look").read_only(), tidy("pay")]);
    assert_eq!(code(&bench.call("look", json!({})).await), "timeout");
    assert!(cleaned.load(Ordering::SeqCst));
    // What has changed the world is not said to have failed.
    assert_eq!(bench.call("pay", json!({})).await.into_result().unwrap(), "too late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_cannot_be_stopped_is_abandoned_and_the_journal_says_so() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let tool = Tool::builder("stuck")
        .description("Blocks its thread.")
        .timeout(Duration::from_millis(50))
        .handler(move |_, _| {
            let blocked = blocked.clone();
            async move {
                // Deaf to everything until the test lets go.
                let _ = blocked.lock().unwrap().recv();
                Ok(json!(null))
            }
        });
    let settings = Settings { cancel_grace: Duration::from_millis(20), ..Settings::default() };
    let bench = Bench::with([tool], |builder| builder.settings(settings));
    assert_eq!(code(&bench.call("stuck", json!({})).await), "timeout");
    assert_eq!(last_handler_end(&bench), HandlerEnd::Abandoned);
    release.send(()).unwrap();
}

#[tokio::test]
async fn a_panic_is_a_clean_error_and_its_text_stays_private() {
    let bench = Bench::new([
        Tool::builder("later").description("Panics.").handler(|_, _| async { panic!("password is hunter2") }),
        Tool::builder("at-once")
            .description("Panics.")
            .handler(|_, _| -> std::future::Ready<_> { panic!("hunter2") }),
    ]);
    for name in ["later", "at-once"] {
        let outcome = bench.call(name, json!({})).await;
        assert_eq!(code(&outcome), "execution_failed");
        assert!(!serde_json::to_string(&outcome).unwrap().contains("hunter2"));
        assert_eq!(last_handler_end(&bench), HandlerEnd::Panicked);
    }
}

#[tokio::test(start_paused = true)]
async fn an_instant_tool_is_held_to_its_deadline_once_it_waits_and_may_panic() {
    let bench = Bench::new([
        sleeper("waits").instant().timeout(Duration::from_millis(200)),
        Tool::builder("ends").description("Ends at once.").instant().handler(|_, _| async { Ok(json!(1)) }),
        Tool::builder("yields").description("Waits a little.").instant().handler(|_, _| async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok(json!(2))
        }),
        Tool::builder("panics").description("Panics.").instant().handler(|_, _| async { panic!("hunter2") }),
    ]);
    assert_eq!(code(&bench.call("waits", json!({})).await), "timeout");
    assert_eq!(last_handler_end(&bench), HandlerEnd::Stopped);
    assert_eq!(bench.call("ends", json!({})).await.into_result().unwrap(), 1);
    assert_eq!(bench.call("yields", json!({})).await.into_result().unwrap(), 2);
    assert_eq!(code(&bench.call("panics", json!({})).await), "execution_failed");
    assert_eq!(last_handler_end(&bench), HandlerEnd::Panicked);
}

#[tokio::test]
async fn a_call_can_be_taken_back() {
    let bench = Bench::new([sleeper("slow")]);
    let token = CancellationToken::new();
    token.cancel();
    let outcome = bench.runtime.call(Call::new("slow", json!({})).cancellation(token)).await;
    assert_eq!(code(&outcome), "cancelled");
    assert_eq!(outcome.attempts, 0);

    let token = CancellationToken::new();
    let started = Arc::new(Notify::new());
    let signal = started.clone();
    let bench = Bench::new([Tool::builder("slow").description("Never ends.").handler(move |_, _| {
        signal.notify_one();
        std::future::pending()
    })]);
    let call = bench.runtime.call(Call::new("slow", json!({})).cancellation(token.clone()));
    let cancel = async {
        started.notified().await;
        token.cancel();
    };
    let (outcome, ()) = tokio::join!(call, cancel);
    assert_eq!(code(&outcome), "cancelled");
    assert_eq!(bench.last_record().ending.code, Some(ErrorCode::Cancelled));
}

#[tokio::test]
async fn a_caller_who_goes_away_stops_the_tool_and_leaves_a_record() {
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    struct OnDrop(Arc<Notify>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (signal, gone) = (started.clone(), dropped.clone());
    let tool = Tool::builder("slow").description("Never ends.").handler(move |_, _| {
        let guard = OnDrop(gone.clone());
        signal.notify_one();
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    let bench = Bench::new([tool]);
    tokio::select! {
        _ = bench.call("slow", json!({ })) => panic!("it ended"),
        () = started.notified() => {}
    }
    dropped.notified().await;
    let record = bench.last_record();
    assert_eq!(record.ending.code, Some(ErrorCode::Cancelled));
    assert_eq!(record.facts.tool.as_ref(), "slow");
    assert_eq!(bench.count(|entry| matches!(entry, Entry::Finished(_))), 1);
}
