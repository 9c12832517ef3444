//! Taking over what dead processes left, beside everything else.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use super::*;

/// Twice as many as have a place at a time.
const MANY: usize = 64;

/// A ledger in which calls of these tools were cut short in their middle.
async fn cut_short(tools: &[&'static str]) -> Arc<VolatileLedger> {
    let ledger = Arc::new(VolatileLedger::default());
    let begun = Arc::new(AtomicUsize::new(0));
    let never_ends = |name: &&'static str| {
        let begun = Arc::clone(&begun);
        idempotent(name).handler(move |_, _| {
            begun.fetch_add(1, SeqCst);
            std::future::pending()
        })
    };
    let mut names = tools.to_vec();
    names.sort_unstable();
    names.dedup();
    let is_dead = Arc::new(AtomicBool::new(false));
    let dead = Arc::clone(&is_dead);
    let faulty = FaultyLedger::new(
        ledger.clone(),
        Arc::new(move |_: Boundary| match dead.load(SeqCst) {
            true => Err(helve::ports::JournalError::new("the process is gone")),
            false => Ok(()),
        }),
    );
    let dying = runtime(Arc::new(faulty), names.iter().map(never_ends), Settings::default());
    let calls: Vec<_> = tools
        .iter()
        .map(|tool| {
            let (dying, call) = (dying.clone(), Call::new(*tool, json!({})));
            tokio::spawn(async move { dying.call(call).await })
        })
        .collect();
    while begun.load(SeqCst) < tools.len() {
        tokio::task::yield_now().await;
    }
    // They die where they are, and record nothing more.
    is_dead.store(true, SeqCst);
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    for call in calls {
        assert!(call.await.is_err());
    }
    ledger.abandon_runs();
    ledger
}

fn idempotent(name: &str) -> ToolBuilder {
    Tool::builder(name).description("Can be repeated.").input_schema(json!({ "type": "object" })).idempotent()
}

#[tokio::test(start_paused = true)]
async fn runs_that_hang_keep_their_places_for_a_moment_only() {
    let tools: Vec<_> = std::iter::repeat_n("hangs", MANY).chain(["works"]).collect();
    let ledger = cut_short(&tools).await;
    let hangs = idempotent("hangs").handler(|_, _| std::future::pending());
    let works = idempotent("works").handler(|_, _| async { Ok(json!({})) });
    let survivor = runtime(ledger.clone(), [hangs, works], Settings::default());
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = {
        let told = Arc::clone(&told);
        move |one: &helve::runs::Recovered| {
            told.lock()
                .unwrap()
                .push(matches!(&one.taken_up, TakenUp::Ended(outcome) if outcome.is_success()))
        }
    };
    survivor.take_over(tell).await.unwrap();
    assert_eq!(survivor.recovery().total, MANY as u64 + 1);
    // A call that has nothing to do with them goes through at once.
    assert!(survivor.call(Call::new("works", json!({}))).await.is_success());
    while survivor.recovery().done == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(survivor.recovery().done, 1, "the others still hang");
    assert_eq!(*told.lock().unwrap(), [true]);
    // And each of them ends, when its own time is up.
    while survivor.recovery().done <= MANY as u64 {
        survivor.take_over(|_| {}).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(survivor.recovery().total, MANY as u64 + 1, "none was taken twice");
    assert!(ledger.open_runs(None, 1).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_tool_is_not_here_is_left_until_it_is() {
    let ledger = cut_short(&["elsewhere"]).await;
    let survivor = runtime(ledger.clone(), [], Settings::default());
    let look = async || {
        survivor.take_over(|_| {}).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    for _ in 0..30 {
        look().await;
    }
    let open = ledger.open_runs(None, 10).await.unwrap();
    assert_eq!((open.len(), open[0].holder), (1, helve::ports::Holder::Nobody), "somebody else may have it");
    assert_eq!(survivor.recovery(), helve::runs::Recovery::default());
    let tool = idempotent("elsewhere").handler(|_, _| async { Ok(json!({})) }).build().unwrap();
    survivor.registry().register(helve::Layer::Project, tool).unwrap();
    while survivor.recovery().done == 0 {
        look().await;
    }
    assert!(ledger.open_runs(None, 10).await.unwrap().is_empty());
}
