//! Earlier formats kept rows that decide, and no entry vouched for what they say. Each is taken as it is found
//! when the file is migrated, with an entry of its own: from then on a change of it is noticed.

use helve_core::approval::{Approval, Rule};
use helve_core::{ApprovalId, CallId, RuleId};
use jiff::Timestamp;
use rusqlite::Connection;
use serde::Serialize;

use super::tail::Tail;
use crate::approvals::{seal, table};
use crate::chain::Kind;

/// The head of an entry that vouches for a row.
#[derive(Default, Serialize)]
struct Vouched {
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<ApprovalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_id: Option<RuleId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_seal: Option<String>,
}

/// Vouches for everything that can still lead to a call and that nothing vouches for. A row that contradicts the
/// chain gets nothing: `verify` finds it, and nobody can use it.
pub(super) fn for_what_is_open(db: &Connection, tail: &mut Tail<'_>, at: Timestamp) -> rusqlite::Result<()> {
    for approval in table::unsealed(db)? {
        tail.append(Kind::Vouched, Some(approval.call_id), &of_approval(&approval, at)?)?;
    }
    for rule in table::unsealed_rules(db)? {
        tail.append(Kind::Vouched, Some(rule.call_id), &of_rule(&rule, at)?)?;
    }
    Ok(())
}

fn of_approval(approval: &Approval, at: Timestamp) -> rusqlite::Result<Vouched> {
    Ok(Vouched {
        at,
        call_id: Some(approval.call_id),
        approval_id: Some(approval.id),
        seal: Some(seal::of_approval(approval)?),
        ..Vouched::default()
    })
}

fn of_rule(rule: &Rule, at: Timestamp) -> rusqlite::Result<Vouched> {
    Ok(Vouched {
        at,
        call_id: Some(rule.call_id),
        rule_id: Some(rule.id),
        rule_seal: Some(seal::of_rule(rule)?),
        ..Vouched::default()
    })
}
