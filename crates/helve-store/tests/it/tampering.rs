use std::sync::Arc;

use helve_core::ports::{Begun, Journal, KeyClaim};
use helve_core::{ErrorCode, Status, ToolError};
use helve_store::{Anchored, Audit, AuditQuery, Concern, Problem, Store, StoreError, Trouble, Verification};
use helve_testkit::conformance::is_pending;
use helve_testkit::entries::{SampleCall, claim, done_status};
use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::json;

use crate::support::{Place, export};

const SWAP: &str = "
    UPDATE entries SET seq = -5 WHERE seq = 5;
    UPDATE entries SET seq = 5 WHERE seq = 6;
    UPDATE entries SET seq = 6 WHERE seq = -5;";

const INSERT_AT_END: &str = "
    INSERT INTO entries SELECT 21, kind, made_ms, call_id, run_id, hash, commitment, salt, head, payload
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
    after_change(place, sql).first_problem.unwrap_or_else(|| panic!("not noticed: {sql}"))
}

fn after_change(place: &Place, sql: &str) -> Verification {
    let copy = place.copy();
    Connection::open(copy.db()).unwrap().execute_batch(sql).unwrap();
    copy.verify()
}

/// What `verify` says of the journal, if it is about `concern`.
fn found(place: &Place, concern: Concern) -> String {
    let verification = place.verify();
    assert_eq!(verification.concern, Some(concern), "{verification:?}");
    verification.first_problem.unwrap().what
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
        ("UPDATE entries SET kind = 99 WHERE seq = 5", 5, "cannot be read"),
        ("UPDATE entries SET call_id = 'call_x' WHERE seq = 5", 5, "does not fit"),
        ("UPDATE entries SET made_ms = made_ms + 1 WHERE seq = 5", 5, "the time by which the entry is found"),
        ("UPDATE entries SET payload = NULL WHERE seq = 6", 6, "removed or added"),
        ("UPDATE entries SET payload = NULL, salt = NULL WHERE seq = 6", 6, "no erasure is recorded"),
        ("DELETE FROM entries WHERE seq = 1", 1, "entry 1 is missing"),
        ("DELETE FROM entries WHERE seq BETWEEN 11 AND 13", 11, "entries 11 to 13 are missing"),
        ("DELETE FROM entries WHERE seq > 15", 16, "entries 16 to 20 were written and are gone"),
        ("DELETE FROM entries", 1, "entries 1 to 20 were written and are gone"),
        (
            "INSERT INTO entries SELECT 0, kind, made_ms, call_id, run_id, hash, commitment, salt, head, payload FROM entries WHERE seq = 1",
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
        "PRAGMA writable_schema = on; DELETE FROM sqlite_schema WHERE type = 'index' AND name = 'entries_by_time'",
    );
    assert!(index.what.contains("structure") || index.what.contains("damaged"), "{index:?}");
}

#[tokio::test]
async fn tables_that_are_not_ours_are_named() {
    let place = filled().await;
    let cases = [
        ("DROP TABLE entries", "the table `entries` is gone"),
        ("DROP TABLE keys", "the table `keys` is gone"),
        ("DROP INDEX entries_by_time", "the index `entries_by_time` is gone"),
        (
            "CREATE TRIGGER forget AFTER INSERT ON entries BEGIN DELETE FROM keys; END",
            "the table `entries` has a trigger that Helve did not make: `forget`",
        ),
        (
            "CREATE UNIQUE INDEX once ON keys (call_id)",
            "the table `keys` has an index that Helve did not make: `once`",
        ),
        ("CREATE VIEW calls AS SELECT * FROM entries", "there is a view that Helve did not make: `calls`"),
        ("ALTER TABLE keys ADD COLUMN note TEXT", "the table `keys` is not as Helve made it"),
        ("ALTER TABLE entries RENAME COLUMN head TO tail", "the table `entries` is not as Helve made it"),
    ];
    for (sql, what) in cases {
        let verification = after_change(&place, sql);
        assert_eq!(verification.first_problem, Some(Problem { seq: None, what: what.to_owned() }), "{sql}");
        assert_eq!(verification.concern, Some(Concern::Database));
    }
}

