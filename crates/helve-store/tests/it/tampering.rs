use helve_core::ports::{Begun, Journal};
use helve_store::{Anchored, Audit, Concern, Problem, Store, StoreError};
use helve_testkit::entries::{SampleCall, claim, done_status};
use rusqlite::Connection;
use serde_json::json;

use crate::support::{Place, export};

const SWAP: &str = "
    UPDATE entries SET seq = -5 WHERE seq = 5;
    UPDATE entries SET seq = 5 WHERE seq = 6;
    UPDATE entries SET seq = 6 WHERE seq = -5;";

const INSERT_AT_END: &str = "
    INSERT INTO entries SELECT 21, kind, call_id, hash, commitment, salt, head, payload
    FROM entries WHERE seq = 20;";

/// Ten calls, twenty entries, one key.
async fn filled() -> Place {
    let place = Place::new();
    let store = place.open();
    for number in 0..10 {
        let call = SampleCall::new("mail/send").arguments(json!({ "number": number }));
        if number == 3 {
            assert!(matches!(store.begin(call.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
            store.finish(call.done(json!(3)), claim(1, 1), done_status(json!(3))).await.unwrap();
            continue;
        }
        store.commit(call.started()).await.unwrap();
        store.commit(call.done(json!({ "sent": number }))).await.unwrap();
    }
    store.close().unwrap();
    assert!(place.verify().is_sound());
    place
}

fn change(place: &Place, sql: &str) -> Problem {
    let copy = place.copy();
    Connection::open(copy.db()).unwrap().execute_batch(sql).unwrap();
    copy.verify().first_problem.unwrap_or_else(|| panic!("not noticed: {sql}"))
}

#[tokio::test]
async fn every_change_is_found_where_it_was_made() {
    let place = filled().await;
    let cases = [
        (
            "UPDATE entries SET head = replace(head, 'mail/send', 'mail/read') WHERE seq = 7",
            7,
            "does not fit",
        ),
        (
            "UPDATE entries SET payload = replace(payload, 'sent', 'lost') WHERE seq = 10",
            10,
            "payload was changed",
        ),
        ("UPDATE entries SET salt = randomblob(16) WHERE seq = 9", 9, "payload was changed"),
        ("UPDATE entries SET commitment = randomblob(32) WHERE seq = 9", 9, "does not fit"),
        ("UPDATE entries SET hash = randomblob(32) WHERE seq = 10", 10, "does not fit"),
        ("UPDATE entries SET kind = 1 WHERE seq = 5", 5, "does not fit"),
        ("UPDATE entries SET kind = 9 WHERE seq = 5", 5, "cannot be read"),
        ("UPDATE entries SET call_id = 'call_x' WHERE seq = 5", 5, "does not fit"),
        ("UPDATE entries SET payload = NULL WHERE seq = 6", 6, "removed or added"),
        ("UPDATE entries SET payload = NULL, salt = NULL WHERE seq = 6", 6, "no erasure is recorded"),
        ("DELETE FROM entries WHERE seq = 1", 1, "entry 1 is missing"),
        ("DELETE FROM entries WHERE seq BETWEEN 11 AND 13", 11, "entries 11 to 13 are missing"),
        ("DELETE FROM entries WHERE seq > 15", 16, "entries 16 to 20 were written and are gone"),
        ("DELETE FROM entries", 1, "entries 1 to 20 were written and are gone"),
        (
            "INSERT INTO entries SELECT 0, kind, call_id, hash, commitment, salt, head, payload FROM entries WHERE seq = 1",
            0,
            "added before",
        ),
        (SWAP, 5, "does not fit"),
        (INSERT_AT_END, 21, "does not fit"),
    ];
    for (sql, seq, what) in cases {
        let problem = change(&place, sql);
        assert_eq!(problem.seq, Some(seq), "{sql}: {problem:?}");
        assert!(problem.what.contains(what), "{sql}: {problem:?}");
    }
    let index = change(
        &place,
        "PRAGMA writable_schema = on; DELETE FROM sqlite_schema WHERE type = 'index' AND name = 'entries_by_call'",
    );
    assert!(index.what.contains("structure") || index.what.contains("damaged"), "{index:?}");
}

#[tokio::test]
async fn flipping_any_byte_is_noticed_or_changes_nothing() {
    let place = filled().await;
    let sound = std::fs::read(place.db()).unwrap();
    let expected = export(&place.audit());
    let copy = place.copy();
    let (mut noticed, mut harmless) = (0, 0);
    for position in (0..sound.len()).step_by(37) {
        let mut bytes = sound.clone();
        bytes[position] ^= 1 << (position % 8);
        std::fs::write(copy.db(), &bytes).unwrap();
        let audit = Audit::open(&copy.db()).unwrap();
        match audit.verify(|_| {}) {
            Ok(verification) if verification.is_sound() => {
                assert_eq!(export(&audit), expected, "byte {position}");
                harmless += 1;
            }
            Ok(_) | Err(_) => noticed += 1,
        }
        for leftover in ["journal.db-wal", "journal.db-shm"] {
            let _ = std::fs::remove_file(copy.folder().join(leftover));
        }
    }
    // The rest of so small a file is unused.
    assert!(noticed > 200, "{noticed} noticed, {harmless} harmless");
}

#[tokio::test]
async fn a_cut_log_is_noticed() {
    let place = Place::new();
    let store = place.open();
    for number in 0..20 {
        store.commit(SampleCall::new("mail/send").done(json!(number))).await.unwrap();
    }
    // As after a crash: entries are in the log, and the log is cut. SQLite drops the rest silently.
    let sound = place.copy();
    assert_eq!(sound.verify().first_problem, None);
    let log = sound.folder().join("journal.db-wal");
    let length = std::fs::metadata(&log).unwrap().len();
    for kept in [length - 1, length / 2, 0] {
        let cut = place.copy();
        let log = std::fs::OpenOptions::new().write(true).open(cut.folder().join("journal.db-wal")).unwrap();
        log.set_len(kept).unwrap();
        let verification = cut.verify();
        let problem = verification.first_problem.unwrap_or_else(|| panic!("{kept} of {length}"));
        assert!(kept == 0 || problem.what.contains("20 w"), "{problem:?}");
    }
}

#[tokio::test]
async fn an_older_copy_is_noticed_even_after_it_was_continued() {
    let place = filled().await;
    let older = place.copy();
    let store = place.open();
    store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    store.close().unwrap();
    std::fs::copy(older.db(), place.db()).unwrap();
    assert_eq!(place.verify().first_problem.unwrap().seq, Some(21));

    let store = place.open();
    for _ in 0..3 {
        store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    }
    store.close().unwrap();
    let problem = place.verify().first_problem.unwrap();
    assert_eq!(problem.seq, Some(21));
    assert!(problem.what.contains("older copy"), "{problem:?}");

    // Whoever restored it on purpose says so.
    Store::accept(&place.db()).unwrap();
    assert!(place.verify().first_problem.unwrap().what.contains("next opened"));
    place.open().close().unwrap();
    let verification = place.verify();
    assert_eq!((verification.entries, verification.first_problem), (24, None));
}

#[tokio::test]
async fn entries_cut_off_under_a_running_store_are_noticed() {
    let place = Place::new();
    let store = place.open();
    for _ in 0..5 {
        store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    }
    Connection::open(place.db()).unwrap().execute("DELETE FROM entries WHERE seq > 3", []).unwrap();
    for _ in 0..5 {
        store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    }
    store.close().unwrap();
    let problem = place.verify().first_problem.unwrap();
    assert_eq!(problem.seq, Some(5), "{problem:?}");
}

#[tokio::test]
async fn a_damaged_anchor_is_a_finding_and_a_read_only_copy_will_do() {
    let place = filled().await;
    let copy = place.copy();
    std::fs::write(copy.folder().join("journal.db.head"), "helve-head-1 what").unwrap();
    assert!(copy.verify().first_problem.unwrap().what.contains("anchor"));
    // Opening does not paper over it.
    copy.open().close().unwrap();
    assert!(copy.verify().first_problem.unwrap().what.contains("anchor"));

    let copy = place.copy();
    for path in [copy.db(), copy.folder().to_owned()] {
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&path, permissions).unwrap();
    }
    assert_eq!(copy.verify().entries, 20);
}

#[tokio::test]
async fn a_cut_file_is_noticed() {
    let place = filled().await;
    let length = std::fs::metadata(place.db()).unwrap().len();
    for kept in [0, 50, 100, 4_096, length / 2, length - 4_096, length - 1] {
        let copy = place.copy();
        std::fs::OpenOptions::new().write(true).open(copy.db()).unwrap().set_len(kept).unwrap();
        let verified = copy.audit().verify(|_| {});
        assert!(!verified.is_ok_and(|verification| verification.is_sound()), "{kept} of {length}");
    }
}
