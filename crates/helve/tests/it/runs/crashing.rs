//! Crashes at every boundary, and resuming.

use super::*;

/// What a crash at one boundary leads to.
struct Crash {
    world: World,
    ledger: Arc<VolatileLedger>,
    /// Whether the run got to its end before the crash.
    ended: bool,
}

/// Runs `saga` until its ledger dies at boundary `at`; whatever comes later is not written.
async fn crash(at: usize, last: &'static str, on_crash: OnCrash) -> Crash {
    let (world, ledger) = (World::default(), Arc::new(VolatileLedger::default()));
    let passed = std::sync::atomic::AtomicUsize::new(0);
    let faulty = FaultyLedger::new(
        ledger.clone(),
        Arc::new(move |_: Boundary| {
            let number = passed.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if number >= at { Err(helve::ports::JournalError::new("the process is gone")) } else { Ok(()) }
        }),
    );
    let runtime = saga(Arc::new(faulty), &world, last, on_crash);
    let outcome = runtime.call(Call::new("saga", json!({})).idempotency_key("k")).await;
    let ended =
        code(&outcome) != "journal_unavailable" && ledger.open_runs(None, 1).await.unwrap().is_empty();
    ledger.abandon_runs();
    Crash { world, ledger, ended }
}

fn saga(ledger: Arc<dyn Ledger>, world: &World, last: &str, on_crash: OnCrash) -> Runtime {
    let [first, unfirst] = world.doable("first");
    let tools = [first.effect(count_up(true)), unfirst, failing("broken"), world.act("last")];
    let tools = tools.into_iter().chain(world.doable("second"));
    let runtime = runtime(ledger, tools, Settings::default());
    let steps = ["first", "second", last];
    let composed = steps.iter().fold(compose::sequence("saga"), |composed, tool| {
        composed.step(Step::of(*tool).arguments(json!({})))
    });
    let composed = composed
        .description("A saga.")
        .on_error(OnError::Undo)
        .define(|tool| tool.on_crash(on_crash))
        .build(runtime.registry())
        .unwrap();
    compose(&runtime, composed);
    runtime
}

/// Takes up what a crash left, telling the truth about what nobody else can know.
async fn recover(crash: &Crash, last: &str, on_crash: OnCrash) {
    let runtime = saga(crash.ledger.clone(), &crash.world, last, on_crash);
    let recovered = runtime.recover().await.unwrap();
    for one in recovered {
        let mut waits = match one.resumption {
            Resumption::Ended(_) => None,
            Resumption::Waits(outcome) => Some(outcome),
            Resumption::Failed(error) => panic!("{error}"),
        };
        while let Some(outcome) = waits {
            assert_eq!(code(&outcome), "outcome_unknown");
            let asked = waiting_for(&crash.ledger, one.run).await;
            let happened = crash.world.count(&asked) > 0;
            let answer = if happened { Finding::Happened } else { Finding::DidNotHappen };
            let result = happened.then(|| json!({ "did": asked }));
            let settlement = Settlement { call_id: None, answer, result, by: None };
            let resumed = runtime.resume_run(one.run, Some(settlement)).await.unwrap();
            let still_open = !crash.ledger.open_runs(None, 1).await.unwrap().is_empty();
            waits = still_open.then_some(resumed);
        }
    }
    assert!(crash.ledger.open_runs(None, 10).await.unwrap().is_empty());
}

/// The tool of the call that a run waits for.
async fn waiting_for(ledger: &VolatileLedger, run: CallId) -> String {
    let history = ledger.history(run).await.unwrap();
    let asked = history.iter().rev().find_map(|entry| match entry {
        helve::record::Entry::Step(step) if matches!(step.kind, StepKind::Waiting { .. }) => {
            Some(step.call_id)
        }
        _ => None,
    });
    let facts = history.iter().filter_map(helve::record::Entry::facts);
    facts.filter(|facts| Some(facts.call_id) == asked).map(|facts| facts.tool.to_string()).next().unwrap()
}

