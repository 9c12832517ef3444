//! Unfinished runs, as the runtime sees them.

pub(crate) mod story;
pub(crate) mod table;

use std::sync::Arc;

use helve_core::ports::{Adoption, Journal, JournalError, OpenRun, Runs};
use helve_core::record::Entry;
use helve_core::run::{Step, StepKind};
use helve_core::{BoxFuture, CallId};
use rusqlite::Connection;

use crate::audit::{Damage, Payloads, check_stretch, read_history};
use crate::error::StoreError;
use crate::store::Store;
use helve_ledger::request::Request;

impl Runs for Store {
    fn open_runs(
        &self,
        after: Option<CallId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<OpenRun>, JournalError>> {
        let peers = Arc::clone(&self.peers);
        Box::pin(self.readers.read(move |db| table::list(db, &peers, after, limit)))
    }

    fn adopt(&self, run: CallId) -> BoxFuture<'_, Result<Adoption, JournalError>> {
        Box::pin(async move {
            self.check_run(run).await?;
            self.queue.request(|reply| Request::Adopt { run, reply }).await
        })
    }

    fn history(&self, run: CallId) -> BoxFuture<'_, Result<Vec<Entry>, JournalError>> {
        Box::pin(async move {
            // In quarantine nothing is queued, and reading stays possible.
            if self.quarantine().is_none() {
                self.flush().await?;
            }
            let entries = self.readers.read(move |db| read_history(db, run, Payloads::Read)).await?;
            entries.map_err(damaged)
        })
    }

    fn outlines(&self, runs: Vec<CallId>) -> BoxFuture<'_, Result<Vec<Vec<Entry>>, JournalError>> {
        Box::pin(async move {
            if self.quarantine().is_none() {
                self.flush().await?;
            }
            let read = move |db: &Connection| {
                runs.iter()
                    .map(|run| read_history(db, *run, Payloads::LeftOut))
                    .collect::<Result<Vec<_>, _>>()
            };
            self.readers.read(read).await?.into_iter().map(|outline| outline.map_err(damaged)).collect()
        })
    }

    fn request_cancel(&self, run: CallId) -> BoxFuture<'_, Result<bool, JournalError>> {
        let kind = StepKind::CancelRequested;
        let step = Box::new(Step { at: self.memory.clock.now(), call_id: run, run, kind, payload: None });
        Box::pin(self.queue.request(move |reply| Request::Cancel { step, reply }))
    }

    fn cancel_requests(&self) -> BoxFuture<'_, Result<Vec<CallId>, JournalError>> {
        let peers = Arc::clone(&self.peers);
        Box::pin(self.readers.read(move |db| table::cancel_requests(db, &peers)))
    }
}

impl Store {
    /// Refuses a run of which entries are missing or were changed: it would do its deeds again, or others.
    async fn check_run(&self, run: CallId) -> Result<(), JournalError> {
        // One at a time: the first that is resumed reads what all others need.
        let mut checked = self.checked.lock().await;
        let known = *checked;
        match self.readers.read(move |db| check_stretch(db, run, known)).await? {
            Ok(stretch) => {
                *checked = stretch;
                Ok(())
            }
            Err(what) => Err(JournalError::new(format!(
                "the run {run} is not resumed, because {what}; `helve audit verify` says more"
            ))),
        }
    }
}

fn damaged(Damage(why): Damage) -> JournalError {
    JournalError::new(StoreError::DamagedEntry(why).to_string())
}
