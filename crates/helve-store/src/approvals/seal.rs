//! Whether the chain vouches for questions and rules: see [`helve_ledger::seal`].

use helve_core::approval::{Approval, Rule};
use helve_core::{ApprovalId, CallId};
use rusqlite::{Connection, OptionalExtension, params};

/// The digest of a question: which call it binds, whose it is, what was granted and until when.
pub(crate) fn of_approval(approval: &Approval) -> rusqlite::Result<String> {
    helve_ledger::seal::of_approval(approval).map_err(unwritable)
}

/// The digest of a rule: what it lets through, for whom and until when.
pub(crate) fn of_rule(rule: &Rule) -> rusqlite::Result<String> {
    helve_ledger::seal::of_rule(rule).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

/// Whether the chain tells that this very question was approved: the last entry about it says so, of a row that
/// was like this one.
pub(crate) fn was_approved(db: &Connection, approval: &Approval) -> rusqlite::Result<bool> {
    let told: Option<(String, Option<String>)> = db
        .prepare_cached(
            "SELECT head ->> 'decision', ifnull(head ->> 'seal', \
                 (SELECT head ->> 'seal' FROM entries WHERE made_ms = ?1 AND call_id = ?2 AND kind = 8 \
                  AND head ->> 'approval_id' = ?3 AND seq > decided.seq LIMIT 1)) \
             FROM entries AS decided \
             WHERE made_ms = ?1 AND call_id = ?2 AND kind = 6 AND head ->> 'step' = 'decided' \
               AND head ->> 'approval_id' = ?3 ORDER BY seq DESC LIMIT 1",
        )?
        .query_one(key(approval.call_id, &approval.id), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let seal = of_approval(approval)?;
    Ok(told.is_some_and(|(decision, told)| decision == "approved" && told == Some(seal)))
}

/// Whether the chain tells that an approval was used up.
pub(crate) fn was_spent(db: &Connection, call_id: CallId, id: &ApprovalId) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM entries WHERE made_ms = ?1 AND call_id = ?2 AND kind = 10 AND head ->> 'approval_id' = ?3",
    )?
    .exists(key(call_id, id))
}

/// Whether a person made this very rule, and nobody has taken it back but where the row says so.
pub(crate) fn was_made(db: &Connection, rule: &Rule) -> rusqlite::Result<bool> {
    let made = db
        .prepare_cached(
            "SELECT 1 FROM entries WHERE made_ms = ?1 AND call_id = ?2 AND head ->> 'rule_seal' = ?4 \
             AND (kind = 6 AND head ->> 'step' = 'decided' AND head ->> 'approval_id' = ?3 \
                  OR kind = 8 AND head ->> 'rule_id' = ?5)",
        )?
        .exists(params![
            rule.call_id.made_at_ms(),
            rule.call_id.to_string(),
            rule.approval_id.to_string(),
            of_rule(rule)?,
            rule.id.to_string()
        ])?;
    Ok(made && !is_taken_back(db, rule)?)
}

/// Whether the chain tells that a rule was taken back, and its row does not.
pub(crate) fn is_taken_back(db: &Connection, rule: &Rule) -> rusqlite::Result<bool> {
    if rule.revoked_at.is_some() {
        return Ok(false);
    }
    let revoked = db
        .prepare_cached(
            "SELECT 1 FROM entries WHERE made_ms = ?1 AND call_id = ?2 AND kind = 6 \
             AND head ->> 'step' = 'rule_revoked' AND head ->> 'rule_id' = ?3",
        )?
        .exists(key(rule.call_id, &rule.id))?;
    Ok(revoked)
}

fn key(call_id: CallId, id: &impl ToString) -> (i64, String, String) {
    (call_id.made_at_ms(), call_id.to_string(), id.to_string())
}
