//! The database as the writer sees it: one connection, a transaction for each group.
//!
//! A group whose connection was lost at its very end may be committed or not. Then no caller is answered until the
//! database says which: the row of this replica's chain has the group's own number.

mod approvals;
mod effects;
mod entries;
mod group;
mod identity;
mod keys;
mod memory;
mod needs;
mod own;
mod runs;
mod serve;
mod sessions;
mod slot;

use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::memory::MemoryError;
use helve_core::ports::JournalError;
use helve_ledger::backend::{Backend, Readiness};
use helve_ledger::chain::{Hash, Position};
use helve_ledger::entry::Salts;
use helve_ledger::queue::Health;
use jiff::Timestamp;
use tokio_postgres::Client;

pub(crate) use self::effects::{EFFECT_COLUMNS, effect_seal_of_row};
use self::entries::Entries;
use self::group::Group;
pub(crate) use self::identity::{SELECT_KEY, key_of_row, seal as key_seal};
pub(crate) use self::keys::{
    SELECT as SELECT_KEY_CLAIM, holder_of_row as key_holder_of_row, is_sound as key_is_sound,
};
pub(crate) use self::own::Own;
pub(crate) use self::runs::waiting_for;
pub(crate) use self::sessions::{
    FIND_SESSION, SEALED_SESSION, digest as session_digest, session_of_row, session_seal_of_row,
};
use crate::error::{PostgresError, is_in_the_way, is_lost};
use crate::ledger::Settings;
use crate::replica::{DatabaseClock, Replica};
use crate::schema;
use crate::server::{Link, Server};
use crate::sql::params;

pub(crate) type Queue = helve_ledger::queue::Queue<Own>;
pub(crate) type Job = helve_ledger::job::Job<Own>;
pub(crate) type Verdict = helve_ledger::backend::Verdict<Own>;

/// Longest that a group may take. Locks are waited for shorter, and a connection that says nothing is given up.
const GROUP_TIME: Duration = Duration::from_secs(10);

/// What holds within a transaction only: a pooler may give the next one another connection.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '4s'; \
                     SET LOCAL statement_timeout = '8s'; SET LOCAL idle_in_transaction_session_timeout = '12s'; \
                     SET LOCAL synchronous_commit = 'on'";

/// How often a group is tried that stood in the way of another's.
const TRIES: usize = 4;

/// How long the writer still looks for the outcome of a group after the ledger was closed.
const LAST_LOOK: Duration = Duration::from_secs(5);

/// Why a group comes to an end.
pub(crate) enum Stop {
    /// Only for one job: it is refused, and has changed nothing.
    Refused(JournalError),
    /// The same for a change of memory.
    Memory(MemoryError),
    /// For all of it.
    Failed(PostgresError),
}

impl Stop {
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(JournalError::new(why))
    }

    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Failed(PostgresError::Damaged(what.into()))
    }

    /// A change of memory that is refused is an answer.
    fn memory<T>(result: Result<T, Self>) -> Result<Result<T, MemoryError>, Self> {
        match result {
            Ok(value) => Ok(Ok(value)),
            Err(Self::Memory(error)) => Ok(Err(error)),
            Err(Self::Refused(error)) => Ok(Err(error.into())),
            Err(failed @ Self::Failed(_)) => Err(failed),
        }
    }

    fn into_error(self) -> PostgresError {
        match self {
            Self::Failed(error) => error,
            Self::Refused(error) => error.into(),
            Self::Memory(error) => PostgresError::Damaged(error.to_string()),
        }
    }
}

impl From<tokio_postgres::Error> for Stop {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Failed(PostgresError::Refused(error))
    }
}

impl From<JournalError> for Stop {
    fn from(error: JournalError) -> Self {
        Self::Refused(error)
    }
}

