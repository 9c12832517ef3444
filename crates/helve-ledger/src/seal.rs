//! What the chain knows of questions and rules beside their state: a digest of whatever decides in them.
//!
//! Rows change and are erased, so they are not in the chain. Each entry that tells of a question, a decision or a
//! new rule carries the digest of its row; at use, and by `verify`, the row is compared with the last of them.

use helve_core::approval::{Approval, Rule};
use helve_core::json::{canonical, sha256_hex};
use serde::Serialize;

/// What may change, or be erased, without an entry that tells of it; and the state, of which entries tell.
const OPEN_IN_APPROVALS: [&str; 9] =
    ["state", "arguments", "withheld", "preview", "reasons", "marks", "ruling", "told_at", "used_by"];
const OPEN_IN_RULES: [&str; 2] = ["revoked_by", "revoked_at"];

/// The digest of a question: which call it binds, whose it is, what was granted and until when.
pub fn of_approval(approval: &Approval) -> serde_json::Result<String> {
    digest("approval", approval, &OPEN_IN_APPROVALS)
}

/// The digest of a rule: what it lets through, for whom and until when.
pub fn of_rule(rule: &Rule) -> serde_json::Result<String> {
    digest("rule", rule, &OPEN_IN_RULES)
}

fn digest(kind: &str, row: &impl Serialize, open: &[&str]) -> serde_json::Result<String> {
    let mut row = serde_json::to_value(row)?;
    if let Some(members) = row.as_object_mut() {
        members.retain(|name, _| !open.contains(&name.as_str()));
    }
    Ok(sha256_hex(format!("helve {kind} v1 {}", canonical(&row)).as_bytes()))
}
