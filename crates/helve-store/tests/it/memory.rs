use std::sync::Arc;
use std::time::Duration;

use helve_core::Caller;
use helve_core::memory::{MemoryChange, MemoryError, MemoryPlace, MemoryScope, Operation, Remembered};
use helve_core::ports::{Clock, EffectId, Journal, Memory};
use helve_core::run::StepKind;
use helve_store::{Store, StoreOptions};
use helve_testkit::ManualClock;
use helve_testkit::entries::SampleCall;
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use serde_json::{Number, Value, json};

use crate::support::{Place, wait_until};

pub(crate) fn place_of(key: &str) -> MemoryPlace {
    MemoryPlace::of(&Caller::principal("ada"), MemoryScope::LongTerm, key)
}

pub(crate) fn add_one() -> MemoryChange {
    MemoryChange::new(Operation::Add(Number::from(1)))
}

pub(crate) async fn apply(store: &Store, call: &SampleCall, change: MemoryChange) -> Result<(), MemoryError> {
    let effect = EffectId { call_id: call.id(), index: 0 };
    store.apply(effect, place_of("count"), change, call.step(StepKind::EffectApplied { index: 0 })).await
}

pub(crate) async fn undo(store: &Store, call: &SampleCall) -> Result<(), MemoryError> {
    let effect = EffectId { call_id: call.id(), index: 0 };
    store.undo(effect, call.step(StepKind::EffectRolledBack { index: 0 })).await
}

pub(crate) async fn read(store: &Store, key: &str) -> Option<Remembered> {
    store.read(place_of(key)).await.unwrap()
}

pub(crate) fn write(value: Value) -> MemoryChange {
    MemoryChange::new(Operation::Write(value))
}

