//! Questions to people, as the runtime sees them.

pub(crate) mod seal;
pub(crate) mod table;
pub(crate) mod unsealed;

use helve_core::approval::{Approval, ApprovalQuery, Ask, Asked, Decided, Rule, Verdict};
use helve_core::ports::{Approvals, JournalError};
use helve_core::{ApprovalId, BoxFuture, RuleId};
use jiff::Timestamp;

use crate::store::Store;
use helve_ledger::request::Request;

impl Approvals for Store {
    fn ask(&self, ask: Box<Ask>) -> BoxFuture<'_, Result<Asked, JournalError>> {
        Box::pin(self.queue.request(move |reply| Request::Question { ask, reply }))
    }

    fn approval(&self, id: ApprovalId) -> BoxFuture<'_, Result<Option<Approval>, JournalError>> {
        Box::pin(self.readers.read(move |db| table::find(db, &id.to_string())))
    }

    fn approvals(&self, query: ApprovalQuery) -> BoxFuture<'_, Result<Vec<Approval>, JournalError>> {
        Box::pin(self.readers.read(move |db| table::list(db, &query)))
    }

    fn decide(&self, id: ApprovalId, verdict: Box<Verdict>) -> BoxFuture<'_, Result<Decided, JournalError>> {
        Box::pin(self.queue.request(move |reply| Request::Decide { id, verdict, reply }))
    }

    fn approvals_changed(
        &self,
        since: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<(u64, Vec<Approval>), JournalError>> {
        Box::pin(self.readers.read(move |db| match since {
            Some(since) => table::changed(db, since, limit),
            None => Ok((table::changes(db)?, Vec::new())),
        }))
    }

    fn sweep_approvals(
        &self,
        now: Timestamp,
        forget_before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<usize, JournalError>> {
        Box::pin(async move {
            // Mostly there is nothing to do, and writers should not be kept from it.
            if !self.readers.read(move |db| table::is_due(db, now, forget_before)).await? {
                return Ok(0);
            }
            self.queue.request(move |reply| Request::Sweep { now, forget_before, limit, reply }).await
        })
    }

    fn rules(&self, tool: Option<String>, limit: usize) -> BoxFuture<'_, Result<Vec<Rule>, JournalError>> {
        Box::pin(self.readers.read(move |db| table::rules(db, tool.as_deref(), limit)))
    }

    fn revoke_rule(
        &self,
        id: RuleId,
        by: String,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Rule>, JournalError>> {
        Box::pin(self.queue.request(move |reply| Request::Revoke { id, by, at, reply }))
    }
}
