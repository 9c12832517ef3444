//! A call made of others that is made again: it finds the run that waits, or that has ended since, and the tools are
//! the witness that nothing is done twice.

use std::task::Poll;

use tokio::sync::Semaphore;

use super::runs::{trip, went};
use super::*;

struct Trip {
    runtime: Runtime,
    ledger: Arc<VolatileLedger>,
    witness: Witness,
}

impl Trip {
    fn new() -> Self {
        let (ledger, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
        Self { runtime: trip(ledger.clone(), &witness), ledger, witness }
    }

    /// Another process with the same ledger.
    fn elsewhere(&self) -> Self {
        Self {
            runtime: trip(self.ledger.clone(), &self.witness),
            ledger: self.ledger.clone(),
            witness: self.witness.clone(),
        }
    }

    async fn go(&self) -> Outcome {
        self.runtime.call(Call::new("trip", json!({})).by(bot())).await
    }

    async fn question(&self) -> ApprovalId {
        let outcome = self.go().await;
        match outcome.status {
            Status::Pending(pending) => pending.approval_id,
            other => panic!("{other:?}"),
        }
    }

    async fn approve(&self, id: ApprovalId) {
        self.runtime.approvals().decide(id, Decision::approve(), &ada()).await.unwrap();
    }

    fn went(&self) -> Vec<String> {
        went(&self.witness)
    }
}

const ONCE: [&str; 3] = ["before", "send", "after"];

#[tokio::test]
async fn while_it_waits_the_same_call_gets_the_same_question() {
    let trip = Trip::new();
    let first = trip.question().await;
    assert_eq!(trip.question().await, first);
    assert_eq!(trip.elsewhere().question().await, first);
    assert_eq!(trip.went(), ["before"], "no second run has begun");
    // Another caller, and other arguments, are other calls.
    let other = Arc::new(Caller::agent("other").session("s-1"));
    let outcome = trip.runtime.call(Call::new("trip", json!({})).by(other)).await;
    assert!(
        matches!(&outcome.status, Status::Pending(pending) if pending.approval_id != first),
        "{outcome:?}"
    );
    assert_eq!(trip.went(), ["before", "before"]);
}

#[tokio::test]
async fn a_run_that_finished_alone_gives_its_outcome_to_the_repeated_call_once() {
    let trip = Trip::new();
    let id = trip.question().await;
    trip.approve(id).await;
    let resumed = trip.elsewhere().runtime.approvals().resume_decided().await.unwrap();
    assert_eq!((resumed.len(), trip.went()), (1, ONCE.map(str::to_owned).to_vec()));
    let repeated = trip.go().await;
    assert!(repeated.is_success(), "{repeated:?}");
    assert_eq!(repeated.replay_of, Some(resumed[0].run));
    assert_eq!(trip.went(), ONCE, "nothing was done twice");
    // That call is answered. A caller that makes it once more means it.
    assert_ne!(trip.question().await, id);
    assert_eq!(trip.went(), ["before", "send", "after", "before"]);
}

#[tokio::test]
async fn the_repeated_call_goes_on_with_a_run_that_was_decided() {
    let trip = Trip::new();
    let id = trip.question().await;
    trip.approve(id).await;
    let repeated = trip.elsewhere().go().await;
    assert!(repeated.is_success(), "{repeated:?}");
    assert_eq!(trip.went(), ONCE);
}

/// The same trip, whose last step waits until the gate is open.
fn gated(ledger: &Arc<VolatileLedger>, witness: &Witness, gate: &Arc<Semaphore>) -> Runtime {
    let gate = Arc::clone(gate);
    let after = Tool::builder("wait").description("Waits.").input_schema(json!({ "type": "object" }));
    let after = after.handler(move |_, _| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok(json!("done"))
        }
    });
    let builder = Runtime::builder().ledger(ledger.clone()).tool(witness.tool("send")).unwrap();
    let runtime = builder.tool(after).unwrap().build();
    let trip = compose::sequence("trip")
        .step(Step::of("send").arguments(json!({ "to": "send" })))
        .step(Step::of("wait").arguments(json!({})));
    let trip = trip.description("A trip.").build(runtime.registry()).unwrap();
    runtime.registry().register(Layer::Project, trip).unwrap();
    runtime
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_repeat_it_at_once_get_one_outcome() {
    let (ledger, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
    let gate = Arc::new(Semaphore::new(0));
    let (here, elsewhere) = (gated(&ledger, &witness, &gate), gated(&ledger, &witness, &gate));
    let call = || Call::new("trip", json!({})).by(bot());
    let asked = here.call(call()).await;
    let Status::Pending(pending) = asked.status else { panic!("{asked:?}") };
    here.approvals().decide(pending.approval_id, Decision::approve(), &ada()).await.unwrap();
    let mut calls =
        [Box::pin(here.call(call())), Box::pin(elsewhere.call(call())), Box::pin(here.call(call()))];
    for call in &mut calls {
        let begun = std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx)));
        assert!(begun.await.is_pending(), "the gate is closed");
    }
    gate.add_permits(10);
    for call in calls {
        let outcome = call.await;
        assert!(outcome.is_success() && outcome.replay_of == Some(asked.call_id), "{outcome:?}");
    }
    assert_eq!((went(&witness), gate.available_permits()), (vec!["send".to_owned()], 9));
}

