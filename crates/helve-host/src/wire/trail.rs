//! Reading what is recorded, for commands, which wait for each answer.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use helve::approval::{Approval, Rule};
use helve::cost::Spending;
use helve::{ApprovalId, CallId, RuleId};
use helve_ledger::audit::trail::{AuditTrail as _, TrailError};
use helve_postgres::PostgresAudit;
use helve_store::{Audit, AuditQuery, CallRecord, Head, Shown, Verification};
use jiff::Timestamp;

use super::LedgerError;
use super::database::wait;

/// Reads what is recorded, and changes nothing. Flush the ledger first to see what is queued.
pub enum Trail {
    /// The file's.
    File(Audit),
    /// The database's.
    Database(Box<PostgresAudit>),
}

impl Trail {
    /// Calls that fit, newest first.
    pub fn list(&self, query: &AuditQuery) -> Result<Vec<CallRecord>, LedgerError> {
        match self {
            Self::File(audit) => Ok(audit.list(query)?),
            Self::Database(audit) => Ok(wait(audit.list(query.clone()))??),
        }
    }

    /// One call, by its id or by any beginning of it that no other call shares.
    pub fn show(&self, id: &str) -> Result<Shown, LedgerError> {
        match self {
            Self::File(audit) => Ok(audit.show(id)?),
            Self::Database(audit) => Ok(wait(audit.show(id.to_owned()))??),
        }
    }

    /// Runs that are older than `before`, newest first.
    pub fn runs(&self, before: Option<CallId>, limit: usize) -> Result<Vec<CallId>, LedgerError> {
        match self {
            Self::File(audit) => Ok(audit.runs(before, limit)?),
            Self::Database(audit) => Ok(wait(audit.runs(before, limit))??),
        }
    }

    /// The calls that ended since then and cost something, in no order.
    pub fn spending(&self, since: Timestamp) -> Result<Vec<Spending>, LedgerError> {
        match self {
            Self::File(audit) => Ok(audit.spending(since)?),
            Self::Database(audit) => Ok(wait(audit.spending(since))??),
        }
    }

    /// Writes every call since then as one line of JSON, oldest first, and returns how many.
    pub fn export(
        &self,
        since: Option<Timestamp>,
        out: impl Write,
        progress: impl FnMut(u64),
    ) -> Result<u64, LedgerError> {
        match self {
            Self::File(audit) => Ok(audit.export(since, out, progress)?),
            Self::Database(audit) => export(audit, since, out, progress),
        }
    }

    /// Checks every entry, and whatever decides against the entries.
    pub fn verify(&self) -> Result<Verification, LedgerError> {
        match self {
            Self::File(audit) => Ok(audit.verify(|_| {})?),
            Self::Database(audit) => Ok(wait(audit.verify(Box::new(|_| {})))??),
        }
    }

    /// The entry of this number in a file's one chain.
    pub fn head_at(&self, seq: i64) -> Result<Option<Head>, LedgerError> {
        match self {
            Self::File(audit) => Ok(audit.head_at(seq)?),
            Self::Database(_) => Ok(None),
        }
    }

    /// The question of this id, as far as a file keeps it.
    pub fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, LedgerError> {
        match self {
            Self::File(audit) => Ok(audit.approval(id)?),
            Self::Database(_) => Ok(None),
        }
    }

    /// The rule of this id, as far as a file keeps it.
    pub fn approval_rule(&self, id: RuleId) -> Result<Option<Rule>, LedgerError> {
        match self {
            Self::File(audit) => Ok(audit.approval_rule(id)?),
            Self::Database(_) => Ok(None),
        }
    }
}

/// How many pieces of an export wait to be written out.
const PIECES: usize = 16;

/// What is read goes from the thread that reads to this one, whose output need not leave it.
fn export(
    audit: &PostgresAudit,
    since: Option<Timestamp>,
    mut out: impl Write,
    mut progress: impl FnMut(u64),
) -> Result<u64, LedgerError> {
    let (sender, pieces) = sync_channel(PIECES);
    let written = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&written);
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let lines = Box::new(BufWriter::new(Pieces(sender)));
            wait(audit.export(since, lines, Box::new(move |calls| told.store(calls, Ordering::Relaxed))))
        });
        let copied = pieces.iter().try_for_each(|piece: Vec<u8>| out.write_all(&piece));
        let copied = copied.and_then(|()| out.flush());
        // Without a reader of its pieces the other side ends.
        drop(pieces);
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        progress(written.load(Ordering::Relaxed));
        copied.map_err(TrailError::Output)?;
        Ok(read??)
    })
}

/// Passes on what is written.
struct Pieces(SyncSender<Vec<u8>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