/// How many rows a table has.
pub(crate) fn count(place: &Place, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    Connection::open(place.db()).unwrap().query_one(&sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn what_is_remembered_outlives_the_store_and_is_shared() {
    let place = Place::new();
    let store = place.open();
    let written = store.change(place_of("name"), write(json!("ada"))).await.unwrap().after;
    let other = place.open();
    assert_eq!(read(&other, "name").await, written);
    drop((store, other));
    let store = place.open();
    assert_eq!(read(&store, "name").await, written);
    let again = store.change(place_of("name"), write(json!("bob"))).await.unwrap();
    assert!(again.before == written && again.after.unwrap().version > written.unwrap().version);
}

#[tokio::test]
async fn working_memory_is_none_of_the_stores() {
    let place = Place::new();
    let store = place.open();
    let working = MemoryPlace { scope: MemoryScope::Working, ..place_of("x") };
    let change = store.change(working.clone(), write(json!(1))).await.unwrap_err();
    let read = store.read(working.clone()).await.unwrap_err();
    let list = store.list(working.scope, working.owner, String::new(), 1).await.unwrap_err();
    for error in [change, read, list] {
        assert!(error.to_string().contains("working memory is kept by the process"), "{error}");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_effects_and_leaves_nothing_half_written() {
    let place = Place::new();
    let mut options = StoreOptions::default();
    (options.pages_max, options.reserve_bytes) = (Some(240), 0);
    let store = Store::open(&place.db(), options).unwrap();
    let mut applied = Vec::new();
    let error = loop {
        let call = SampleCall::new("mail/send");
        match apply(&store, &call, write(json!("x".repeat(2_000)))).await {
            Ok(()) => applied.push(call),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, MemoryError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("full; free some space"), "{error}");
    assert!(applied.len() > 3);
    store.change(place_of("other"), write(json!(1))).await.unwrap_err();
    undo(&store, &applied[0]).await.unwrap_err();
    let version = read(&store, "count").await.unwrap().version;
    assert_eq!(version, applied.len() as u64);
    assert_eq!(count(&place, "effects"), applied.len() as i64);
    assert_eq!(count(&place, "entries"), applied.len() as i64);

    store.limit_pages(None);
    wait_until("the journal recovers by itself", || store.check().is_ok());
    undo(&store, applied.last().unwrap()).await.unwrap();
    assert_eq!(count(&place, "effects"), applied.len() as i64 - 1);
    assert_eq!(store.audit().verify(|_| {}).unwrap().first_problem, None);
}

#[tokio::test]
async fn erasing_a_call_erases_what_its_effects_replaced() {
    let place = Place::new();
    let store = place.open();
    let secret = "correct horse battery staple";
    store.change(place_of("count"), write(json!(secret))).await.unwrap();
    let call = SampleCall::new("mail/send");
    store.commit(call.started()).await.unwrap();
    apply(&store, &call, write(json!("new"))).await.unwrap();
    store.erase(call.id(), Timestamp::now()).await.unwrap();
    assert_eq!(count(&place, "effects"), 0);
    assert!(matches!(undo(&store, &call).await, Err(MemoryError::NothingToUndo)));
    store.commit(call.done(json!(1))).await.unwrap();
    store.close().unwrap();
    let bytes = std::fs::read(place.db()).unwrap();
    assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
}

#[tokio::test]
async fn effects_of_old_calls_can_no_longer_be_undone_unless_their_run_is_open() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::default());
    let mut options = StoreOptions::default();
    options.clock = Arc::<ManualClock>::clone(&clock);
    let store = Store::open(&place.db(), options).unwrap();
    let call = |tool| SampleCall::at(tool, clock.now());
    let (ended, open) = (call("mail/send"), call("mail/send"));
    store.commit(open.started()).await.unwrap();
    for call in [&ended, &open] {
        apply(&store, call, add_one()).await.unwrap();
    }
    clock.advance(Duration::from_secs(29 * 24 * 3_600));
    apply(&store, &call("mail/send"), add_one()).await.unwrap();
    assert_eq!(count(&place, "effects"), 3);
    clock.advance(Duration::from_secs(2 * 24 * 3_600));
    apply(&store, &call("mail/send"), add_one()).await.unwrap();
    assert_eq!(count(&place, "effects"), 3);
    assert!(matches!(undo(&store, &ended).await, Err(MemoryError::NothingToUndo)));
    undo(&store, &open).await.unwrap();
}

#[tokio::test]
async fn what_has_expired_is_swept() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::default());
    let mut options = StoreOptions::default();
    options.clock = Arc::<ManualClock>::clone(&clock);
    let store = Store::open(&place.db(), options).unwrap();
    for number in 0..20 {
        let short = write(json!(number)).for_time(SignedDuration::from_secs(1));
        store.change(place_of(&format!("key.{number}")), short).await.unwrap();
    }
    assert_eq!(count(&place, "memory"), 20);
    clock.advance(Duration::from_secs(1));
    for _ in 0..10 {
        store.change(place_of("other"), write(json!(1))).await.unwrap();
    }
    assert_eq!((count(&place, "memory"), count(&place, "memory_totals")), (1, 1));
    store.change(place_of("other"), MemoryChange::new(Operation::Delete)).await.unwrap();
    assert_eq!((count(&place, "memory"), count(&place, "memory_totals")), (0, 0));
}

/// A caller that says what is to be there puts it right; only one that needs what was there is refused.
#[tokio::test]
async fn changed_memory_is_refused_by_itself_and_put_right_by_hand() {
    let place = Place::new();
    let store = place.open();
    let call = SampleCall::new("mail/send");
    store.change(place_of("count"), write(json!("old"))).await.unwrap();
    apply(&store, &call, write(json!("new"))).await.unwrap();
    let db = Connection::open(place.db()).unwrap();
    for forged in ["'7'", "'no JSON'"] {
        db.execute_batch(&format!("UPDATE memory SET value = {forged}")).unwrap();
        let refused = [
            store.read(place_of("count")).await.unwrap_err(),
            store.list(MemoryScope::LongTerm, place_of("").owner, String::new(), 9).await.unwrap_err(),
            store.change(place_of("count"), add_one()).await.unwrap_err(),
            store.change(place_of("count"), write(json!(1)).if_version(2)).await.unwrap_err(),
            undo(&store, &call).await.unwrap_err(),
        ];
        for error in refused {
            assert!(error.to_string().contains("`count` is not what was written"), "{error}");
        }
    }
    store.change(place_of("other"), write(json!(1))).await.unwrap();
    store.check().unwrap();
    let set = store.change(place_of("count"), write(json!("right"))).await.unwrap();
    assert_eq!(set.before, None, "what somebody forged is not shown as what was");
    assert_eq!(read(&store, "count").await.unwrap().value, json!("right"));
    assert_eq!(store.audit().verify(|_| {}).unwrap().first_problem, None);
}
