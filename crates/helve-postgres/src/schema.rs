//! The database's tables: the first replica that comes makes or migrates them, under a lock.

use helve_ledger::chain::Position;
use tokio_postgres::Client;

use crate::error::PostgresError;
use crate::replica::Replica;
use crate::server::Server;
use crate::sql::params;

/// Every step from an empty database to the newest schema. The first makes version 1.
const STEPS: [&str; 1] = [include_str!("../sql/1.sql")];

/// The schema that this version of Helve reads and writes.
pub(crate) const VERSION: i64 = STEPS.len() as i64;

/// What locks are taken for until a transaction ends. The numbers stay as they are: replicas of several versions meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub(crate) enum Lock {
    /// Tables are made or changed.
    Schema = 0,
    /// Questions and rules change.
    Approvals = 1,
    /// API keys change.
    Keys = 2,
}

/// Says that a lock is Helve's: others may take some in the same database.
const LOCKS: i32 = 0x68_65_6c_76;

impl Lock {
    /// The statement that takes it, and waits for it.
    pub(crate) fn statement(self) -> String {
        format!("SELECT pg_advisory_xact_lock({LOCKS}, {})", self as i32)
    }
}

/// Makes sure of a server that can be relied on and of the newest schema.
pub(crate) async fn prepare(client: &Client, server: &Server) -> Result<(), PostgresError> {
    check_server(client, server).await?;
    let sql = PostgresError::Refused;
    client.batch_execute("BEGIN; SET LOCAL lock_timeout = '60s'").await.map_err(sql)?;
    client.batch_execute(&Lock::Schema.statement()).await.map_err(sql)?;
    let found = found(client).await?;
    if found > VERSION {
        return Err(PostgresError::Newer { found, known: VERSION });
    }
    for (number, step) in (1..).zip(STEPS) {
        if number > found {
            if number == 1 {
                client.batch_execute("CREATE SCHEMA IF NOT EXISTS helve").await.map_err(sql)?;
            }
            client.batch_execute(step).await.map_err(sql)?;
        }
    }
    if found < VERSION {
        let version = "UPDATE helve.meta SET value = $1 WHERE name = 'schema_version'";
        client.execute_typed(version, params![VERSION]).await.map_err(sql)?;
    }
    client.batch_execute("COMMIT").await.map_err(sql)
}

/// The schema that is there; 0 where there is none.
pub(crate) async fn found(client: &Client) -> Result<i64, PostgresError> {
    let sql = PostgresError::Refused;
    let tables = "SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                  WHERE n.nspname = 'helve' AND (c.relname = 'meta' OR NOT $1)";
    let count = async |only_meta: bool| -> Result<i64, PostgresError> {
        client.query_typed_one(tables, params![only_meta]).await.map(|row| row.get(0)).map_err(sql)
    };
    if count(true).await? == 0 {
        return match count(false).await? {
            0 => Ok(0),
            _ => Err(PostgresError::Foreign),
        };
    }
    let version = "SELECT value FROM helve.meta WHERE name = 'schema_version'";
    match client.query_typed_opt(version, &[]).await.map_err(sql)? {
        Some(row) => Ok(row.get(0)),
        None => Err(PostgresError::Foreign),
    }
}

async fn check_server(client: &Client, server: &Server) -> Result<(), PostgresError> {
    let row = client
        .query_typed_one(
            "SELECT current_setting('server_version_num')::int8, current_setting('server_version'), \
                    pg_is_in_recovery(), current_setting('fsync')",
            &[],
        )
        .await
        .map_err(PostgresError::Refused)?;
    let at = server.at().to_owned();
    let (number, found, fsync): (i64, String, String) = (row.get(0), row.get(1), row.get(3));
    if number < 150_000 {
        return Err(PostgresError::TooOld { at, found });
    }
    if row.get(2) {
        return Err(PostgresError::Standby { at });
    }
    if fsync != "on" {
        return Err(PostgresError::NotDurable { at });
    }
    Ok(())
}

/// Begins a new life of a replica, with a new epoch, chain and lease.
pub(crate) async fn register(
    client: &Client,
    name: &str,
    lease_us: i64,
) -> Result<(Replica, Position), PostgresError> {
    let sql = PostgresError::Refused;
    client.batch_execute("BEGIN; SET LOCAL lock_timeout = '60s'").await.map_err(sql)?;
    // Two of the same name may come at once.
    client.batch_execute(&Lock::Schema.statement()).await.map_err(sql)?;
    let last = "SELECT coalesce(max(epoch), 0) + 1 FROM helve.writers WHERE name = $1";
    let epoch: i64 = client.query_typed_one(last, params![name]).await.map_err(sql)?.get(0);
    let genesis = Replica::genesis(name, epoch);
    let row = client
        .query_typed_one(
            "INSERT INTO helve.writers (name, epoch, seq, hash, batch, begun_at, lease_until) \
             VALUES ($1, $2, 0, $3, '', clock_timestamp(), clock_timestamp() + $4 * interval '1 microsecond') \
             RETURNING id",
            params![name, epoch, &genesis[..], lease_us],
        )
        .await
        .map_err(sql)?;
    client.batch_execute("COMMIT").await.map_err(sql)?;
    let replica = Replica::new(row.get(0), name, epoch);
    Ok((replica, Position { seq: 0, hash: genesis }))
}
