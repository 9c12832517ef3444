//! Tables that are made once, and versions that do not fit.

use helve_core::ports::Journal;
use helve_postgres::{PostgresError, PostgresLedger, PostgresOptions};
use helve_testkit::Postgres;
use helve_testkit::entries::SampleCall;
use serde_json::json;

async fn open(url: &str) -> Result<PostgresLedger, PostgresError> {
    PostgresLedger::open(PostgresOptions::new(url)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_come_at_once_make_the_tables_once() {
    let server = Postgres::start();
    let url = server.database();
    let opening: Vec<_> = (0..6)
        .map(|_| {
            let mut options = PostgresOptions::new(&url);
            options.replica = "same".to_owned();
            tokio::spawn(PostgresLedger::open(options))
        })
        .collect();
    let mut epochs = Vec::new();
    for opened in opening {
        let ledger = opened.await.unwrap().unwrap();
        ledger.commit(SampleCall::new("clock/now").done(json!(1))).await.unwrap();
        epochs.push(ledger.replica().to_owned());
    }
    epochs.sort();
    assert_eq!(epochs, ["same/1", "same/2", "same/3", "same/4", "same/5", "same/6"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_replica_is_refused_and_one_that_runs_stops_writing() {
    let server = Postgres::start();
    let url = server.database();
    let ledger = open(&url).await.unwrap();
    server.sql(&url, "UPDATE helve.meta SET value = 99 WHERE name = 'schema_version'");
    let refused = ledger.commit(SampleCall::new("mail/send").started()).await.unwrap_err().to_string();
    assert!(refused.contains("the ledger has schema 99, and this version of helve knows"), "{refused}");
    assert!(matches!(open(&url).await, Err(PostgresError::Newer { found: 99, .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_is_left_alone() {
    let server = Postgres::start();
    let url = server.database();
    server.sql(&url, "CREATE SCHEMA helve; CREATE TABLE helve.things (n int)");
    assert!(matches!(open(&url).await, Err(PostgresError::Foreign)));
    assert_eq!(server.sql(&url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'helve'"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_cannot_be_called_anything() {
    let server = Postgres::start();
    let mut options = PostgresOptions::new(server.database());
    options.replica = "a/b".to_owned();
    assert!(matches!(PostgresLedger::open(options).await, Err(PostgresError::Name(_))));
}
