//! Opening and closing a ledger.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use helve_core::CallId;
use helve_core::json::hex;
use helve_core::memory::MemoryLimits;
use helve_core::ports::Clock;
use helve_ledger::queue::{self, Health};
use jiff::Timestamp;

use crate::error::PostgresError;
use crate::replica::{DatabaseClock, Replica};
use crate::schema;
use crate::server::{CONNECT_TIME, Readers, Server};
use crate::sql::params;
use crate::stretch::Stretches;
use crate::writer::{Chain, Job, Queue, Writer, micros};

/// How to open a [`PostgresLedger`].
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// The database, as `postgres://user:password@host/database`. Connections to other machines are encrypted unless it
    /// says `sslmode=disable`. It may be a pooler's, such as pgbouncer in transaction mode.
    pub url: String,
    /// What this replica is called in the journal. Each start is another epoch of it. Empty: something that no other is
    /// called.
    pub replica: String,
    /// Most connections for reading. Writing takes one more.
    pub connections_max: usize,
    /// How long this replica may be out of the database's reach before others take up its runs.
    pub lease: Duration,
    /// Most entries that may wait for the database. Beyond that, entries are refused.
    pub queue_entries_max: usize,
    /// Bounds on what agents remember.
    pub memory: MemoryLimits,
    /// Tells when what is remembered has expired. Absent: the database's clock.
    pub clock: Option<Arc<dyn Clock>>,
}

impl PostgresOptions {
    /// The usual ones for a database.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            replica: String::new(),
            connections_max: 8,
            lease: Duration::from_secs(15),
            queue_entries_max: 65_536,
            memory: MemoryLimits::default(),
            clock: None,
        }
    }
}

impl std::fmt::Debug for PostgresOptions {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("replica", &self.replica)
            .field("connections_max", &self.connections_max)
            .field("lease", &self.lease)
            .field("queue_entries_max", &self.queue_entries_max)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

/// The clock and the bounds of memory.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: MemoryLimits,
}

impl Settings {
    /// Now, as precisely as it is stored.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }
}

/// The durable ledger of several replicas: one PostgreSQL database.
pub struct PostgresLedger {
    pub(crate) queue: Arc<Queue>,
    pub(crate) readers: Readers,
    pub(crate) replica: Replica,
    pub(crate) settings: Settings,
    /// The parts of chains that were checked for runs that are taken up.
    pub(crate) checked: Stretches,
    clock: Arc<DatabaseClock>,
    writer: Mutex<Option<JoinHandle<Result<(), PostgresError>>>>,
}

impl std::fmt::Debug for PostgresLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresLedger").field("replica", &self.replica.label).finish_non_exhaustive()
    }
}

impl PostgresLedger {
    /// Opens the ledger. On first use, makes its tables, in the schema `helve`; tables of an earlier version are
    /// migrated, those of a later version refused.
    pub async fn open(options: PostgresOptions) -> Result<Self, PostgresError> {
        let name = name(&options.replica)?;
        let server = Server::parse(&options.url, &name)?;
        let clock = Arc::new(DatabaseClock::default());
        let (replica, position) = join(&server, &name, options.lease, &clock).await?;
        let settings = Settings {
            clock: options.clock.unwrap_or_else(|| Arc::<DatabaseClock>::clone(&clock)),
            limits: options.memory,
        };
        let queue = Queue::new(options.queue_entries_max).waking_every(options.lease / 8);
        let queue = Arc::new(queue);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| server.failed("start", error))?;
        let writer = Writer {
            runtime,
            server: server.clone(),
            queue: Arc::clone(&queue),
            clock: Arc::clone(&clock),
            settings: settings.clone(),
            chain: Chain::new(replica.clone(), position),
            link: None,
            lease: options.lease,
            renewed: Some(Instant::now()),
        };
        let readers = Readers::new(server.clone(), options.connections_max)?;
        let thread = helve_ledger::writer::spawn(&queue, writer, Health::Working)
            .map_err(|error| server.failed("start the writer for", error))?;
        let (checked, writer) = (Stretches::default(), Mutex::new(Some(thread)));
        Ok(Self { queue, readers, replica, settings, checked, clock, writer })
    }

    /// What this replica is called in the journal, with its epoch.
    pub fn replica(&self) -> &str {
        &self.replica.label
    }

    /// The database's clock, which all replicas share: what runs out should run out by it.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::<DatabaseClock>::clone(&self.clock)
    }

    /// Erases what was said in a call: arguments, results, errors, and the answer kept for its
    /// idempotency key and for undoing its effects. Returns how many entries lost their payload.
    ///
    /// The rest of the record stays, the chains still hold, and one says when this was done.
    pub async fn erase(&self, call_id: CallId, at: Timestamp) -> Result<usize, PostgresError> {
        Ok(self.queue.ask(|reply| Job::Erase { call_id, at, reply }).await?)
    }

    /// Writes what is queued and gives up the lease. Blocks until that is done.
    ///
    /// Dropping the ledger does the same, but only logs what went wrong.
    pub fn close(&self) -> Result<(), PostgresError> {
        self.queue.close();
        self.readers.close();
        let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match thread.map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_panic)) => Err(queue::closed().into()),
        }
    }
}

impl Drop for PostgresLedger {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(error = error.chain(), "the ledger was not closed cleanly");
        }
    }
}

/// Registers this replica as a writer, on a connection for that alone.
async fn join(
    server: &Server,
    name: &str,
    lease: Duration,
    clock: &DatabaseClock,
) -> Result<(Replica, helve_ledger::chain::Position), PostgresError> {
    let link = server.connect().await?;
    let joining = async {
        schema::prepare(&link.client, server).await?;
        let asked = Timestamp::now();
        let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8";
        let row = link.client.query_typed_one(now, params![]).await.map_err(PostgresError::Refused)?;
        clock.set(row.get(0), asked, Timestamp::now());
        schema::register(&link.client, name, micros(lease)).await
    };
    // Another replica may be at a migration.
    let patience = CONNECT_TIME + Duration::from_secs(60);
    match tokio::time::timeout(patience, joining).await {
        Ok(joined) => joined,
        Err(_) => Err(server.slow(patience)),
    }
}

/// Longest name of a replica.
const NAME_BYTES_MAX: usize = 100;

fn name(asked: &str) -> Result<String, PostgresError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if !asked.is_empty() {
        return match asked.len() <= NAME_BYTES_MAX && asked.chars().all(is_plain) {
            true => Ok(asked.to_owned()),
            false => Err(PostgresError::Name(asked.escape_default().take(NAME_BYTES_MAX).collect())),
        };
    }
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| PostgresError::Name(error.to_string()))?;
    Ok(format!("helve-{}", hex(&random)))
}
