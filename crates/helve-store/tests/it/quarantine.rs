//! A journal that is not the one its anchor knows is read, and not worked with.

use helve_core::approval::ApprovalState;
use helve_core::identity::{Key, Purpose};
use helve_core::ports::{Adoption, Approvals, Holder, Journal, Keys, Runs};
use helve_core::record::Entry;
use helve_core::run::{StepKind, WaitingFor};
use helve_core::{ApprovalId, Caller};
use helve_store::{Quarantine, SigningKey, Store, Trouble};
use helve_testkit::entries::{SampleCall, claim};
use jiff::Timestamp;
use serde_json::json;

use crate::approvals::ask;
use crate::support::{Place, wait_until};

/// A run is open and a question is put; then a copy is made, the run ends, and the copy is put back.
async fn restored() -> (Place, SampleCall, ApprovalId) {
    let place = Place::new();
    let store = place.open();
    let run = SampleCall::new("mail/send");
    store.commit(run.started()).await.unwrap();
    let question = ask(&store, "b").await;
    store.close().unwrap();
    let older = place.copy();
    let store = place.open();
    store.commit(run.done(json!("sent"))).await.unwrap();
    store.close().unwrap();
    std::fs::copy(older.db(), place.db()).unwrap();
    (place, run, question.id)
}

#[tokio::test]
async fn nothing_is_written_to_an_older_copy_and_all_of_it_can_be_read() {
    let (place, run, question) = restored().await;
    let store = place.open();
    let why = store.quarantine().unwrap();
    assert_eq!(why.trouble, Trouble::Missing { first: 3, last: 3 });
    assert_eq!((why.anchor.as_ref().unwrap().seq, why.found.as_ref().unwrap().seq), (3, 2));
    assert_eq!(Quarantine::of(&place.db()).unwrap().as_ref(), Some(&*why));
    let check = |refused: String| assert!(refused.contains("entry 3 was written and is gone"), "{refused}");
    check(store.check().unwrap_err().to_string());
    check(store.adopt(run.id()).await.unwrap_err().to_string());
    check(store.request_cancel(run.id()).await.unwrap_err().to_string());
    let other = SampleCall::new("mail/send");
    check(store.commit(other.started()).await.unwrap_err().to_string());
    check(store.append(other.done(json!(1))).unwrap_err().to_string());
    check(store.begin(other.start(), claim(1, 1)).await.unwrap_err().to_string());
    let key = Box::new(Key::generate("ci", Purpose::Call, "ada", Timestamp::now()).0);
    check(store.create_key(key, Caller::local()).await.unwrap_err().to_string());

    assert_eq!(store.history(run.id()).await.unwrap().len(), 1);
    assert_eq!(store.open_runs(None, 9).await.unwrap()[0].holder, Holder::Nobody);
    assert_eq!(store.approval(question).await.unwrap().unwrap().state, ApprovalState::Pending);
    store.close().unwrap();
    assert_eq!(place.verify().entries, 2, "and nothing was written");
}

#[tokio::test]
async fn what_is_open_in_an_accepted_journal_waits_for_a_person() {
    let (place, run, question) = restored().await;
    let store = place.open();
    Store::accept(&place.db()).unwrap();
    wait_until("the running store takes it", || store.check().is_ok());
    assert!(store.quarantine().is_none());
    store.flush().await.unwrap();
    assert_eq!(store.open_runs(None, 9).await.unwrap()[0].holder, Holder::Person);
    let history = store.history(run.id()).await.unwrap();
    let waits = |entry: &Entry| {
        let decision = StepKind::Waiting { reason: WaitingFor::Decision, approval_id: None };
        matches!(entry, Entry::Step(step) if step.kind == decision)
    };
    assert!(history.last().is_some_and(waits), "{history:?}");
    let withdrawn = store.approval(question).await.unwrap().unwrap();
    assert_eq!((withdrawn.state, withdrawn.granted), (ApprovalState::Withdrawn, None));
    // A person may let it go on.
    assert_eq!(store.adopt(run.id()).await.unwrap(), Adoption::Adopted);
    store.close().unwrap();
    let verification = place.verify();
    assert_eq!((verification.entries, verification.first_problem), (7, None));
}

