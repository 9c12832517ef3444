//! Questions to people, as the runtime sees them.

use helve_core::approval::{Approval, ApprovalQuery, ApprovalState, Ask, Asked, Decided, Rule, Verdict};
use helve_core::ports::{Approvals, JournalError};
use helve_core::{ApprovalId, BoxFuture, RuleId};
use helve_ledger::request::Request;
use helve_ledger::seal;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use crate::error::PostgresError;
use crate::ledger::PostgresLedger;
use crate::sql::{findable, limit, params};

/// Questions that came to an end. Each state by its name, so that the index leads to the old ones.
pub(crate) const ENDED_BEFORE: &str = "state IN (2, 3, 4, 5) AND id < $1";

/// The state's number. Those below 2 can still lead to a call.
pub(crate) fn number(state: ApprovalState) -> i64 {
    match state {
        ApprovalState::Pending => 0,
        ApprovalState::Approved => 1,
        ApprovalState::Denied => 2,
        ApprovalState::Expired => 3,
        ApprovalState::Used => 4,
        ApprovalState::Withdrawn => 5,
    }
}

impl Approvals for PostgresLedger {
    fn ask(&self, ask: Box<Ask>) -> BoxFuture<'_, Result<Asked, JournalError>> {
        Box::pin(self.queue.request(move |reply| Request::Question { ask, reply }))
    }

    fn approval(&self, id: ApprovalId) -> BoxFuture<'_, Result<Option<Approval>, JournalError>> {
        Box::pin(async move {
            let found = "SELECT body FROM helve.approvals WHERE id = $1";
            let row = self.readers.query_opt(found, params![id.to_string()]).await?;
            Ok(row.map(|row| body(&row)).transpose()?)
        })
    }

    fn approvals(&self, query: ApprovalQuery) -> BoxFuture<'_, Result<Vec<Approval>, JournalError>> {
        Box::pin(async move { Ok(self.list_approvals(&query).await?) })
    }

    fn decide(&self, id: ApprovalId, verdict: Box<Verdict>) -> BoxFuture<'_, Result<Decided, JournalError>> {
        Box::pin(self.queue.request(move |reply| Request::Decide { id, verdict, reply }))
    }

    fn approvals_changed(
        &self,
        since: Option<u64>,
        max: usize,
    ) -> BoxFuture<'_, Result<(u64, Vec<Approval>), JournalError>> {
        Box::pin(async move {
            Ok(match since {
                Some(since) => self.approvals_since(since, max).await?,
                None => {
                    let last = "SELECT value FROM helve.meta WHERE name = 'approval_changes'";
                    let row = self.readers.query_opt(last, params![]).await?;
                    (row.map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()), Vec::new())
                }
            })
        })
    }

    fn sweep_approvals(
        &self,
        now: Timestamp,
        forget_before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<usize, JournalError>> {
        Box::pin(async move {
            // Mostly there is nothing to do, and who writes should not be kept from it.
            if !self.is_sweeping_due(now, forget_before).await? {
                return Ok(0);
            }
            self.queue.request(move |reply| Request::Sweep { now, forget_before, limit, reply }).await
        })
    }

    fn rules(&self, tool: Option<String>, max: usize) -> BoxFuture<'_, Result<Vec<Rule>, JournalError>> {
        Box::pin(async move { Ok(self.list_rules(tool, max).await?) })
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

impl PostgresLedger {
    async fn list_approvals(&self, query: &ApprovalQuery) -> Result<Vec<Approval>, PostgresError> {
        let mut found = Vec::new();
        // Sorts after every id.
        let mut before = query.before.map_or_else(|| "apr_~".to_owned(), |id| id.to_string());
        // A page at a time, since what a question says besides may not fit.
        while found.len() < query.limit {
            let page = self.page(query, &before).await?;
            let Some(last) = page.last() else { break };
            before = last.id.to_string();
            let is_last = page.len() < PAGE;
            found.extend(page.into_iter().filter(|approval| query.fits(approval)));
            if is_last {
                break;
            }
        }
        found.truncate(query.limit);
        Ok(found)
    }

    async fn page(&self, query: &ApprovalQuery, before: &str) -> Result<Vec<Approval>, PostgresError> {
        let page = "SELECT body FROM helve.approvals WHERE id < $1 AND ($2::int8 IS NULL OR state = $2) \
                    AND ($3::text IS NULL OR tool = $3) AND ($4::text IS NULL OR principal = $4) \
                    AND ($5::text IS NULL OR outer_tool = $5) ORDER BY id DESC LIMIT $6";
        self.readers
            .query(
                page,
                params![
                    before,
                    query.state.map(number),
                    query.tool.as_deref().map(findable),
                    query.principal.as_deref().map(findable),
                    query.outer.as_deref().map(findable),
                    limit(PAGE),
                ],
            )
            .await?
            .iter()
            .map(body)
            .collect()
    }

    async fn approvals_since(&self, since: u64, max: usize) -> Result<(u64, Vec<Approval>), PostgresError> {
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let changed =
            "SELECT body, changed FROM helve.approvals WHERE changed > $1 ORDER BY changed LIMIT $2";
        let rows = self.readers.query(changed, params![since, limit(max)]).await?;
        let last = rows.last().map_or(since, |row| row.get(1));
        let found = rows.iter().map(body).collect::<Result<_, _>>()?;
        Ok((last.unsigned_abs(), found))
    }

    async fn is_sweeping_due(&self, now: Timestamp, before: Timestamp) -> Result<bool, PostgresError> {
        let due = "SELECT EXISTS (SELECT 1 FROM helve.approvals WHERE state < 2 AND expires_ms <= $2) \
                       OR EXISTS (SELECT 1 FROM helve.approvals WHERE ";
        let due = format!("{due}{ENDED_BEFORE})");
        Ok(self
            .readers
            .query_opt(&due, params![ApprovalId::first_at(before).to_string(), now.as_millisecond()])
            .await?
            .is_some_and(|row| row.get(0)))
    }

    /// Rules about a tool, or all, newest first. A rule that no entry vouches for is left out.
    async fn list_rules(&self, tool: Option<String>, max: usize) -> Result<Vec<Rule>, PostgresError> {
        let rules = "SELECT body FROM helve.approval_rules WHERE $1::text IS NULL OR tool = $1 \
                     ORDER BY id DESC LIMIT $2";
        let rows = self.readers.query(rules, params![tool.as_deref().map(findable), limit(max)]).await?;
        let mut rules = Vec::new();
        for row in &rows {
            let rule: Rule = body(row)?;
            let is_about = tool.as_deref().is_none_or(|tool| &*rule.tool == tool);
            if is_about && self.was_made(&rule).await? {
                rules.push(rule);
            } else {
                tracing::error!(rule = %rule.id, "the journal does not tell of this rule; run verify");
            }
        }
        Ok(rules)
    }

    /// Whether a person made this very rule, and no entry says that it was taken back unless the row does too.
    async fn was_made(&self, rule: &Rule) -> Result<bool, PostgresError> {
        let steps =
            "SELECT head FROM helve.entries WHERE made_ms = $1 AND call_id = $2 AND kind = 6 ORDER BY id";
        let sealed = seal::of_rule(rule).map_err(|error| PostgresError::Damaged(error.to_string()))?;
        let (mut made, mut revoked) = (false, false);
        for row in
            self.readers.query(steps, params![rule.call_id.made_at_ms(), rule.call_id.to_string()]).await?
        {
            let Ok(head) = serde_json::from_str::<serde_json::Value>(row.get(0)) else { continue };
            match head["step"].as_str() {
                Some("decided") => made |= head["rule_seal"] == sealed.as_str(),
                Some("rule_revoked") => revoked |= head["rule_id"] == rule.id.to_string().as_str(),
                Some(_) | None => {}
            }
        }
        Ok(made && revoked == rule.revoked_at.is_some())
    }
}

/// Questions that are read in one go.
const PAGE: usize = 200;

fn body<T: DeserializeOwned>(row: &Row) -> Result<T, PostgresError> {
    serde_json::from_str(row.get(0))
        .map_err(|error| PostgresError::Damaged(format!("a question cannot be read: {error}")))
}
