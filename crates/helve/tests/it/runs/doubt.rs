//! Parts that were stopped, took too long or got no answer: found out before anything is undone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use helve::record::Entry;
use helve::run::Recalled;
use helve::runs::RunError;
use helve_testkit::clock::ManualClock;

use super::*;

/// A tool that has its effect and does not answer in time, and what it knows of that later.
#[derive(Clone)]
struct Setup {
    world: World,
    timeout: Duration,
    knows: Arc<Mutex<Recalled>>,
    asked: Arc<AtomicUsize>,
    clock: Arc<ManualClock>,
}

impl Setup {
    fn new(knows: Recalled) -> Self {
        let (world, timeout) = (World::default(), Duration::from_millis(50));
        Self {
            world,
            timeout,
            knows: Arc::new(Mutex::new(knows)),
            asked: Arc::default(),
            clock: Arc::default(),
        }
    }

    fn slow(&self) -> ToolBuilder {
        let (doing, asked) = (self.clone(), self.clone());
        Tool::builder("slow")
            .description("Has its effect, and does not answer in time.")
            .input_schema(json!({ "type": "object" }))
            .timeout(self.timeout)
            .handler(move |_, _| {
                doing.world.0.lock().unwrap().push("slow".to_owned());
                std::future::pending()
            })
            .undo(Undo::Tool {
                tool: "unslow".to_owned(),
                arguments: Template::parse(json!({ "what": "{{ result.did }}" })).unwrap(),
            })
            .recall_handled(move |_, _| {
                asked.asked.fetch_add(1, SeqCst);
                let known = asked.knows.lock().unwrap().clone();
                async move { Ok(known) }
            })
    }

    /// A saga whose second step does not answer in time.
    fn saga(&self, ledger: Arc<dyn Ledger>, policy: OnError) -> Runtime {
        let tools = self.world.doable("write").into_iter().chain([self.slow(), self.world.act("unslow")]);
        let builder = Runtime::builder().ledger(ledger).clock(self.clock.clone()).settings(impatient());
        let runtime = tools.fold(builder, |builder, tool| builder.tool(tool).unwrap()).build();
        sequence(&runtime, "saga", &["write", "slow"], policy);
        runtime
    }
}

fn impatient() -> Settings {
    Settings { cancel_grace: Duration::from_millis(20), ..Settings::default() }
}

fn ledger() -> Arc<VolatileLedger> {
    Arc::default()
}

fn happened() -> Recalled {
    Recalled::Happened(json!({ "did": "slow" }))
}

#[tokio::test]
async fn a_part_that_took_too_long_is_looked_up_before_its_saga_is_undone() {
    let cases = [
        (happened(), PartState::Undone, vec!["write", "slow", "unslow", "unwrite"]),
        (Recalled::WillNotHappen, PartState::Failed, vec!["write", "slow", "unwrite"]),
        (Recalled::DidNotHappen, PartState::Unknown, vec!["write", "slow", "unwrite"]),
        (Recalled::Unknown, PartState::Unknown, vec!["write", "slow", "unwrite"]),
    ];
    for (knows, state, world_after) in cases {
        let setup = Setup::new(knows);
        let (runtime, world) = (setup.saga(ledger(), OnError::Undo), &setup.world);
        let outcome = runtime.call(Call::new("saga", json!({}))).await;
        assert_eq!(code(&outcome), "timeout");
        assert_eq!(states(&outcome)[..2], [("write", PartState::Undone), ("slow", state)]);
        assert_eq!(world.done(), world_after);
        let again = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
        assert_eq!(again.is_success(), state != PartState::Unknown, "{again:?}");
        assert_eq!(world.done(), world_after, "nothing is undone twice");
    }
}

#[tokio::test]
async fn a_part_that_may_be_at_work_still_is_unknown_until_its_time_is_over() {
    let setup = Setup::new(Recalled::DidNotHappen);
    let runtime = setup.saga(ledger(), OnError::Undo);
    let outcome = runtime.call(Call::new("saga", json!({}))).await;
    assert_eq!(states(&outcome)[1], ("slow", PartState::Unknown));
    let early = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(!early.is_success(), "{early:?}");
    setup.clock.advance(Duration::from_secs(10));
    let late = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(late.is_success(), "{late:?}");
    assert_eq!(setup.world.done(), ["write", "slow", "unwrite"]);
}

#[tokio::test]
async fn a_part_that_is_cancelled_in_the_middle_is_looked_up_and_undone() {
    let mut setup = Setup::new(happened());
    setup.timeout = Duration::from_secs(60);
    let ledger = ledger();
    let (runtime, world) = (setup.saga(ledger.clone(), OnError::Undo), &setup.world);
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.call(Call::new("saga", json!({}))).await }
    });
    while world.count("slow") == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let run = ledger.open_runs(None, 10).await.unwrap()[0].run;
    runtime.cancel_run(run).await.unwrap();
    let outcome = running.await.unwrap();
    assert_eq!(code(&outcome), "cancelled", "{outcome:?}");
    assert_eq!(world.done(), ["write", "slow", "unslow", "unwrite"]);
}

