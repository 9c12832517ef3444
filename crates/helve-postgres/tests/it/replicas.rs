//! Several replicas on one database.

use std::sync::Arc;
use std::time::Duration;

use helve_core::approval::{Asked, Decided, Grant, Ruling, Verdict};
use helve_core::identity::{Key, KeyState, Purpose};
use helve_core::memory::{MemoryChange, MemoryPlace, MemoryScope, Operation};
use helve_core::ports::{Adoption, Approvals, Begun, Holder, Journal, KeyClaim, Keys, Memory, Runs};
use helve_core::record::Entry;
use helve_core::run::StepKind;
use helve_core::{ApprovalState, Caller, ErrorCode};
use helve_postgres::PostgresLedger;
use helve_testkit::Postgres;
use helve_testkit::entries::{SampleCall, claim, done_status};
use jiff::Timestamp;
use serde_json::json;

use crate::proxy::Proxy;
use crate::support::{SHORT, holder, question, replica, wait_until};

const LONG: Duration = Duration::from_secs(60);

/// Two replicas, the first behind a proxy and with a lease that runs out soon.
struct Two {
    server: Postgres,
    url: String,
    proxy: Proxy,
    first: Arc<PostgresLedger>,
    second: Arc<PostgresLedger>,
}

impl Two {
    async fn start() -> Self {
        let server = Postgres::start();
        let url = server.database();
        let proxy = Proxy::start(server.port()).await;
        let first = replica(&proxy.before(&url), "first", SHORT).await;
        let second = replica(&url, "second", LONG).await;
        Self { server, url, proxy, first, second }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_belongs_to_one_replica_while_its_lease_lasts() {
    let two = Two::start().await;
    let run = SampleCall::new("mail/send");
    two.second.commit(run.started()).await.unwrap();
    assert_eq!(holder(&*two.second, &run).await, Some(Holder::Us));
    assert_eq!(holder(&*two.first, &run).await, Some(Holder::Others));
    assert_eq!(two.first.adopt(run.id()).await.unwrap(), Adoption::Busy);
    // A stop that one replica asks for reaches the other.
    assert!(two.first.request_cancel(run.id()).await.unwrap());
    assert_eq!(two.second.cancel_requests().await.unwrap(), [run.id()]);
    assert_eq!(two.first.cancel_requests().await.unwrap(), []);
    // A replica that is closed leaves its runs at once.
    two.second.close().unwrap();
    assert_eq!(holder(&*two.first, &run).await, Some(Holder::Nobody));
    assert_eq!(two.first.adopt(run.id()).await.unwrap(), Adoption::Adopted);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_replica_says_after_it_lost_its_run_is_fenced_and_changes_nothing() {
    let two = Two::start().await;
    let (run, key) = (SampleCall::new("mail/send"), claim(1, 1));
    assert!(matches!(two.first.begin(run.start(), key.clone()).await.unwrap(), Begun::Fresh));
    let part = SampleCall::new("file/write").part_of(&run, "write");
    two.first.commit(part.started()).await.unwrap();
    two.proxy.close();
    assert_eq!(two.second.adopt(run.id()).await.unwrap(), Adoption::Busy, "its lease lasts");
    wait_until("its lease runs out", async || holder(&*two.second, &run).await == Some(Holder::Nobody)).await;
    assert_eq!(two.second.adopt(run.id()).await.unwrap(), Adoption::Adopted);

    two.proxy.open();
    wait_until("it is there again", async || two.first.flush().await.is_ok()).await;
    let next = SampleCall::new("file/write").part_of(&run, "next");
    let refused = two.first.commit(next.started()).await.unwrap_err();
    assert!(refused.to_string().contains("another process has taken over the run"), "{refused}");
    let waiting = StepKind::Waiting { reason: helve_core::run::WaitingFor::Decision, approval_id: None };
    two.first.commit(Entry::Step(run.step(waiting))).await.unwrap();
    two.first.finish(run.done(json!(1)), key.clone(), done_status(json!(1))).await.unwrap();
    assert_eq!(holder(&*two.second, &run).await, Some(Holder::Us), "it goes on");
    let ends = "SELECT count(*) FILTER (WHERE fenced), count(*) FROM helve.entries WHERE kind = 1";
    assert_eq!(two.server.sql(&two.url, ends), "1|1", "nothing that was said is lost");
    let told = two.second.history(run.id()).await.unwrap();
    assert!(!told.iter().any(|entry| matches!(entry, Entry::Finished(_))), "{told:?}");

    // The key's answer is that of the run.
    two.second.finish(run.done(json!(2)), key.clone(), done_status(json!(2))).await.unwrap();
    let again = two.first.begin(SampleCall::new("mail/send").start(), key).await.unwrap();
    let Begun::Finished { status, .. } = again else { panic!("{again:?}") };
    assert!(matches!(&*status, helve_core::Status::Done(output) if output.value == json!(2)), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_comes_back_before_anybody_took_its_runs_keeps_them() {
    let two = Two::start().await;
    let run = SampleCall::new("mail/send");
    two.first.commit(run.started()).await.unwrap();
    two.proxy.close();
    wait_until("its lease runs out", async || holder(&*two.second, &run).await == Some(Holder::Nobody)).await;
    two.proxy.open();
    wait_until("it lives", async || holder(&*two.second, &run).await == Some(Holder::Others)).await;
    two.first.commit(run.done(json!(1))).await.unwrap();
    assert_eq!(holder(&*two.second, &run).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_waited_for_on_another_replica_and_freed_with_a_lease() {
    let two = Two::start().await;
    let (call, key) = (SampleCall::new("mail/send"), claim(1, 1));
    let repeatable = KeyClaim { repeatable: true, ..claim(2, 1) };
    let other = SampleCall::new("mail/send");
    for (call, key) in [(&call, &key), (&other, &repeatable)] {
        assert!(matches!(two.first.begin(call.start(), key.clone()).await.unwrap(), Begun::Fresh));
    }
    let waits = tokio::spawn({
        let (second, key) = (Arc::clone(&two.second), repeatable.clone());
        async move { second.begin(SampleCall::new("mail/send").start(), key).await }
    });
    two.proxy.close();
    // The lease runs out: what may be repeated is repeated; the outcome of the other is unknown.
    assert!(matches!(waits.await.unwrap().unwrap(), Begun::Fresh));
    let again = two.second.begin(SampleCall::new("mail/send").start(), key).await.unwrap();
    assert!(matches!(again, Begun::Unknown { call_id } if call_id == call.id()), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_on_one_replica_is_decided_on_another_and_used_once() {
    let two = Two::start().await;
    let Asked::New(asked) = two.first.ask(Box::new(question("a"))).await.unwrap() else {
        panic!("it is new")
    };
    let again = two.second.ask(Box::new(question("a"))).await.unwrap();
    assert!(matches!(&again, Asked::Standing(same) if same.id == asked.id), "{again:?}");
    let (cursor, _) = two.first.approvals_changed(None, 10).await.unwrap();
    let granted = Some(asked.binding.clone());
    let verdict = Verdict {
        state: ApprovalState::Approved,
        ruling: Ruling::new("ada", Timestamp::now()),
        granted,
        use_by: None,
        rule: None,
    };
    let decided = two.second.decide(asked.id, Box::new(verdict)).await.unwrap();
    assert!(matches!(decided, Decided::Now(_)));
    let (_, changed) = two.first.approvals_changed(Some(cursor), 10).await.unwrap();
    assert_eq!(
        changed.iter().map(|one| (one.id, one.state)).collect::<Vec<_>>(),
        [(asked.id, ApprovalState::Approved)]
    );

    let racers: Vec<_> = (0..20)
        .map(|number| {
            let ledger = Arc::clone(if number % 2 == 0 { &two.first } else { &two.second });
            let mut started = SampleCall::new("mail/send").start();
            let (approval_id, binding) = (asked.id, asked.binding.clone());
            started.grant = Some(Grant { approval_id, binding, asked: None, fingerprint: None });
            tokio::spawn(async move { ledger.commit(Entry::Started(started)).await.is_ok() })
        })
        .collect();
    let mut used = 0;
    for racer in racers {
        used += usize::from(racer.await.unwrap());
    }
    assert_eq!(used, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_taken_back_on_one_replica_is_known_on_all() {
    let two = Two::start().await;
    let (by, now) = (Arc::new(Caller::principal("ada")), Timestamp::now());
    let (key, _) = Key::generate("ci", Purpose::Call, "ada", now);
    two.first.create_key(Box::new(key.clone()), Arc::clone(&by)).await.unwrap();
    assert_eq!(two.second.key(key.id).await.unwrap(), Some(key.clone()));
    let before = two.first.key_changes().await.unwrap();
    two.second.revoke_key(key.id, by, now).await.unwrap();
    assert!(two.first.key_changes().await.unwrap() > before);
    let found = two.first.key(key.id).await.unwrap().unwrap();
    assert_eq!(found.state_at(now), KeyState::Revoked);
    // Undoing that in the table only makes the key unknown.
    two.server.sql(&two.url, "UPDATE helve.api_keys SET body = replace(body, 'revoked_at', 'r')");
    assert_eq!(two.first.key(key.id).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_change_the_same_things_in_any_order_lose_nothing() {
    let server = Postgres::start();
    let url = server.database();
    let replicas =
        [replica(&url, "a", LONG).await, replica(&url, "b", LONG).await, replica(&url, "c", LONG).await];
    const EACH: i64 = 20;
    let tasks: Vec<_> = replicas
        .iter()
        .flat_map(|ledger| (0..8).map(move |task| (Arc::clone(ledger), task)))
        .map(|(ledger, task)| {
            tokio::spawn(async move {
                for turn in 0..EACH {
                    // In another order each time.
                    let number = (turn * 7 + task * 3) % 5;
                    let caller = Caller::principal(format!("p{number}"));
                    let place = MemoryPlace::of(&caller, MemoryScope::LongTerm, "count");
                    let change = MemoryChange::new(Operation::Add(1.into()));
                    let key = claim(u8::try_from(10 + number).unwrap(), 1);
                    let call = SampleCall::new("mail/send");
                    let (changed, begun) =
                        tokio::join!(ledger.change(place, change), ledger.begin(call.start(), key.clone()));
                    changed.unwrap();
                    if matches!(begun.unwrap(), Begun::Fresh) {
                        // Given back, so that the next one has it.
                        let limited = helve_core::ToolError::new(ErrorCode::RateLimit, "too many");
                        let status = Arc::new(helve_core::Status::Failed(limited));
                        ledger.finish(call.failed(ErrorCode::RateLimit), key, status).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut total = 0;
    for number in 0..5 {
        let caller = Caller::principal(format!("p{number}"));
        let place = MemoryPlace::of(&caller, MemoryScope::LongTerm, "count");
        total += replicas[0].read(place).await.unwrap().unwrap().value.as_i64().unwrap();
    }
    assert_eq!(total, 3 * 8 * EACH);
    assert_eq!(server.sql(&url, "SELECT count(*) FROM helve.runs"), "0");
    assert_eq!(server.sql(&url, "SELECT count(*) FROM helve.keys"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_entries_were_changed_is_not_taken_up() {
    let server = Postgres::start();
    let url = server.database();
    let first = replica(&url, "first", LONG).await;
    let run = SampleCall::new("trip/book");
    first.commit(SampleCall::new("clock/now").done(json!(1))).await.unwrap();
    first.commit(run.started()).await.unwrap();
    let part = SampleCall::new("file/write").part_of(&run, "write");
    first.commit(part.started()).await.unwrap();
    first.commit(part.done(json!(1))).await.unwrap();
    tokio::task::spawn_blocking(move || first.close()).await.unwrap().unwrap();
    let tampering = [
        ("DELETE FROM helve.entries WHERE seq = 4", "entries 4 to 4 were written and are gone"),
        ("DELETE FROM helve.entries WHERE seq = 3", "entry 3 is missing"),
        ("UPDATE helve.entries SET payload = '{}' WHERE seq = 2", "the payload was changed"),
        ("UPDATE helve.entries SET fenced = true WHERE seq = 4", "it was changed whether the entry counts"),
    ];
    for (statement, what) in tampering {
        let copy = server.copy(&url);
        server.sql(&copy, statement);
        let second = replica(&copy, "second", LONG).await;
        let refused = second.adopt(run.id()).await.unwrap_err().to_string();
        assert!(refused.contains(what), "{statement}: {refused}");
    }
    let second = replica(&url, "second", LONG).await;
    assert_eq!(second.adopt(run.id()).await.unwrap(), Adoption::Adopted);
}
