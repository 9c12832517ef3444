//! The ledger as the pipeline sees it.

use std::sync::Arc;

use helve_core::cost::Spending;
use helve_core::ports::{Begun, Journal, JournalError, KeyClaim, KeyHolder, LedgerFigures, RunFigures};
use helve_core::record::{Entry, Started};
use helve_core::run::WaitingFor;
use helve_core::{BoxFuture, Status};
use jiff::Timestamp;

use crate::error::PostgresError;
use crate::ledger::PostgresLedger;
use crate::read;
use crate::sql::params;
use crate::writer::{Job, SELECT_KEY_CLAIM, key_holder_of_row, waiting_for};

/// An entry about something that has happened is kept even where it is refused because the
/// database cannot be reached: an error then means "not on disk yet". An entry that announces a start is
/// dropped, since the call will not run.
impl Journal for PostgresLedger {
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
            let found = format!("{SELECT_KEY_CLAIM} WHERE scoped_key = $1");
            let row = self.readers.query_opt(&found, params![&claim.scoped_key[..]]).await?;
            row.map(|row| key_holder_of_row(&row, &claim)).transpose()
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
            self.flush().await?;
            Ok(read::spending(&self.readers, since).await?)
        })
    }

    fn figures(&self) -> BoxFuture<'_, Result<Option<LedgerFigures>, JournalError>> {
        Box::pin(async { Ok(Some(self.read_figures().await?)) })
    }
}

impl PostgresLedger {
    async fn read_figures(&self) -> Result<LedgerFigures, PostgresError> {
        let mut figures = LedgerFigures::default();
        let totals = "SELECT coalesce(sum(seq), 0)::int8, coalesce((SELECT sum(pg_total_relation_size(c.oid)) \
                      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                      WHERE n.nspname = 'helve' AND c.relkind = 'r'), 0)::int8 FROM helve.writers";
        if let Some(row) = self.readers.query_opt(totals, params![]).await? {
            figures.entries = row.get::<_, i64>(0).unsigned_abs();
            figures.bytes = row.get::<_, i64>(1).unsigned_abs();
        }
        figures.runs = self.count_runs().await?;
        figures.queued = self.queue.waiting() as u64;
        figures.commits = self.queue.commits.snapshot();
        Ok(figures)
    }

    async fn count_runs(&self) -> Result<RunFigures, PostgresError> {
        let counts = "SELECT r.state, r.waits_for, w.lease_until > clock_timestamp(), count(*) \
                      FROM helve.runs r LEFT JOIN helve.writers w ON w.id = r.owner GROUP BY 1, 2, 3";
        let mut figures = RunFigures::default();
        for row in self.readers.query(counts, params![]).await? {
            let (state, word): (i64, Option<&str>) = (row.get(0), row.get(1));
            let lives: Option<bool> = row.get(2);
            let figure = match (state, lives, waiting_for(word)) {
                (0, Some(true), _) => &mut figures.running,
                (0, Some(false) | None, _) => &mut figures.cut_short,
                (_, _, Some(WaitingFor::UnknownOutcome)) => &mut figures.in_doubt,
                _ => &mut figures.waiting,
            };
            *figure += row.get::<_, i64>(3).unsigned_abs();
        }
        Ok(figures)
    }
}