/// The database, and this replica's place in it.
pub(crate) struct Writer {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) server: Server,
    pub(crate) queue: Arc<Queue>,
    pub(crate) clock: Arc<DatabaseClock>,
    pub(crate) settings: Settings,
    pub(crate) chain: Chain,
    pub(crate) link: Option<Link>,
    pub(crate) lease: Duration,
    /// When the lease was last renewed.
    pub(crate) renewed: Option<Instant>,
}

/// This replica's chain in the making.
pub(crate) struct Chain {
    replica: Replica,
    position: Position,
    entries: Entries,
    salts: Salts,
}

/// A group whose COMMIT was not answered.
struct InDoubt {
    verdicts: Vec<Verdict>,
    end: Position,
    batch: Hash,
}

/// Why a group is not written.
enum Unwritten {
    /// Nothing of it is.
    Not(PostgresError),
    /// It may be or not.
    Perhaps(Box<InDoubt>, PostgresError),
}

impl Chain {
    pub(crate) fn new(replica: Replica, position: Position) -> Self {
        Self { replica, position, entries: Entries::default(), salts: Salts::default() }
    }
}

impl Backend for Writer {
    type Own = Own;
    type Error = PostgresError;

    fn stand(&mut self) {
        let is_due = self.renewed.is_none_or(|renewed| renewed.elapsed() >= self.lease / 4);
        if is_due && let Err(error) = self.renew() {
            tracing::warn!(error = error.chain(), "the lease of this replica could not be renewed");
        }
    }

    fn make_ready(&mut self, health: &Health) -> Result<Readiness, PostgresError> {
        if !matches!(health, Health::Working) {
            self.renew()?;
        }
        Ok(Readiness::Ready)
    }

    fn write(&mut self, jobs: &[Job]) -> Result<Vec<Verdict>, PostgresError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.attempt(jobs) {
                Ok(verdicts) => return Ok(verdicts),
                Err(Unwritten::Perhaps(in_doubt, error)) => {
                    self.link = None;
                    if let Some(verdicts) = self.resolve(*in_doubt, error)? {
                        return Ok(verdicts);
                    }
                }
                Err(Unwritten::Not(error)) => {
                    // Whatever the transaction has locked is given back with its connection.
                    self.link = None;
                    match &error {
                        PostgresError::Refused(refused) if is_in_the_way(refused) && tries < TRIES => {}
                        // The connection was an old one.
                        PostgresError::Refused(refused) if is_lost(refused) && tries == 1 => {}
                        _ => return Err(error),
                    }
                }
            }
            if tries >= TRIES {
                return Err(self.server.slow(GROUP_TIME));
            }
        }
    }

    fn recover(&mut self) -> Health {
        Health::Working
    }

    fn tidy(&mut self, _verdicts: &[Verdict]) {}

    fn health_after(&mut self, error: &PostgresError, _worked: bool) -> Health {
        Health::Broken(JournalError::new(error.chain()))
    }

    /// Lets others take up at once what is left.
    fn close(&mut self, health: &Health, unwritten: usize) -> Result<(), PostgresError> {
        let (id, link) = (self.chain.replica.id, self.link.take());
        if let Some(link) = link {
            let end = "UPDATE helve.writers SET lease_until = clock_timestamp() WHERE id = $1";
            let ended =
                async { tokio::time::timeout(LAST_LOOK, link.client.execute_typed(end, params![id])).await };
            if !matches!(self.runtime.block_on(ended), Ok(Ok(_))) {
                tracing::warn!("the lease of this replica stays until it runs out");
            }
        }
        match health {
            Health::Broken(reason) if unwritten > 0 => {
                Err(PostgresError::Unwritten { entries: unwritten, reason: reason.to_string() })
            }
            Health::Broken(_) | Health::Working | Health::ReportsOnly(_) | Health::Quarantined(_) => Ok(()),
        }
    }
}

