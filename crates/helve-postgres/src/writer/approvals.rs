//! Questions to people within a group: each change with the entry that tells of it.
//!
//! Who changes any holds the lock on all of them, over all replicas: so they are counted right, and what changed last has
//! the highest number.

use std::collections::HashSet;

use helve_core::approval::{
    Approval, ApprovalState, Ask, Asked, Decided, Grant, Mark, Rule, Spent, Verdict as Ruled,
};
use helve_core::ports::JournalError;
use helve_core::record::{Entry, Started};
use helve_core::{ApprovalId, CallId, RuleId};
use helve_ledger::chain::Kind;
use helve_ledger::entry::{Note, Seals, unwritable};
use helve_ledger::seal;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::{Client, Row};

use super::Stop;
use super::group::Group;
use crate::approvals::{ENDED_BEFORE, number};
use crate::sql::{findable, limit, params};

impl Group<'_> {
    pub(super) async fn question(&mut self, ask: &Ask) -> Result<Asked, Stop> {
        let now = ask.approval.created_at;
        if let Some(mut last) = last(self.db, &ask.approval.binding).await? {
            let (was, told) = (last.state, last.told_at);
            let answer = last.answer(ask);
            if last.state != was {
                self.tell_of(&last, &last.decided_step(now), None)?;
            }
            if last.state != was || last.told_at != told {
                keep(self.db, &last).await?;
            }
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
        let principal = ask.approval.caller.principal.as_deref().unwrap_or_default();
        if pending(self.db, now, None, ask.pending_max).await? >= ask.pending_max {
            return Ok(Asked::TooMany);
        }
        if pending(self.db, now, Some(principal), ask.pending_share).await? >= ask.pending_share {
            return Ok(Asked::ShareUsed);
        }
        let mut approval = ask.approval.clone();
        if !has_used(self.db, &approval).await? {
            approval.marks.insert(0, Mark::FirstUse);
        }
        self.tell_of(&approval, &approval.asked_step(), None)?;
        keep(self.db, &approval).await?;
        Ok(Asked::New(approval))
    }

    pub(super) async fn decide(&mut self, id: ApprovalId, ruled: &Ruled) -> Result<Decided, Stop> {
        let Some(mut approval) = find(self.db, id).await? else { return Ok(Decided::NotFound) };
        let at = ruled.ruling.at;
        let now = approval.decide(ruled);
        if now || approval.expire(at) {
            let rule = ruled.rule.as_ref().filter(|_| now);
            self.tell_of(&approval, &approval.decided_step(at), rule)?;
            keep(self.db, &approval).await?;
        }
        if !now {
            return Ok(Decided::Before(approval));
        }
        if let Some(rule) = &ruled.rule {
            keep_rule(self.db, rule).await?;
        }
        Ok(Decided::Now(approval))
    }

    pub(super) async fn sweep(
        &mut self,
        now: Timestamp,
        forget_before: Timestamp,
        max: usize,
    ) -> Result<usize, Stop> {
        let due = "SELECT body FROM helve.approvals WHERE state < 2 AND expires_ms <= $1 \
                   ORDER BY expires_ms LIMIT $2";
        let due = self.db.query_typed(due, params![now.as_millisecond(), limit(max)]).await?;
        let mut expired = 0;
        for row in due {
            let mut approval = of_row(&row)?;
            if approval.expire(now) {
                self.tell_of(&approval, &approval.decided_step(now), None)?;
                keep(self.db, &approval).await?;
                expired += 1;
            }
        }
        let ended = format!("DELETE FROM helve.approvals WHERE {ENDED_BEFORE}");
        self.db.execute_typed(&ended, params![ApprovalId::first_at(forget_before).to_string()]).await?;
        let rules = "DELETE FROM helve.approval_rules WHERE expires_ms < $1";
        self.db.execute_typed(rules, params![forget_before.as_millisecond()]).await?;
        Ok(expired)
    }

    pub(super) async fn revoke(&mut self, id: RuleId, by: &str, at: Timestamp) -> Result<Option<Rule>, Stop> {
        let found = "SELECT body FROM helve.approval_rules WHERE id = $1";
        let row = self.db.query_typed_opt(found, params![id.to_string()]).await?;
        let Some(mut rule): Option<Rule> = row.map(|row| body(&row)).transpose()? else { return Ok(None) };
        if rule.revoke(by, at) {
            self.tell(&rule.revoked_step(by, at), &Seals::default())?;
            keep_rule(self.db, &rule).await?;
        }
        Ok(Some(rule))
    }

    /// Uses up the approval that a start carries, of which the journal is to tell after the start.
    pub(super) async fn use_up(&mut self, started: &Started) -> Result<Option<Approval>, Stop> {
        let Some(grant) = &started.grant else { return Ok(None) };
        // What vouches for it may be among the entries that wait.
        self.flush_others().await?;
        match used(self.db, grant, started.facts.call_id, started.at).await? {
            Ok(approval) => {
                keep(self.db, &approval).await?;
                Ok(Some(approval))
            }
            Err(spent) => Err(JournalError::spent(spent).into()),
        }
    }

    /// Notes where the question is found that its approval was used up: the start may be another call's.
    pub(super) fn tell_spent(&mut self, used: Option<Approval>) -> Result<(), Stop> {
        let Some(approval) = used else { return Ok(()) };
        let told = Note { approval_id: Some(approval.id), ..Note::default() };
        self.note(Kind::Spent, Some(approval.call_id), &told)
    }

    /// Whether all approvals that entries would use up can be used.
    pub(super) async fn can_use_up(&mut self, entries: &[Entry]) -> Result<(), Stop> {
        let mut seen = HashSet::new();
        for entry in entries {
            let Entry::Started(started) = entry else { continue };
            let Some(grant) = &started.grant else { continue };
            self.flush_others().await?;
            let spent = match used(self.db, grant, started.facts.call_id, started.at).await? {
                Ok(used) if !seen.insert(used.id) => Spent::Is(used.state),
                Ok(_) => continue,
                Err(spent) => spent,
            };
            return Err(JournalError::spent(spent).into());
        }
        Ok(())
    }

    /// Writes a step about a question, and vouches for the question, and for the rule that was made with it.
    fn tell_of(
        &mut self,
        approval: &Approval,
        step: &helve_core::run::Step,
        rule: Option<&Rule>,
    ) -> Result<(), Stop> {
        let seals = Seals {
            seal: Some(seal::of_approval(approval).map_err(|error| unwritable("question", error))?),
            rule_seal: rule.map(seal::of_rule).transpose().map_err(|error| unwritable("rule", error))?,
            ..Seals::default()
        };
        self.tell(step, &seals)
    }
}

