//! Reading a ledger's audit trail, whichever ledger it is.

use std::io::{self, Write};

use helve_core::cost::Spending;
use helve_core::{BoxFuture, CallId};
use jiff::Timestamp;

use super::query::{AuditQuery, Shown};
use super::record::CallRecord;
use super::verification::{Verification, WriterHead};

/// Is told how far something has come: calls or entries so far.
pub type Progress = Box<dyn FnMut(u64) + Send>;

/// Reads what is on disk. Flush the ledger first to see what is queued.
pub trait AuditTrail: Send + Sync + 'static {
    /// Calls that fit, newest first.
    fn list(&self, query: AuditQuery) -> BoxFuture<'_, Result<Vec<CallRecord>, TrailError>>;

    /// One call, by its id or by any beginning of it that no other call shares.
    fn show(&self, id: String) -> BoxFuture<'_, Result<Shown, TrailError>>;

    /// Runs that are older than `before`, newest first.
    fn runs(&self, before: Option<CallId>, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, TrailError>>;

    /// The calls that ended since then and cost something, in no order.
    fn spending(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Spending>, TrailError>>;

    /// Writes every call as one line of JSON, oldest first, and returns how many: those that came at `since` or
    /// later, where that is given.
    fn export(
        &self,
        since: Option<Timestamp>,
        out: Box<dyn Write + Send>,
        progress: Progress,
    ) -> BoxFuture<'_, Result<u64, TrailError>>;

    /// Checks every entry of every chain, and whatever decides against the entries.
    fn verify(&self, progress: Progress) -> BoxFuture<'_, Result<Verification, TrailError>>;

    /// The end of every chain. Where the chains are sound, equal ends that were kept elsewhere prove all before them.
    fn heads(&self) -> BoxFuture<'_, Result<Vec<WriterHead>, TrailError>>;
}

/// The audit trail cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrailError {
    /// Part of an id that fits several calls, or cannot fit any.
    #[error("`{0}` is not the beginning of a call's id; ids look like `call_01J…`")]
    NotAnId(String),
    /// The export could not be written to where it was to go.
    #[error("the export could not be written")]
    Output(#[source] io::Error),
    /// The ledger fails.
    #[error(transparent)]
    Ledger(Box<dyn std::error::Error + Send + Sync>),
}
