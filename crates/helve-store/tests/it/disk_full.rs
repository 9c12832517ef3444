use std::sync::Arc;

use helve_core::approval::{ApprovalState, Asked, Decided};
use helve_core::identity::{Key, KeyState, Purpose};
use helve_core::label::{Label, LabelSet, Taint};
use helve_core::ports::{Approvals, Begun, Journal, JournalError, Keys, Runs, Sessions};
use helve_core::record::Entry;
use helve_core::run::StepKind;
use helve_core::session::{SessionChange, SessionKey};
use helve_core::{CallId, Caller, ErrorCode};
use helve_store::{Store, StoreError, StoreOptions};
use helve_testkit::entries::{SampleCall, claim, done_status};
use jiff::Timestamp;
use serde_json::json;

use crate::approvals::{approve, ask, question, start, verdict};
use crate::support::{Place, show, wait_until};

fn open_small(place: &Place) -> Store {
    let mut options = StoreOptions::default();
    options.pages_max = Some(160);
    options.reserve_bytes = 0;
    Store::open(&place.db(), options).unwrap()
}

/// Room for 160 pages besides the reserve.
fn open_with_reserve(place: &Place) -> Store {
    let mut options = StoreOptions::default();
    options.pages_max = Some(160 + u32::try_from(options.reserve_bytes / 4_096).unwrap());
    Store::open(&place.db(), options).unwrap()
}

/// Commits starts until the disk is full. Returns those that were acknowledged.
async fn fill(store: &Store) -> Vec<SampleCall> {
    let mut acknowledged = Vec::new();
    loop {
        let call = SampleCall::new("mail/send").arguments(json!({ "body": "x".repeat(1_000) }));
        match store.commit(call.started()).await {
            Ok(()) => acknowledged.push(call),
            Err(error) => {
                assert!(error.to_string().contains("full; free some space"), "{error}");
                return acknowledged;
            }
        }
    }
}