#[tokio::test]
async fn a_denial_is_told_once_and_then_the_call_is_a_new_one() {
    let trip = Trip::new();
    let id = trip.question().await;
    trip.runtime.approvals().decide(id, Decision::deny("not today"), &ada()).await.unwrap();
    let denied = trip.go().await;
    assert!(denied.error().is_some_and(|error| error.message().contains("not today")), "{denied:?}");
    assert_ne!(trip.question().await, id);
    assert_eq!(trip.went(), ["before", "before"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waited_for_it_has_been_told() {
    let trip = Trip::new();
    let waiting = tokio::spawn({
        let runtime = trip.runtime.clone();
        let call = Call::new("trip", json!({})).by(bot()).wait_for_approval(Duration::from_secs(60));
        async move { runtime.call(call).await }
    });
    let id = loop {
        let asked = trip.runtime.approvals().list(ApprovalQuery::default()).await.unwrap();
        match asked.first() {
            Some(asked) => break asked.id,
            None => tokio::task::yield_now().await,
        }
    };
    trip.approve(id).await;
    assert!(waiting.await.unwrap().is_success());
    assert_ne!(trip.question().await, id, "the next call is another one");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_repeats_it_can_wait_for_the_decision() {
    let trip = Trip::new();
    let id = trip.question().await;
    let waiting = tokio::spawn({
        let runtime = trip.runtime.clone();
        let call = Call::new("trip", json!({})).by(bot()).wait_for_approval(Duration::from_secs(60));
        async move { runtime.call(call).await }
    });
    tokio::task::yield_now().await;
    trip.approve(id).await;
    let outcome = waiting.await.unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(trip.went(), ONCE);
}

#[tokio::test]
async fn who_fetched_it_by_its_id_has_been_told() {
    let trip = Trip::new();
    let id = trip.question().await;
    trip.approve(id).await;
    assert!(trip.runtime.outcome_of(id, &bot()).await.unwrap().is_success());
    assert_ne!(trip.question().await, id);
}

#[tokio::test]
async fn an_approval_of_the_outer_call_is_not_asked_for_again() {
    let trip = Trip::new();
    let whole = compose::sequence("whole").step(Step::of("trip").arguments(json!({})));
    let whole = whole.description("All of it.").risk(Risk::High).build(trip.runtime.registry()).unwrap();
    trip.runtime.registry().register(Layer::Project, whole).unwrap();
    let go = || trip.runtime.call(Call::new("whole", json!({})).by(bot()));
    let mut ids = Vec::new();
    let ended = loop {
        let outcome = go().await;
        match outcome.status {
            Status::Pending(pending) => {
                ids.push(pending.approval_id);
                trip.approve(pending.approval_id).await;
                assert!(ids.len() < 10, "it asks forever");
            }
            _ => break outcome,
        }
    };
    assert!(ended.is_success(), "{ended:?}");
    assert_eq!(trip.went(), ONCE, "{ids:?}");
}

#[tokio::test]
async fn another_connection_of_the_same_client_uses_the_approval() {
    let bench = Bench::new();
    let over = |connection: &str| {
        let caller = Caller::principal("ada").session_of_connection(connection);
        Call::new("send", json!({ "to": "bob" })).by(Arc::new(caller))
    };
    let pending = bench.ask(over("one")).await;
    assert_eq!(bench.ask(over("two")).await.approval_id, pending.approval_id);
    bench.approve(pending.approval_id).await;
    assert!(bench.runtime.call(over("three")).await.is_success());
    assert_eq!(bench.witness.seen().len(), 1);
    assert_ne!(bench.ask(over("one")).await.approval_id, pending.approval_id, "once");
    // A session that somebody named is another, and so is a connection of an unnamed caller.
    let named = Call::new("send", json!({ "to": "eve" }));
    let pending = bench.ask(named.clone().by(Arc::new(Caller::principal("ada").session("one")))).await;
    let other = bench.ask(named.clone().by(Arc::new(Caller::principal("ada").session("two")))).await;
    assert_ne!(pending.approval_id, other.approval_id);
    let nobody =
        |connection: &str| named.clone().by(Arc::new(Caller::anonymous().session_of_connection(connection)));
    let (one, two) = (bench.ask(nobody("one")).await, bench.ask(nobody("two")).await);
    assert_ne!(one.approval_id, two.approval_id);
}