#[tokio::test]
async fn a_journal_that_is_put_back_is_worked_with_again() {
    let (place, ..) = restored().await;
    let older = std::fs::read(place.db()).unwrap();
    let whole = Place::new();
    let store = whole.open();
    store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    store.close().unwrap();
    let (newest, anchor) = (std::fs::read(whole.db()).unwrap(), std::fs::read(whole.anchor()).unwrap());
    std::fs::write(place.db(), older).unwrap();
    let store = place.open();
    assert!(store.quarantine().is_some());
    // Another file, as a person who restores one puts it there.
    let (file, there) = (place.folder().join("new"), place.db());
    std::fs::write(&file, newest).unwrap();
    std::fs::write(place.anchor(), anchor).unwrap();
    std::fs::rename(file, there).unwrap();
    wait_until("it is taken", || store.quarantine().is_none());
    store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    store.close().unwrap();
    assert_eq!(place.verify().entries, 2);
}

#[tokio::test]
async fn a_store_in_quarantine_is_told_a_key_and_closed() {
    let (place, ..) = restored().await;
    let store = place.open();
    let key = SigningKey::open(&place.db()).unwrap();
    store.tell_key(&key.verifying());
    store.close().unwrap();
    assert_eq!(place.verify().entries, 2, "and nothing was written");
}

#[tokio::test]
async fn a_file_that_was_gone_and_is_put_back_keeps_every_entry() {
    for is_moved in [false, true] {
        let place = Place::new();
        let store = place.open();
        for number in 0..50 {
            store.commit(SampleCall::new("clock/now").done(json!(number))).await.unwrap();
        }
        store.close().unwrap();
        let (kept, whole) = (place.folder().join("kept"), std::fs::read(place.db()).unwrap());
        std::fs::rename(place.db(), &kept).unwrap();
        let store = place.open();
        assert_eq!(store.quarantine().unwrap().trouble, Trouble::Missing { first: 1, last: 50 });
        assert!(store.open_runs(None, 9).await.unwrap().is_empty(), "reading works");
        for beside in ["", "-wal", "-shm"] {
            let path = place.folder().join(format!("journal.db{beside}"));
            assert!(!path.exists(), "nothing is made: {path:?}");
        }
        match is_moved {
            true => std::fs::rename(&kept, place.db()).unwrap(),
            false => drop(std::fs::copy(&kept, place.db()).unwrap()),
        }
        wait_until("it works again", || store.check().is_ok());
        assert_eq!(std::fs::read(place.db()).unwrap(), whole, "nothing was written over it");
        store.commit(SampleCall::new("clock/now").done(json!(50))).await.unwrap();
        store.close().unwrap();
        place.open().close().unwrap();
        let verification = place.verify();
        assert_eq!((verification.entries, verification.first_problem), (51, None), "moved: {is_moved}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_keeps_nobody_from_accepting_the_rest() {
    let (place, run, question) = restored().await;
    let db = rusqlite::Connection::open(place.db()).unwrap();
    db.execute(
        "INSERT INTO approvals SELECT 'apr_x', 0, binding, tool, principal, call_id, expires_ms, \
                changed, 'nonsense' FROM approvals",
        [],
    )
    .unwrap();
    db.execute("INSERT INTO runs VALUES ('nonsense', 'nobody', 0, 0)", []).unwrap();
    drop(db);
    Store::accept(&place.db()).unwrap();
    let store = place.open();
    store.flush().await.unwrap();
    store.check().unwrap();
    assert_eq!(store.approval(question).await.unwrap().unwrap().state, ApprovalState::Withdrawn);
    let open = store.open_runs(None, 9).await.unwrap();
    assert_eq!((open.len(), open[0].run, open[0].holder), (1, run.id(), Holder::Person));
    store.close().unwrap();
    let db = rusqlite::Connection::open(place.db()).unwrap();
    let left: i64 =
        db.query_one("SELECT count(*) FROM approvals WHERE state < 2", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "no question leads to a call");
}

#[tokio::test]
async fn of_two_stores_in_quarantine_one_accepts_and_the_other_withdraws_nothing() {
    let (place, _, old) = restored().await;
    let (first, second) = (place.open(), place.open());
    Store::accept(&place.db()).unwrap();
    wait_until("both take it", || first.check().is_ok() && second.check().is_ok());
    first.flush().await.unwrap();
    second.flush().await.unwrap();
    assert_eq!(first.approval(old).await.unwrap().unwrap().state, ApprovalState::Withdrawn);
    first.close().unwrap();
    second.close().unwrap();
    let db = rusqlite::Connection::open(place.db()).unwrap();
    let accepted: i64 =
        db.query_one("SELECT count(*) FROM entries WHERE kind = 5", [], |row| row.get(0)).unwrap();
    assert_eq!(accepted, 1);
    assert_eq!(place.verify().first_problem, None);
}
