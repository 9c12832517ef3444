//! Whatever can make a call run, or undo restore, is compared with the chain: by `verify`, and when it is used.
//!
//! [`COLUMNS`] says of every column of every table what becomes of a change to it. A new column without a line
//! there fails a test.

use std::collections::BTreeSet;
use std::sync::Arc;

use helve_core::approval::{ApprovalState, Rule, Same};
use helve_core::identity::{Key, Purpose};
use helve_core::label::{Label, LabelSet, Taint};
use helve_core::memory::MemoryError;
use helve_core::ports::{Adoption, Approvals, Begun, EffectId, Journal, Keys, Memory, Runs, Sessions};
use helve_core::record::Entry;
use helve_core::run::{StepKind, WaitingFor};
use helve_core::session::{SessionChange, SessionKey};
use helve_core::{Caller, RuleId};
use helve_store::{CheckpointError, Concern, SigningKey, Store, StoreOptions};
use helve_testkit::entries::{SampleCall, claim, done_status};
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use serde_json::json;

use crate::approvals::{approve, ask, start, verdict};
use crate::memory::{apply, place_of, read, undo, write};
use crate::support::Place;

/// What becomes of a change to a column.
pub(crate) enum Decision {
    /// `verify` finds it: the column is set to this expression, and that is of this concern.
    Found(&'static str, Concern),
    /// Nothing is decided by it, because of this.
    Harmless(&'static str),
}

use Decision::{Found, Harmless};

const ENTRIES: Concern = Concern::Entries;

#[rustfmt::skip]
pub(crate) const COLUMNS: &[(&str, &str, Decision)] = &[
    ("meta", "name", Found("name || '2'", Concern::Database)),
    ("meta", "value", Harmless("each number has a test of its own: see `numbers`")),
    ("entries", "seq", Found("seq + 100", ENTRIES)),
    ("entries", "kind", Found("1 - kind", ENTRIES)),
    ("entries", "made_ms", Found("made_ms + 1", ENTRIES)),
    ("entries", "call_id", Found("'call_x'", ENTRIES)),
    ("entries", "run_id", Found("'call_x'", ENTRIES)),
    ("entries", "hash", Found("randomblob(32)", ENTRIES)),
    ("entries", "commitment", Found("randomblob(32)", ENTRIES)),
    ("entries", "salt", Found("randomblob(16)", ENTRIES)),
    ("entries", "head", Found("replace(head, 'a', 'b')", ENTRIES)),
    ("entries", "payload", Found("payload || ' '", ENTRIES)),
    ("keys", "scoped_key", Found("randomblob(32)", Concern::Keys)),
    ("keys", "fingerprint", Found("randomblob(32)", Concern::Keys)),
    ("keys", "call_id", Found("'call_x'", Concern::Keys)),
    ("keys", "owner", Found("owner || 'x'", Concern::Keys)),
    ("keys", "state", Found("0", Concern::Keys)),
    ("keys", "status", Found("'{}'", Concern::Keys)),
    ("keys", "seal", Found("randomblob(32)", Concern::Keys)),
    ("room", "id", Harmless("empty but for a moment, when it is tried whether the disk has space")),
    ("room", "filler", Harmless("empty but for a moment, when it is tried whether the disk has space")),
    ("runs", "run_id", Found("run_id || 'x'", Concern::Runs)),
    ("runs", "owner", Found("'somebody'", Concern::Runs)),
    ("runs", "state", Found("1 - state", Concern::Runs)),
    ("runs", "cancel_requested", Found("1 - cancel_requested", Concern::Runs)),
    ("memory", "id", Found("id + 100", Concern::Memory)),
    ("memory", "scope", Found("3 - scope", Concern::Memory)),
    ("memory", "owner", Found("'somebody'", Concern::Memory)),
    ("memory", "key", Found("key || 'x'", Concern::Memory)),
    ("memory", "value", Found("'7'", Concern::Memory)),
    ("memory", "version", Found("version + 1", Concern::Memory)),
    ("memory", "changed_at", Found("changed_at + 1", Concern::Memory)),
    ("memory", "expires_at", Found("ifnull(expires_at, 4000000000000000) + 1", Concern::Memory)),
    ("memory", "bytes", Found("bytes - 1", Concern::Memory)),
    ("memory", "salt", Found("randomblob(16)", Concern::Memory)),
    ("memory_totals", "scope", Found("3 - scope", Concern::Memory)),
    ("memory_totals", "owner", Found("'somebody'", Concern::Memory)),
    ("memory_totals", "value_count", Found("value_count - 1", Concern::Memory)),
    ("memory_totals", "bytes", Found("0", Concern::Memory)),
    ("effects", "call_id", Found("'call_x'", Concern::Effects)),
    ("effects", "number", Found("number + 1", Concern::Effects)),
    ("effects", "run_id", Found("'call_x'", Concern::Effects)),
    ("effects", "scope", Found("3 - scope", Concern::Effects)),
    ("effects", "owner", Found("'somebody'", Concern::Effects)),
    ("effects", "key", Found("'name'", Concern::Effects)),
    ("effects", "added", Found("'5'", Concern::Effects)),
    ("effects", "before", Found("json_set(before, '$.value', 'forged')", Concern::Effects)),
    ("effects", "version", Found("version + 1", Concern::Effects)),
    ("effects", "expires_at", Found("1", Concern::Effects)),
    ("effects", "salt", Found("randomblob(16)", Concern::Effects)),
    ("approvals", "id", Found("id || 'x'", Concern::Approvals)),
    ("approvals", "state", Found("1 - state", Concern::Approvals)),
    ("approvals", "binding", Found("binding || 'x'", Concern::Approvals)),
    ("approvals", "tool", Found("'mail/delete'", Concern::Approvals)),
    ("approvals", "principal", Found("'eve'", Concern::Approvals)),
    ("approvals", "call_id", Found("'call_x'", Concern::Approvals)),
    ("approvals", "expires_ms", Found("expires_ms + 1", Concern::Approvals)),
    ("approvals", "changed", Harmless("only says in which order people see questions")),
    ("approvals", "body", Found("json_set(body, '$.binding', 'x')", Concern::Approvals)),
    ("approval_rules", "id", Found("id || 'x'", Concern::Approvals)),
    ("approval_rules", "tool", Found("'mail/delete'", Concern::Approvals)),
    ("approval_rules", "expires_ms", Found("expires_ms + 1", Concern::Approvals)),
    ("approval_rules", "body", Found("json_set(body, '$.tool', 'mail/delete')", Concern::Approvals)),
    ("sessions", "id", Harmless("a number that names nothing: sessions are found by principal and session")),
    ("sessions", "principal", Found("'eve'", Concern::Sessions)),
    ("sessions", "session", Found("'s-2'", Concern::Sessions)),
    ("sessions", "changed_ms", Found("changed_ms + 1", Concern::Sessions)),
    ("sessions", "body", Found("json_remove(body, '$.taints')", Concern::Sessions)),
    ("api_keys", "id", Found("id || 'x'", Concern::ApiKeys)),
    ("api_keys", "purpose", Found("'decide'", Concern::ApiKeys)),
    ("api_keys", "expires_ms", Found("9999999999999", Concern::ApiKeys)),
    ("api_keys", "body", Found("json_set(body, '$.name', 'root')", Concern::ApiKeys)),
];

/// A journal with a row in every table.
struct Whole {
    place: Place,
    effect: SampleCall,
    waits: SampleCall,
    runs: SampleCall,
    key: Box<Key>,
    session: SessionKey,
}

async fn whole() -> Whole {
    let place = Place::new();
    let store = place.open();
    let keyed = SampleCall::new("mail/send");
    assert!(matches!(store.begin(keyed.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
    store.finish(keyed.done(json!(3)), claim(1, 1), done_status(json!(3))).await.unwrap();
    let (runs, waits) = (SampleCall::new("trip/book"), SampleCall::new("trip/book"));
    for run in [&runs, &waits] {
        store.commit(run.started()).await.unwrap();
    }
    let waiting = StepKind::Waiting { reason: WaitingFor::Decision, approval_id: None };
    store.commit(Entry::Step(waits.step(waiting))).await.unwrap();
    store.change(place_of("name"), write(json!("Ada"))).await.unwrap();
    store.change(place_of("count"), write(json!("old"))).await.unwrap();
    let effect = SampleCall::new("mail/send");
    apply(&store, &effect, write(json!("new"))).await.unwrap();
    let asked = ask(&store, "ruled").await;
    let mut ruled = verdict(ApprovalState::Approved, "ada", &asked.binding);
    let until = Timestamp::now() + SignedDuration::from_hours(1);
    let id = RuleId::new(Timestamp::now());
    ruled.rule = Some(Rule::new(id, &asked, Same::Everything, &json!({}), &ruled.ruling, until));
    store.decide(asked.id, ruled).await.unwrap();
    ask(&store, "open").await;
    let session = SessionKey { principal: Some(Arc::from("ada")), session: Some(Arc::from("s-1")) };
    let (now, labels) = (Timestamp::now(), LabelSet::NONE.with(Label::Private));
    let taint = Taint { labels, tool: "mail/read".into(), call_id: effect.id(), at: now };
    let raise = Box::new(SessionChange::Raise(taint));
    store.change_session(session.clone(), raise, now, Timestamp::MIN).await.unwrap();
    let key = Box::new(Key::generate("ci", Purpose::Call, "ada", now).0);
    store.create_key(key.clone(), Arc::new(Caller::principal("ada"))).await.unwrap();
    store.close().unwrap();
    let verification = place.verify();
    assert!(verification.is_sound(), "{verification:?}");
    Whole { place, effect, waits, runs, key, session }
}

fn change(place: &Place, sql: &str) {
    let changed = Connection::open(place.db()).unwrap().execute_batch(sql);
    changed.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

#[tokio::test]
async fn of_every_column_it_is_said_what_becomes_of_a_change() {
    let whole = whole().await;
    let db = Connection::open(whole.place.db()).unwrap();
    let found: BTreeSet<(String, String)> = db
        .prepare(
            "SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'",
        )
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let said: BTreeSet<(String, String)> =
        COLUMNS.iter().map(|(table, column, _)| ((*table).to_owned(), (*column).to_owned())).collect();
    assert_eq!(found, said, "every column has a line in COLUMNS, which says whether a change of it is found");
    assert!(COLUMNS.iter().all(|(_, _, decision)| !matches!(decision, Harmless(why) if why.is_empty())));
}

#[tokio::test]
async fn verify_finds_a_change_of_every_column_that_decides() {
    let whole = whole().await;
    for (table, column, decision) in COLUMNS {
        let Found(value, concern) = decision else { continue };
        // One row: where several change together they could still agree with each other.
        let key = match *table {
            "meta" => "name = 'schema_version'",
            "entries" if *column == "seq" => "rowid = (SELECT max(rowid) FROM entries)",
            "entries" => "rowid = 2",
            _ => "true",
        };
        let copy = whole.place.copy();
        change(&copy, &format!("UPDATE {table} SET {column} = {value} WHERE {key}"));
        match copy.audit().verify(|_| {}) {
            Ok(found) => {
                assert_eq!(found.concern, Some(*concern), "{table}.{column}: {found:?}");
            }
            Err(error) => panic!("{table}.{column}: {error}"),
        }
    }
}

#[tokio::test]
async fn verify_finds_a_row_that_was_removed() {
    let whole = whole().await;
    for (table, concern) in [
        ("keys", Concern::Keys),
        ("runs", Concern::Runs),
        ("memory", Concern::Memory),
        ("memory_totals", Concern::Memory),
        ("effects", Concern::Effects),
        ("approvals WHERE state = 0", Concern::Approvals),
        ("sessions", Concern::Sessions),
        ("api_keys", Concern::ApiKeys),
    ] {
        let copy = whole.place.copy();
        change(&copy, &format!("DELETE FROM {table}"));
        let found = copy.verify();
        assert_eq!(found.concern, Some(concern), "{table}: {found:?}");
    }
}

/// The numbers that `meta` keeps, and what becomes of a change of each.
#[tokio::test]
async fn numbers_that_decide_are_compared() {
    let whole = whole().await;
    let names: Vec<String> = Connection::open(whole.place.db())
        .unwrap()
        .prepare("SELECT name FROM meta ORDER BY name")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    // The first and the second only say when to look at the tables again.
    assert_eq!(names, ["approval_changes", "key_changes", "memory_version", "schema_version"]);
    let copy = whole.place.copy();
    change(&copy, "UPDATE meta SET value = 0 WHERE name = 'memory_version'");
    assert_eq!(copy.verify().concern, Some(Concern::Memory), "a version would be given twice");
    // A file that calls itself older is migrated by nobody: its entries tell of another format.
    let copy = whole.place.copy();
    change(&copy, "UPDATE meta SET value = 1 WHERE name = 'schema_version'");
    let found = copy.verify();
    assert_eq!(found.concern, Some(Concern::Entries), "{found:?}");
    for number in [1, 2] {
        let copy = whole.place.copy();
        change(&copy, &format!("UPDATE meta SET value = {number} WHERE name = 'schema_version'"));
        let error = Store::open(&copy.db(), StoreOptions::default()).unwrap_err();
        assert!(error.to_string().contains("the number was changed"), "{error}");
    }
}

/// An older row of the same value is as well sealed as the newest, and its entry is not the last.
#[tokio::test]
async fn an_older_value_that_was_put_back_is_found_and_not_read() {
    let place = Place::new();
    let store = place.open();
    store.change(place_of("count"), write(json!(1))).await.unwrap();
    let older = place.copy();
    store.change(place_of("count"), write(json!(2))).await.unwrap();
    let sql = format!(
        "ATTACH '{}' AS older; INSERT OR REPLACE INTO memory SELECT * FROM older.memory",
        older.db().display()
    );
    change(&place, &sql);
    let refused = store.read(place_of("count")).await.unwrap_err();
    assert!(refused.to_string().contains("not what was written"), "{refused}");
    store.close().unwrap();
    assert_eq!(place.verify().concern, Some(Concern::Memory));
}

#[tokio::test]
async fn undo_restores_nothing_that_was_not_there() {
    let whole = whole().await;
    for (table, column, decision) in COLUMNS.iter().filter(|(table, _, _)| *table == "effects") {
        let Found(value, _) = decision else { continue };
        let copy = whole.place.copy();
        change(&copy, &format!("UPDATE {table} SET {column} = {value}"));
        let store = copy.open();
        let before = read(&store, "count").await.unwrap();
        let error = undo(&store, &whole.effect).await.unwrap_err();
        match *column {
            // It is no longer found.
            "call_id" | "number" => assert!(matches!(error, MemoryError::NothingToUndo), "{column}: {error}"),
            _ => assert!(error.to_string().contains("nothing was restored"), "{column}: {error}"),
        }
        assert_eq!(read(&store, "count").await.unwrap(), before, "{column}");
        assert_eq!(read(&store, "name").await.unwrap().value, json!("Ada"), "{column}");
    }
    let store = whole.place.open();
    undo(&store, &whole.effect).await.unwrap();
    assert_eq!(read(&store, "count").await.unwrap().value, json!("old"));
}

#[tokio::test]
async fn an_effect_whose_row_was_removed_is_not_done_twice_nor_one_that_was_undone_restored_again() {
    let place = Place::new();
    let store = place.open();
    let call = SampleCall::new("mail/send");
    apply(&store, &call, crate::memory::add_one()).await.unwrap();
    let applied = place.copy();
    change(&place, "DELETE FROM effects");
    apply(&store, &call, crate::memory::add_one()).await.unwrap();
    assert_eq!(read(&store, "count").await.unwrap().value, json!(1));
    change(
        &place,
        &format!("ATTACH '{}' AS o; INSERT INTO effects SELECT * FROM o.effects", applied.db().display()),
    );
    undo(&store, &call).await.unwrap();
    change(
        &place,
        &format!("ATTACH '{}' AS o; INSERT INTO effects SELECT * FROM o.effects", applied.db().display()),
    );
    let error = undo(&store, &call).await.unwrap_err();
    assert!(error.to_string().contains("nothing was restored"), "{error}");
    let effect = EffectId { call_id: call.id(), index: 0 };
    assert_eq!(effect.index, 0);
    store.close().unwrap();
    assert_eq!(place.verify().concern, Some(Concern::Effects));
}

#[tokio::test]
async fn nobody_takes_up_a_run_whose_row_was_changed() {
    let whole = whole().await;
    let cases = [
        (&whole.runs, "owner = 'somebody'"),
        (&whole.runs, "state = 1"),
        (&whole.runs, "cancel_requested = 1"),
        (&whole.waits, "owner = 'somebody'"),
        (&whole.waits, "state = 0"),
    ];
    for (run, set) in cases {
        let copy = whole.place.copy();
        change(&copy, &format!("UPDATE runs SET {set} WHERE run_id = '{}'", run.id()));
        let store = copy.open();
        let refused = store.adopt(run.id()).await.unwrap_err();
        assert!(refused.to_string().contains("was changed"), "{set}: {refused}");
        assert_eq!(store.cancel_requests().await.unwrap(), [], "{set}");
        // The other can be resumed.
        let other = if run.id() == whole.runs.id() { &whole.waits } else { &whole.runs };
        assert_eq!(store.adopt(other.id()).await.unwrap(), Adoption::Adopted, "{set}");
    }
}

#[tokio::test]
async fn nobody_takes_up_a_run_whose_entries_were_changed_or_removed() {
    let place = Place::new();
    let store = place.open();
    let run = SampleCall::new("trip/book");
    let [hotel, card] = ["hotel", "card"].map(|tool| SampleCall::new(tool).part_of(&run, tool));
    for entry in [run.started(), hotel.started(), hotel.done(json!(7)), card.started()] {
        store.commit(entry).await.unwrap();
    }
    // What follows keeps the anchor where it is.
    let later = SampleCall::new("later");
    store.commit(later.done(json!(1))).await.unwrap();
    store.close().unwrap();
    let cases = [
        ("DELETE FROM entries WHERE seq = 3", "entry 3 is missing"),
        ("DELETE FROM entries WHERE seq IN (2, 3, 4)", "entry 2 is missing"),
        ("UPDATE entries SET run_id = NULL WHERE run_id IS NOT NULL", "entry 2 does not fit"),
        ("UPDATE entries SET payload = '{\"arguments\":{\"n\":66}}' WHERE seq = 1", "said in entry 1"),
        ("UPDATE entries SET payload = replace(payload, '7', '8') WHERE seq = 3", "said in entry 3"),
        ("UPDATE entries SET payload = NULL, salt = NULL WHERE seq = 3", "said in entry 3"),
        ("UPDATE entries SET head = replace(head, 'hotel', 'motel') WHERE seq = 2", "entry 2 does not fit"),
        ("UPDATE entries SET head = replace(head, 'later', 'laten') WHERE seq = 5", "entry 5 does not fit"),
    ];
    for (sql, expected) in cases {
        let copy = place.copy();
        change(&copy, sql);
        let refused = copy.open().adopt(run.id()).await.unwrap_err().to_string();
        assert!(refused.contains(expected) && refused.contains("not resumed"), "{sql}: {refused}");
    }
    assert_eq!(place.open().adopt(run.id()).await.unwrap(), Adoption::Adopted);
}

#[tokio::test]
async fn a_run_that_nobody_asked_to_stop_goes_on() {
    let place = Place::new();
    let store = place.open();
    let run = SampleCall::new("trip/book");
    store.commit(run.started()).await.unwrap();
    change(&place, "UPDATE runs SET cancel_requested = 1");
    assert_eq!(store.cancel_requests().await.unwrap(), []);
    change(&place, "UPDATE runs SET cancel_requested = 0");
    assert!(store.request_cancel(run.id()).await.unwrap());
    assert_eq!(store.cancel_requests().await.unwrap(), [run.id()]);
    assert_eq!(place.verify().first_problem, None);
}

#[tokio::test]
async fn an_approval_that_was_used_is_not_used_again_whatever_its_row_says() {
    let place = Place::new();
    let store = place.open();
    let approval = ask(&store, "b").await;
    approve(&store, &approval).await;
    let unused = place.copy();
    store.commit(start(&approval).1).await.unwrap();
    let entries = place.verify().entries;
    let sql = format!(
        "ATTACH '{}' AS o; INSERT OR REPLACE INTO approvals SELECT * FROM o.approvals",
        unused.db().display()
    );
    change(&place, &sql);
    for refused in [
        store.commit(start(&approval).1).await.unwrap_err(),
        store.commit_all(vec![start(&approval).1]).await.unwrap_err(),
    ] {
        assert!(refused.to_string().contains("used"), "{refused}");
    }
    let (call, Entry::Started(started)) = start(&approval) else { unreachable!("it is a start") };
    store.begin(started, claim(1, 1)).await.unwrap_err();
    assert_eq!(store.history(call.id()).await.unwrap().len(), 0);
    store.close().unwrap();
    let found = place.verify();
    assert_eq!((found.concern, found.entries), (Some(Concern::Approvals), entries));
}

#[tokio::test]
async fn a_key_that_the_journal_does_not_vouch_for_lets_nobody_in() {
    let whole = whole().await;
    let revoked = whole.place.copy();
    let store = revoked.open();
    store.revoke_key(whole.key.id, Arc::new(Caller::principal("ada")), Timestamp::now()).await.unwrap();
    store.close().unwrap();
    let eve =
        serde_json::to_string(&Key::generate("eve", Purpose::Decide, "ada", Timestamp::now()).0).unwrap();
    let cases = [
        (&whole.place, "UPDATE api_keys SET body = json_set(body, '$.purpose', 'decide')".to_owned()),
        (&whole.place, "UPDATE api_keys SET body = json_set(body, '$.digest', '00')".to_owned()),
        (
            &whole.place,
            "UPDATE api_keys SET body = json_set(body, '$.roles', json('[\"admin\"]'))".to_owned(),
        ),
        (&revoked, "UPDATE api_keys SET body = json_remove(body, '$.revoked_at', '$.revoked_by')".to_owned()),
        (&whole.place, format!("UPDATE api_keys SET body = '{eve}'")),
    ];
    for (place, sql) in cases {
        let copy = place.copy();
        change(&copy, &sql);
        let store = copy.open();
        assert_eq!(store.keys().await.unwrap(), [], "{sql}");
        assert_eq!(store.key(whole.key.id).await.unwrap(), None, "{sql}");
    }
    let store = whole.place.open();
    store.touch_keys(vec![(whole.key.id, Timestamp::now())]).await.unwrap();
    assert!(store.key(whole.key.id).await.unwrap().unwrap().used_at.is_some(), "when it was used is open");
}

#[tokio::test]
async fn a_sign_in_code_that_was_used_is_not_used_again_whatever_its_row_says() {
    let place = Place::new();
    let store = place.open();
    let code = Box::new(Key::generate("ada", Purpose::SignIn, "ada", Timestamp::now()).0);
    store.create_key(code.clone(), Arc::new(Caller::principal("ada"))).await.unwrap();
    assert!(store.redeem_code(code.id, Timestamp::now()).await.unwrap().is_some());
    change(&place, "UPDATE api_keys SET body = json_remove(body, '$.used_at')");
    assert_eq!(store.redeem_code(code.id, Timestamp::now()).await.unwrap(), None);
}

#[tokio::test]
async fn a_session_that_the_journal_does_not_vouch_for_is_refused() {
    let whole = whole().await;
    for sql in [
        "UPDATE sessions SET body = json_remove(body, '$.taints')",
        "UPDATE sessions SET body = json_set(body, '$.since', '2020-01-01T00:00:00Z')",
        "UPDATE sessions SET changed_ms = changed_ms + 1",
        "DELETE FROM sessions",
    ] {
        let copy = whole.place.copy();
        change(&copy, sql);
        let store = copy.open();
        let refused = store.session(whole.session.clone()).await.unwrap_err();
        assert!(refused.to_string().contains("begin another"), "{sql}: {refused}");
        // It can be ended all the same.
        let end = Box::new(SessionChange::End { by: Arc::new(Caller::principal("ada")) });
        let now = Timestamp::now();
        let ended = store.change_session(whole.session.clone(), end, now, Timestamp::MIN).await.unwrap();
        assert!(ended.ended_at.is_some(), "{sql}");
    }
}

#[tokio::test]
async fn a_key_file_that_was_replaced_signs_nothing_and_is_found() {
    let place = Place::new();
    let store = place.open();
    store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    let key = SigningKey::open(&place.db()).unwrap();
    store.tell_key(&key.verifying());
    store.flush().await.unwrap();
    store.tell_key(&key.verifying());
    store.close().unwrap();
    assert_eq!((place.verify().entries, place.verify().first_problem), (2, None));
    assert_eq!(SigningKey::open(&place.db()).unwrap().verifying(), key.verifying());

    let file = SigningKey::path(&place.db());
    let kept = std::fs::read(&file).unwrap();
    let other = Place::new();
    SigningKey::open(&other.db()).unwrap();
    std::fs::copy(SigningKey::path(&other.db()), &file).unwrap();
    assert!(matches!(SigningKey::open(&place.db()), Err(CheckpointError::Replaced(_))));
    let found = place.verify();
    assert_eq!((found.concern, found.first_problem.unwrap().seq), (Some(Concern::KeyFile), Some(2)));
    std::fs::write(&file, b"damaged").unwrap();
    assert_eq!(place.verify().concern, Some(Concern::KeyFile));

    // One that is gone is not made anew, until a person takes the journal without it.
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(SigningKey::open(&place.db()), Err(CheckpointError::Gone(_))));
    assert!(!file.exists());
    std::fs::write(&file, kept).unwrap();
    SigningKey::open(&place.db()).unwrap();
    std::fs::remove_file(&file).unwrap();
    Store::accept(&place.db()).unwrap();
    place.open().close().unwrap();
    let new = SigningKey::open(&place.db()).unwrap();
    assert_ne!(new.verifying(), key.verifying());
    let store = place.open();
    store.tell_key(&new.verifying());
    store.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
}

/// What was said in a call is gone, and the digests of it tell nothing: their salts went with it.
#[tokio::test]
async fn digests_outlive_an_erasure_and_tell_nothing() {
    let place = Place::new();
    let store = place.open();
    store.change(place_of("count"), write(json!("a secret"))).await.unwrap();
    let call = SampleCall::new("mail/send");
    store.commit(call.started()).await.unwrap();
    apply(&store, &call, write(json!("new"))).await.unwrap();
    let salts = "SELECT hex(salt) FROM effects UNION SELECT hex(salt) FROM memory";
    let salts: Vec<String> = {
        let db = Connection::open(place.db()).unwrap();
        let mut select = db.prepare(salts).unwrap();
        select.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(salts.len(), 2, "each row has its own");
    store.erase(call.id(), Timestamp::now()).await.unwrap();
    store.change(place_of("count"), write(json!("newer"))).await.unwrap();
    store.commit(call.done(json!(1))).await.unwrap();
    store.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
    let bytes = std::fs::read(place.db()).unwrap();
    for salt in salts {
        let salt: Vec<u8> =
            (0..salt.len()).step_by(2).map(|at| u8::from_str_radix(&salt[at..at + 2], 16).unwrap()).collect();
        assert!(!bytes.windows(salt.len()).any(|window| window == salt), "a salt is left");
    }
}
