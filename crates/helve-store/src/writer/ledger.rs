//! One group of jobs as one transaction.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve_core::CallId;
use helve_core::ports::JournalError;
use helve_core::record::{Entry, Started};
use helve_core::run::StepKind;
use jiff::Timestamp;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::log::Log;
use super::own::{Answer, Own};
use super::prune;
use super::rows::Rows;
use super::{Job, Verdict};
use crate::approvals::table as approvals;
use crate::audit::key_file;
use crate::error::StoreError;
use crate::keys::{self, Found, KeyError};
use crate::memory::{Settings, effects};
use crate::owners::Owner;
use crate::runs::table::{self as runs, Closing};
use crate::schema;
use crate::vouch::Voucher;
use helve_ledger::chain::{Kind, Position, Salt};
use helve_ledger::entry::{Fence, Note, Salts, Seals, unwritable};

/// Space that must be there before a broken journal is called working again.
const ROOM_BYTES: i64 = 64 << 10;

/// Most pages that are given back at once: more than a step of a pruning frees.
const PAGES_GIVEN_BACK: u32 = 4_096;

/// The database as the writer sees it.
pub(crate) struct Ledger {
    path: PathBuf,
    db: Connection,
    owner: Arc<Owner>,
    memory: Settings,
    page_limit: u32,
    identity: Option<(u64, u64)>,
    /// The log next to the database. SQLite does not remove it while we have it open.
    log: Log,
    position: Position,
    rows: Rows,
    salts: Salts,
}

/// What became of a group.
enum Written {
    /// All of it is on disk.
    All(Vec<Verdict>),
    /// None of it is: what was written before is gone.
    Cut,
    /// None of it is: another version of Helve has changed the file's format.
    OtherFormat(i64),
}

impl Ledger {
    /// A ledger whose database is not open: a file in quarantine is left alone.
    pub(crate) fn closed(path: &Path, owner: &Arc<Owner>, memory: Settings) -> Result<Self, StoreError> {
        let nothing = schema::nothing().map_err(|source| StoreError::sqlite(path, source))?;
        Self::new(path, nothing, owner, memory)
    }

    /// Takes an open database.
    fn new(path: &Path, db: Connection, owner: &Arc<Owner>, memory: Settings) -> Result<Self, StoreError> {
        let position = schema::position(&db).map_err(|source| StoreError::sqlite(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            db,
            owner: Arc::clone(owner),
            memory,
            page_limit: 0,
            identity: schema::identity(path),
            log: Log::of_database(path),
            position,
            rows: Rows::default(),
            salts: Salts::default(),
        })
    }

    /// Opens the database anew: whatever went wrong may have left the connection useless. One that does not
    /// hold what was written before is not taken.
    pub(super) fn reopen(&mut self) -> Result<(), StoreError> {
        // A log that is put back can be gone on with; another one would be read as if it were ours.
        if schema::identity(&self.path) == self.identity {
            self.log.check()?;
        }
        let anew = self.anew()?;
        if !self.sqlite(schema::passed_or_pruned(&anew.db, self.position))? {
            return Err(StoreError::Cut { path: self.path.clone(), seq: self.position.seq });
        }
        *self = anew;
        Ok(())
    }

    /// The database as a process that opens it now finds it.
    pub(crate) fn anew(&self) -> Result<Self, StoreError> {
        Self::new(&self.path, schema::open(&self.path)?, &self.owner, self.memory.clone())
    }

    /// Whether the chain once stood at `seen`, which the anchor tells.
    pub(crate) fn passed(&self, seen: Position) -> Result<bool, StoreError> {
        self.sqlite(schema::passed(&self.db, seen))
    }

