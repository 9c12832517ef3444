//! Taking the oldest entries off: what goes, what stays, and that the rest still proves itself.

use std::sync::Arc;

use helve_core::approval::{ApprovalState, Asked, Grant, Rule, Same};
use helve_core::cost::Cost;
use helve_core::identity::{Key, Purpose};
use helve_core::label::{Label, LabelSet, Taint};
use helve_core::memory::{MemoryChange, Operation};
use helve_core::ports::{Approvals, Begun, Journal, Keys, Memory, Sessions};
use helve_core::record::Entry;
use helve_core::run::{StepKind, WaitingFor};
use helve_core::session::{SessionChange, SessionKey};
use helve_core::{CallId, Caller, RuleId};
use helve_store::{
    CheckpointError, Concern, HoldReason, PruneError, PruneReport, Retention, SigningKey, Store, StoreOptions,
};
use helve_testkit::entries::{SampleCall, claim, done_status};
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use serde_json::json;

use crate::approvals::{question, verdict};
use crate::crash::{acknowledged, start_child};
use crate::deciding::{COLUMNS, Decision};
use crate::memory::{place_of, read, write};
use crate::support::{Place, show};

fn days_ago(days: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_hours(24 * days)
}

/// Everything that is older than a month.
fn month() -> Retention {
    let mut retention = Retention::default();
    (retention.before, retention.undo_from) = (Some(days_ago(30)), days_ago(30));
    retention.by = "ada".to_owned();
    retention
}

async fn prune(place: &Place, store: &Store, retention: &Retention) -> Result<PruneReport, PruneError> {
    let key = Arc::new(SigningKey::open(&place.db()).unwrap());
    store.prune(retention, &key, Timestamp::now(), |_| {}).await
}

/// Writes calls that only read, as of so many days ago.
async fn reads(store: &Store, count: usize, days: i64) -> Vec<SampleCall> {
    let mut calls = Vec::new();
    for number in 0..count {
        let mut call = SampleCall::at("mail/read", days_ago(days)).arguments(json!({ "x": "y".repeat(200) }));
        call.facts.changes_world = false;
        store.append(call.done(json!(number))).unwrap();
        calls.push(call);
    }
    store.flush().await.unwrap();
    calls
}

/// Writes calls that changed the world, each with a start and an end.
async fn writes(store: &Store, count: usize, days: i64) -> Vec<SampleCall> {
    let mut calls = Vec::new();
    for number in 0..count {
        let call = SampleCall::at("mail/send", days_ago(days));
        store.append(call.started()).unwrap();
        store.append(call.done(json!(number))).unwrap();
        calls.push(call);
    }
    store.flush().await.unwrap();
    calls
}

fn sound(place: &Place) -> (i64, i64) {
    let found = place.verify();
    assert_eq!(found.first_problem, None, "{found:?}");
    (found.pruned.map_or(0, |pruned| pruned.last), found.entries)
}

#[tokio::test]
async fn what_is_old_goes_and_the_rest_proves_itself() {
    let place = Place::new();
    let store = place.open();
    let old = writes(&store, 30, 60).await;
    let young = writes(&store, 5, 1).await;
    let plan = store.audit().prune_plan(&month()).unwrap();
    assert_eq!((plan.first, plan.last, plan.entries(), &plan.held), (1, 60, 60, &None));
    let report = prune(&place, &store, &month()).await.unwrap();
    assert_eq!((report.entries, report.cut.as_ref().unwrap().last), (60, 60));
    assert!(show(&store.audit(), old[0].id()).is_none() && show(&store.audit(), young[0].id()).is_some());
    // The pruning is its own entry.
    assert_eq!(sound(&place), (60, 71));
    let pruned = place.verify().pruned.unwrap();
    assert_eq!((pruned.by.as_str(), pruned.entry), ("ada", 71));

    // It goes on, again and again, and over restarts.
    store.close().unwrap();
    let store = place.open();
    assert_eq!(store.quarantine(), None);
    assert_eq!(prune(&place, &store, &month()).await.unwrap(), PruneReport::default());
    writes(&store, 3, 0).await;
    let mut all = month();
    (all.before, all.undo_from) = (Some(days_ago(-1)), days_ago(-1));
    let plan = store.audit().prune_plan(&all).unwrap();
    assert_eq!(plan.last, 71, "calls of the last day keep their keys");
    assert_eq!(plan.held.unwrap().why, HoldReason::Undo);
    prune(&place, &store, &all).await.unwrap();
    store.close().unwrap();
    assert_eq!(sound(&place).0, 71);
}