#[tokio::test]
async fn a_finished_run_is_undone_once_somebody_knows_what_became_of_its_part() {
    let setup = Setup::new(Recalled::Unknown);
    let (runtime, world) = (setup.saga(ledger(), OnError::Stop), &setup.world);
    let run = runtime.call(Call::new("saga", json!({}))).await.call_id;
    let first = runtime.undo_run(run, Caller::local()).await.unwrap();
    let message = first.error().unwrap().message().to_owned();
    assert!(message.contains("nobody knows whether it had its effect"), "{message}");
    assert_eq!(world.done(), ["write", "slow", "unwrite"]);
    *setup.knows.lock().unwrap() = happened();
    let second = runtime.undo_run(run, Caller::local()).await.unwrap();
    assert!(second.is_success(), "{second:?}");
    assert_eq!(world.done(), ["write", "slow", "unwrite", "unslow"]);
    let third = runtime.undo_run(run, Caller::local()).await.unwrap();
    assert!(third.is_success(), "{third:?}");
    assert_eq!((world.done().len(), setup.asked.load(SeqCst)), (4, 2));
}

#[tokio::test]
async fn a_person_says_what_became_of_a_part_of_a_finished_run_once() {
    for (answer, world_after) in [
        (Finding::Happened, vec!["write", "slow", "unslow", "unwrite"]),
        (Finding::DidNotHappen, vec!["write", "slow", "unwrite"]),
    ] {
        let (setup, ledger) = (Setup::new(Recalled::Unknown), ledger());
        let (runtime, world) = (setup.saga(ledger.clone(), OnError::Stop), &setup.world);
        let outcome = runtime.call(Call::new("saga", json!({}))).await;
        let (run, part) = (outcome.call_id, outcome.parts[1].call_id);
        let of_write = runtime.settle_call(run, outcome.parts[0].call_id, answer, None, None).await;
        assert!(matches!(of_write, Err(RunError::NotInDoubt(_))), "{of_write:?}");
        let (result, ada) = (Some(json!({ "did": "slow" })), Some("ada".to_owned()));
        runtime.settle_call(run, part, answer, result, ada.clone()).await.unwrap();
        let said = ledger.history(run).await.unwrap().into_iter().find_map(|entry| match entry {
            Entry::Step(step) if step.call_id == part => match step.kind {
                StepKind::Settled { answer, by } => Some((answer, by)),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(said, Some((answer, ada)));
        let again = runtime.settle_call(run, part, answer, None, None).await;
        assert!(matches!(again, Err(RunError::NotInDoubt(_))), "{again:?}");
        let undone = runtime.undo_run(run, Caller::local()).await.unwrap();
        assert!(undone.is_success(), "{undone:?}");
        assert_eq!(world.done(), world_after);
        assert_eq!(setup.asked.load(SeqCst), 0, "the person knows");
    }
}

#[tokio::test]
async fn a_secret_in_what_a_person_found_out_is_not_recorded() {
    let (setup, ledger) = (Setup::new(Recalled::Unknown), ledger());
    let runtime = setup.saga(ledger.clone(), OnError::Stop);
    let outcome = runtime.call(Call::new("saga", json!({}))).await;
    let (run, part) = (outcome.call_id, outcome.parts[1].call_id);
    let result = json!({ "did": "slow", "password": "hunter2" });
    runtime.settle_call(run, part, Finding::Happened, Some(result), None).await.unwrap();
    let entries = format!("{:?}", ledger.entries());
    assert!(entries.contains("password") && !entries.contains("hunter2"), "{entries}");
    // What `unslow` takes holds no secret.
    let undone = runtime.undo_run(run, Caller::local()).await.unwrap();
    assert!(undone.is_success(), "{undone:?}");
    assert_eq!(setup.world.done(), ["write", "slow", "unslow", "unwrite"]);
}

#[tokio::test]
async fn what_could_not_be_undone_after_it_was_looked_up_is_tried_again() {
    let (setup, works) = (Setup::new(happened()), Arc::new(AtomicBool::new(false)));
    let (works_now, world) = (works.clone(), setup.world.clone());
    let undo = setup.world.act("unslow").handler(move |_, _| {
        let undone = works_now.load(SeqCst).then(|| world.0.lock().unwrap().push("unslow".to_owned()));
        async move { undone.map(|()| json!({})).ok_or_else(|| ToolError::failed("not now")) }
    });
    let runtime = runtime(ledger(), [setup.slow(), undo], impatient());
    sequence(&runtime, "saga", &["slow"], OnError::Undo);
    let outcome = runtime.call(Call::new("saga", json!({}))).await;
    assert!(states(&outcome).contains(&("slow", PartState::UndoFailed)), "{outcome:?}");
    works.store(true, SeqCst);
    let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(undone.is_success(), "{undone:?}");
    assert_eq!(setup.world.count("unslow"), 1);
}
