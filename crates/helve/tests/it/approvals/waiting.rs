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
