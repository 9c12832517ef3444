//! Real processes: this test binary starts itself again, as `child`.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use helve_core::CallId;
use helve_core::ports::{Adoption, Begun, Holder, Journal, Runs};
use helve_store::{Store, StoreOptions};
use helve_testkit::entries::{SampleCall, claim};
use serde_json::json;

use crate::support::{Place, show};
use crate::{backup, memory, prune};

const DATABASE: &str = "HELVE_TEST_CHILD_DATABASE";
const TASK: &str = "HELVE_TEST_CHILD_TASK";
const CALLS: usize = 1_000;

#[expect(clippy::disallowed_methods, reason = "the store's promises are about real processes that die")]
pub(crate) fn start_child(place: &Place, task: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture"])
        .env(DATABASE, place.db())
        .env(TASK, task)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Ids that a child has printed: those whose commit was acknowledged.
pub(crate) fn acknowledged(child: &mut Child) -> impl Iterator<Item = CallId> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("ack ")?.parse().ok())
}

/// Not a test: what the other process does.
#[test]
fn child() {
    let Some(database) = std::env::var_os(DATABASE) else { return };
    let task = std::env::var(TASK).unwrap();
    if let Some(dies_at) = task.strip_prefix("backup ") {
        return backup::back_up_and_die(database.as_ref(), dies_at.parse().unwrap());
    }
    if let Some(dies_at) = task.strip_prefix("restore ") {
        return backup::restore_and_die(database.as_ref(), dies_at.parse().unwrap());
    }
    let store = Arc::new(Store::open(database.as_ref(), StoreOptions::default()).unwrap());
    if let Some(dies_at) = task.strip_prefix("prune ") {
        return prune::prune_and_die(&store, dies_at.parse().unwrap());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match task.as_str() {
        "open" => acknowledge(CallId::new(jiff::Timestamp::now())),
        "commit" => runtime.block_on(commit_calls(store)),
        "claim" => runtime.block_on(claim_and_hang(store)),
        "effects" => runtime.block_on(apply_effects(store)),
        other => panic!("no such task: {other}"),
    }
}

async fn commit_calls(store: Arc<Store>) {
    // Batches of a size that keeps the disk busy for a while.
    let slots = Arc::new(tokio::sync::Semaphore::new(20));
    let tasks: Vec<_> = (0..CALLS)
        .map(|number| {
            let (store, slots) = (Arc::clone(&store), Arc::clone(&slots));
            tokio::spawn(async move {
                let _slot = slots.acquire().await.unwrap();
                let call = SampleCall::new("mail/send").arguments(json!({ "number": number }));
                store.commit(call.started()).await.unwrap();
                acknowledge(call.id());
                store.commit(call.done(json!(number))).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn claim_and_hang(store: Arc<Store>) {
    let call = SampleCall::new("mail/send");
    assert!(matches!(store.begin(call.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
    acknowledge(call.id());
    std::future::pending::<()>().await;
}

/// Counts up, and every third time back again, in several tasks at once.
async fn apply_effects(store: Arc<Store>) {
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for number in 0..CALLS {
                    let call = SampleCall::new("mail/send");
                    memory::apply(&store, &call, memory::add_one()).await.unwrap();
                    if number % 3 == 0 {
                        memory::undo(&store, &call).await.unwrap();
                    }
                    acknowledge(call.id());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn acknowledge(id: CallId) {
    // One write a line, so that a kill cannot leave half an id that reads as another.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("ack {id}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    for kill_after in [1, 137, 500] {
        let place = Place::new();
        let mut child = start_child(&place, "commit");
        let mut ids = acknowledged(&mut child);
        let mut known: Vec<CallId> = ids.by_ref().take(kill_after).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        // What it still had time to print counts too.
        known.extend(ids);
        assert!(known.len() >= kill_after && known.len() < CALLS, "killed in the middle: {}", known.len());
        let unopened = place.verify();
        assert_eq!(unopened.first_problem, None);
        let store = place.open();
        let audit = store.audit();
        for id in &known {
            assert!(show(&audit, id).is_some(), "{id} was acknowledged and is gone");
        }
        let verification = audit.verify(|_| {}).unwrap();
        assert_eq!(verification.first_problem, None);
        assert_eq!(verification.entries, unopened.entries);
    }
}

#[test]
fn processes_that_write_at_once_make_one_chain() {
    let place = Place::new();
    let mut children =
        [start_child(&place, "commit"), start_child(&place, "commit"), start_child(&place, "commit")];
    let mut known = HashSet::new();
    for child in &mut children {
        known.extend(acknowledged(child));
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(known.len(), 3 * CALLS);
    let verification = place.verify();
    assert_eq!(verification.first_problem, None);
    assert_eq!((verification.entries, verification.calls), (6 * CALLS as i64, 3 * CALLS as i64));
}

#[tokio::test]
async fn the_key_of_a_killed_process_is_unknown_to_others() {
    let place = Place::new();
    let mut child = start_child(&place, "claim");
    let id = acknowledged(&mut child).next().unwrap();
    let store = place.open();
    let waiting = store.begin(SampleCall::new("mail/send").start(), claim(1, 1));
    let (begun, ()) = tokio::join!(waiting, async {
        store.flush().await.unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    });
    assert!(matches!(begun.unwrap(), Begun::Unknown { call_id } if call_id == id));
}

#[tokio::test]
async fn value_step_and_means_to_undo_agree_after_kill_9() {
    for kill_after in [1, 50, 333] {
        let place = Place::new();
        let mut child = start_child(&place, "effects");
        let mut ids = acknowledged(&mut child);
        assert_eq!(ids.by_ref().take(kill_after).count(), kill_after);
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = kill_after + ids.count();
        let store = place.open();
        let told = |step: &str| {
            let sql = "SELECT count(*) FROM entries WHERE head ->> 'step' = ?1";
            let db = rusqlite::Connection::open(place.db()).unwrap();
            db.query_one(sql, [step], |row| row.get::<_, i64>(0)).unwrap()
        };
        let (applied, undone) = (told("effect_applied"), told("effect_rolled_back"));
        assert!(applied as usize >= acknowledged, "{acknowledged} were acknowledged, {applied} are there");
        let value = memory::read(&store, "count").await.map_or(json!(0), |remembered| remembered.value);
        assert_eq!(value, json!(applied - undone));
        assert_eq!(memory::count(&place, "effects"), applied - undone);
        assert_eq!(store.audit().verify(|_| {}).unwrap().first_problem, None);
    }
}

#[tokio::test]
async fn a_run_is_adopted_when_its_process_was_killed_and_not_before() {
    let place = Place::new();
    let mut child = start_child(&place, "claim");
    let id = acknowledged(&mut child).next().unwrap();
    let store = place.open();
    assert_eq!(store.adopt(id).await.unwrap(), Adoption::Busy);
    assert_eq!(store.open_runs(None, 10).await.unwrap()[0].holder, Holder::Others);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(store.open_runs(None, 10).await.unwrap()[0].holder, Holder::Nobody);
    assert_eq!(store.adopt(id).await.unwrap(), Adoption::Adopted);
    assert_eq!(store.adopt(id).await.unwrap(), Adoption::Ours);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_in_one_process_make_one_chain() {
    let place = Place::new();
    let stores = [Arc::new(place.open()), Arc::new(place.open())];
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let store = Arc::clone(&stores[number % 2]);
            tokio::spawn(async move { store.commit(SampleCall::new("mail/send").started()).await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    drop(stores);
    let verification = place.verify();
    assert_eq!((verification.entries, verification.first_problem), (200, None));
}
