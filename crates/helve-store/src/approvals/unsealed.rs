//! Questions and rules that an earlier format wrote, and that no entry vouches for yet.

use helve_core::approval::{Approval, ApprovalState, Rule};
use rusqlite::{Connection, params};

use super::seal;
use super::table::{STORY, readable, used_up};

/// Open questions that no entry vouches for and that the chain does not contradict: an earlier format wrote them.
pub(crate) fn questions(db: &Connection) -> rusqlite::Result<Vec<Approval>> {
    let used = used_up(db)?;
    let mut story = db.prepare(STORY)?;
    let mut unsealed = Vec::new();
    for approval in readable::<Approval>(db, "SELECT body FROM approvals WHERE state < 2 ORDER BY id")? {
        let (made_ms, id) = (approval.call_id.made_at_ms(), approval.id.to_string());
        let told = story.query_one(params![made_ms, approval.call_id.to_string(), id], |told| {
            Ok((told.get(0)?, told.get(1)?, told.get(2)?))
        })?;
        let (asked, decided, sealed): (Option<i64>, Option<String>, Option<String>) = told;
        let is_told = match approval.state {
            ApprovalState::Pending => asked.is_some() && decided.is_none(),
            ApprovalState::Approved => decided.as_deref() == Some("approved"),
            ApprovalState::Denied
            | ApprovalState::Expired
            | ApprovalState::Used
            | ApprovalState::Withdrawn => false,
        };
        if is_told && sealed.is_none() && !used.contains(&id) {
            unsealed.push(approval);
        }
    }
    Ok(unsealed)
}

/// Questions whose approval was used up, and of which no entry tells that where the question is found.
pub(crate) fn spent(db: &Connection) -> rusqlite::Result<Vec<Approval>> {
    let used = used_up(db)?;
    let mut untold = Vec::new();
    for approval in readable::<Approval>(db, "SELECT body FROM approvals ORDER BY id")? {
        let id = approval.id.to_string();
        if used.contains(&id) && !seal::was_spent(db, approval.call_id, &approval.id)? {
            untold.push(approval);
        }
    }
    Ok(untold)
}

/// Rules that no entry vouches for, and that nobody has taken back.
pub(crate) fn rules(db: &Connection) -> rusqlite::Result<Vec<Rule>> {
    let mut unsealed = Vec::new();
    for rule in readable::<Rule>(db, "SELECT body FROM approval_rules ORDER BY id")? {
        let sealed = db
            .prepare_cached(
                "SELECT 1 FROM entries WHERE made_ms = ?1 AND call_id = ?2 AND kind = 6 \
                 AND head ->> 'approval_id' = ?3 AND head ->> 'rule_seal' IS NOT NULL",
            )?
            .exists(params![
                rule.call_id.made_at_ms(),
                rule.call_id.to_string(),
                rule.approval_id.to_string()
            ])?;
        if !sealed && !seal::is_taken_back(db, &rule)? {
            unsealed.push(rule);
        }
    }
    Ok(unsealed)
}
