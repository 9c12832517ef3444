//! One group of jobs as one transaction.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve_core::CallId;
use helve_core::ports::JournalError;
use jiff::Timestamp;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::rows::Rows;
use crate::chain::{Kind, Position, Salt};
use crate::error::StoreError;
use crate::keys::{self, Found, KeyError};
use crate::owners::Owner;
use crate::queue::{Job, Mark};
use crate::schema;

/// Space that must be there before a broken journal is called working again.
const ROOM_BYTES: i64 = 64 << 10;

/// The database as the writer sees it.
pub(crate) struct Ledger {
    path: PathBuf,
    db: Connection,
    owner: Arc<Owner>,
    page_limit: u32,
    identity: Option<(u64, u64)>,
    position: Position,
    lineage: Lineage,
    rows: Rows,
    salts: Vec<Salt>,
}

/// Whether what we saw written before is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lineage {
    /// All of it.
    Unbroken,
    /// The database does not hold what was there before: entries were cut off or the file was
    /// replaced. The anchor must then stay where it is, so that `verify` can tell.
    Broken,
}

/// What became of a job, once its group is on disk.
pub(super) enum Verdict {
    Done,
    Refused(JournalError),
    Found(Found),
    Erased(usize),
}

impl Ledger {
    /// Takes an open database. `seen` is where the chain is known to have been.
    pub(crate) fn new(
        path: &Path,
        db: Connection,
        owner: &Arc<Owner>,
        seen: Option<Position>,
    ) -> Result<Self, StoreError> {
        let sqlite = |source| StoreError::sqlite(path, source);
        let position = schema::position(&db).map_err(sqlite)?;
        let unbroken = seen.map_or(Ok(true), |seen| schema::passed(&db, seen)).map_err(sqlite)?;
        let lineage = if unbroken { Lineage::Unbroken } else { Lineage::Broken };
        Ok(Self {
            path: path.to_owned(),
            db,
            owner: Arc::clone(owner),
            page_limit: 0,
            identity: schema::identity(path),
            position,
            lineage,
            rows: Rows::default(),
            salts: Vec::new(),
        })
    }

    /// Opens the database anew: whatever went wrong may have left the connection useless.
    pub(super) fn reopen(&mut self) -> Result<(), StoreError> {
        let lineage = self.lineage;
        *self = Self::new(&self.path, schema::open(&self.path)?, &self.owner, Some(self.position))?;
        if lineage == Lineage::Broken {
            self.lineage = lineage;
        }
        Ok(())
    }

    /// Where the chain stood after the last group.
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    pub(crate) fn lineage(&self) -> Lineage {
        self.lineage
    }

    /// Forbids the file to grow beyond some pages; 0 lifts the limit.
    pub(super) fn limit_pages(&mut self, pages: u32) -> Result<(), StoreError> {
        if self.page_limit != pages {
            let limit = if pages == 0 { u32::MAX - 1 } else { pages };
            self.sqlite(self.db.pragma_update_and_check(None, "max_page_count", limit, |_| Ok(())))?;
            self.page_limit = pages;
        }
        Ok(())
    }

    /// Fails while the file has more pages than it may.
    pub(super) fn check_pages(&self) -> Result<(), StoreError> {
        if self.page_limit == 0 {
            return Ok(());
        }
        let pages: u32 = self.sqlite(self.db.query_one("PRAGMA page_count", [], |row| row.get(0)))?;
        if pages > self.page_limit {
            let full = std::io::ErrorKind::StorageFull.into();
            return Err(StoreError::io("write", &self.path, full));
        }
        Ok(())
    }

    pub(super) fn reserve_error(&self, error: std::io::Error) -> StoreError {
        StoreError::io("reserve space next to", &self.path, error)
    }

    /// Writes all jobs or none. Only when this returns well may anybody be told.
    pub(super) fn write(&mut self, jobs: &[Job]) -> Result<Vec<Verdict>, StoreError> {
        // SQLite would go on writing to a file that nobody will find again.
        if schema::identity(&self.path) != self.identity {
            return Err(StoreError::Replaced(self.path.clone()));
        }
        self.try_write(jobs).map_err(|source| StoreError::sqlite(&self.path, source))
    }

    fn try_write(&mut self, jobs: &[Job]) -> rusqlite::Result<Vec<Verdict>> {
        self.salts.resize(jobs.len(), Salt::default());
        getrandom::fill(self.salts.as_flattened_mut())
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let position = schema::position(&tx)?;
        if position != self.position && !schema::passed(&tx, self.position)? {
            tracing::error!(
                seq = self.position.seq,
                "journal entries that were written are gone; run verify"
            );
            self.lineage = Lineage::Broken;
        }
        self.rows.clear();
        let mut group = Group { tx: &tx, owner: &self.owner, position, rows: &mut self.rows };
        let verdicts = jobs
            .iter()
            .zip(&self.salts)
            .map(|(job, salt)| group.apply(job, *salt))
            .collect::<rusqlite::Result<_>>()?;
        let position = group.position;
        self.rows.flush(&tx)?;
        tx.commit()?;
        self.position = position;
        Ok(verdicts)
    }

    /// Fails while the disk has no room for more than what is there.
    pub(super) fn probe(&mut self) -> Result<(), StoreError> {
        // Two commits: what one transaction both takes and gives back is never written.
        let filled = self.db.execute("INSERT OR REPLACE INTO room VALUES (1, zeroblob(?1))", [ROOM_BYTES]);
        self.sqlite(filled.and_then(|_| self.db.execute("DELETE FROM room", [])))?;
        Ok(())
    }

