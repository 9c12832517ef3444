//! Servers that die, and connections that are cut at the worst moment.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helve_core::CallId;
use helve_core::ports::{Approvals, Journal, Keys, Runs};
use helve_postgres::{PostgresError, PostgresLedger, PostgresOptions};
use helve_testkit::Postgres;
use helve_testkit::entries::SampleCall;
use serde_json::json;

use crate::proxy::{Cut, Proxy};
use crate::support::{replica, wait_until};

const LEASE: Duration = Duration::from_secs(15);

/// How often each call has ended.
fn ends(server: &Postgres, url: &str) -> Vec<(String, usize)> {
    let counted = "SELECT call_id, count(*) FROM helve.entries WHERE kind = 1 GROUP BY call_id";
    let lines = server.sql(url, counted);
    let pairs = lines.lines().map(|line| line.split_once('|').unwrap());
    pairs.map(|(call, count)| (call.to_owned(), count.parse().unwrap())).collect()
}

/// Every chain fits its end, and has no gap.
fn check_chains(server: &Postgres, url: &str) {
    let broken = "SELECT count(*) FROM helve.writers w WHERE w.seq <> \
                  (SELECT count(*) FROM helve.entries e WHERE e.writer = w.id) OR w.seq > 0 AND w.hash <> \
                  (SELECT e.hash FROM helve.entries e WHERE e.writer = w.id AND e.seq = w.seq)";
    assert_eq!(server.sql(url, broken), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_at_the_commit_writes_each_group_once() {
    let server = Postgres::start();
    let url = server.database();
    let proxy = Proxy::start(server.port()).await;
    let ledger = replica(&proxy.before(&url), "a", LEASE).await;
    let mut calls = Vec::new();
    for cut in [Cut::BeforeCommit, Cut::AfterCommit, Cut::AfterCommit, Cut::BeforeCommit] {
        ledger.flush().await.unwrap();
        let call = SampleCall::new("mail/send");
        ledger.commit(call.started()).await.unwrap();
        let before = proxy.cuts();
        proxy.cut(cut);
        let writing = tokio::spawn({
            let (ledger, end) = (Arc::clone(&ledger), call.done(json!(1)));
            async move { ledger.commit(end).await }
        });
        wait_until("it is cut", async || proxy.cuts() > before).await;
        proxy.open();
        writing.await.unwrap().unwrap_or_else(|error| panic!("{cut:?}: {error}"));
        calls.push(call.id().to_string());
        assert_eq!(ledger.open_runs(None, 10).await.unwrap(), [], "{cut:?}");
    }
    let ended = ends(&server, &url);
    assert_eq!(ended.len(), calls.len());
    assert!(ended.iter().all(|(call, count)| calls.contains(call) && *count == 1), "{ended:?}");
    check_chains(&server, &url);
}

/// Ends calls until told to stop. Returns those whose end was acknowledged.
async fn work(ledger: Arc<PostgresLedger>, stop: Arc<AtomicBool>) -> Vec<CallId> {
    let mut acknowledged = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let call = SampleCall::new("mail/send");
        if ledger.commit(call.started()).await.is_ok() && ledger.commit(call.done(json!(1))).await.is_ok() {
            acknowledged.push(call.id());
        }
        tokio::task::yield_now().await;
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_in_the_middle_loses_nothing_that_was_acknowledged() {
    let mut server = Postgres::start();
    let url = server.database();
    let ledgers = [replica(&url, "a", LEASE).await, replica(&url, "b", LEASE).await];
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..8)
        .map(|number| tokio::spawn(work(Arc::clone(&ledgers[number % 2]), Arc::clone(&stop))))
        .collect();
    for _ in 0..3 {
        let before = ledgers[0].figures().await.unwrap().unwrap().entries;
        wait_until(
            "there is work",
            async || matches!(ledgers[0].figures().await, Ok(Some(figures)) if figures.entries > before + 50),
        )
        .await;
        tokio::task::block_in_place(|| {
            server.crash();
            server.start_again();
        });
        for ledger in &ledgers {
            wait_until("it writes again", async || ledger.check().is_ok() && ledger.flush().await.is_ok())
                .await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    let mut acknowledged = HashSet::new();
    for worker in workers {
        acknowledged.extend(worker.await.unwrap().into_iter().map(|call| call.to_string()));
    }
    for ledger in &ledgers {
        ledger.flush().await.unwrap();
    }
    let ended = ends(&server, &url);
    assert!(ended.iter().all(|(_, count)| *count == 1), "something ended twice");
    let there: HashSet<_> = ended.into_iter().map(|(call, _)| call).collect();
    assert!(acknowledged.len() > 50 && acknowledged.is_subset(&there));
    check_chains(&server, &url);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_is_gone_nothing_starts_and_what_happened_is_kept() {
    let mut server = Postgres::start();
    let url = server.database();
    let ledger = replica(&url, "a", LEASE).await;
    let call = SampleCall::new("mail/send");
    ledger.commit(call.started()).await.unwrap();
    server.crash();
    let refused = ledger.commit(SampleCall::new("mail/send").started()).await.unwrap_err();
    assert!(refused.to_string().contains("cannot be reached"), "{refused}");
    wait_until("no call is let in", async || ledger.check().is_err()).await;
    ledger.commit(call.done(json!(1))).await.unwrap_err();
    ledger.approvals(helve_core::approval::ApprovalQuery::default()).await.unwrap_err();
    tokio::task::block_in_place(|| server.start_again());
    wait_until("calls are let in", async || ledger.check().is_ok()).await;
    ledger.flush().await.unwrap();
    assert_eq!(ends(&server, &url), [(call.id().to_string(), 1)]);
    check_chains(&server, &url);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_exhausted_says_so_and_writing_goes_on() {
    let server = Arc::new(Postgres::start());
    let url = server.database();
    let mut options = PostgresOptions::new(&url);
    options.connections_max = 1;
    let ledger = Arc::new(PostgresLedger::open(options).await.unwrap());
    let blocks = std::thread::spawn({
        let (server, url) = (Arc::clone(&server), url.clone());
        move || server.sql(&url, "BEGIN; LOCK TABLE helve.api_keys; SELECT pg_sleep(8); COMMIT")
    });
    let locked = "SELECT count(*) FROM pg_locks WHERE relation = 'helve.api_keys'::regclass";
    wait_until("the table is locked", async || server.sql(&url, locked) == "1").await;
    let read = || {
        tokio::spawn({
            let ledger = Arc::clone(&ledger);
            async move { ledger.keys().await }
        })
    };
    let (one, other) = (read(), read());
    ledger.commit(SampleCall::new("clock/now").done(json!(1))).await.unwrap();
    let (refused, read) = match (one.await.unwrap(), other.await.unwrap()) {
        (Err(refused), Ok(read)) | (Ok(read), Err(refused)) => (refused, read),
        both => panic!("one waits for the table, and the other for its connection: {both:?}"),
    };
    assert!(refused.to_string().contains("all 1 connections for reading are in use"), "{refused}");
    assert_eq!(read, []);
    blocks.join().unwrap();
}

#[tokio::test]
async fn a_chain_that_was_put_back_is_not_gone_on_with() {
    let server = Postgres::start();
    let url = server.database();
    let ledger = replica(&url, "a", LEASE).await;
    ledger.commit(SampleCall::new("clock/now").done(json!(1))).await.unwrap();
    server.sql(&url, "DELETE FROM helve.entries; UPDATE helve.writers SET seq = 0, hash = ''");
    let refused = ledger.commit(SampleCall::new("clock/now").done(json!(2))).await.unwrap_err();
    assert!(refused.to_string().contains("the chain of a/1 ends at entry 0"), "{refused}");
    let closed = tokio::task::spawn_blocking(move || ledger.close()).await.unwrap();
    assert!(matches!(closed, Err(PostgresError::Unwritten { entries: 1, .. })), "{closed:?}");
}