#[tokio::test]
async fn what_runs_when_the_disk_fills_is_recorded_to_its_end() {
    let place = Place::new();
    let store = open_with_reserve(&place);
    let running = SampleCall::new("mail/send");
    assert!(matches!(store.begin(running.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
    let calls = fill(&store).await;
    assert!(calls.len() > 5 && !place.reserve().exists());

    // Every end is acknowledged, and nothing new starts.
    store.finish(running.done(json!("ran")), claim(1, 1), done_status(json!("ran"))).await.unwrap();
    for call in &calls[2..] {
        store.commit(call.failed(ErrorCode::Timeout)).await.unwrap();
        let refused = store.commit(SampleCall::new("mail/send").started()).await.unwrap_err();
        assert!(refused.to_string().contains("is full"), "{refused}");
    }
    store.append(calls[0].done(json!("appended"))).unwrap();
    store.append(calls[1].done(json!("appended"))).unwrap();
    store.flush().await.unwrap();
    store.begin(SampleCall::new("mail/send").start(), claim(2, 2)).await.unwrap_err();
    store.erase(calls[0].id(), Timestamp::now()).await.unwrap_err();
    store.check().unwrap_err();
    for id in calls.iter().map(SampleCall::id).chain([running.id()]) {
        assert!(show(&store.audit(), id).unwrap().finished_at.is_some(), "{id} has no end");
    }

    store.limit_pages(None);
    wait_until("the journal recovers by itself", || store.check().is_ok());
    assert!(place.reserve().exists());
    let again = store.begin(SampleCall::new("mail/send").start(), claim(1, 1)).await.unwrap();
    assert!(matches!(again, Begun::Finished { call_id, .. } if call_id == running.id()), "{again:?}");
    assert_eq!(store.audit().verify(|_| {}).unwrap().first_problem, None);
}

#[tokio::test]
async fn a_disk_that_is_full_from_the_beginning_can_be_read() {
    let place = Place::new();
    let call = SampleCall::new("mail/send");
    place.open().commit(call.started()).await.unwrap();
    std::fs::remove_file(place.reserve()).unwrap();
    let mut options = StoreOptions::default();
    // Fewer than the reserve takes.
    options.pages_max = Some(240);
    let store = Store::open(&place.db(), options).unwrap();
    assert!(store.check().unwrap_err().to_string().contains("is full"));
    assert!(!place.reserve().exists());
    assert!(show(&store.audit(), call.id()).is_some());
    store.commit(call.done(json!("done"))).await.unwrap();
    store.limit_pages(None);
    wait_until("the journal recovers by itself", || store.check().is_ok());
    assert_eq!(std::fs::metadata(place.reserve()).unwrap().len(), 4 << 20);
}

#[tokio::test]
async fn a_reserve_that_another_process_gave_up_is_made_again_before_anything_starts() {
    let place = Place::new();
    let store = place.open();
    std::fs::remove_file(place.reserve()).unwrap();
    store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    assert!(place.reserve().exists());
    std::fs::remove_file(place.reserve()).unwrap();
    std::fs::create_dir(place.reserve()).unwrap();
    store.commit(SampleCall::new("mail/send").started()).await.unwrap_err();
}

/// The same on a real disk: `mount -t tmpfs -o size=6m tmpfs <folder>`.
#[tokio::test]
#[ignore = "needs HELVE_TEST_SMALL_DISK, an empty folder on a disk of some MiB"]
async fn a_real_disk_that_fills_leaves_no_call_without_its_end() {
    let folder = std::path::PathBuf::from(std::env::var_os("HELVE_TEST_SMALL_DISK").unwrap());
    let database = folder.join("journal.db");
    let (one, two) = (
        Store::open(&database, StoreOptions::default()).unwrap(),
        Store::open(&database, StoreOptions::default()).unwrap(),
    );
    let mut started = Vec::new();
    for body_bytes in [3_000, 0] {
        // One store may find room, as long as the reserve has some, where the other had none.
        for store in [&one, &two, &one, &two] {
            while store.check().is_ok() {
                let call = SampleCall::new("mail/send").arguments(json!({ "body": "x".repeat(body_bytes) }));
                started.extend(store.commit(call.started()).await.is_ok().then_some(call));
            }
        }
    }
    for (index, call) in started.iter().rev().take(40).enumerate() {
        let store = if index % 2 == 0 { &one } else { &two };
        store.commit(call.failed(ErrorCode::Timeout)).await.unwrap();
    }
    let third = Store::open(&database, StoreOptions::default()).unwrap();
    assert!(third.check().unwrap_err().to_string().contains("is full"));
    assert!(show(&third.audit(), started[0].id()).is_some());
    assert_eq!(third.audit().verify(|_| {}).unwrap().first_problem, None);
    for store in [one, two, third] {
        store.close().unwrap();
    }
    let reopened = Store::open(&database, StoreOptions::default()).unwrap();
    assert_eq!(reopened.audit().verify(|_| {}).unwrap().first_problem, None);
    reopened.close().unwrap();

    // Somebody else fills the disk to the last byte, with the reserve still there.
    let mut filler = std::fs::File::create(folder.join("filler")).unwrap();
    let mut fill_up = || while std::io::Write::write_all(&mut filler, &[1; 1_024]).is_ok() {};
    fill_up();
    let full = Store::open(&database, StoreOptions::default()).unwrap();
    assert!(full.check().unwrap_err().to_string().contains("is full"));
    full.commit(started[0].done(json!("late"))).await.unwrap();
    assert!(show(&full.audit(), started[0].id()).unwrap().finished_at.is_some());
    full.close().unwrap();

    // The same without a reserve. What cannot be opened for writing can be read.
    fill_up();
    let opened = Store::open(&database, StoreOptions::default());
    assert!(matches!(opened, Err(StoreError::DiskFull { .. })), "{opened:?}");
    let audit = helve_store::Audit::open(&database).unwrap();
    assert!(show(&audit, started[0].id()).unwrap().finished_at.is_some());
}

#[tokio::test]
async fn a_full_disk_refuses_calls_keeps_reports_and_recovers() {
    let place = Place::new();
    let store = open_small(&place);
    let running = SampleCall::new("mail/send");
    assert!(matches!(store.begin(running.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
    let acknowledged = fill(&store).await;
    assert!(acknowledged.len() > 10);
    // More than what the disk has left even for reports.
    store.commit(acknowledged[2].done(json!("x".repeat(300_000)))).await.unwrap_err();

    // Nothing new may start.
    let refused = SampleCall::new("mail/send");
    for error in [
        store.check().unwrap_err(),
        store.append(acknowledged[1].done(json!("appended"))).unwrap_err(),
        store.commit(refused.started()).await.unwrap_err(),
        store.begin(refused.start(), claim(2, 2)).await.unwrap_err(),
        store.flush().await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("full; free some space"), "{error}");
    }
    // What was under way has ended; that is kept, and not acknowledged.
    store.commit(acknowledged[0].done(json!("done"))).await.unwrap_err();
    store.finish(running.done(json!("ran")), claim(1, 1), done_status(json!("ran"))).await.unwrap_err();

    store.limit_pages(None);
    wait_until("the journal recovers by itself", || store.check().is_ok());
    store.flush().await.unwrap();
    store.commit(SampleCall::new("mail/send").started()).await.unwrap();

    let audit = store.audit();
    for call in &acknowledged {
        assert!(show(&audit, call.id()).is_some(), "an acknowledged entry was lost");
    }
    assert!(show(&audit, acknowledged[0].id()).unwrap().finished_at.is_some());
    assert!(show(&audit, acknowledged[1].id()).unwrap().finished_at.is_some());
    assert!(show(&audit, acknowledged[2].id()).unwrap().finished_at.is_some());
    assert!(show(&audit, refused.id()).is_none(), "a call that was refused did not start");
    let again = store.begin(SampleCall::new("mail/send").start(), claim(1, 1)).await.unwrap();
    assert!(matches!(again, Begun::Finished { call_id, .. } if call_id == running.id()), "{again:?}");
    assert_eq!(audit.verify(|_| {}).unwrap().first_problem, None);
}

/// What the gate keeps: nothing of it changes by half while there is no room, and nothing is lost.
#[tokio::test]
async fn a_full_disk_decides_nothing_lets_nobody_in_and_loses_no_question() {
    let place = Place::new();
    let store = open_small(&place);
    let (pending, approved) = (ask(&store, "pending").await, ask(&store, "approved").await);
    approve(&store, &approved).await;
    let key = |name: &str, purpose| Key::generate(name, purpose, "ada", Timestamp::now()).0;
    let (ci, code, late) =
        (key("ci", Purpose::Call), key("ada", Purpose::SignIn), key("late", Purpose::Decide));
    for key in [&ci, &code] {
        store.create_key(Box::new(key.clone()), Caller::local()).await.unwrap();
    }
    let session = SessionKey::of(&Caller::principal("ada").session("s"));
    let now = Timestamp::now();
    let taint = |label| {
        let labels = LabelSet::NONE.with(label);
        Box::new(SessionChange::Raise(Taint {
            labels,
            tool: "page".into(),
            call_id: CallId::new(now),
            at: now,
        }))
    };
    let raise = |label| store.change_session(session.clone(), taint(label), now, Timestamp::MIN);
    raise(Label::Untrusted).await.unwrap();
    fill(&store).await;

    let said = |what: &str, refused: Result<(), JournalError>| {
        let error = refused.expect_err(what).to_string();
        assert!(error.contains("full; free some space"), "{what}: {error}");
    };
    said("ask", Approvals::ask(&store, question("new")).await.map(drop));
    let approving = || verdict(ApprovalState::Approved, "ada", "pending");
    said("approve", store.decide(pending.id, approving()).await.map(drop));
    said("deny", store.decide(pending.id, verdict(ApprovalState::Denied, "ada", "")).await.map(drop));
    let (call, entry) = start(&approved);
    said("use", store.commit(entry).await);
    said("create a key", store.create_key(Box::new(late.clone()), Caller::local()).await);
    said("revoke a key", store.revoke_key(ci.id, Caller::local(), now).await.map(drop));
    said("redeem a code", store.redeem_code(code.id, now).await.map(drop));
    said("raise a label", raise(Label::Private).await.map(drop));
    assert!(show(&store.audit(), call.id()).is_none(), "it has not started");

    store.limit_pages(None);
    wait_until("the journal recovers by itself", || store.check().is_ok());
    // As it was before, and as good.
    assert_eq!(store.approval(pending.id).await.unwrap().unwrap().state, ApprovalState::Pending);
    assert_eq!(store.approval(approved.id).await.unwrap().unwrap().state, ApprovalState::Approved);
    assert!(matches!(Approvals::ask(&store, question("new")).await.unwrap(), Asked::New(_)));
    assert!(matches!(store.decide(pending.id, approving()).await.unwrap(), Decided::Now(_)));
    let (call, entry) = start(&approved);
    store.commit(entry).await.unwrap();
    assert!(show(&store.audit(), call.id()).is_some());
    store.commit(start(&approved).1).await.expect_err("it is used up");
    assert_eq!(store.key(ci.id).await.unwrap().unwrap().state_at(now), KeyState::Live);
    assert!(store.key(late.id).await.unwrap().is_none(), "nobody was told that there is one");
    assert!(store.redeem_code(code.id, now).await.unwrap().is_some());
    assert!(store.redeem_code(code.id, now).await.unwrap().is_none(), "once");
    store.revoke_key(ci.id, Caller::local(), now).await.unwrap();
    let state = raise(Label::Private).await.unwrap();
    assert_eq!(state.taints.len(), 2, "{state:?}");
    assert_eq!(store.audit().verify(|_| {}).unwrap().first_problem, None);
}

#[tokio::test]
async fn of_entries_refused_together_what_has_happened_is_kept() {
    let place = Place::new();
    let store = open_small(&place);
    let acknowledged = fill(&store).await;
    let next = SampleCall::new("mail/send");
    let undo = Entry::Step(acknowledged[1].step(StepKind::UndoStarted));
    let executed = Entry::Step(acknowledged[1].step(StepKind::Executed { withheld: true }));
    let together = vec![acknowledged[0].done(json!(0)), next.started(), undo, executed];
    store.commit_all(together).await.unwrap_err();
    store.limit_pages(None);
    wait_until("the journal recovers by itself", || store.check().is_ok());
    store.flush().await.unwrap();
    let audit = store.audit();
    assert!(show(&audit, acknowledged[0].id()).unwrap().finished_at.is_some());
    assert!(show(&audit, next.id()).is_none());
    let kinds: Vec<_> =
        show(&audit, acknowledged[1].id()).unwrap().steps.into_iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [StepKind::Executed { withheld: true }]);
    assert_eq!(store.open_runs(None, 1_000).await.unwrap().len(), acknowledged.len() - 1);
    assert_eq!(audit.verify(|_| {}).unwrap().first_problem, None);
}

#[tokio::test]
async fn nothing_is_called_well_while_there_is_no_room() {
    let place = Place::new();
    let store = open_small(&place);
    fill(&store).await;
    // Nothing is held back, so that only the search for room can tell.
    for _ in 0..3 {
        store.flush().await.unwrap();
        store.check().unwrap_err();
    }
    assert!(store.close().is_ok(), "nothing that happened is lost");
    assert!(place.verify().is_sound());
}

#[tokio::test]
async fn closing_on_a_full_disk_says_what_is_lost() {
    let place = Place::new();
    let store = open_small(&place);
    let acknowledged = fill(&store).await;
    for call in &acknowledged[..7] {
        store.commit(call.done(json!("x".repeat(50_000)))).await.unwrap_err();
    }
    let error = store.close().unwrap_err();
    assert!(matches!(error, StoreError::Unwritten { entries: 7, .. }), "{error}");
    assert_eq!(place.verify().entries, acknowledged.len() as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_committers_on_a_full_disk_all_get_an_answer() {
    let place = Place::new();
    let store = Arc::new(open_small(&place));
    let tasks: Vec<_> = (0..256)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let call = SampleCall::new("mail/send").arguments(json!({ "body": "x".repeat(2_000) }));
                let entry = if number % 2 == 0 { call.started() } else { call.done(json!(number)) };
                store.commit(entry).await.is_ok().then_some(call.id())
            })
        })
        .collect();
    let mut acknowledged = Vec::new();
    for task in tasks {
        acknowledged.extend(task.await.unwrap());
    }
    store.limit_pages(None);
    store.flush().await.unwrap();
    for id in acknowledged {
        assert!(show(&store.audit(), id).is_some());
    }
    assert!(store.audit().verify(|_| {}).unwrap().is_sound());
}

#[tokio::test]
async fn a_file_that_was_moved_away_breaks_the_journal_until_it_is_back() {
    let place = Place::new();
    let store = place.open();
    store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    let elsewhere = place.folder().join("elsewhere.db");
    std::fs::rename(place.db(), &elsewhere).unwrap();
    let error = store.commit(SampleCall::new("mail/send").started()).await.unwrap_err();
    assert!(error.to_string().contains("moved or deleted"), "{error}");
    store.flush().await.unwrap_err();
    store.check().unwrap_err();
    std::fs::rename(&elsewhere, place.db()).unwrap();
    store.flush().await.unwrap();
    store.check().unwrap();
    store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    store.close().unwrap();
    let verification = place.verify();
    assert_eq!((verification.entries, verification.first_problem), (2, None));
}