#[tokio::test]
async fn keys_that_do_not_agree_with_the_entries_are_found() {
    let place = filled().await;
    let id: String = Connection::open(place.db())
        .unwrap()
        .query_one("SELECT call_id FROM keys", [], |row| row.get(0))
        .unwrap();
    let removed = format!("the idempotency key of {id} was removed: the same call could run twice");
    let key = "01".repeat(32);
    let damaged = format!("the idempotency key `{key}` in the table `keys` is damaged: its row was changed");
    for (sql, seq, what) in [
        ("DELETE FROM keys", Some(7), removed),
        ("UPDATE keys SET state = 0", None, damaged.clone()),
        ("UPDATE keys SET state = 7", None, damaged.clone()),
        ("UPDATE keys SET call_id = 'call_x'", None, damaged),
    ] {
        let verification = after_change(&place, sql);
        assert_eq!(verification.first_problem, Some(Problem { seq, what }), "{sql}");
        assert_eq!((verification.concern, verification.entries), (Some(Concern::Keys), 20));
    }
}

/// Rows that are well sealed, because they were right once or in another journal.
#[tokio::test]
async fn keys_from_another_time_or_place_are_found() {
    let place = Place::new();
    let store = place.open();
    let call = SampleCall::new("mail/send");
    assert!(matches!(store.begin(call.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
    let running = place.copy();
    store.finish(call.done(json!(1)), claim(1, 1), done_status(json!(1))).await.unwrap();
    let finished = place.copy();
    store.erase(call.id(), Timestamp::now()).await.unwrap();
    let erased = place.copy();
    let elsewhere = filled().await;
    let check = |place: &Place, keys_of: &Place, expected: &str| {
        let sql = format!(
            "ATTACH '{}' AS other; INSERT OR REPLACE INTO keys SELECT * FROM other.keys",
            keys_of.db().display()
        );
        let what = after_change(place, &sql).first_problem.map_or_else(String::new, |problem| problem.what);
        assert!(what.ends_with(expected) && what.is_empty() == expected.is_empty(), "{expected}: {what}");
    };
    check(&running, &running, "");
    check(&running, &finished, "says that the call has ended, and it has not");
    check(&finished, &running, "says that the call is running, and it has ended");
    check(&finished, &erased, "has lost its answer, and no erasure is recorded");
    check(&erased, &finished, "has an answer, and that was erased");
    let not_used = "is there, and the journal does not say that the call used it";
    check(&erased, &elsewhere, not_used);
    let elsewhere = Place::new();
    elsewhere.open().begin(call.start(), claim(9, 9)).await.unwrap();
    check(&running, &elsewhere, not_used);
}

#[tokio::test]
async fn a_removed_key_is_found_even_after_it_was_claimed_again() {
    let place = filled().await;
    Connection::open(place.db()).unwrap().execute("DELETE FROM keys", []).unwrap();
    let store = place.open();
    let again = SampleCall::new("mail/send");
    assert!(matches!(store.begin(again.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
    store.finish(again.done(json!(3)), claim(1, 1), done_status(json!(3))).await.unwrap();
    store.close().unwrap();
    assert!(found(&place, Concern::Keys).contains("was removed"));
}

#[tokio::test]
async fn a_key_that_an_end_gave_back_is_not_missed_and_is_used_again() {
    let place = Place::new();
    let store = place.open();
    let turned_away = || Arc::new(Status::Failed(ToolError::new(ErrorCode::RateLimit, "too many")));
    for _ in 0..2 {
        let call = SampleCall::new("mail/send");
        assert!(matches!(store.begin(call.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
        store.finish(call.failed(ErrorCode::RateLimit), claim(1, 1), turned_away()).await.unwrap();
        assert_eq!(store.audit().verify(|_| {}).unwrap().first_problem, None);
    }
    let done = SampleCall::new("mail/send");
    assert!(matches!(store.begin(done.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
    store.finish(done.done(json!(3)), claim(1, 1), done_status(json!(3))).await.unwrap();
    store.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
}

#[tokio::test]
async fn keys_that_were_given_back_or_taken_over_are_not_missed() {
    let place = Place::new();
    let store = place.open();
    let mut abandoned = store.begin(SampleCall::new("mail/send").start(), claim(1, 1));
    assert!(is_pending(&mut abandoned).await);
    store.flush().await.unwrap();
    drop(abandoned);
    let dies = SampleCall::new("mail/send");
    assert!(matches!(store.begin(dies.start(), claim(2, 2)).await.unwrap(), Begun::Fresh));
    store.close().unwrap();
    let sound = place.verify();
    assert_eq!((sound.entries, sound.calls, sound.first_problem), (3, 2, None));

    let store = place.open();
    let repeatable = KeyClaim { repeatable: true, ..claim(2, 2) };
    let mut abandoned = store.begin(SampleCall::new("mail/send").start(), repeatable.clone());
    assert!(is_pending(&mut abandoned).await);
    store.flush().await.unwrap();
    drop(abandoned);
    store.flush().await.unwrap();
    assert_eq!(store.audit().verify(|_| {}).unwrap().first_problem, None);
    // The late end of the one that was taken for dead changes nothing.
    store.finish(dies.done(json!(1)), claim(2, 2), done_status(json!(1))).await.unwrap();
    let third = SampleCall::new("mail/send");
    assert!(matches!(store.begin(third.start(), repeatable).await.unwrap(), Begun::Fresh));
    store.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
}

#[tokio::test]
async fn a_lost_anchor_is_reported_until_somebody_accepts_that() {
    let place = filled().await;
    Connection::open(place.db()).unwrap().execute("DELETE FROM entries WHERE seq > 15", []).unwrap();
    std::fs::remove_file(place.anchor()).unwrap();
    for _ in 0..2 {
        assert!(found(&place, Concern::Anchor).contains("is missing: a cut end would go unnoticed"));
        assert_eq!(place.verify().anchored, Anchored::No);
        let store = place.open();
        assert_eq!(store.quarantine().unwrap().trouble, Trouble::NoAnchor);
        store.commit(SampleCall::new("mail/send").started()).await.unwrap_err();
        store.close().unwrap();
    }
    // By hand, as an earlier version told people to.
    std::fs::write(place.anchor(), "accept\n").unwrap();
    place.open().close().unwrap();
    let verification = place.verify();
    assert_eq!((verification.entries, verification.first_problem), (16, None));
    assert_eq!(export(&place.audit()).lines().count() as i64, verification.calls);
}

#[tokio::test]
async fn an_acceptance_that_could_not_be_noted_stays_to_be_done() {
    let place = filled().await;
    Store::accept(&place.db()).unwrap();
    let db = Connection::open(place.db()).unwrap();
    db.execute_batch("CREATE TRIGGER stop BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'no'); END")
        .unwrap();
    place.open().close().unwrap();
    db.execute_batch("DROP TRIGGER stop").unwrap();
    assert!(found(&place, Concern::Anchor).contains("is to be accepted"));
    place.open().close().unwrap();
    assert_eq!(place.verify().first_problem, None);
    assert_eq!(place.verify().entries, 21);
}

#[tokio::test]
async fn a_new_anchor_is_watched_as_closely_as_the_old_one() {
    let place = filled().await;
    Store::accept(&place.db()).unwrap();
    place.open().close().unwrap();
    Connection::open(place.db()).unwrap().execute("DELETE FROM entries WHERE seq = 21", []).unwrap();
    assert!(found(&place, Concern::Entries).starts_with("entry 21 was written and is gone"));
}

#[tokio::test]
async fn a_journal_that_is_gone_is_told_from_one_that_never_was() {
    let place = filled().await;
    std::fs::remove_file(place.db()).unwrap();
    let error = Audit::open(&place.db()).unwrap_err();
    assert!(matches!(error, StoreError::Gone { entries: 20, .. }), "{error}");
    assert!(error.to_string().contains("is gone, with the 20 entries"), "{error}");
    // A new one in its place does not make it forgotten.
    std::fs::write(place.db(), "").unwrap();
    assert!(matches!(place.audit().list(&AuditQuery::default()), Err(StoreError::Gone { .. })));
    assert!(found(&place, Concern::Entries).starts_with("entries 1 to 20 were written and are gone"));
    let store = place.open();
    assert_eq!(store.quarantine().unwrap().trouble, Trouble::Missing { first: 1, last: 20 });
    store.commit(SampleCall::new("mail/send").started()).await.unwrap_err();
    store.close().unwrap();
    assert!(found(&place, Concern::Entries).starts_with("entries 1 to 20 were written and are gone"));

    std::fs::remove_file(place.db()).unwrap();
    Store::accept(&place.db()).unwrap();
    assert!(matches!(Audit::open(&place.db()), Err(StoreError::Missing(_))));
    place.open().close().unwrap();
    assert_eq!(place.verify().first_problem, None);
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

    // Without its anchor it is continued, and then the anchor comes back.
    let anchor = std::fs::read(place.anchor()).unwrap();
    Store::accept(&place.db()).unwrap();
    let store = place.open();
    for _ in 0..2 {
        store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    }
    store.close().unwrap();
    std::fs::write(place.anchor(), anchor).unwrap();
    assert_eq!(place.open().quarantine().unwrap().trouble, Trouble::Other { seq: 21 });
    let problem = place.verify().first_problem.unwrap();
    assert_eq!(problem.seq, Some(21));
    assert!(problem.what.contains("older copy"), "{problem:?}");

    // A person who restored it on purpose says so.
    Store::accept(&place.db()).unwrap();
    assert!(place.verify().first_problem.unwrap().what.contains("next opened"));
    place.open().close().unwrap();
    let verification = place.verify();
    // The acceptance, and each open run that was taken over and waits for a person now.
    assert_eq!((verification.entries, verification.first_problem), (28, None));
}

#[tokio::test]
async fn entries_cut_off_under_a_running_store_are_noticed() {
    let place = Place::new();
    let store = place.open();
    for _ in 0..5 {
        store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    }
    Connection::open(place.db()).unwrap().execute("DELETE FROM entries WHERE seq > 3", []).unwrap();
    let error = store.commit(SampleCall::new("mail/send").started()).await.unwrap_err().to_string();
    assert!(error.contains("has lost entries that were written, up to entry 5"), "{error}");
    assert!(store.check().is_err(), "nothing starts");
    store.close().unwrap();
    let problem = place.verify().first_problem.unwrap();
    assert_eq!((problem.seq, place.verify().entries), (Some(4), 3), "{problem:?}");
}

#[tokio::test]
async fn a_damaged_anchor_is_a_finding_and_a_read_only_copy_will_do() {
    let place = filled().await;
    let copy = place.copy();
    std::fs::write(copy.folder().join("journal.db.head"), "helve-head-1 what").unwrap();
    assert!(found(&copy, Concern::Anchor).contains("is damaged; the entries that are there are sound"));
    assert_eq!(copy.verify().entries, 20);
    // Opening does not paper over it.
    copy.open().close().unwrap();
    assert!(
        found(&copy, Concern::Anchor).contains("put back a copy of it, or accept it: `helve audit accept`")
    );

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
    let store = place.open();
    // Enough for pages of entries at the end: where the last one is empty, nothing is lost with it.
    for number in 0..100 {
        store.append(SampleCall::new("clock/now").done(json!(number))).unwrap();
    }
    store.close().unwrap();
    let length = std::fs::metadata(place.db()).unwrap().len();
    for kept in [0, 50, 100, 4_096, 16_384, length / 2, length - 16_384, length - 4_096, length - 1] {
        let copy = place.copy();
        std::fs::OpenOptions::new().write(true).open(copy.db()).unwrap().set_len(kept).unwrap();
        let verified = copy.audit().verify(|_| {});
        assert!(!verified.is_ok_and(|verification| verification.is_sound()), "{kept} of {length}");
    }
}
