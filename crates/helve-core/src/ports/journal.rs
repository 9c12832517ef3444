//! Where calls are recorded.

use std::sync::Arc;

use crate::BoxFuture;
use crate::cost::Spending;
use jiff::Timestamp;

use crate::approval::Spent;
use crate::id::CallId;
use crate::outcome::Status;
use crate::ports::LedgerFigures;
use crate::record::{Entry, Started};

/// Where calls are recorded. No journal, no call: where an entry is refused, the tool does not run.
pub trait Journal: Send + Sync + 'static {
    /// Whether entries can be written. Cheap: asked before every call.
    fn check(&self) -> Result<(), JournalError>;

    /// Queues an entry to be written with the next group, without waiting.
    ///
    /// For calls that change nothing: what a power cut may lose of them is milliseconds of reading.
    /// While [`Journal::is_behind`], callers that can wait should commit instead.
    fn append(&self, entry: Entry) -> Result<(), JournalError>;

    /// Whether entries come faster than they can be written.
    fn is_behind(&self) -> bool {
        false
    }

    /// Writes an entry and waits until it would survive a power cut.
    fn commit(&self, entry: Entry) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Writes entries together, or none of them, and waits until they would survive a power cut.
    fn commit_all(&self, entries: Vec<Entry>) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Commits the start of a call under its idempotency key, unless the key was used before.
    ///
    /// Where an earlier call with the key is still running, waits for its end. Dropped before it
    /// has answered, it gives the key back: the call did not run.
    fn begin(&self, started: Box<Started>, claim: KeyClaim) -> BoxFuture<'_, Result<Begun, JournalError>>;

    /// The call that a key belongs to. None: it is free, or was given back.
    fn key_holder(&self, claim: KeyClaim) -> BoxFuture<'_, Result<Option<KeyHolder>, JournalError>>;

    /// Commits the end of a call that [`Journal::begin`] let start, with what to answer when its
    /// key comes again. An end that did nothing ([`Status::gives_key_back`]) uses up no key: a caller that brings it
    /// again, or waits for it, runs.
    fn finish(
        &self,
        entry: Entry,
        claim: KeyClaim,
        status: Arc<Status>,
    ) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Waits until everything queued so far is on disk.
    fn flush(&self) -> BoxFuture<'_, Result<(), JournalError>>;

    /// The calls that ended since then and cost something, in no order. One that keeps none has nothing to tell: limits
    /// on cost then begin anew with each process.
    fn spending(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Spending>, JournalError>> {
        let _ = since;
        Box::pin(async { Ok(Vec::new()) })
    }

    /// How the ledger is doing. Absent: it keeps no figures.
    fn figures(&self) -> BoxFuture<'_, Result<Option<LedgerFigures>, JournalError>> {
        Box::pin(async { Ok(None) })
    }
}

/// A claim on an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClaim {
    /// The key within its scope: who calls, which tool, which key.
    pub scoped_key: [u8; 32],
    /// A digest of the arguments. The same key with other arguments is a mistake.
    pub fingerprint: [u8; 32],
    /// Whether running again is harmless, should an earlier run have been cut short.
    pub repeatable: bool,
}

/// The call that an idempotency key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHolder {
    /// The call.
    pub call_id: CallId,
    /// Whether it had the same arguments as the claim.
    pub same_arguments: bool,
}

/// What became of a claim.
#[derive(Debug, Clone)]
pub enum Begun {
    /// The key is new, and the start is on disk: run.
    Fresh,
    /// An earlier call with the key has ended so.
    Finished {
        /// The earlier call.
        call_id: CallId,
        /// How it ended.
        status: Arc<Status>,
    },
    /// An earlier call with the key was cut short, and nobody knows how far it came.
    Unknown {
        /// The earlier call.
        call_id: CallId,
    },
    /// The key was used with other arguments.
    Conflict {
        /// The earlier call.
        call_id: CallId,
    },
}

/// The journal cannot take an entry.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the journal cannot be written: {reason}")]
pub struct JournalError {
    reason: String,
    spent: Option<Spent>,
    blocked: Option<Arc<str>>,
    #[source]
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl JournalError {
    /// Why, in words for the person who answers for the machine.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), spent: None, blocked: None, source: None }
    }

    /// The journal works, but the approval that a start would use up cannot be used.
    pub fn spent(spent: Spent) -> Self {
        Self { reason: spent.to_string(), spent: Some(spent), blocked: None, source: None }
    }

    /// Another process keeps the journal locked. `who`: which process and since when, in words that say nothing
    /// else, so that everybody may read them.
    #[must_use]
    pub fn blocked_by(mut self, who: impl Into<Arc<str>>) -> Self {
        self.blocked = Some(who.into());
        self
    }

    /// Which process keeps the journal locked, where that is what is wrong.
    pub fn blocker(&self) -> Option<&str> {
        self.blocked.as_deref()
    }

    /// Why the approval cannot be used, where that is all that is wrong.
    pub fn is_spent(&self) -> Option<&Spent> {
        self.spent.as_ref()
    }

    /// Keeps the cause.
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }
}