impl Writer {
    /// Renews the lease, on a connection that is made where there is none.
    fn renew(&mut self) -> Result<(), PostgresError> {
        let (server, id, lease) = (&self.server, self.chain.replica.id, self.lease);
        let (link, asked) = (&mut self.link, Timestamp::now());
        let renewing = async {
            let client = connected(link, server).await?;
            let renewal = "UPDATE helve.writers SET lease_until = clock_timestamp() + $2 * interval '1 microsecond' \
                           WHERE id = $1 RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::int8";
            match tokio::time::timeout(lease / 2, client.query_typed_opt(renewal, params![id, micros(lease)]))
                .await
            {
                Ok(row) => row.map_err(PostgresError::Refused),
                Err(_) => Err(server.slow(lease / 2)),
            }
        };
        let renewed = self.runtime.block_on(renewing).inspect_err(|_| self.link = None)?;
        let gone = || PostgresError::Moved {
            replica: self.chain.replica.label.clone(),
            found: 0,
            known: self.chain.position.seq,
        };
        self.clock.set(renewed.ok_or_else(gone)?.get(0), asked, Timestamp::now());
        self.renewed = Some(Instant::now());
        Ok(())
    }

    /// Writes a group, once.
    fn attempt(&mut self, jobs: &[Job]) -> Result<Vec<Verdict>, Unwritten> {
        let (server, link, chain) = (&self.server, &mut self.link, &mut self.chain);
        let (settings, lease) = (&self.settings, self.lease);
        let in_doubt = self.runtime.block_on(async {
            let client = connected(link, server).await.map_err(Unwritten::Not)?;
            let writing = tokio::time::timeout(GROUP_TIME, chain.write(client, settings, lease, jobs)).await;
            let in_doubt = match writing {
                Ok(written) => written.map_err(|stop| Unwritten::Not(stop.into_error()))?,
                Err(_) => return Err(Unwritten::Not(server.slow(GROUP_TIME))),
            };
            match tokio::time::timeout(GROUP_TIME, client.batch_execute("COMMIT")).await {
                Ok(Ok(())) => Ok(in_doubt),
                Ok(Err(error)) => Err(Unwritten::Perhaps(Box::new(in_doubt), PostgresError::Refused(error))),
                Err(_) => Err(Unwritten::Perhaps(Box::new(in_doubt), server.slow(GROUP_TIME))),
            }
        })?;
        self.renewed = Some(Instant::now());
        Ok(self.committed(in_doubt))
    }

    fn committed(&mut self, in_doubt: InDoubt) -> Vec<Verdict> {
        self.chain.position = in_doubt.end;
        in_doubt.verdicts
    }