    /// Moves everything into the database file and empties the log beside it.
    pub(super) fn checkpoint(&self) -> Result<(), StoreError> {
        self.sqlite(self.db.query_one("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
    }

    /// Moves what it can into the database file, so that the log beside it need not grow. On a full
    /// disk this makes the room that is left last several times as long.
    pub(super) fn reuse_log(&self) {
        if let Err(error) = self.db.query_one("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::debug!(%error, "the journal's log could not be moved into the database");
        }
    }

    fn sqlite<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|source| StoreError::sqlite(&self.path, source))
    }
}

/// A transaction in the making.
struct Group<'a> {
    tx: &'a Transaction<'a>,
    owner: &'a Owner,
    position: Position,
    rows: &'a mut Rows,
}

impl Group<'_> {
    fn apply(&mut self, job: &Job, salt: Salt) -> rusqlite::Result<Verdict> {
        // Every entry is encoded before anything is written, so that a refusal leaves no trace.
        match job {
            Job::Append(entry) | Job::Commit(entry, _) => match self.rows.text().set_entry(entry, None) {
                Ok(kind) => self.add(kind, Some(salt)).map(|()| Verdict::Done),
                Err(error) => Ok(Verdict::Refused(error)),
            },
            Job::Begin { started, claim, .. } => {
                let kind = match self.rows.text().set_started(started, Some(&claim.scoped_key)) {
                    Ok(kind) => kind,
                    Err(error) => return Ok(Verdict::Refused(error)),
                };
                match keys::claim(self.tx, self.owner, claim, started.facts.call_id) {
                    Ok(Found::Claimed { from }) => {
                        self.add(kind, Some(salt))?;
                        from.map_or(Ok(()), |dead| self.note(Kind::Released, Some(dead)))?;
                        Ok(Verdict::Found(Found::Claimed { from }))
                    }
                    Ok(found) => Ok(Verdict::Found(found)),
                    Err(error) => refuse(error),
                }
            }
            Job::Finish { entry, claim, status, .. } => {
                let status = serde_json::to_string(status);
                let kind = self.rows.text().set_entry(entry, Some(&claim.scoped_key));
                let (kind, status) = match (kind, status) {
                    (Ok(kind), Ok(status)) => (kind, status),
                    (Err(error), _) => return Ok(Verdict::Refused(error)),
                    (_, Err(error)) => return Ok(Verdict::Refused(unwritable(error))),
                };
                match keys::finish(self.tx, claim, entry.call_id(), status) {
                    Ok(()) => {}
                    Err(KeyError::Sqlite(error)) => return Err(error),
                    // The end is recorded all the same; whoever brings the key again is refused.
                    Err(KeyError::Damaged(error)) => tracing::error!("{error}"),
                }
                self.add(kind, Some(salt)).map(|()| Verdict::Done)
            }
            Job::Release { scoped_key, call_id } => {
                if keys::release(self.tx, scoped_key, *call_id)? {
                    self.note(Kind::Released, Some(*call_id))?;
                }
                Ok(Verdict::Done)
            }
            Job::Mark(mark) => {
                let kind = match mark {
                    Mark::Unanchored => Kind::Unanchored,
                    Mark::Accepted => Kind::Accepted,
                };
                self.note(kind, None).map(|()| Verdict::Done)
            }
            Job::Erase { call_id, at, .. } => self.erase(*call_id, *at),
            Job::Flush(_) => Ok(Verdict::Done),
        }
    }

    fn erase(&mut self, call_id: CallId, at: Timestamp) -> rusqlite::Result<Verdict> {
        // An entry of the call may be among those that wait.
        self.rows.flush(self.tx)?;
        if let Err(error) = self.rows.text().set_note(Some(call_id), at) {
            return Ok(Verdict::Refused(error));
        }
        match keys::erase(self.tx, call_id) {
            Ok(()) => {}
            Err(error) => return refuse(error),
        }
        let erased = self.tx.execute(
            "UPDATE entries SET payload = NULL, salt = NULL \
             WHERE made_ms = ?1 AND call_id = ?2 AND payload IS NOT NULL",
            params![call_id.made_at_ms(), call_id.to_string()],
        )?;
        if erased > 0 {
            self.add(Kind::Erased, None)?;
        }
        Ok(Verdict::Erased(erased))
    }

    /// Appends a note that belongs to something else in this group.
    fn note(&mut self, kind: Kind, call_id: Option<CallId>) -> rusqlite::Result<()> {
        self.rows
            .text()
            .set_note(call_id, Timestamp::now())
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        self.add(kind, None)
    }

    /// Appends what is encoded. With salt: it has a payload.
    fn add(&mut self, kind: Kind, salt: Option<Salt>) -> rusqlite::Result<()> {
        self.position = self.rows.add(self.tx, self.position, kind, salt)?;
        Ok(())
    }
}

/// A damaged key concerns one job; anything else fails the group.
fn refuse(error: KeyError) -> rusqlite::Result<Verdict> {
    match error {
        KeyError::Damaged(error) => Ok(Verdict::Refused(JournalError::new(error.to_string()))),
        KeyError::Sqlite(error) => Err(error),
    }
}

fn unwritable(error: serde_json::Error) -> JournalError {
    JournalError::new("the outcome cannot be written as JSON").with_source(error)
}