#[tokio::test]
async fn nothing_that_is_open_or_could_be_undone_goes() {
    enum Holds {
        OpenRun,
        WaitingRun,
        Question,
        YoungCall,
        LateEnd,
        Nothing,
    }
    use Holds::{LateEnd, Nothing, OpenRun, Question, WaitingRun, YoungCall};
    for (holds, expected) in [
        (OpenRun, Some(HoldReason::OpenRun)),
        (WaitingRun, Some(HoldReason::OpenRun)),
        (Question, Some(HoldReason::Question)),
        (YoungCall, Some(HoldReason::Undo)),
        (LateEnd, Some(HoldReason::Undo)),
        (Nothing, None),
    ] {
        let place = Place::new();
        let store = place.open();
        writes(&store, 4, 60).await;
        let held = SampleCall::at("mail/send", days_ago(50));
        let mut retention = month();
        match holds {
            OpenRun => store.commit(held.started()).await.unwrap(),
            WaitingRun => {
                store.commit(held.started()).await.unwrap();
                let waits = StepKind::Waiting { reason: WaitingFor::Decision, approval_id: None };
                store.commit(Entry::Step(held.step(waits))).await.unwrap();
            }
            Question => {
                let mut question = question("b");
                (question.approval.call_id, question.approval.created_at) = (held.id(), days_ago(50));
                question.approval.expires_at = days_ago(-1);
                Approvals::ask(&store, question).await.unwrap();
            }
            YoungCall => {
                // Older than what is wanted, and younger than what may still be undone.
                writes(&store, 1, 20).await;
                retention.before = Some(days_ago(10));
            }
            LateEnd => store.commit(held.started()).await.unwrap(),
            Nothing => {}
        }
        writes(&store, 4, 40).await;
        writes(&store, 2, 1).await;
        if matches!(holds, LateEnd) {
            store.commit(held.done(json!("at last"))).await.unwrap();
        }
        let plan = store.audit().prune_plan(&retention).unwrap();
        assert_eq!(plan.held.as_ref().map(|hold| hold.why), expected, "{plan:?}");
        if let Some(hold) = &plan.held {
            assert_eq!(plan.last, hold.seq - 1);
            assert!(hold.to_string().starts_with("entry 9 stays"), "{hold}");
        }
        prune(&place, &store, &retention).await.unwrap();
        let (cut, _) = sound(&place);
        assert_eq!(cut, if expected.is_some() { 8 } else { 16 });
        store.close().unwrap();
        assert_eq!(sound(&place).0, cut);
    }
}

#[tokio::test]
async fn what_counts_towards_a_limit_on_cost_stays() {
    let place = Place::new();
    let store = place.open();
    reads(&store, 4, 60).await;
    let mut paid = SampleCall::at("shop/find", days_ago(50)).done(json!(1));
    if let Entry::Finished(end) = &mut paid {
        // It waited for days, and counts from when it ended.
        end.at = days_ago(46);
        end.ending.cost = Some(Box::new(Cost { unit: "USD".parse().unwrap(), micros: 5_000 }));
    }
    store.commit(paid).await.unwrap();
    reads(&store, 4, 40).await;
    reads(&store, 1, 1).await;
    assert_eq!(store.audit().spending(days_ago(48)).unwrap().len(), 1);
    assert_eq!(store.audit().spending(days_ago(45)).unwrap().len(), 0);
    let cases = [(Some(days_ago(55)), 4), (Some(days_ago(48)), 4), (Some(days_ago(45)), 9), (None, 9)];
    for (costs_from, last) in cases {
        let mut retention = month();
        retention.costs_from = costs_from;
        let plan = store.audit().prune_plan(&retention).unwrap();
        assert_eq!((plan.last, plan.held.is_some()), (last, last == 4), "{plan:?}");
        assert!(plan.held.is_none_or(|hold| hold.why == HoldReason::Cost));
    }
}

