//! Earlier formats kept rows that decide, and no entry vouched for what they say. Each is taken as it is found
//! when the file is migrated, with its own entry: from then on a change of it is noticed.

use helve_core::approval::{Approval, Rule};
use helve_core::{ApprovalId, CallId, RuleId};
use jiff::Timestamp;
use rusqlite::Connection;
use serde::Serialize;

use super::tail::Tail;
use crate::approvals::{seal, unsealed};
use crate::identity::verify as identity;
use crate::memory::effects::{self, Kept};
use crate::memory::values;
use crate::runs::table as runs;
use crate::sessions::table as sessions;
use crate::vouch::Voucher;
use helve_ledger::chain::Kind;

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
    /// Which effect of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<u32>,
    /// Who is at the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// Whether it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<i64>,
    #[serde(flatten)]
    row: Option<Voucher>,
}

/// Vouches for everything that can still lead to a call and that nothing vouches for. A row that contradicts the
/// chain gets nothing: `verify` finds it, and nobody can use it.
pub(super) fn for_what_is_open(db: &Connection, tail: &mut Tail<'_>, at: Timestamp) -> rusqlite::Result<()> {
    for approval in unsealed::questions(db)? {
        tail.append(Kind::Vouched, Some(approval.call_id), &of_approval(&approval, at)?)?;
    }
    for rule in unsealed::rules(db)? {
        tail.append(Kind::Vouched, Some(rule.call_id), &of_rule(&rule, at)?)?;
    }
    for spent in unsealed::spent(db)? {
        let (call_id, approval_id) = (Some(spent.call_id), Some(spent.id));
        let told = Vouched { at, call_id, approval_id, ..Vouched::default() };
        tail.append(Kind::Spent, call_id, &told)?;
    }
    for (run, owner, state) in runs::all(db)? {
        let told =
            Vouched { at, call_id: Some(run), owner: Some(owner), state: Some(state), ..Vouched::default() };
        tail.append(Kind::Vouched, Some(run), &told)?;
    }
    for Kept { call_id, number, seal } in effects::vouch_for_all(db)? {
        let (call_id, effect, seal) = (Some(call_id), Some(number), Some(seal));
        tail.append(Kind::Vouched, call_id, &Vouched { at, call_id, effect, seal, ..Vouched::default() })?;
    }
    let rows = [values::vouch_for_all(db)?, sessions::vouch_for_all(db)?, identity::vouch_for_all(db)?];
    for row in rows.into_iter().flatten() {
        tail.append(Kind::Vouched, None, &Vouched { at, row: Some(row), ..Vouched::default() })?;
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