/// Writes a question as it is now.
async fn keep(db: &Client, approval: &Approval) -> Result<(), Stop> {
    db.execute_typed(
        "WITH changes AS (UPDATE helve.meta SET value = value + 1 WHERE name = 'approval_changes' RETURNING value) \
         INSERT INTO helve.approvals \
             (id, state, binding, tool, principal, call_id, outer_tool, expires_ms, changed, body) \
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, changes.value, $9 FROM changes \
         ON CONFLICT (id) DO UPDATE SET state = excluded.state, expires_ms = excluded.expires_ms, \
             changed = excluded.changed, body = excluded.body",
        params![
            approval.id.to_string(),
            number(approval.state),
            findable(&approval.binding),
            findable(&approval.tool),
            findable(approval.caller.principal.as_deref().unwrap_or_default()),
            approval.call_id.to_string(),
            approval.outer.as_deref().map(findable),
            approval.expires_at.as_millisecond(),
            json(approval)?,
        ],
    )
    .await?;
    Ok(())
}

async fn keep_rule(db: &Client, rule: &Rule) -> Result<(), Stop> {
    db.execute_typed(
        "INSERT INTO helve.approval_rules (id, tool, call_id, expires_ms, body) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (id) DO UPDATE SET expires_ms = excluded.expires_ms, body = excluded.body",
        params![
            rule.id.to_string(),
            findable(&rule.tool),
            rule.call_id.to_string(),
            rule.expires_at.as_millisecond(),
            json(rule)?
        ],
    )
    .await?;
    Ok(())
}

async fn find(db: &Client, id: ApprovalId) -> Result<Option<Approval>, Stop> {
    let found = "SELECT body FROM helve.approvals WHERE id = $1";
    db.query_typed_opt(found, params![id.to_string()]).await?.map(|row| of_row(&row)).transpose()
}

/// The last question about the same thing. An open question is the last, whatever the clock said when
/// it was put.
async fn last(db: &Client, binding: &str) -> Result<Option<Approval>, Stop> {
    let last = "SELECT body FROM helve.approvals WHERE binding = $1 ORDER BY state < 2 DESC, id DESC LIMIT 1";
    db.query_typed_opt(last, params![findable(binding)]).await?.map(|row| of_row(&row)).transpose()
}