/// A ledger with what lives longer than its entries: a key, a rule, a session with a label, one that was ended; and a
/// key that was taken back.
async fn with_long_lives() -> Place {
    let place = Place::new();
    let store = place.open();
    let ada = || Arc::new(Caller::principal("ada"));
    for name in ["ci", "old"] {
        let key = Key::generate(name, Purpose::Call, "ada", days_ago(60)).0;
        let id = key.id;
        store.create_key(Box::new(key), ada()).await.unwrap();
        if name == "old" {
            store.revoke_key(id, ada(), Timestamp::now()).await.unwrap().unwrap();
        }
    }
    let labels = LabelSet::NONE.with(Label::Untrusted);
    let read = SampleCall::at("page", days_ago(60));
    let taint = Taint { labels, tool: "page".into(), call_id: read.id(), at: read.facts.received_at };
    let (now, change) = (Timestamp::now(), Box::new(SessionChange::Raise(taint)));
    let key = SessionKey::of(&read.facts.caller);
    store.change_session(key, change, read.facts.received_at, Timestamp::MIN).await.unwrap();
    store.commit(Entry::Step(read.step(StepKind::Labelled { labels }))).await.unwrap();
    store.commit(read.done(json!("read"))).await.unwrap();
    let ended = SessionKey { principal: Some("ada".into()), session: Some("s-9".into()) };
    let end = Box::new(SessionChange::End { by: ada() });
    store.change_session(ended, end, now, Timestamp::MIN).await.unwrap();

    let mut old = question("b");
    old.approval.call_id = CallId::new(days_ago(60));
    let Asked::New(asked) = Approvals::ask(&store, old).await.unwrap() else { panic!("it was asked before") };
    let mut decided = verdict(ApprovalState::Approved, "ada", "b");
    let (arguments, until) = (json!({ "to": "ada@example.com" }), days_ago(-90));
    let rule = Rule::new(RuleId::new(now), &asked, Same::Everything, &arguments, &decided.ruling, until);
    decided.rule = Some(rule);
    store.decide(asked.id, decided).await.unwrap();
    let call = SampleCall::at("mail/send", days_ago(60));
    let mut started = call.start();
    started.at = now;
    started.grant = Some(Grant {
        approval_id: asked.id,
        binding: "b".to_owned(),
        asked: None,
        fingerprint: asked.fingerprint,
    });
    store.commit(Entry::Started(started)).await.unwrap();
    store.commit(call.done(json!(1))).await.unwrap();
    // What is remembered, and which key signs.
    for name in ["name", "removed"] {
        store.change(place_of(name), write(json!(name))).await.unwrap();
    }
    store.change(place_of("removed"), MemoryChange::new(Operation::Delete)).await.unwrap();
    store.tell_key(&SigningKey::open(&place.db()).unwrap().verifying());
    store.flush().await.unwrap();
    reads(&store, 2, 0).await;
    store.close().unwrap();
    assert_eq!(sound(&place).0, 0);
    place
}

