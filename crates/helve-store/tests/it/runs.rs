use std::sync::Arc;

use helve_core::ErrorCode;
use helve_core::ports::{Adoption, Begun, Holder, Journal, KeyClaim, Runs};
use helve_core::record::Entry;
use helve_core::run::{StepKind, WaitingFor};
use helve_store::{CallStatus, Concern, Store};
use helve_testkit::conformance::is_pending;
use helve_testkit::entries::{SampleCall, claim, done_status};
use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::json;

use crate::support::{Place, show};

fn waiting(call: &SampleCall) -> Entry {
    Entry::Step(call.step(StepKind::Waiting { reason: WaitingFor::Decision, approval_id: None }))
}

async fn holders(store: &Store) -> Vec<Holder> {
    store.open_runs(None, 100).await.unwrap().iter().map(|run| run.holder).collect()
}

#[tokio::test]
async fn a_run_is_others_while_they_live_and_nobodys_after() {
    let place = Place::new();
    let (first, second) = (place.open(), place.open());
    let run = SampleCall::new("mail/send");
    first.commit(run.started()).await.unwrap();
    assert_eq!((holders(&first).await, holders(&second).await), (vec![Holder::Us], vec![Holder::Others]));
    assert_eq!(second.adopt(run.id()).await.unwrap(), Adoption::Busy);
    drop(first);
    assert_eq!(holders(&second).await, [Holder::Nobody]);
    assert_eq!(second.adopt(run.id()).await.unwrap(), Adoption::Adopted);
    assert_eq!(holders(&second).await, [Holder::Us]);
    second.commit(run.done(json!(1))).await.unwrap();
    assert_eq!(holders(&second).await, []);
    second.close().unwrap();
    assert!(second.open_runs(None, 1).await.unwrap_err().to_string().contains("closed"));
    assert_eq!(place.verify().first_problem, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_adopt_at_once_exactly_one_does() {
    let place = Place::new();
    let dead = place.open();
    let runs: Vec<_> = (0..50).map(|_| SampleCall::new("mail/send")).collect();
    dead.commit_all(runs.iter().map(SampleCall::started).collect()).await.unwrap();
    drop(dead);
    let stores = [Arc::new(place.open()), Arc::new(place.open())];
    for run in runs {
        let race = stores.each_ref().map(|store| {
            let (store, id) = (Arc::clone(store), run.id());
            tokio::spawn(async move { store.adopt(id).await.unwrap() })
        });
        let mut outcomes = Vec::new();
        for racer in race {
            outcomes.push(racer.await.unwrap());
        }
        outcomes.sort_by_key(|outcome| *outcome == Adoption::Busy);
        assert_eq!(outcomes, [Adoption::Adopted, Adoption::Busy]);
    }
}

#[tokio::test]
async fn ten_thousand_open_runs_are_listed() {
    let place = Place::new();
    let store = place.open();
    let mut runs: Vec<_> = (0..10_000).map(|_| SampleCall::new("mail/send")).collect();
    for chunk in runs.chunks(1_000) {
        store.commit_all(chunk.iter().map(SampleCall::started).collect()).await.unwrap();
    }
    runs.sort_by_key(SampleCall::id);
    let mut found = Vec::new();
    while let page = store.open_runs(found.last().copied(), 3_000).await.unwrap()
        && !page.is_empty()
    {
        assert!(page.iter().all(|run| run.holder == Holder::Us));
        found.extend(page.iter().map(|run| run.run));
    }
    assert_eq!(found, runs.iter().map(SampleCall::id).collect::<Vec<_>>());
    assert_eq!(store.open_runs(None, usize::MAX).await.unwrap().len(), 10_000);
}

#[tokio::test]
async fn an_end_from_whoever_lost_the_run_is_recorded_and_does_not_count() {
    let place = Place::new();
    let (loser, winner) = (place.open(), place.open());
    let run = SampleCall::new("mail/send");
    let key = claim(1, 1);
    assert!(matches!(loser.begin(run.start(), key.clone()).await.unwrap(), Begun::Fresh));
    loser.commit(waiting(&run)).await.unwrap();
    assert_eq!(winner.adopt(run.id()).await.unwrap(), Adoption::Adopted);
    let late = run.failed(ErrorCode::Timeout);
    loser.finish(late.clone(), key.clone(), done_status(json!("lost"))).await.unwrap();
    loser.commit(late).await.unwrap();
    loser.commit(waiting(&run)).await.unwrap();

    assert_eq!(holders(&winner).await, [Holder::Us]);
    assert_eq!(show(&winner.audit(), run.id()).unwrap().status, CallStatus::Started);
    let history = winner.history(run.id()).await.unwrap();
    assert!(!history.iter().any(|entry| matches!(entry, Entry::Finished(_))), "{history:?}");
    let verification = winner.audit().verify(|_| {}).unwrap();
    assert_eq!((verification.entries, verification.first_problem), (6, None));

    winner.finish(run.done(json!("won")), key.clone(), done_status(json!("won"))).await.unwrap();
    assert_eq!(show(&winner.audit(), run.id()).unwrap().status, CallStatus::Done);
    let begun = loser.begin(SampleCall::new("mail/send").start(), key).await.unwrap();
    let Begun::Finished { status, .. } = begun else { panic!("{begun:?}") };
    assert!(serde_json::to_string(&status).unwrap().contains("won"));
    assert_eq!(winner.audit().verify(|_| {}).unwrap().first_problem, None);
}

#[tokio::test]
async fn whoever_brings_the_key_of_a_run_that_waits_hears_of_its_end_elsewhere() {
    let place = Place::new();
    let (first, second) = (place.open(), place.open());
    let run = SampleCall::new("mail/send");
    let key = KeyClaim { repeatable: true, ..claim(1, 1) };
    assert!(matches!(first.begin(run.start(), key.clone()).await.unwrap(), Begun::Fresh));
    let mut again = first.begin(SampleCall::new("mail/send").start(), key.clone());
    assert!(is_pending(&mut again).await);
    first.flush().await.unwrap();
    first.commit(waiting(&run)).await.unwrap();
    assert!(is_pending(&mut again).await);
    assert_eq!(second.adopt(run.id()).await.unwrap(), Adoption::Adopted);
    second.finish(run.done(json!(1)), key, done_status(json!(1))).await.unwrap();
    let begun = again.await.unwrap();
    assert!(matches!(begun, Begun::Finished { call_id, .. } if call_id == run.id()), "{begun:?}");
}

#[tokio::test]
async fn the_key_of_an_adopted_run_is_held_by_whoever_adopted_it() {
    let place = Place::new();
    let dead = place.open();
    let run = SampleCall::new("mail/send");
    let key = KeyClaim { repeatable: true, ..claim(1, 1) };
    assert!(matches!(dead.begin(run.start(), key.clone()).await.unwrap(), Begun::Fresh));
    drop(dead);
    let (store, other) = (place.open(), place.open());
    assert_eq!(store.adopt(run.id()).await.unwrap(), Adoption::Adopted);
    // Without the adoption, a call that may be repeated would take over the key of the dead.
    let mut again = other.begin(SampleCall::new("mail/send").start(), key.clone());
    assert!(is_pending(&mut again).await);
    other.flush().await.unwrap();
    assert!(is_pending(&mut again).await);
    store.finish(run.done(json!(1)), key, done_status(json!(1))).await.unwrap();
    assert!(matches!(again.await.unwrap(), Begun::Finished { call_id, .. } if call_id == run.id()));
    assert_eq!(store.audit().verify(|_| {}).unwrap().first_problem, None);
}

#[tokio::test]
async fn a_call_that_never_ran_leaves_no_run() {
    let place = Place::new();
    let store = place.open();
    let mut abandoned = store.begin(SampleCall::new("mail/send").start(), claim(1, 1));
    assert!(is_pending(&mut abandoned).await);
    store.flush().await.unwrap();
    assert_eq!(holders(&store).await, [Holder::Us]);
    drop(abandoned);
    store.flush().await.unwrap();
    assert_eq!(holders(&store).await, []);
    assert_eq!(store.audit().verify(|_| {}).unwrap().first_problem, None);
}

#[tokio::test]
async fn requests_to_stop_reach_other_processes() {
    let place = Place::new();
    let (at_it, asks) = (place.open(), place.open());
    let run = SampleCall::new("mail/send");
    at_it.commit(run.started()).await.unwrap();
    assert!(asks.request_cancel(run.id()).await.unwrap());
    assert_eq!(at_it.cancel_requests().await.unwrap(), [run.id()]);
    assert_eq!(asks.cancel_requests().await.unwrap(), []);
}

#[tokio::test]
async fn runs_that_do_not_agree_with_the_entries_are_found() {
    let place = Place::new();
    let store = place.open();
    let (open, ended) = (SampleCall::new("mail/send"), SampleCall::new("mail/send"));
    store.commit_all(vec![open.started(), ended.started(), ended.done(json!(1))]).await.unwrap();
    let part = SampleCall::new("file/write").part_of(&open, "write");
    store.commit(part.started()).await.unwrap();
    store.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
    let added = |id: &dyn std::fmt::Display| format!("INSERT INTO runs VALUES ('{id}', 'us', 0, 0)");
    for (sql, concern, seq, what) in [
        ("DELETE FROM runs".to_owned(), Concern::Runs, Some(1), "was removed from the table `runs`"),
        (added(&ended.id()), Concern::Runs, Some(3), "and it has ended"),
        (added(&part.id()), Concern::Runs, None, "and it was never started"),
        (added(&"call_x"), Concern::Runs, None, "and it was never started"),
        ("UPDATE entries SET run_id = NULL WHERE seq = 4".into(), Concern::Entries, Some(4), "does not fit"),
        ("UPDATE entries SET run_id = 'x' WHERE seq = 1".into(), Concern::Entries, Some(1), "does not fit"),
        ("DROP TABLE runs".to_owned(), Concern::Database, None, "the table `runs` is gone"),
    ] {
        let copy = place.copy();
        Connection::open(copy.db()).unwrap().execute_batch(&sql).unwrap();
        let verification = copy.verify();
        let problem = verification.first_problem.unwrap_or_else(|| panic!("not noticed: {sql}"));
        assert_eq!((verification.concern, problem.seq), (Some(concern), seq), "{sql}: {problem:?}");
        assert!(problem.what.contains(what), "{sql}: {problem:?}");
    }
}

#[tokio::test]
async fn steps_are_shown_checked_and_erased() {
    let place = Place::new();
    let store = place.open();
    let run = SampleCall::new("mail/send");
    let mut executed = run.step(StepKind::Executed { withheld: false });
    executed.payload = Some(helve_testkit::entries::raw(&json!("a secret")));
    let resumed = run.step(StepKind::Resumed);
    store.commit_all(vec![run.started(), Entry::Step(executed), Entry::Step(resumed)]).await.unwrap();
    let record = show(&store.audit(), run.id()).unwrap();
    assert_eq!((record.status, record.digest.as_deref()), (CallStatus::Started, Some("5a4d")));
    let kinds: Vec<_> = record.steps.iter().map(|step| &step.kind).collect();
    assert_eq!(kinds, [&StepKind::Executed { withheld: false }, &StepKind::Resumed]);
    assert_eq!(record.steps[0].payload.as_ref().unwrap().get(), "\"a secret\"");
    let read_back = serde_json::from_str::<helve_store::CallRecord>(&crate::support::export(&store.audit()));
    assert_eq!(read_back.unwrap().steps.len(), 2);

    for (sql, what) in [
        ("UPDATE entries SET payload = '\"a lie\"' WHERE seq = 2", "the payload was changed"),
        ("UPDATE entries SET payload = NULL, salt = NULL WHERE seq = 2", "no erasure is recorded"),
        ("UPDATE entries SET payload = '1', salt = x'00' WHERE seq = 3", "a payload was added"),
    ] {
        let copy = place.copy();
        Connection::open(copy.db()).unwrap().execute_batch(sql).unwrap();
        assert!(copy.verify().first_problem.unwrap().what.contains(what), "{sql}");
    }

    assert_eq!(store.erase(run.id(), Timestamp::now()).await.unwrap(), 2);
    assert_eq!(store.audit().verify(|_| {}).unwrap().first_problem, None);
    let history = store.history(run.id()).await.unwrap();
    let withheld = history.iter().all(|entry| match entry {
        Entry::Started(started) => started.withheld && started.arguments.get() == "null",
        Entry::Step(step) => step.payload.is_none() && step.kind != StepKind::Executed { withheld: false },
        Entry::Finished(_) => false,
    });
    assert!(withheld, "{history:?}");
}

/// A cleaner of old files removes the folder by which processes see each other.
fn clean(place: &Place) {
    std::fs::remove_dir_all(place.folder().join("journal.db.owners")).unwrap();
}

#[tokio::test]
async fn after_a_cleaner_a_run_is_still_others_while_they_live() {
    let place = Place::new();
    let (first, second) = (place.open(), place.open());
    let run = SampleCall::new("mail/send");
    first.commit(run.started()).await.unwrap();
    clean(&place);
    assert_eq!(holders(&second).await, [Holder::Others], "nobody can tell");
    // A process that comes now sees no other, until the first stands again: by itself, though it has nothing to write.
    let third = place.open();
    let folder = place.folder().join("journal.db.owners");
    crate::support::wait_until("all stand again", || std::fs::read_dir(&folder).unwrap().count() == 3);
    for other in [&second, &third] {
        assert_eq!(other.adopt(run.id()).await.unwrap(), Adoption::Busy);
    }
    first.commit(run.done(json!(1))).await.unwrap();
    assert_eq!(place.verify().first_problem, None);
}

#[tokio::test]
async fn nothing_starts_in_a_run_that_another_process_has_taken_over_or_ended() {
    let place = Place::new();
    let loser = place.open();
    let run = SampleCall::new("saga");
    loser.commit(run.started()).await.unwrap();
    let part = |path: &str| SampleCall::new("mail/send").part_of(&run, path);
    loser.commit(part("first").started()).await.unwrap();
    let winner = place.open();
    loser.commit(waiting(&run)).await.unwrap();
    assert_eq!(winner.adopt(run.id()).await.unwrap(), Adoption::Adopted);
    let entries = place.verify().entries;
    let check = async || {
        for start in [vec![part("second").started()], vec![part("third").started(), part("fourth").started()]]
        {
            let error = loser.commit_all(start).await.unwrap_err().to_string();
            assert!(error.contains("another process has taken over the run"), "{error}");
        }
        loser.commit(part("fifth").started()).await.unwrap_err();
        let key = claim(1, 1);
        loser.begin(part("sixth").start(), key).await.unwrap_err();
    };
    check().await;
    assert_eq!(place.verify().entries, entries, "nothing was written");
    // A cleaner does not help it, and neither does the end of the run.
    clean(&place);
    check().await;
    winner.commit(part("second").started()).await.unwrap();
    winner.commit(run.done(json!("won"))).await.unwrap();
    check().await;
    assert_eq!(place.verify().first_problem, None);
}
