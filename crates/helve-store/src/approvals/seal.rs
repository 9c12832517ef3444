//! What the chain knows of questions and rules beside their state: a digest of whatever decides in them.
//!
//! Rows change and are erased, so they are not in the chain. Each entry that tells of a question, a decision or a
//! new rule carries the digest of its row; at use, and by `verify`, the row is compared with the last of them.

use helve_core::CallId;
use helve_core::approval::{Approval, Rule};
use helve_core::json::{canonical, sha256_hex};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

/// What may change, or be erased, without an entry that tells of it; and the state, of which entries tell.
const OPEN_IN_APPROVALS: [&str; 9] =
    ["state", "arguments", "withheld", "preview", "reasons", "marks", "ruling", "told_at", "used_by"];
const OPEN_IN_RULES: [&str; 2] = ["revoked_by", "revoked_at"];

/// The digest of a question: which call it binds, whose it is, what was granted and until when.
pub(crate) fn of_approval(approval: &Approval) -> rusqlite::Result<String> {
    digest("approval", approval, &OPEN_IN_APPROVALS)
}

/// The digest of a rule: what it lets through, for whom and until when.
pub(crate) fn of_rule(rule: &Rule) -> rusqlite::Result<String> {
    digest("rule", rule, &OPEN_IN_RULES)
}

fn digest(kind: &str, row: &impl Serialize, open: &[&str]) -> rusqlite::Result<String> {
    let mut row = serde_json::to_value(row)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    if let Some(members) = row.as_object_mut() {
        members.retain(|name, _| !open.contains(&name.as_str()));
    }
    Ok(sha256_hex(format!("helve {kind} v1 {}", canonical(&row)).as_bytes()))
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
