//! Waiting for a decision, and coming back for it.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_call_goes_on_as_soon_as_it_is_decided() {
    let bench = Arc::new(Bench::new());
    let waiting = |to: &'static str| {
        let runtime = bench.runtime.clone();
        tokio::spawn(async move { runtime.call(send(to).wait_for_approval(Duration::from_secs(60))).await })
    };
    let asked = async |count: usize| loop {
        let found = bench.runtime.approvals().list(ApprovalQuery::pending()).await.unwrap();
        if found.len() == count {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let (good, bad) = (waiting("ada"), waiting("eve"));
    for approval in asked(2).await {
        let decision = match approval.arguments.get().contains("ada") {
            true => Decision::approve(),
            false => Decision::deny("not her"),
        };
        bench.decide(approval.id, decision).await.unwrap();
    }
    assert!(good.await.unwrap().is_success());
    assert_eq!(code(&bad.await.unwrap()), "approval_denied");
    assert_eq!(bench.witness.seen(), [json!({ "to": "ada", "text": "hi" })]);
    // Taken back by the caller while it waits: it is not asked again.
    let gone = waiting("bob");
    let asked_bob = asked(1).await;
    bench.runtime.approvals().withdraw(asked_bob[0].id, &bot()).await.unwrap();
    assert_eq!(code(&gone.await.unwrap()), "cancelled");
    assert!(asked(0).await.is_empty());
    // Time is up: it is pending as if it had not waited.
    let outcome = bench.runtime.call(send("tom").wait_for_approval(Duration::from_millis(20))).await;
    assert!(matches!(outcome.status, Status::Pending(_)), "{outcome:?}");
    // Taken back: the question stands.
    let token = tokio_util::sync::CancellationToken::new();
    token.cancel();
    let call = send("tim").wait_for_approval(Duration::from_secs(60)).cancellation(token);
    assert_eq!(code(&bench.runtime.call(call).await), "cancelled");
    assert_eq!(asked(2).await.len(), 2);
}

#[tokio::test]
async fn outcomes_are_fetched_by_id_and_the_call_runs_once() {
    let bench = Bench::new();
    let id = bench.ask(send("ada")).await.approval_id;
    let fetch = async || bench.runtime.outcome_of(id, &bot()).await.unwrap();
    assert!(matches!(fetch().await.status, Status::Pending(_)));
    bench.approve(id).await;
    let first = fetch().await;
    assert!(first.is_success(), "{first:?}");
    let second = fetch().await;
    assert_eq!((second.call_id, second.into_result().unwrap()), (first.call_id, json!("sent")));
    assert_eq!(bench.witness.seen().len(), 1);
}

#[tokio::test]
async fn a_key_that_has_run_is_not_asked_about_again() {
    let bench = Bench::new();
    let call = || send("ada").idempotency_key("order-17");
    let id = bench.ask(call()).await.approval_id;
    bench.approve(id).await;
    let first = bench.runtime.call(call()).await;
    assert!(first.is_success(), "{first:?}");
    let again = bench.runtime.call(call()).await;
    assert_eq!((again.replay_of, again.is_success()), (Some(first.call_id), true), "{again:?}");
    assert_eq!(bench.witness.seen().len(), 1);
}

#[tokio::test]
async fn a_call_that_did_nothing_is_asked_about_anew_under_its_key() {
    let refuses = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let told = Arc::clone(&refuses);
    let bench = Bench::with(
        |tool| {
            let told = Arc::clone(&told);
            tool.handler(move |_, _| {
                let refuses = told.swap(false, std::sync::atomic::Ordering::SeqCst);
                let nothing = || ToolError::failed("the server is down").nothing_done();
                std::future::ready(if refuses { Err(nothing()) } else { Ok(json!("sent")) })
            })
        },
        |_| {},
    );
    let call = || send("ada").idempotency_key("order-17");
    let first = bench.ask(call()).await.approval_id;
    bench.approve(first).await;
    assert!(bench.runtime.call(call()).await.error().unwrap().did_nothing());
    let second = bench.ask(call()).await.approval_id;
    assert_ne!(first, second, "what was used up is used up");
    bench.approve(second).await;
    assert!(bench.runtime.call(call()).await.is_success());
    assert!(bench.runtime.call(call()).await.replay_of.is_some());
}

#[tokio::test]
async fn a_key_of_another_call_is_refused_before_anybody_is_asked() {
    let bench = Bench::new();
    let id = bench.ask(send("ada").idempotency_key("k")).await.approval_id;
    bench.approve(id).await;
    assert!(bench.runtime.call(send("ada").idempotency_key("k")).await.is_success());
    let other = bench.runtime.call(send("bob").idempotency_key("k")).await;
    assert_eq!(code(&other), "validation_failed", "{other:?}");
    assert!(other.error().unwrap().message().contains("idempotency_key"), "{other:?}");
}

#[tokio::test]
async fn reading_too_uses_its_approval_up_before_it_starts() {
    let bench = Bench::with(|tool| tool.read_only(), |_| {});
    let id = bench.ask(send("ada")).await.approval_id;
    bench.approve(id).await;
    let outcome = bench.runtime.call(send("ada")).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(bench.get(id).await.used_by, Some(outcome.call_id));
    let entries = bench.ledger.entries();
    let used = |entry: &Entry| matches!(entry, Entry::Started(started) if started.grant.is_some());
    let ended = |entry: &Entry| matches!(entry, Entry::Finished(finished) if finished.facts.call_id == outcome.call_id);
    assert!(entries.iter().position(used) < entries.iter().position(ended));
    assert!(bench.ledger.open_runs(None, 10).await.unwrap().is_empty());
    bench.ask(send("ada")).await;
}

/// A runtime over a ledger whose tool waits, once it has begun, until it is let go.
fn slow(ledger: &Arc<VolatileLedger>, witness: &Witness, go: &Arc<tokio::sync::Semaphore>) -> Runtime {
    let (witness, go) = (witness.clone(), Arc::clone(go));
    let tool = witness.tool("send").handler(move |arguments, _| {
        witness.0.lock().unwrap().push(arguments);
        let go = Arc::clone(&go);
        async move {
            go.acquire().await.unwrap().forget();
            Ok(json!("sent"))
        }
    });
    Runtime::builder().ledger(ledger.clone()).tool(tool).unwrap().build()
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_come_back_at_once_it_runs_once_and_nobody_is_asked_anew() {
    let (ledger, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    // Two of them, as two processes over one journal are.
    let runtimes = [slow(&ledger, &witness, &go), slow(&ledger, &witness, &go)];
    let Status::Pending(pending) = runtimes[0].call(send("ada")).await.status else { panic!("it asks") };
    let id = pending.approval_id;
    runtimes[0].approvals().decide(id, Decision::approve(), &ada()).await.unwrap();
    let fetching: Vec<_> = (0..20)
        .map(|number| {
            let runtime = runtimes[number % 2].clone();
            tokio::spawn(async move { runtime.outcome_of(id, &bot()).await.unwrap() })
        })
        .collect();
    while witness.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    // One more than should run, were there another.
    go.add_permits(2);
    for fetched in fetching {
        let outcome = fetched.await.unwrap();
        assert!(outcome.is_success(), "{outcome:?}");
    }
    assert_eq!(witness.seen().len(), 1);
    let asked = runtimes[0].approvals().list(ApprovalQuery::default()).await.unwrap();
    assert_eq!(asked.iter().map(|one| (one.id, one.state)).collect::<Vec<_>>(), [(id, ApprovalState::Used)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_back_and_goes_away_takes_nothing_back() {
    let (ledger, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let runtime = slow(&ledger, &witness, &go);
    let Status::Pending(pending) = runtime.call(send("ada")).await.status else { panic!("it asks") };
    let id = pending.approval_id;
    runtime.approvals().decide(id, Decision::approve(), &ada()).await.unwrap();
    let impatient = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.outcome_of(id, &bot()).await }
    });
    while witness.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    impatient.abort();
    assert!(impatient.await.unwrap_err().is_cancelled());
    go.add_permits(1);
    let outcome = runtime.outcome_of(id, &bot()).await.unwrap();
    assert_eq!((outcome.into_result().unwrap(), witness.seen().len()), (json!("sent"), 1));
}

#[tokio::test]
async fn what_needs_no_approval_any_more_still_runs_once_for_the_one_it_has() {
    let bench = Bench::new();
    let id = bench.ask(send("ada")).await.approval_id;
    let remember = Some(Remember { same: Same::Fields(Vec::new()), ttl: None });
    let always = Decision::Approve { edited: None, remember, reason: None };
    bench.decide(id, always).await.unwrap();
    for _ in 0..3 {
        let outcome = bench.runtime.outcome_of(id, &bot()).await.unwrap();
        assert!(outcome.is_success(), "{outcome:?}");
    }
    assert_eq!((bench.witness.seen().len(), bench.get(id).await.state), (1, ApprovalState::Used));
}