#[tokio::test]
async fn what_lives_longer_than_its_entries_is_vouched_for_anew() {
    let place = with_long_lives().await;
    let mut all = month();
    all.before = Some(days_ago(-1));
    // Twice: what was vouched for goes, too, and is vouched for again.
    for round in 0..2 {
        let store = place.open();
        let report = prune(&place, &store, &all).await.unwrap();
        assert!(report.entries > 3, "{round}: {report:?}");
        assert_eq!(store.rules(None, 9).await.unwrap().len(), 1, "the rule is good");
        let keys = store.keys().await.unwrap();
        assert_eq!(keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["ci"]);
        assert!(store.key(keys[0].id).await.unwrap().is_some(), "the key lets in");
        let labelled = SessionKey::of(&SampleCall::new("page").facts.caller);
        let session = store.session(labelled).await.unwrap().unwrap();
        assert!(session.labels().has(Label::Untrusted));
        assert_eq!(read(&store, "name").await.map(|found| found.value), Some(json!("name")));
        assert_eq!(read(&store, "removed").await, None);
        reads(&store, 2, 0).await;
        store.close().unwrap();
        sound(&place);
    }
    for (sql, concern) in [
        ("UPDATE api_keys SET body = json_set(body, '$.name', 'x')", Concern::ApiKeys),
        ("DELETE FROM api_keys", Concern::ApiKeys),
        ("UPDATE approval_rules SET body = json_set(body, '$.tool', 'x')", Concern::Approvals),
        ("UPDATE sessions SET body = json_remove(body, '$.taints') WHERE session = 's-1'", Concern::Sessions),
        (
            "UPDATE sessions SET body = json_remove(body, '$.ended_at') WHERE session = 's-9'",
            Concern::Sessions,
        ),
        ("DELETE FROM sessions WHERE session = 's-1'", Concern::Sessions),
        ("UPDATE memory SET value = '7' WHERE key = 'name'", Concern::Memory),
        ("DELETE FROM memory WHERE key = 'name'", Concern::Memory),
    ] {
        assert_eq!(after(&place, sql).0, Some(concern), "{sql}");
    }
    // Each column that decides, in rows that outlived their entries.
    for (table, column, decision) in COLUMNS {
        let only = match *table {
            "memory" | "memory_totals" | "approval_rules" | "api_keys" => "true",
            "sessions" => "session = 's-1'",
            _ => continue,
        };
        let Decision::Found(value, concern) = decision else { continue };
        let sql = format!("UPDATE {table} SET {column} = {value} WHERE {only}");
        assert_eq!(after(&place, &sql).0, Some(*concern), "{sql}");
    }
    // Another key in the place of the one that signed.
    let copy = place.copy();
    let other = Place::new();
    SigningKey::open(&other.db()).unwrap();
    std::fs::copy(SigningKey::path(&other.db()), SigningKey::path(&copy.db())).unwrap();
    assert!(!copy.verify().is_sound());
    assert!(matches!(SigningKey::open(&copy.db()), Err(CheckpointError::Replaced(_))));
}

/// What `verify` finds once a copy was changed.
fn after(place: &Place, sql: &str) -> (Option<Concern>, String) {
    let copy = place.copy();
    std::fs::copy(SigningKey::path(&place.db()), SigningKey::path(&copy.db())).unwrap();
    Connection::open(copy.db()).unwrap().execute_batch(sql).unwrap();
    let found = copy.verify();
    (found.concern, found.first_problem.map(|problem| problem.what).unwrap_or_default())
}

