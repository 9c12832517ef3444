//! The store as the pipeline sees it.

use std::sync::Arc;
use std::time::Duration;

use helve_core::cost::Spending;
use helve_core::ports::{Begun, Journal, JournalError, KeyClaim, LedgerFigures};
use helve_core::record::{Entry, Started};
use helve_core::{BoxFuture, Status};
use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::audit::{Damage, read_spending};
use crate::error::StoreError;
use crate::queue::{self, ClaimOutcome, Job, Reply};
use crate::store::Store;

/// How soon to look again whether another process has finished with a key.
const POLL_PAUSE: Duration = Duration::from_millis(25);
/// The same for those who have waited for long: a look is a job of the one writer, and a person may take days.
const POLL_PAUSE_MAX: Duration = Duration::from_millis(400);

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
        Box::pin(self.ask(|reply| Job::Commit(entry, reply)))
    }

    fn commit_all(&self, entries: Vec<Entry>) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.ask(|reply| Job::CommitAll(entries, Some(reply))))
    }

    fn begin(&self, started: Box<Started>, claim: KeyClaim) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(async move {
            let mut started = started;
            let mut pause = POLL_PAUSE;
            loop {
                let claim = claim.clone();
                match self.ask(|reply| Job::Begin { started, claim, reply }).await? {
                    ClaimOutcome::Fresh(key) => {
                        key.hand_over();
                        return Ok(Begun::Fresh);
                    }
                    ClaimOutcome::Settled(begun) => return Ok(begun),
                    ClaimOutcome::Elsewhere(back) => started = back,
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(POLL_PAUSE_MAX);
            }
        })
    }

    fn finish(
        &self,
        entry: Entry,
        claim: KeyClaim,
        status: Arc<Status>,
    ) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.ask(|reply| Job::Finish { entry, claim, status, reply: Some(reply) }))
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.ask(Job::Flush))
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

impl Store {
    /// Queues a job and waits for the writer's answer.
    pub(crate) async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, JournalError> {
        let (reply, answer) = oneshot::channel();
        self.queue.submit(job(reply))?;
        answer.await.map_err(|_| queue::closed())?
    }
}
