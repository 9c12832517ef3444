//! Files that are removed, cut or replaced while they are in use, and pages that are damaged.

use std::fs;
use std::path::PathBuf;

use helve_core::ports::Journal;
use helve_store::{Concern, Store};
use helve_testkit::entries::SampleCall;
use rusqlite::Connection;
use serde_json::json;

use crate::support::Place;

fn log(place: &Place) -> PathBuf {
    place.folder().join("journal.db-wal")
}

async fn filled(calls: usize) -> (Place, Store) {
    let place = Place::new();
    let store = place.open();
    for number in 0..calls {
        store.commit(SampleCall::new("clock/now").done(json!(number))).await.unwrap();
    }
    (place, store)
}

async fn refused(store: &Store, what: &str) {
    for _ in 0..2 {
        let error = store.commit(SampleCall::new("mail/send").started()).await.unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
        assert!(store.check().is_err(), "nothing starts");
    }
}

#[tokio::test]
async fn a_log_that_is_removed_or_replaced_is_noticed_before_the_next_answer() {
    for replace in [false, true] {
        let (place, store) = filled(5).await;
        let kept = place.folder().join("kept");
        let copy = fs::read(log(&place)).unwrap();
        fs::rename(log(&place), &kept).unwrap();
        if replace {
            fs::write(log(&place), copy).unwrap();
        }
        refused(&store, "journal.db-wal` was moved or deleted").await;
        // Put back, it is gone on with.
        fs::rename(&kept, log(&place)).unwrap();
        crate::support::wait_until("it works again", || store.check().is_ok());
        store.commit(SampleCall::new("mail/send").started()).await.unwrap();
        store.close().unwrap();
        let verification = place.verify();
        assert_eq!((verification.entries, verification.first_problem), (6, None), "replaced: {replace}");
    }
}

#[tokio::test]
async fn a_log_that_is_cut_is_noticed_before_the_next_answer() {
    let (place, store) = filled(20).await;
    let file = fs::OpenOptions::new().write(true).open(log(&place)).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length / 2).unwrap();
    refused(&store, "has lost entries that were written, up to entry 20").await;
}

#[tokio::test]
async fn a_log_that_another_process_empties_is_not_missed() {
    let (place, store) = filled(20).await;
    let other = place.open();
    other.commit(SampleCall::new("clock/now").done(json!(1))).await.unwrap();
    other.close().unwrap();
    Connection::open(place.db())
        .unwrap()
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    assert_eq!(fs::metadata(log(&place)).unwrap().len(), 0);
    store.commit(SampleCall::new("clock/now").done(json!(2))).await.unwrap();
    store.close().unwrap();
    assert_eq!((place.verify().entries, place.verify().first_problem), (22, None));
}

#[tokio::test]
async fn of_a_damaged_file_everything_up_to_the_damage_is_exported_and_verified() {
    const PAGE: usize = 4_096;
    let (place, store) = filled(400).await;
    store.close().unwrap();
    let sql = "SELECT call_id FROM entries WHERE seq = 200";
    let id: String = Connection::open(place.db()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
    let mut bytes = fs::read(place.db()).unwrap();
    // The page of an entry in the middle.
    let middle = bytes.windows(id.len()).position(|text| text == id.as_bytes()).unwrap() / PAGE * PAGE;
    bytes[middle..middle + PAGE].fill(0xa5);
    fs::write(place.db(), bytes).unwrap();
    let (mut lines, mut told) = (Vec::new(), 0);
    let error = place.audit().export(None, &mut lines, |calls| told = calls).unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");
    let lines = String::from_utf8(lines).unwrap();
    assert_eq!(lines.lines().count() as u64, told);
    assert!((50..400).contains(&told), "{told} of 400");
    let verification = place.verify();
    assert_eq!(verification.concern, Some(Concern::Database));
    assert_eq!(verification.first_problem.unwrap().seq, Some(verification.entries + 1));
    assert!((50..400).contains(&verification.entries), "{}", verification.entries);
}
