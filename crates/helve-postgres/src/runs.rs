//! Unfinished runs, as the runtime sees them.

use helve_core::ports::{Adoption, Holder, Journal, JournalError, OpenRun, Runs};
use helve_core::record::Entry;
use helve_core::run::{Step, StepKind};
use helve_core::{BoxFuture, CallId};
use helve_ledger::request::Request;
use tokio_postgres::Row;

use crate::error::PostgresError;
use crate::ledger::PostgresLedger;
use crate::read::{self, Said};
use crate::sql::{limit, params};

impl Runs for PostgresLedger {
    fn open_runs(
        &self,
        after: Option<CallId>,
        max: usize,
    ) -> BoxFuture<'_, Result<Vec<OpenRun>, JournalError>> {
        Box::pin(async move {
            let after = after.map_or_else(String::new, |run| run.to_string());
            let open = "SELECT r.run_id, r.owner, r.state, r.cancel_requested, w.lease_until > clock_timestamp() \
                        FROM helve.runs r LEFT JOIN helve.writers w ON w.id = r.owner \
                        WHERE r.run_id > $1 ORDER BY r.run_id LIMIT $2";
            let rows = self.readers.query(open, params![after, limit(max)]).await?;
            Ok(rows.iter().map(|row| self.open_run(row)).collect::<Result<_, PostgresError>>()?)
        })
    }

    fn adopt(&self, run: CallId) -> BoxFuture<'_, Result<Adoption, JournalError>> {
        Box::pin(async move {
            if let Err(what) = self.checked.check(&self.readers, run).await? {
                return Err(JournalError::new(format!(
                    "the run {run} is not taken up, because {what}; `helve audit verify` says more"
                )));
            }
            self.queue.request(|reply| Request::Adopt { run, reply }).await
        })
    }

    fn history(&self, run: CallId) -> BoxFuture<'_, Result<Vec<Entry>, JournalError>> {
        Box::pin(async move {
            self.flush().await?;
            Ok(read::history(&self.readers, run, Said::Read).await?)
        })
    }

    fn outlines(&self, runs: Vec<CallId>) -> BoxFuture<'_, Result<Vec<Vec<Entry>>, JournalError>> {
        Box::pin(async move {
            self.flush().await?;
            let mut outlines = Vec::with_capacity(runs.len());
            for run in runs {
                outlines.push(read::history(&self.readers, run, Said::LeftOut).await?);
            }
            Ok(outlines)
        })
    }

    fn request_cancel(&self, run: CallId) -> BoxFuture<'_, Result<bool, JournalError>> {
        let (at, kind) = (self.settings.clock.now(), StepKind::CancelRequested);
        let step = Box::new(Step { at, call_id: run, run, kind, payload: None });
        Box::pin(self.queue.request(move |reply| Request::Cancel { step, reply }))
    }

    fn cancel_requests(&self) -> BoxFuture<'_, Result<Vec<CallId>, JournalError>> {
        Box::pin(async move {
            let asked = "SELECT run_id FROM helve.runs WHERE cancel_requested AND owner = $1 AND state = 0 \
                         ORDER BY run_id";
            let rows = self.readers.query(asked, params![self.replica.id]).await?;
            Ok(rows.iter().map(run_id).collect::<Result<_, PostgresError>>()?)
        })
    }
}

impl PostgresLedger {
    fn open_run(&self, row: &Row) -> Result<OpenRun, PostgresError> {
        let (owner, state): (i64, i64) = (row.get(1), row.get(2));
        let holder = match (state, row.get::<_, Option<bool>>(4)) {
            (0, _) if owner == self.replica.id => Holder::Us,
            (0, Some(true)) => Holder::Others,
            (0, Some(false) | None) => Holder::Nobody,
            _ => Holder::Person,
        };
        Ok(OpenRun { run: run_id(row)?, holder, cancel_requested: row.get(3) })
    }
}

fn run_id(row: &Row) -> Result<CallId, PostgresError> {
    let id: &str = row.get(0);
    id.parse().map_err(|_| PostgresError::Damaged(format!("the run `{id}` has no id")))
}
