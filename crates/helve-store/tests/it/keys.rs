use helve_core::ports::{Begun, Journal, KeyClaim};
use helve_testkit::conformance::is_pending;
use helve_testkit::entries::{SampleCall, claim, done_status};
use serde_json::json;

use crate::support::Place;

async fn begin(store: &impl Journal, call: &SampleCall, claim: &KeyClaim) -> Begun {
    store.begin(call.start(), claim.clone()).await.unwrap()
}

#[tokio::test]
async fn an_answer_outlives_the_process() {
    let place = Place::new();
    let call = SampleCall::new("mail/send");
    let store = place.open();
    assert!(matches!(begin(&store, &call, &claim(1, 1)).await, Begun::Fresh));
    store.finish(call.done(json!(7)), claim(1, 1), done_status(json!(7))).await.unwrap();
    drop(store);
    let begun = begin(&place.open(), &SampleCall::new("mail/send"), &claim(1, 1)).await;
    assert!(matches!(begun, Begun::Finished { call_id, .. } if call_id == call.id()), "{begun:?}");
}

#[tokio::test]
async fn a_call_waits_for_one_in_another_instance() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    let call = SampleCall::new("mail/send");
    assert!(matches!(begin(&one, &call, &claim(1, 1)).await, Begun::Fresh));
    let mut waiting = two.begin(SampleCall::new("mail/send").start(), claim(1, 1));
    assert!(is_pending(&mut waiting).await);
    two.flush().await.unwrap();
    assert!(is_pending(&mut waiting).await);
    one.finish(call.done(json!(7)), claim(1, 1), done_status(json!(7))).await.unwrap();
    let begun = waiting.await.unwrap();
    assert!(matches!(begun, Begun::Finished { call_id, .. } if call_id == call.id()), "{begun:?}");
}

#[tokio::test]
async fn a_call_whose_process_died_is_unknown_or_taken_over() {
    let place = Place::new();
    let call = SampleCall::new("mail/send");
    let dead = place.open();
    assert!(matches!(begin(&dead, &call, &claim(1, 1)).await, Begun::Fresh));
    drop(dead);
    let store = place.open();
    let begun = begin(&store, &SampleCall::new("mail/send"), &claim(1, 1)).await;
    assert!(matches!(begun, Begun::Unknown { call_id } if call_id == call.id()), "{begun:?}");

    let repeatable = KeyClaim { repeatable: true, ..claim(1, 1) };
    let second = SampleCall::new("mail/send");
    assert!(matches!(begin(&store, &second, &repeatable).await, Begun::Fresh));
    // The late end of the first run, should it come after all, does not answer for the second.
    store.finish(call.done(json!("late")), claim(1, 1), done_status(json!("late"))).await.unwrap();
    store.finish(second.done(json!("new")), repeatable.clone(), done_status(json!("new"))).await.unwrap();
    let begun = begin(&store, &SampleCall::new("mail/send"), &repeatable).await;
    assert!(matches!(begun, Begun::Finished { call_id, .. } if call_id == second.id()), "{begun:?}");
}

#[tokio::test]
async fn a_claim_that_nobody_waits_for_any_more_is_given_back() {
    let place = Place::new();
    let store = place.open();
    let mut abandoned = store.begin(SampleCall::new("mail/send").start(), claim(4, 4));
    assert!(is_pending(&mut abandoned).await);
    drop(abandoned);
    assert!(matches!(begin(&store, &SampleCall::new("mail/send"), &claim(4, 4)).await, Begun::Fresh));

    // The same when the answer has come, and nobody has looked at it.
    let mut abandoned = store.begin(SampleCall::new("mail/send").start(), claim(5, 5));
    assert!(is_pending(&mut abandoned).await);
    store.flush().await.unwrap();
    drop(abandoned);
    assert!(matches!(begin(&store, &SampleCall::new("mail/send"), &claim(5, 5)).await, Begun::Fresh));
}

#[tokio::test]
async fn a_damaged_answer_is_refused_and_found() {
    let place = Place::new();
    let store = place.open();
    let call = SampleCall::new("mail/send");
    assert!(matches!(begin(&store, &call, &claim(1, 1)).await, Begun::Fresh));
    store.finish(call.done(json!(7)), claim(1, 1), done_status(json!(7))).await.unwrap();
    let other = rusqlite::Connection::open(place.db()).unwrap();
    other.execute("UPDATE keys SET status = replace(status, '7', '8')", []).unwrap();
    let refused = store.begin(SampleCall::new("mail/send").start(), claim(1, 1)).await;
    assert!(refused.unwrap_err().to_string().contains("damaged"));
    // One damaged key does not stop the journal.
    store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    let problem = store.audit().verify(|_| {}).unwrap().first_problem.unwrap();
    assert!(problem.what.contains("idempotency key"), "{problem:?}");
}
