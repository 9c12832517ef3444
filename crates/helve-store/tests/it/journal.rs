use std::sync::{Arc, Mutex};

use helve_core::ports::Journal;
use helve_store::{CallStatus, Store, StoreError, StoreOptions};
use helve_testkit::conformance::{self, Setup, is_pending};
use helve_testkit::entries::SampleCall;
use serde_json::json;

use crate::support::{Place, show};

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_a_ledger() {
    let places = Mutex::new(Vec::new());
    conformance::check_ledger(|Setup { clock, limits }| {
        let place = Place::new();
        let mut options = StoreOptions::default();
        (options.clock, options.memory) = (clock, limits);
        let store = Store::open(&place.db(), options).unwrap();
        places.lock().unwrap().push(place);
        Arc::new(store)
    })
    .await;
    for place in places.into_inner().unwrap() {
        assert_eq!(place.verify().first_problem, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_256_committers_are_all_there() {
    let place = Place::new();
    let store = Arc::new(place.open());
    let tasks: Vec<_> = (0..256)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let call = SampleCall::new("mail/send");
                store.commit(call.started()).await.unwrap();
                store.commit(call.done(json!("sent"))).await.unwrap();
                call.id()
            })
        })
        .collect();
    let mut ids = Vec::new();
    for task in tasks {
        ids.push(task.await.unwrap());
    }
    // Committed means readable, before anything is closed.
    for id in &ids {
        assert!(show(&store.audit(), id).unwrap().finished_at.is_some());
    }
    let verification = store.audit().verify(|_| {}).unwrap();
    assert_eq!((verification.entries, verification.calls), (512, 256));
    assert_eq!(verification.first_problem, None);
}

#[tokio::test]
async fn nothing_is_acknowledged_before_it_is_committed() {
    let place = Place::new();
    let store = place.open();
    let call = SampleCall::new("mail/send");
    // Another connection holds the write lock, so that nothing can be committed.
    let other = rusqlite::Connection::open(place.db()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut commit = store.commit(call.started());
    for _ in 0..50 {
        assert!(is_pending(&mut commit).await);
        assert!(show(&store.audit(), call.id()).is_none());
    }
    other.execute_batch("ROLLBACK").unwrap();
    commit.await.unwrap();
    assert!(show(&store.audit(), call.id()).is_some());
}

#[tokio::test]
async fn closing_writes_what_is_queued_and_leaves_one_file() {
    let place = Place::new();
    let store = place.open();
    for number in 0..3_000 {
        store.append(SampleCall::new("clock/now").done(json!(number))).unwrap();
    }
    store.close().unwrap();
    assert!(store.check().unwrap_err().to_string().contains("closed"));
    assert!(store.append(SampleCall::new("clock/now").done(json!(0))).is_err());
    store.close().unwrap();
    assert!(!place.folder().join("journal.db-wal").exists());
    assert_eq!(place.verify().entries, 3_000);
    assert!(std::fs::read_dir(place.folder().join("journal.db.owners")).unwrap().next().is_none());
}

#[tokio::test]
async fn a_full_queue_refuses_instead_of_losing() {
    let place = Place::new();
    let mut options = StoreOptions::default();
    options.queue_entries_max = 100;
    let store = Store::open(&place.db(), options).unwrap();
    let other = rusqlite::Connection::open(place.db()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut taken = 0;
    let refusal = loop {
        match store.append(SampleCall::new("clock/now").done(json!(1))) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(refusal.to_string().contains("overloaded"), "{refusal}");
    assert!(store.check().unwrap_err().to_string().contains("overloaded"));
    assert_eq!(taken, 100);
    other.execute_batch("ROLLBACK").unwrap();
    store.flush().await.unwrap();
    store.close().unwrap();
    assert_eq!(place.verify().entries, taken);
}

#[cfg(unix)]
#[test]
fn files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let path = place.folder().join("new/folder/journal.db");
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.with_extension("db.head")), 0o600);
    assert_eq!(mode(&path.with_extension("db.reserve")), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    drop(store);
}

#[test]
fn what_cannot_be_opened_is_explained() {
    let place = Place::new();
    let open = |name: &str| Store::open(&place.folder().join(name), StoreOptions::default());

    std::fs::create_dir(place.folder().join("folder")).unwrap();
    assert!(matches!(open("folder"), Err(StoreError::IsDirectory(_))));

    std::fs::write(place.folder().join("text"), "this is a diary, and not a database\n".repeat(50)).unwrap();
    assert!(matches!(open("text"), Err(StoreError::NotADatabase { .. })));

    let foreign = rusqlite::Connection::open(place.folder().join("foreign")).unwrap();
    foreign.execute_batch("CREATE TABLE recipes (x)").unwrap();
    assert!(matches!(open("foreign"), Err(StoreError::Foreign(_))));

    open("newer").unwrap().close().unwrap();
    let newer = rusqlite::Connection::open(place.folder().join("newer")).unwrap();
    newer.execute_batch("UPDATE meta SET value = 99").unwrap();
    let error = open("newer").unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
    assert!(error.to_string().ends_with("update helve"), "{error}");

    std::fs::write(place.folder().join("file"), "").unwrap();
    assert!(matches!(open("file/journal.db"), Err(StoreError::Io { action: "create", .. })));

    // Nothing was put next to files that are not ours.
    assert!(!place.folder().join("text.head").exists());
    assert!(!place.folder().join("foreign.owners").exists());
}

#[tokio::test]
async fn a_file_with_other_pages_than_ours_keeps_them_and_is_written_all_the_same() {
    let place = Place::new();
    let db = rusqlite::Connection::open(place.db()).unwrap();
    // As earlier versions made it.
    db.execute_batch(
        "PRAGMA page_size = 16384; PRAGMA journal_mode = wal; CREATE TABLE t (x); DROP TABLE t;",
    )
    .unwrap();
    drop(db);
    let store = place.open();
    let call = SampleCall::new("mail/send");
    store.commit(call.started()).await.unwrap();
    store.commit(call.done(json!("x".repeat(10_000)))).await.unwrap();
    store.close().unwrap();
    let db = rusqlite::Connection::open(place.db()).unwrap();
    assert_eq!(db.query_one("PRAGMA page_size", [], |row| row.get(0)), Ok(16_384));
    assert!(place.verify().is_sound());
    assert_eq!(show(&place.audit(), call.id()).unwrap().status, CallStatus::Done);
}

#[test]
fn a_damaged_file_is_refused_with_advice() {
    let place = Place::new();
    place.open().close().unwrap();
    let mut bytes = std::fs::read(place.db()).unwrap();
    // The first page holds the table of tables.
    bytes[100..4_096].fill(0xff);
    std::fs::write(place.db(), bytes).unwrap();
    let error = Store::open(&place.db(), StoreOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("restore a backup"), "{error}");
}