/// How many questions are undecided and have not run out, of one principal's calls or of all, counted up to
/// `max`.
async fn pending(db: &Client, now: Timestamp, principal: Option<&str>, max: usize) -> Result<usize, Stop> {
    let alive = "SELECT count(*) FROM (SELECT 1 FROM helve.approvals \
                 WHERE state = 0 AND expires_ms > $1 AND ($2::text IS NULL OR principal = $2) LIMIT $3) AS alive";
    let count: i64 = db
        .query_typed_one(alive, params![now.as_millisecond(), principal.map(findable), limit(max)])
        .await?
        .get(0);
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Whether this caller has used the tool with approval.
async fn has_used(db: &Client, approval: &Approval) -> Result<bool, Stop> {
    let used = "SELECT 1 FROM helve.approvals WHERE state = 4 AND tool = $1 AND principal = $2 LIMIT 1";
    let principal = findable(approval.caller.principal.as_deref().unwrap_or_default());
    Ok(db.query_typed_opt(used, params![findable(&approval.tool), principal]).await?.is_some())
}

/// The approval as it is once the call has used it up. Nothing is written.
async fn used(
    db: &Client,
    grant: &Grant,
    call_id: CallId,
    at: Timestamp,
) -> Result<Result<Approval, Spent>, Stop> {
    let Some(mut approval) = find(db, grant.approval_id).await? else { return Ok(Err(Spent::NotFound)) };
    // A row can be changed; what the chain says of it cannot, unseen.
    if approval.state == ApprovalState::Approved {
        match told(db, &approval).await? {
            Told::Approved => {}
            Told::Spent => {
                tracing::error!(approval = %approval.id, "this approval was used before, and its row says that it was not");
                return Ok(Err(Spent::Is(ApprovalState::Used)));
            }
            Told::Otherwise => {
                tracing::error!(approval = %approval.id, "the journal does not tell of this approval; run verify");
                return Ok(Err(Spent::DoesNotFit));
            }
        }
    }
    Ok(approval.use_up(grant, call_id, at).map(|()| approval))
}

/// What the chain tells of a question whose row says that it was approved.
enum Told {
    /// This very question was.
    Approved,
    /// It was, and was used up.
    Spent,
    Otherwise,
}

async fn told(db: &Client, approval: &Approval) -> Result<Told, Stop> {
    let entries = "SELECT kind, head FROM helve.entries WHERE made_ms = $1 AND call_id = $2 AND kind IN (6, 10) \
                   ORDER BY id";
    let id = approval.id.to_string();
    let mut told = Told::Otherwise;
    let sealed = seal::of_approval(approval).map_err(|error| unwritable("question", error))?;
    for row in
        db.query_typed(entries, params![approval.call_id.made_at_ms(), approval.call_id.to_string()]).await?
    {
        let Ok(head) = serde_json::from_str::<serde_json::Value>(row.try_get(1)?) else { continue };
        if head["approval_id"] != id.as_str() {
            continue;
        }
        match (row.try_get::<_, i16>(0)?, head["step"].as_str()) {
            (10, _) => told = Told::Spent,
            (6, Some("decided")) => {
                let is_this = head["decision"] == "approved" && head["seal"] == sealed.as_str();
                told = if is_this { Told::Approved } else { Told::Otherwise };
            }
            _ => {}
        }
    }
    Ok(told)
}

/// Erases what was said in the questions of a call.
pub(super) async fn erase(db: &Client, call_id: CallId) -> Result<(), Stop> {
    let found = "SELECT body FROM helve.approvals WHERE call_id = $1 ORDER BY id";
    for row in db.query_typed(found, params![call_id.to_string()]).await? {
        let mut approval = of_row(&row)?;
        approval.arguments = serde_json::value::RawValue::NULL.to_owned();
        (approval.withheld, approval.preview, approval.reasons) = (true, None, Vec::new());
        if let Some(ruling) = &mut approval.ruling {
            (ruling.reason, ruling.edited) = (None, None);
        }
        keep(db, &approval).await?;
    }
    Ok(())
}

/// The question in the first column.
pub(crate) fn of_row(row: &Row) -> Result<Approval, Stop> {
    body(row)
}

fn body<T: DeserializeOwned>(row: &Row) -> Result<T, Stop> {
    serde_json::from_str(row.try_get(0)?)
        .map_err(|error| Stop::damaged(format!("a question cannot be read: {error}")))
}

fn json(value: &impl Serialize) -> Result<String, Stop> {
    serde_json::to_string(value).map_err(|error| unwritable("question", error).into())
}