    /// Makes sure that others see that we live, also while there is nothing to write.
    pub(super) fn stand(&self) {
        if let Err(error) = self.owner.stand() {
            tracing::warn!(%error, "others may take this process for dead");
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the chain stood after the last group.
    pub(crate) fn position(&self) -> Position {
        self.position
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

    /// The size of the file's pages.
    pub(super) fn page_bytes(&self) -> Result<u64, StoreError> {
        let bytes = self.db.query_one("PRAGMA page_size", [], |row| row.get::<_, u32>(0));
        self.sqlite(bytes.map(u64::from))
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
        // Before anything is claimed: a process that cannot be seen to live loses what it claims.
        self.owner.stand().map_err(|error| StoreError::io("stand among the owners of", &self.path, error))?;
        self.check_files()?;
        if self.log.was_cut() && self.db.query_one("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).is_err()
        {
            // Another process may empty the log once all of it is in the database. Then there is nothing to move.
            return Err(StoreError::Cut { path: self.path.clone(), seq: self.position.seq });
        }
        let path = self.path.clone();
        let verdicts = match self.try_write(jobs) {
            Ok(Written::All(verdicts)) => verdicts,
            Ok(Written::Cut) => return Err(StoreError::Cut { path, seq: self.position.seq }),
            Ok(Written::OtherFormat(found)) => {
                return Err(StoreError::Newer { path, found, known: schema::VERSION });
            }
            Err(source) => return Err(StoreError::sqlite(&self.path, source)),
        };
        // Once more before anybody is told: what is in a file that nobody will find again is not kept.
        self.check_files()?;
        self.log.note();
        Ok(verdicts)
    }

    /// Fails where another file stands at our path, or next to it: SQLite would go on writing to one that nobody
    /// will find again.
    fn check_files(&self) -> Result<(), StoreError> {
        if schema::identity(&self.path) != self.identity {
            return Err(StoreError::Replaced(self.path.clone()));
        }
        self.log.check()
    }

    fn try_write(&mut self, jobs: &[Job]) -> rusqlite::Result<Written> {
        self.salts.draw(jobs.iter().map(Job::entries).sum()).map_err(no_salt)?;
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match schema::version(&tx)? {
            Some(schema::VERSION) => {}
            found => return Ok(Written::OtherFormat(found.unwrap_or(0))),
        }
        let position = schema::position(&tx)?;
        if position != self.position && !schema::passed_or_pruned(&tx, self.position)? {
            return Ok(Written::Cut);
        }
        self.rows.clear();
        let mut group = Group {
            any_runs: runs::any(&tx)?,
            tx: &tx,
            owner: &self.owner,
            memory: &self.memory,
            known: self.position,
            position,
            rows: &mut self.rows,
            salts: &mut self.salts,
        };
        let verdicts = jobs.iter().map(|job| group.apply(job)).collect::<rusqlite::Result<_>>()?;
        let position = group.position;
        self.rows.flush(&tx)?;
        tx.commit()?;
        self.position = position;
        Ok(Written::All(verdicts))
    }

    /// Fails while the disk has no room for more than what is there.
    pub(super) fn probe(&mut self) -> Result<(), StoreError> {
        // Two commits: what one transaction both takes and gives back is never written.
        let filled = self.db.execute("INSERT OR REPLACE INTO room VALUES (1, zeroblob(?1))", [ROOM_BYTES]);
        self.sqlite(filled.and_then(|_| self.db.execute("DELETE FROM room", [])))?;
        Ok(())
    }

    /// Moves everything into the database file and empties the log next to it.
    pub(super) fn checkpoint(&self) -> Result<(), StoreError> {
        self.sqlite(self.db.query_one("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
    }

    /// Gives pages that nothing uses back to the disk, a few at a time: nobody waits for long.
    pub(super) fn give_back(&self) -> Result<(), StoreError> {
        self.sqlite(prune::gives_back(&self.db).and_then(|gives_back| {
            if gives_back {
                // Each row that this returns is a page.
                let mut vacuum =
                    self.db.prepare(&format!("PRAGMA incremental_vacuum({PAGES_GIVEN_BACK})"))?;
                let mut pages = vacuum.query([])?;
                while pages.next()?.is_some() {}
            }
            Ok(())
        }))
    }

    /// Moves what it can into the database file, so that the log next to it need not grow. On a full
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
pub(super) struct Group<'a> {
    pub(super) tx: &'a Transaction<'a>,
    pub(super) owner: &'a Owner,
    pub(super) memory: &'a Settings,
    /// How far the chain had come when this process last looked.
    pub(super) known: Position,
    position: Position,
    pub(super) rows: &'a mut Rows,
    salts: &'a mut Salts,
    /// Whether any run may be open. Where none is, the end of a call closes none.
    any_runs: bool,
}

impl Group<'_> {
    fn apply(&mut self, job: &Job) -> rusqlite::Result<Verdict> {
        // Every entry is encoded before anything is written, so that a refusal leaves no trace.
        match job {
            Job::Append(entry) | Job::Commit(entry, _) => self.record(entry).map(Verdict::from),
            Job::CommitAll(entries, _) => self.record_all(entries).map(Verdict::from),
            Job::Begin { started, claim, .. } => {
                if let Err(lost) = self.fence(started)? {
                    return Ok(Verdict::Refused(lost));
                }
                let kind =
                    match self.rows.text().set_started(started, Some(&claim.scoped_key), self.owner.id()) {
                        Ok(kind) => kind,
                        Err(error) => return Ok(Verdict::Refused(error)),
                    };
                match keys::claim(self.tx, self.owner, claim, started.facts.call_id) {
                    Ok(Found::Claimed { from }) => {
                        // After the key: one that has its answer uses no approval.
                        let used = match self.use_up(started)? {
                            Ok(used) => used,
                            Err(spent) => {
                                keys::release(self.tx, &claim.scoped_key, started.facts.call_id)?;
                                from.map_or(Ok(()), |dead| self.release(dead))?;
                                return Ok(Verdict::Refused(spent));
                            }
                        };
                        self.open_run()?;
                        self.insert(kind)?;
                        self.tell_spent(used)?;
                        from.map_or(Ok(()), |dead| self.release(dead))?;
                        Ok(Verdict::Found(Found::Claimed { from }))
                    }
                    Ok(found) => Ok(Verdict::Found(found)),
                    Err(error) => refuse(error),
                }
            }
            Job::Finish { entry, claim, status, .. } => {
                let gives_back = status.gives_key_back();
                let status = match serde_json::to_string(status) {
                    Ok(status) => status,
                    Err(error) => return Ok(Verdict::Refused(unwritable("outcome", error))),
                };
                let kind = match self.rows.text().set_entry(entry, Some(&claim.scoped_key), self.owner.id()) {
                    Ok(kind) => kind,
                    Err(error) => return Ok(Verdict::Refused(error)),
                };
                if self.close_run(entry)? == Closing::Fenced {
                    return self.record_fenced(entry).map(Verdict::from);
                }
                if gives_back {
                    let released = keys::release(self.tx, &claim.scoped_key, entry.call_id())?;
                    self.insert(kind)?;
                    if released {
                        self.release(entry.call_id())?;
                    }
                    return Ok(Verdict::Done);
                }
                match keys::finish(self.tx, claim, entry.call_id(), status) {
                    Ok(()) => {}
                    Err(KeyError::Sqlite(error)) => return Err(error),
                    // The end is recorded all the same; a caller that brings the key again is refused.
                    Err(KeyError::Damaged(error)) => tracing::error!("{error}"),
                }
                self.insert(kind).map(|()| Verdict::Done)
            }
            Job::Release { scoped_key, call_id } => {
                if keys::release(self.tx, scoped_key, *call_id)? {
                    runs::remove(self.tx, &call_id.to_string())?;
                    self.release(*call_id)?;
                }
                Ok(Verdict::Done)
            }
            Job::Ask(request) => self.serve(request),
            Job::Own(own) => self.apply_own(own),
            Job::Erase { call_id, at, .. } => self.erase(*call_id, *at),
            Job::Flush(_) => Ok(Verdict::Done),
        }
    }

    fn apply_own(&mut self, own: &Own) -> rusqlite::Result<Verdict> {
        let answer = match own {
            Own::Accept => self.accept()?.map(|()| Answer::Done),
            Own::Keyed(key) => Ok(self.tell_key(key).map(|()| Answer::Done)?),
            Own::Prune { step, .. } => self.prune(step)?.map(|cut| Answer::Pruned(cut.map(Box::new))),
            Own::EraseReads { step, .. } => self.erase_reads(step)?.map(Answer::ReadsErased),
        };
        Ok(answer.map_or_else(Verdict::Refused, Verdict::Own))
    }

    /// Writes an entry, and what it means for its run.
    pub(super) fn record(&mut self, entry: &Entry) -> rusqlite::Result<Result<(), JournalError>> {
        let kind = match self.rows.text().set_entry(entry, None, self.owner.id()) {
            Ok(kind) => kind,
            Err(error) => return Ok(Err(error)),
        };
        let mut used = None;
        match entry {
            Entry::Started(started) => {
                if let Err(lost) = self.fence(started)? {
                    return Ok(Err(lost));
                }
                used = match self.use_up(started)? {
                    Ok(used) => used,
                    Err(spent) => return Ok(Err(spent)),
                };
                self.open_run()?;
            }
            Entry::Step(step) if matches!(step.kind, StepKind::Waiting { .. }) => {
                if !runs::wait(self.tx, self.owner, &step.run.to_string())? {
                    let seals = Seals { fenced: true, ..Seals::default() };
                    if let Err(error) = self.rows.text().set_sealed_step(step, &seals) {
                        return Ok(Err(error));
                    }
                }
            }
            Entry::Step(_) => {}
            Entry::Finished(_) => {
                if self.close_run(entry)? == Closing::Fenced {
                    return self.record_fenced(entry);
                }
            }
        }
        self.insert(kind)?;
        self.tell_spent(used).map(Ok)
    }

    /// Writes all entries or none.
    fn record_all(&mut self, entries: &[Entry]) -> rusqlite::Result<Result<(), JournalError>> {
        // What cannot be encoded is found before the first one is written.
        for entry in entries {
            if let Err(error) = self.rows.text().set_entry(entry, None, self.owner.id()) {
                return Ok(Err(error));
            }
        }
        for entry in entries {
            if let Entry::Started(started) = entry
                && let Err(lost) = self.fence(started)?
            {
                return Ok(Err(lost));
            }
        }
        if let Err(spent) = self.can_use_up(entries)? {
            return Ok(Err(spent));
        }
        for entry in entries {
            if let Err(error) = self.record(entry)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// Refuses a start in a run that another process has taken over, or has ended: it does the same.
    fn fence(&self, started: &Started) -> rusqlite::Result<Result<(), JournalError>> {
        let part_of = started.facts.part.as_ref().map(|part| part.run);
        let run = part_of.unwrap_or(started.facts.call_id);
        // Where no run is open, a call that is no part of one can be in none.
        let is_lost = (part_of.is_some() || self.any_runs) && runs::is_others(self.tx, self.owner, run)?;
        if is_lost || (part_of.is_some() && runs::has_ended(self.tx, run)?) {
            let told =
                format!("another process has taken over the run {run}, so nothing more of it runs here");
            return Ok(Err(JournalError::new(told)));
        }
        Ok(Ok(()))
    }

    /// Opens the run of the encoded start, unless it is a part of another.
    fn open_run(&mut self) -> rusqlite::Result<()> {
        let text = self.rows.text();
        if text.run_id.is_empty() {
            self.any_runs = true;
            runs::open(self.tx, self.owner, &text.call_id)?;
        }
        Ok(())
    }

    /// Closes the run of the encoded end, unless it is a part of another.
    fn close_run(&mut self, entry: &Entry) -> rusqlite::Result<Closing> {
        if !self.any_runs || entry.part_of().is_some() {
            return Ok(Closing::Closed);
        }
        runs::close(self.tx, self.owner, &self.rows.text().call_id)
    }

    /// Writes the end of a run that another living process has taken over. No record is lost, but
    /// the run goes on.
    fn record_fenced(&mut self, entry: &Entry) -> rusqlite::Result<Result<(), JournalError>> {
        let Entry::Finished(finished) = entry else { unreachable!("only ends are fenced") };
        tracing::error!(
            run = %entry.call_id(),
            "a run was ended here that another process had taken over; it stays open there"
        );
        match self.rows.text().set_finished(finished, None, Fence::Closed) {
            Ok(kind) => self.insert(kind).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    fn erase(&mut self, call_id: CallId, at: Timestamp) -> rusqlite::Result<Verdict> {
        // An entry of the call may be among those that wait.
        self.rows.flush(self.tx)?;
        if let Err(error) = self.rows.text().set_note(Some(call_id), at, &Note::default()) {
            return Ok(Verdict::Refused(error));
        }
        match keys::erase(self.tx, call_id) {
            Ok(()) => {}
            Err(error) => return refuse(error),
        }
        effects::erase(self.tx, call_id)?;
        approvals::erase(self.tx, call_id)?;
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

    /// Where the chain has come to in this group.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// Appends a note that belongs to something else in this group.
    pub(super) fn note(&mut self, kind: Kind, call_id: Option<CallId>, told: &Note) -> rusqlite::Result<()> {
        self.note_at(Timestamp::now(), kind, call_id, told)
    }

    fn note_at(
        &mut self,
        at: Timestamp,
        kind: Kind,
        call_id: Option<CallId>,
        told: &Note,
    ) -> rusqlite::Result<()> {
        self.rows
            .text()
            .set_note(call_id, at, told)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        self.add(kind, None)
    }

    /// Notes that a call gave back its key.
    fn release(&mut self, call_id: CallId) -> rusqlite::Result<()> {
        self.note(Kind::Released, Some(call_id), &Note::default())
    }

    /// Notes which key signs for the journal, unless the chain tells that already.
    fn tell_key(&mut self, key: &str) -> rusqlite::Result<()> {
        self.rows.flush(self.tx)?;
        if key_file::told(self.tx)?.is_some() {
            return Ok(());
        }
        self.note(Kind::Keyed, None, &Note { key: Some(key.to_owned()), ..Note::default() })
    }

    /// Vouches for a row that was written.
    pub(super) fn vouch(&mut self, row: Option<Voucher>, at: Timestamp) -> rusqlite::Result<()> {
        if row.is_none() {
            return Ok(());
        }
        self.note_at(at, Kind::Vouched, None, &Note { row, ..Note::default() })
    }

    /// Appends what is encoded, with its payload, where it has one.
    pub(super) fn insert(&mut self, kind: Kind) -> rusqlite::Result<()> {
        let salt = match self.rows.text().payload.is_empty() {
            true => None,
            false => Some(self.salts.take().map_err(no_salt)?),
        };
        self.add(kind, salt)
    }

    /// Appends what is encoded. With salt: it has a payload.
    pub(super) fn add(&mut self, kind: Kind, salt: Option<Salt>) -> rusqlite::Result<()> {
        self.position = self.rows.add(self.tx, self.position, kind, salt)?;
        Ok(())
    }
}

fn no_salt(error: getrandom::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

/// A damaged key concerns one job; anything else fails the group.
pub(super) fn refuse(error: KeyError) -> rusqlite::Result<Verdict> {
    match error {
        KeyError::Damaged(error) => Ok(Verdict::Refused(JournalError::new(error.to_string()))),
        KeyError::Sqlite(error) => Err(error),
    }
}
