//! The store as the pipeline sees it.

use std::sync::Arc;

use helve_core::cost::Spending;
use helve_core::ports::{Begun, Journal, JournalError, KeyClaim, KeyHolder, LedgerFigures};
use helve_core::record::{Entry, Started};
use helve_core::{BoxFuture, Status};
use jiff::Timestamp;

use crate::audit::{Damage, read_spending};
use crate::error::StoreError;
use crate::keys::{self, KeyError};
use crate::store::Store;
use crate::writer::Job;

/// An entry about something that has happened is kept even where it is refused because the
/// journal is broken: an error then means "not on disk yet". One that announces a start is
/// dropped, since the call will not run.
impl Journal for Store {
    fn check(&self) -> Result<(), JournalError> {
        self.queue.check()
    }

    fn append(&self, entry: Entry) -> Result<(), JournalError> {
        self.queue.submit(Job::Append(entry))
    }

    fn is_behind(&self) -> bool {
        self.queue.is_behind()
    }

    fn commit(&self, entry: Entry) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.queue.ask(|reply| Job::Commit(entry, reply)))
    }

    fn commit_all(&self, entries: Vec<Entry>) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.queue.ask(|reply| Job::CommitAll(entries, Some(reply))))
    }

    fn begin(&self, started: Box<Started>, claim: KeyClaim) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(self.queue.begin(started, claim))
    }

    fn key_holder(&self, claim: KeyClaim) -> BoxFuture<'_, Result<Option<KeyHolder>, JournalError>> {
        Box::pin(async move {
            let found = self.readers.read(move |db| match keys::holder(db, &claim) {
                Ok(holder) => Ok(Ok(holder)),
                Err(KeyError::Damaged(damaged)) => Ok(Err(damaged)),
                Err(KeyError::Sqlite(error)) => Err(error),
            });
            found.await?.map_err(|damaged| JournalError::new(damaged.to_string()))
        })
    }

    fn finish(
        &self,
        entry: Entry,
        claim: KeyClaim,
        status: Arc<Status>,
    ) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.queue.ask(|reply| Job::Finish { entry, claim, status, reply: Some(reply) }))
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.queue.ask(Job::Flush))
    }

    fn spending(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Spending>, JournalError>> {
        Box::pin(async move {
            // In quarantine nothing is queued, and reading stays possible.
            if self.quarantine().is_none() {
                self.flush().await?;
            }
            let spent = self.readers.read(move |db| read_spending(db, since)).await?;
            spent.map_err(|Damage(why)| JournalError::new(StoreError::DamagedEntry(why).to_string()))
        })
    }

    fn figures(&self) -> BoxFuture<'_, Result<Option<LedgerFigures>, JournalError>> {
        Box::pin(async { self.read_figures().await.map(Some) })
    }
}