#[tokio::test]
async fn keys_and_questions_go_with_their_calls() {
    let place = Place::new();
    let store = place.open();
    let call = SampleCall::at("pay", days_ago(60));
    assert!(matches!(store.begin(call.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
    store.finish(call.done(json!(1)), claim(1, 1), done_status(json!(1))).await.unwrap();
    let mut old = question("b");
    old.approval.call_id = CallId::new(days_ago(60));
    let asked = Approvals::ask(&store, old).await.unwrap();
    assert!(matches!(asked, Asked::New(_)));
    let Asked::New(asked) = asked else { return };
    store.decide(asked.id, verdict(ApprovalState::Denied, "ada", "b")).await.unwrap();
    reads(&store, 1, 0).await;
    prune(&place, &store, &month()).await.unwrap();
    assert!(store.approval(asked.id).await.unwrap().is_none());
    let again = SampleCall::new("pay");
    assert!(matches!(store.begin(again.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
    store.finish(again.done(json!(1)), claim(1, 1), done_status(json!(1))).await.unwrap();
    store.close().unwrap();
    assert_eq!(sound(&place).0, 4);
}

#[tokio::test]
async fn a_cut_that_nobody_signed_is_found() {
    let place = Place::new();
    let store = place.open();
    writes(&store, 10, 60).await;
    writes(&store, 2, 1).await;
    // What an attacker could have: a checkpoint that was signed for another purpose.
    let key = SigningKey::open(&place.db()).unwrap();
    let (checkpoint, note) = store.audit().checkpoint(&key, Timestamp::now()).unwrap();
    assert_eq!(checkpoint.head.seq, 24);
    let honest = place.copy();
    prune(&place, &store, &month()).await.unwrap();
    store.close().unwrap();
    assert_eq!(sound(&place), (20, 25));

    for (sql, what) in [
        ("DELETE FROM entries WHERE seq <= 21", "entries 1 to 21 are missing"),
        ("DELETE FROM entries WHERE seq = 22", "entry 22 is missing"),
        (
            "UPDATE entries SET head = replace(head, '\"ada\"', '\"eve\"') WHERE seq = 25",
            "does not fit the chain",
        ),
        ("DELETE FROM meta WHERE name = 'last_cut'", ""),
    ] {
        let found = after(&place, sql).1;
        assert!(found.contains(what) && found.is_empty() == what.is_empty(), "{sql}: {found}");
    }
    // Without the key, and with another one.
    let copy = place.copy();
    let found = copy.verify().first_problem.unwrap().what;
    assert!(found.contains("entries 1 to 20 are gone") && found.contains("`.key` file"), "{found}");
    SigningKey::open(&copy.db()).unwrap();
    let found = copy.verify().first_problem.unwrap().what;
    assert!(found.contains("its signature does not fit"), "{found}");

    // Somebody writes such an entry themselves, into a journal that nobody pruned: the chain takes it, the key not.
    std::fs::copy(SigningKey::path(&place.db()), SigningKey::path(&honest.db())).unwrap();
    let forged = json!({ "at": Timestamp::now(), "by": "ada", "cut":
        { "first": 1, "last": 24, "calls": 12, "hash": checkpoint.head.hash, "note": note } });
    append(&honest, 12, &forged.to_string());
    let db = Connection::open(honest.db()).unwrap();
    db.execute("DELETE FROM entries WHERE seq <= 24", []).unwrap();
    drop(db);
    let found = honest.verify();
    assert_eq!(found.concern, Some(Concern::Entries));
    let what = found.first_problem.unwrap().what;
    assert!(what.contains("entries 1 to 24 are gone") && what.contains("signature does not fit"), "{what}");
}

/// Appends an entry as the writer would, hash and all.
fn append(place: &Place, kind: u8, head: &str) {
    use sha2::{Digest, Sha256};
    let db = Connection::open(place.db()).unwrap();
    let (seq, before): (i64, Vec<u8>) = db
        .query_one("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    let hash = Sha256::new_with_prefix(b"helve journal entry v1\0")
        .chain_update(before)
        .chain_update((seq + 1).to_le_bytes())
        .chain_update([kind])
        .chain_update([0; 16])
        .chain_update(head)
        .finalize();
    let sql = "INSERT INTO entries (kind, made_ms, call_id, hash, commitment, head) VALUES (?1, 0, '', ?2, x'', ?3)";
    db.execute(sql, rusqlite::params![kind, hash.to_vec(), head]).unwrap();
}

#[tokio::test]
async fn what_does_not_prove_itself_is_not_pruned() {
    let place = Place::new();
    let store = place.open();
    writes(&store, 10, 60).await;
    writes(&store, 2, 1).await;
    Connection::open(place.db()).unwrap().execute("DELETE FROM entries WHERE seq = 3", []).unwrap();
    assert!(matches!(prune(&place, &store, &month()).await, Err(PruneError::Unsound(_))));
}

#[tokio::test]
async fn space_is_given_back_and_the_size_has_a_limit() {
    let place = Place::new();
    let store = place.open();
    reads(&store, 6_000, 60).await;
    store.close().unwrap();
    let store = place.open();
    let before = store.audit().status().unwrap();
    let mut retention = month();
    (retention.before, retention.bytes_max) = (None, Some(before.bytes / 4));
    let report = prune(&place, &store, &retention).await.unwrap();
    assert!(report.entries > 3_000, "{report:?}");
    let now = store.audit().status().unwrap();
    assert!(now.bytes < before.bytes / 2, "{} of {}", now.bytes, before.bytes);
    assert!(now.bytes - now.free_bytes < before.bytes / 3, "{now:?}");
    assert_eq!((now.first_entry, now.oldest.is_some()), (report.entries + 1, true));
    store.close().unwrap();
    sound(&place);
}

#[tokio::test]
async fn what_was_said_in_calls_that_only_read_goes_sooner() {
    let place = Place::new();
    let store = place.open();
    let read = reads(&store, 10, 20).await;
    let wrote = writes(&store, 5, 20).await;
    let young = reads(&store, 3, 1).await;
    let mut retention = month();
    retention.reads_before = Some(days_ago(10));
    let report = prune(&place, &store, &retention).await.unwrap();
    assert_eq!((report.entries, report.erased), (0, 10));
    let said = |call: &SampleCall| show(&store.audit(), call.id()).unwrap().payload.arguments.is_some();
    assert!(!said(&read[0]) && said(&wrote[0]) && said(&young[0]));
    assert_eq!(prune(&place, &store, &retention).await.unwrap().erased, 0, "once is enough");
    store.close().unwrap();
    sound(&place);
    for sql in [
        "UPDATE entries SET payload = NULL, salt = NULL WHERE seq = 12",
        "UPDATE entries SET payload = NULL, salt = NULL WHERE seq = 22",
    ] {
        assert!(after(&place, sql).1.contains("no erasure is recorded"), "{sql}");
    }
}

/// What a child does: prunes in steps, and dies after some.
pub(crate) fn prune_and_die(store: &Store, dies_at: i64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let key = Arc::new(SigningKey::open(store.path()).unwrap());
    let mut told = 0;
    let pruned = runtime.block_on(store.prune(&month(), &key, Timestamp::now(), |_| {
        told += 1;
        if told == dies_at {
            std::process::abort();
        }
    }));
    pruned.unwrap();
}

#[tokio::test]
async fn a_process_that_dies_in_the_middle_of_a_pruning_leaves_a_sound_journal() {
    let place = Place::new();
    let store = place.open();
    reads(&store, 9_000, 60).await;
    reads(&store, 10, 1).await;
    store.close().unwrap();
    SigningKey::open(&place.db()).unwrap();
    for (dies_at, cut) in [(1, 2_000), (2, 6_000), (9, 9_000)] {
        let lived = start_child(&place, &format!("prune {dies_at}")).wait().unwrap().success();
        assert_eq!((lived, sound(&place).0), (dies_at == 9, cut));
    }
}

#[test]
fn pruning_under_load_holds_nobody_up_and_loses_nothing() {
    let place = Place::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = place.open();
    runtime.block_on(reads(&store, 5_000, 60));
    let mut writers = [start_child(&place, "commit"), start_child(&place, "commit")];
    let mut acks: Vec<_> = writers.iter_mut().map(acknowledged).collect();
    acks.iter_mut().for_each(|acks| assert!(acks.next().is_some()));
    let report = runtime.block_on(prune(&place, &store, &month())).unwrap();
    assert_eq!(report.entries, 5_000);
    let mut known = 0;
    for (writer, acks) in writers.iter_mut().zip(acks) {
        for id in acks {
            known += 1;
            assert!(show(&store.audit(), id).is_some(), "{id}");
        }
        assert!(writer.wait().unwrap().success());
    }
    assert!(known > 1_900);
    store.close().unwrap();
    assert_eq!(sound(&place).0, 5_000);
}

#[tokio::test]
async fn a_full_disk_in_the_middle_of_a_pruning_leaves_a_sound_journal() {
    let place = Place::new();
    let store = place.open();
    reads(&store, 3_000, 60).await;
    store.close().unwrap();
    let mut options = StoreOptions::default();
    (options.pages_max, options.reserve_bytes) = (Some(80), 0);
    let store = Store::open(&place.db(), options).unwrap();
    // The journal takes no more, so nothing new starts; and neither does a pruning, which announces itself.
    let refused = prune(&place, &store, &month()).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(sound(&place).0, 0);
    store.limit_pages(None);
    crate::support::wait_until("the journal recovers", || store.check().is_ok());
    prune(&place, &store, &month()).await.unwrap();
    store.close().unwrap();
    assert_eq!(sound(&place).0, 2_999);
}

#[tokio::test]
async fn a_pruned_journal_whose_key_is_lost_is_sound_once_it_is_accepted() {
    let place = Place::new();
    let store = place.open();
    writes(&store, 10, 60).await;
    writes(&store, 2, 1).await;
    store.tell_key(&SigningKey::open(&place.db()).unwrap().verifying());
    prune(&place, &store, &month()).await.unwrap();
    store.close().unwrap();
    assert_eq!(sound(&place).0, 20);
    std::fs::remove_file(SigningKey::path(&place.db())).unwrap();
    assert!(place.verify().first_problem.is_some());

    Store::accept(&place.db()).unwrap();
    let store = place.open();
    store.flush().await.unwrap();
    assert_eq!(sound(&place).0, 20);
    assert_eq!(place.verify().pruned.unwrap().by, "helve audit accept");
    // It is pruned on, with the new key.
    writes(&store, 10, 50).await;
    writes(&store, 2, 1).await;
    prune(&place, &store, &month()).await.unwrap();
    store.close().unwrap();
    sound(&place);
}