#[tokio::test]
async fn after_a_crash_at_any_boundary_a_run_is_finished_and_nothing_is_done_twice() {
    let mut at = 0;
    loop {
        let crash = crash(at, "last", OnCrash::Resume).await;
        recover(&crash, "last", OnCrash::Resume).await;
        let done = crash.world.done();
        let began = !crash.ledger.entries().is_empty();
        if began && !done.is_empty() {
            assert_eq!(done, ["first", "second", "last"], "boundary {at}");
            assert_eq!(orders(&*crash.ledger).await, json!(1), "boundary {at}");
        }
        if crash.ended {
            break;
        }
        at += 1;
    }
    assert!(at > 8, "only {at} boundaries were tried");
}

#[tokio::test]
async fn after_a_crash_at_any_boundary_a_failed_run_is_undone_once() {
    let mut at = 0;
    loop {
        let crash = crash(at, "broken", OnCrash::Resume).await;
        recover(&crash, "broken", OnCrash::Resume).await;
        let done = crash.world.done();
        if !done.is_empty() {
            assert_eq!(done, ["first", "second", "unsecond", "unfirst"], "boundary {at}");
            assert_eq!(orders(&*crash.ledger).await, json!(null), "boundary {at}");
        }
        if crash.ended {
            break;
        }
        at += 1;
    }
    assert!(at > 12, "only {at} boundaries were tried");
}

#[tokio::test]
async fn a_run_that_is_to_be_rolled_back_after_a_crash_is() {
    let mut at = 0;
    loop {
        let crash = crash(at, "last", OnCrash::RollBack).await;
        if crash.ended {
            break;
        }
        recover(&crash, "last", OnCrash::RollBack).await;
        let world = &crash.world;
        for name in ["first", "second"] {
            assert!(world.count(name) <= 1, "boundary {at}: {:?}", world.done());
            assert!(
                world.count(&format!("un{name}")) <= world.count(name),
                "boundary {at}: {:?}",
                world.done()
            );
        }
        at += 1;
    }
}

#[tokio::test]
async fn a_run_can_be_left_to_a_person() {
    let crash = crash(6, "last", OnCrash::Ask).await;
    let runtime = saga(crash.ledger.clone(), &crash.world, "last", OnCrash::Ask);
    let recovered = runtime.recover().await.unwrap();
    assert!(matches!(recovered[0].resumption, Resumption::Waits(_)), "{recovered:?}");
    assert!(runtime.recover().await.unwrap().is_empty(), "it waits, and is not resumed");
}

#[tokio::test]
async fn what_the_journals_failure_has_left_goes_on_in_the_same_process_once_it_works_again() {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    let (mut at, mut left) = (0, 0);
    loop {
        let (world, ledger) = (World::default(), Arc::new(VolatileLedger::default()));
        let (passed, mended) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let works = Arc::clone(&mended);
        let faulty = FaultyLedger::new(
            ledger.clone(),
            Arc::new(move |_: Boundary| match works.load(SeqCst) || passed.fetch_add(1, SeqCst) < at {
                true => Ok(()),
                false => Err(helve::ports::JournalError::new("the disk is full")),
            }),
        );
        let runtime = saga(Arc::new(faulty), &world, "last", OnCrash::Resume);
        let outcome = runtime.call(Call::new("saga", json!({}))).await;
        if outcome.is_success() {
            break;
        }
        mended.store(true, SeqCst);
        let is_open = !ledger.open_runs(None, 1).await.unwrap().is_empty();
        let resumption = runtime.recover_left().await.unwrap();
        left += usize::from(is_open);
        assert_eq!(
            is_open,
            resumption.iter().any(|one| !matches!(one.resumption, Resumption::Failed(_))),
            "boundary {at}"
        );
        let twice = ["first", "second", "last"].into_iter().find(|name| world.count(name) > 1);
        assert_eq!(twice, None, "boundary {at}");
        // It has ended, or waits for a person; nobody takes it up again.
        assert!(runtime.recover_left().await.unwrap().is_empty(), "boundary {at}");
        at += 1;
    }
    assert!(left > 5, "only {left} of {at} were left open");
}
