//! Taking over what dead processes left, while everything else goes on.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use helve::ErrorCode;
use helve::run::Recalled;
use helve::runs::{Recovery, RunError};
use helve_testkit::clock::ManualClock;

use super::*;

/// Twice as many as have a place at a time.
const MANY: usize = 64;

/// A ledger in which calls of these tools were cut short in their middle.
async fn cut_short(tools: &[&'static str]) -> Arc<VolatileLedger> {
    cut_short_as(tools, idempotent).await
}

async fn cut_short_as(tools: &[&'static str], built: fn(&str) -> ToolBuilder) -> Arc<VolatileLedger> {
    cut_short_calls(tools, built, |call| call).await
}

async fn cut_short_calls(
    tools: &[&'static str],
    built: fn(&str) -> ToolBuilder,
    made: fn(Call) -> Call,
) -> Arc<VolatileLedger> {
    let ledger = Arc::new(VolatileLedger::default());
    let begun = Arc::new(AtomicUsize::new(0));
    let never_ends = |name: &&'static str| {
        let begun = Arc::clone(&begun);
        built(name).handler(move |_, _| {
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
            let (dying, call) = (dying.clone(), made(Call::new(*tool, json!({}))));
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
        move |one: &helve::runs::RecoveredRun| {
            told.lock()
                .unwrap()
                .push(matches!(&one.resumption, Resumption::Ended(outcome) if outcome.is_success()))
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

/// A service that is asked to pay, and may be at work on it while its client dies.
struct Service {
    ledger: Arc<VolatileLedger>,
    clock: Arc<ManualClock>,
    knows: Arc<Mutex<Recalled>>,
    asked: Arc<AtomicUsize>,
    paid: Arc<AtomicUsize>,
    survivor: Runtime,
}

fn pay(name: &str) -> ToolBuilder {
    let tool = Tool::builder(name).description("Pays.").input_schema(json!({ "type": "object" }));
    tool.timeout(Duration::from_secs(20))
}

impl Service {
    async fn at_work() -> Self {
        let ledger = cut_short_as(&["pay"], pay).await;
        let clock = Arc::new(ManualClock::new(jiff::Timestamp::now()));
        let knows = Arc::new(Mutex::new(Recalled::DidNotHappen));
        let (asked, paid) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, pays, known) = (asked.clone(), paid.clone(), knows.clone());
        let tool = pay("pay")
            .handler(move |_, _| {
                pays.fetch_add(1, SeqCst);
                async { Ok(json!("paid again")) }
            })
            .recall_handled(move |_, _| {
                counted.fetch_add(1, SeqCst);
                let known = known.lock().unwrap().clone();
                async move { Ok(known) }
            });
        let builder = Runtime::builder().ledger(ledger.clone()).clock(clock.clone());
        let survivor = builder.tool(tool).unwrap().build();
        Self { ledger, clock, knows, asked, paid, survivor }
    }

    async fn run(&self) -> CallId {
        self.ledger.open_runs(None, 1).await.unwrap()[0].run
    }

    /// The survivor looks, and again, for this long.
    async fn looks(&self, seconds: u64) -> Vec<helve::runs::RecoveredRun> {
        let mut recovered = Vec::new();
        for _ in 0..seconds {
            self.survivor.take_over(|_| {}).await.unwrap();
            recovered.extend(self.survivor.recover_left().await.unwrap());
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.clock.advance(Duration::from_secs(1));
        }
        recovered
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_be_at_work_still_is_not_made_again() {
    let service = Service::at_work().await;
    let run = service.run().await;
    assert!(service.looks(15).await.is_empty());
    assert_eq!((service.paid.load(SeqCst), service.asked.load(SeqCst)), (0, 1), "it is asked, and left");
    assert_eq!(service.survivor.recovery(), Recovery::default());
    let by_hand = service.survivor.resume_run(run, None).await;
    assert!(matches!(by_hand, Err(RunError::AtWork { .. })), "{by_hand:?}");
    // What was at work has come to its end.
    *service.knows.lock().unwrap() = Recalled::Happened(json!("paid once"));
    let recovered = service.looks(15).await.pop().unwrap();
    let Resumption::Ended(outcome) = recovered.resumption else { panic!("{recovered:?}") };
    assert_eq!(outcome.into_result().unwrap(), "paid once");
    assert_eq!(service.paid.load(SeqCst), 0, "nothing is paid twice");
}

#[tokio::test(start_paused = true)]
async fn what_did_not_happen_in_all_of_its_time_is_done_again() {
    let service = Service::at_work().await;
    let recovered = service.looks(30).await;
    assert!(
        matches!(&recovered[..], [one] if matches!(&one.resumption, Resumption::Ended(_))),
        "{recovered:?}"
    );
    assert_eq!(service.paid.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn what_only_the_dead_process_was_at_is_done_again_at_once() {
    let service = Service::at_work().await;
    *service.knows.lock().unwrap() = Recalled::WillNotHappen;
    let run = service.run().await;
    assert!(service.survivor.resume_run(run, None).await.unwrap().is_success());
    assert_eq!(service.paid.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_does_not_forget_what_may_be_at_work() {
    for (seconds, is) in [(0, "outcome_unknown"), (30, "cancelled")] {
        let service = Service::at_work().await;
        service.clock.advance(Duration::from_secs(seconds));
        let outcome = service.survivor.cancel_run(service.run().await).await.unwrap().unwrap();
        assert_eq!((code(&outcome), service.paid.load(SeqCst)), (is, 0), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_taken_up_is_said_once_and_tried_less_and_less_often() {
    let ledger = cut_short(&["works"]).await;
    let (tries, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&tries);
    let faulty = FaultyLedger::new(
        ledger,
        Arc::new(move |_: Boundary| {
            counted.fetch_add(1, SeqCst);
            Err(helve::ports::JournalError::new("its row was changed"))
        }),
    );
    let works = idempotent("works").handler(|_, _| async { Ok(json!({})) });
    let survivor = runtime(Arc::new(faulty), [works], Settings::default());
    for _ in 0..100 {
        let told = Arc::clone(&told);
        let tell = move |_: &helve::runs::RecoveredRun| {
            told.fetch_add(1, SeqCst);
        };
        survivor.take_over(tell).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(told.load(SeqCst), 1);
    assert!((2..10).contains(&tries.load(SeqCst)), "{tries:?}");
    assert_eq!(survivor.recovery(), Recovery::default(), "it is neither done nor under way");
}

/// A tool that can be asked, and knows nothing at first.
fn pays(name: &str) -> ToolBuilder {
    Tool::builder(name)
        .description("Pays.")
        .input_schema(json!({ "type": "object" }))
        .recall_handled(|_, _| std::future::ready(Ok(Recalled::Unknown)))
}

#[tokio::test]
async fn whoever_repeats_a_call_that_waits_makes_that_it_is_asked_again() {
    let keyed = |call: Call| call.idempotency_key("k");
    let ledger = cut_short_calls(&["pays"], pays, keyed).await;
    let (knows, paid) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (known, counted) = (Arc::clone(&knows), Arc::clone(&paid));
    let pays = pays("pays")
        .recall_handled(move |_, _| {
            let unknown = || ToolError::new(ErrorCode::OutcomeUnknown, "look for receipt 17");
            std::future::ready(match known.load(SeqCst) {
                true => Ok(Recalled::Happened(json!("receipt 17"))),
                false => Err(unknown()),
            })
        })
        .handler(move |_, _| {
            counted.fetch_add(1, SeqCst);
            async { Ok(json!("paid")) }
        });
    let survivor = runtime(ledger.clone(), [pays], Settings::default());
    let recovered = survivor.recover().await.unwrap();
    assert!(matches!(recovered[0].resumption, Resumption::Waits(_)), "{recovered:?}");
    let again = || survivor.call(keyed(Call::new("pays", json!({}))));
    let unknown = again().await;
    assert_eq!(code(&unknown), "outcome_unknown");
    assert!(unknown.error().unwrap().message().contains("look for receipt 17"), "{unknown:?}");
    knows.store(true, SeqCst);
    let known = again().await;
    assert_eq!(known.replay_of, Some(recovered[0].run));
    assert_eq!((known.into_result().unwrap(), paid.load(SeqCst)), (json!("receipt 17"), 0));
    assert!(ledger.open_runs(None, 1).await.unwrap().is_empty(), "the run has ended with that");
}