    /// Finds out whether a group was committed, however long that takes. None: it was not.
    fn resolve(
        &mut self,
        in_doubt: InDoubt,
        error: PostgresError,
    ) -> Result<Option<Vec<Verdict>>, PostgresError> {
        tracing::warn!(
            error = error.chain(),
            "the last group may be written or not; the database is asked which"
        );
        let (mut pause, mut closed_at) = (Duration::from_millis(20), None::<Instant>);
        loop {
            match self.look(&in_doubt) {
                Ok(is_committed) => {
                    self.queue.set_health(Health::Working);
                    return Ok(is_committed.then(|| self.committed(in_doubt)));
                }
                Err(moved @ PostgresError::Moved { .. }) => return Err(moved),
                Err(error) => {
                    self.link = None;
                    let reason = JournalError::new(error.chain());
                    self.queue.set_health(Health::Broken(reason));
                    let is_closed = self.queue.is_closed();
                    let since = is_closed.then(|| *closed_at.get_or_insert_with(Instant::now));
                    if since.is_some_and(|since| since.elapsed() > LAST_LOOK) {
                        return Err(error);
                    }
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Whether a group was committed. Waits for its transaction, should the server still be at it.
    fn look(&mut self, in_doubt: &InDoubt) -> Result<bool, PostgresError> {
        let (server, link, chain) = (&self.server, &mut self.link, &self.chain);
        let (seq, hash, batch) = self.runtime.block_on(async {
            let client = connected(link, server).await?;
            let looking = async {
                client.batch_execute(BEGIN).await?;
                let locked = "SELECT seq, hash, batch FROM helve.writers WHERE id = $1 FOR UPDATE";
                let row = client.query_typed_one(locked, params![chain.replica.id]).await?;
                client.batch_execute("COMMIT").await?;
                Ok((row.get::<_, i64>(0), row.get::<_, Vec<u8>>(1), row.get::<_, Vec<u8>>(2)))
            };
            match tokio::time::timeout(GROUP_TIME, looking).await {
                Ok(looked) => looked.map_err(PostgresError::Refused),
                Err(_) => Err(server.slow(GROUP_TIME)),
            }
        })?;
        if batch == in_doubt.batch {
            return Ok(true);
        }
        match seq == chain.position.seq && hash == chain.position.hash {
            true => Ok(false),
            false => Err(chain.moved(seq)),
        }
    }
}

impl Chain {
    /// Everything of a group but its end.
    async fn write(
        &mut self,
        db: &Client,
        settings: &Settings,
        lease: Duration,
        jobs: &[Job],
    ) -> Result<InDoubt, Stop> {
        self.entries.clear();
        self.salts.draw(jobs.iter().map(Job::entries).sum()).map_err(group::no_salt)?;
        let mut batch = Hash::default();
        getrandom::fill(&mut batch).map_err(group::no_salt)?;
        db.batch_execute(BEGIN).await?;
        self.stand(db).await?;
        let tools = (&mut self.entries, &mut self.salts);
        let mut group = Group::begin(db, &self.replica, settings, tools, self.position, jobs).await?;
        let mut verdicts = Vec::with_capacity(jobs.len());
        for job in jobs {
            verdicts.push(group.apply(job).await?);
        }
        let end = group.end().await?;
        // Answered before the end is asked for: who looks later can wait for the lock on this row.
        db.execute_typed(
            "UPDATE helve.writers SET seq = $2, hash = $3, batch = $4, \
                 lease_until = clock_timestamp() + $5 * interval '1 microsecond' WHERE id = $1",
            params![self.replica.id, end.seq, &end.hash[..], &batch[..], micros(lease)],
        )
        .await?;
        Ok(InDoubt { verdicts, end, batch })
    }

    /// Takes the lock on our row, and looks whether it and the tables are as we know them.
    async fn stand(&self, db: &Client) -> Result<(), Stop> {
        let row = db
            .query_typed_opt(
                "SELECT w.seq, w.hash, (SELECT value FROM helve.meta WHERE name = 'schema_version') \
                 FROM helve.writers w WHERE w.id = $1 FOR UPDATE",
                params![self.replica.id],
            )
            .await?;
        let Some(row) = row else { return Err(Stop::Failed(self.moved(0))) };
        let (seq, hash): (i64, Vec<u8>) = (row.get(0), row.get(1));
        if seq != self.position.seq || hash != self.position.hash {
            return Err(Stop::Failed(self.moved(seq)));
        }
        match row.get::<_, Option<i64>>(2).unwrap_or(0) {
            schema::VERSION => Ok(()),
            found => Err(Stop::Failed(PostgresError::Newer { found, known: schema::VERSION })),
        }
    }

    fn moved(&self, found: i64) -> PostgresError {
        PostgresError::Moved { replica: self.replica.label.clone(), found, known: self.position.seq }
    }
}

/// The connection, which is made where there is none.
async fn connected<'a>(link: &'a mut Option<Link>, server: &Server) -> Result<&'a Client, PostgresError> {
    if link.as_ref().is_none_or(|link| link.client.is_closed()) {
        *link = Some(server.connect().await?);
    }
    Ok(&link.as_ref().expect("it was made just now").client)
}

pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
