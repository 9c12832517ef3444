//! Runs that wait for a person.

use super::*;

/// A sequence whose second step needs approval.
pub(super) fn trip(ledger: Arc<dyn Ledger>, witness: &Witness) -> Runtime {
    let harmless = |name: &str| witness.tool(name).risk(Risk::Low);
    let runtime = Runtime::builder()
        .ledger(ledger)
        .tool(harmless("before"))
        .unwrap()
        .tool(witness.tool("send"))
        .unwrap()
        .tool(harmless("after"))
        .unwrap()
        .build();
    let steps = ["before", "send", "after"].map(|tool| Step::of(tool).arguments(json!({ "to": tool })));
    let trip = steps.into_iter().fold(compose::sequence("trip"), |trip, step| trip.step(step));
    let tool = trip.description("A trip.").on_error(OnError::Stop).build(runtime.registry()).unwrap();
    runtime.registry().register(Layer::Project, tool).unwrap();
    runtime
}

pub(super) fn went(witness: &Witness) -> Vec<String> {
    witness.seen().iter().map(|seen| seen["to"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_run_that_waits_goes_on_by_recovery_once_it_is_decided() {
    let (ledger, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
    let runtime = trip(ledger.clone(), &witness);
    let outcome = runtime.call(Call::new("trip", json!({})).by(bot())).await;
    let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
    assert_eq!(went(&witness), ["before"]);
    let shown = runtime.approvals().get(pending.approval_id).await.unwrap().unwrap();
    assert_eq!(shown.part.as_ref().map(|part| part.run), Some(outcome.call_id));
    assert!(runtime.recover().await.unwrap().is_empty(), "nothing is decided");
    // The same tool with the same arguments outside the run is another question.
    let apart = runtime.call(Call::new("send", json!({ "to": "send" })).by(bot())).await;
    assert!(matches!(&apart.status, Status::Pending(other) if other.approval_id != pending.approval_id));

    let later = trip(ledger.clone(), &witness);
    let edited = Some(json!({ "to": "edited" }));
    let decision = Decision::Approve { edited, remember: None, reason: None };
    later.approvals().decide(pending.approval_id, decision, &ada()).await.unwrap();
    let recovered = later.recover().await.unwrap();
    let [one] = &recovered[..] else { panic!("{recovered:?}") };
    assert!(matches!(&one.resumption, Resumption::Ended(outcome) if outcome.is_success()), "{one:?}");
    assert_eq!(one.run, outcome.call_id);
    assert_eq!(went(&witness), ["before", "edited", "after"]);
    let fetched = later.outcome_of(pending.approval_id, &bot()).await.unwrap();
    assert_eq!((fetched.call_id, fetched.is_success()), (outcome.call_id, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_can_wait_for_a_run_that_waits() {
    let (ledger, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
    let runtime = trip(ledger, &witness);
    let running = tokio::spawn({
        let call = Call::new("trip", json!({})).by(bot()).wait_for_approval(Duration::from_secs(60));
        let runtime = runtime.clone();
        async move { runtime.call(call).await }
    });
    let id = loop {
        if let [one] = &runtime.approvals().list(ApprovalQuery::pending()).await.unwrap()[..] {
            break one.id;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    runtime.approvals().decide(id, Decision::approve(), &ada()).await.unwrap();
    assert!(running.await.unwrap().is_success());
    assert_eq!(went(&witness), ["before", "send", "after"]);
}

#[tokio::test]
async fn a_run_whose_step_is_denied_fails_and_says_why() {
    let (ledger, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
    let runtime = trip(ledger.clone(), &witness);
    let outcome = runtime.call(Call::new("trip", json!({}))).await;
    let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
    runtime.approvals().decide(pending.approval_id, Decision::deny("too far"), &ada()).await.unwrap();
    let resumed = runtime.resume_run(outcome.call_id, None).await.unwrap();
    assert!(resumed.error().unwrap().message().contains("too far"), "{resumed:?}");
    assert_eq!(went(&witness), ["before"]);
    assert!(ledger.open_runs(None, 10).await.unwrap().is_empty());
}

/// Cuts a run short at every write between the question and its end, and takes it up again.
#[tokio::test]
async fn a_crash_anywhere_neither_loses_an_approval_nor_uses_it_twice() {
    for edited in [None, Some(json!({ "to": "edited" }))] {
        for cut_at in 0..40 {
            let (inner, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
            let writes = Arc::new(std::sync::atomic::AtomicU32::new(0));
            let count = writes.clone();
            // From one write on nothing is written any more: to the ledger that is a crash.
            let faulty = FaultyLedger::new(
                inner.clone(),
                Arc::new(move |boundary| {
                    let number = match boundary {
                        Boundary::Before => count.fetch_add(1, std::sync::atomic::Ordering::SeqCst),
                        Boundary::After => return Ok(()),
                    };
                    match number >= cut_at {
                        true => Err(helve::ports::JournalError::new("gone")),
                        false => Ok(()),
                    }
                }),
            );
            let crashing = trip(Arc::new(faulty), &witness);
            let outcome = crashing.call(Call::new("trip", json!({}))).await;
            if let Status::Pending(pending) = &outcome.status {
                let decision = Decision::Approve { edited: edited.clone(), remember: None, reason: None };
                if crashing.approvals().decide(pending.approval_id, decision, &ada()).await.is_ok() {
                    let _ = crashing.resume_run(outcome.call_id, None).await;
                }
            }
            inner.abandon_runs();
            let whole = writes.load(std::sync::atomic::Ordering::SeqCst) <= cut_at;
            let sound = trip(inner.clone(), &witness);
            for _ in 0..4 {
                sound.recover().await.unwrap();
                for one in sound.approvals().list(ApprovalQuery::pending()).await.unwrap() {
                    let decision = Decision::Approve { edited: edited.clone(), remember: None, reason: None };
                    sound.approvals().decide(one.id, decision, &ada()).await.unwrap();
                }
            }
            let sent = edited.as_ref().map_or("send", |_| "edited");
            let count = went(&witness).iter().filter(|to| *to == sent).count();
            assert!(count <= 1, "{cut_at}: {:?}", went(&witness));
            let used = sound.approvals().list(ApprovalQuery::default()).await.unwrap();
            let used = used.iter().filter(|one| one.state == ApprovalState::Used).count();
            assert!(used <= 1, "{cut_at}: asked twice for one step");
            // What had started when it was cut off asks whether it happened, and nothing else is lost.
            let open = inner.open_runs(None, 10).await.unwrap();
            assert!(count == 1 || cut_at < 3 || !open.is_empty(), "{cut_at}: {:?}", went(&witness));
            if whole {
                assert_eq!(went(&witness), ["before", sent, "after"], "{cut_at}");
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_questions_that_run_out_at_once_are_looked_at_together() {
    const RUNS: usize = 60;
    let (witness, clock) = (Witness::default(), Arc::new(ManualClock::default()));
    let inner = Arc::new(VolatileLedger::new(clock.clone(), Default::default()));
    let ledger = Arc::new(FaultyLedger::new(inner.clone(), Arc::new(|_| Ok(()))));
    let runtime = Runtime::builder().ledger(ledger.clone()).clock(clock.clone());
    let runtime = runtime.tool(witness.tool("send")).unwrap().build();
    let trip = compose::sequence("trip").step(Step::of("send").arguments(json!({ "to": "send" })));
    let tool = trip.description("A trip.").build(runtime.registry()).unwrap();
    runtime.registry().register(Layer::Project, tool).unwrap();
    for _ in 0..RUNS {
        let outcome = runtime.call(Call::new("trip", json!({}))).await;
        assert!(matches!(outcome.status, Status::Pending(_)), "{outcome:?}");
    }
    let following = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.approvals().follow().await.map(drop) }
    });
    let until_all_ended = async {
        // It listens, and has looked once.
        while ledger.histories() < RUNS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let before = ledger.histories();
        clock.advance(Duration::from_secs(48 * 3_600));
        runtime.approvals().sweep().await.unwrap();
        while !inner.open_runs(None, 1).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        before
    };
    let before = tokio::time::timeout(Duration::from_secs(30), until_all_ended).await.expect("all go on");
    following.abort();
    // One look at each, perhaps two, and once more to go on with it.
    let read = ledger.histories() - before;
    assert!(read <= 6 * RUNS, "{read} histories of {RUNS} runs");
    assert!(witness.seen().is_empty());
}
