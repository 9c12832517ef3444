//! Questions, rules and what effects would restore: each row is as the last entry about it tells.

use helve_core::CallId;
use helve_core::approval::{Approval, ApprovalState, Rule};
use helve_ledger::audit::verification::Concern;
use helve_ledger::seal;
use serde_json::Value;
use tokio_postgres::Row;

use super::{Difference, difference};
use crate::approvals::number;
use crate::audit::PAGE;
use crate::error::PostgresError;
use crate::server::Readers;
use crate::sql::params;
use crate::writer::{EFFECT_COLUMNS, effect_seal_of_row};

/// A call's steps, and what used up its approvals, with what a row says, in one moment.
const TOLD: &str = "
    (SELECT coalesce(json_agg(json_build_object('kind', e.kind, 'seq', e.seq, 'head', e.head) ORDER BY e.id)::text, '[]')
     FROM helve.entries e WHERE e.call_id = t.call_id AND e.made_ms = t.made_ms AND e.kind IN (6, 10))";

/// Compares all three.
pub(super) async fn check(readers: &Readers) -> Result<Option<Difference>, PostgresError> {
    let effects = format!("t.call_id || '/' || t.number, {EFFECT_COLUMNS}");
    let kinds: [(&str, &str, Comparison); 3] = [
        ("helve.approvals", "t.id, t.state, t.body", check_approval),
        ("helve.approval_rules", "t.id, t.body", check_rule),
        ("helve.effects", &effects, check_effect),
    ];
    for (table, columns, check) in kinds {
        if let Some(found) = check_table(readers, table, columns, check).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// How a row differs from what entries tell.
type Comparison = fn(&Row, &[Told]) -> Option<Difference>;

/// What an entry tells.
struct Told {
    kind: i64,
    seq: i64,
    head: Value,
}

async fn check_table(
    readers: &Readers,
    table: &str,
    columns: &str,
    check: Comparison,
) -> Result<Option<Difference>, PostgresError> {
    let id = columns.split(", t.").next().unwrap_or(columns);
    let ids = format!("SELECT {id}, t.call_id FROM {table} t WHERE {id} > $1 ORDER BY 1 LIMIT $2");
    let rows = format!(
        "SELECT {TOLD}, {columns} FROM (SELECT asked.ms AS made_ms, asked.call AS asked_call, t.* \
         FROM unnest($1::text[], $2::int8[], $3::text[]) AS asked (id, ms, call) JOIN {table} t ON {id} = asked.id) AS t"
    )
    .replace("e.call_id = t.call_id", "e.call_id = t.asked_call");
    let mut after = String::new();
    loop {
        let page = readers.query(&ids, params![&*after, PAGE]).await?;
        let Some(last) = page.last() else { return Ok(None) };
        after = last.get(0);
        let names: Vec<&str> = page.iter().map(|row| row.get(0)).collect();
        let calls: Vec<&str> =
            page.iter().map(|row| row.get::<_, Option<&str>>(1).unwrap_or_default()).collect();
        let times: Vec<i64> = calls.iter().map(|call| call.parse().map_or(0, CallId::made_at_ms)).collect();
        for row in readers.query(&rows, params![names, times, calls]).await? {
            if let Some(found) = check(&row, &told(&row)) {
                return Ok(Some(found));
            }
        }
    }
}

fn told(row: &Row) -> Vec<Told> {
    let entries: Vec<Value> = serde_json::from_str(row.get(0)).unwrap_or_default();
    let read = |entry: &Value| {
        let head = serde_json::from_str(entry["head"].as_str()?).ok()?;
        Some(Told { kind: entry["kind"].as_i64()?, seq: entry["seq"].as_i64()?, head })
    };
    entries.iter().filter_map(read).collect()
}

fn check_approval(row: &Row, told: &[Told]) -> Option<Difference> {
    let (id, state, body): (&str, i64, &str) = (row.get(1), row.get(2), row.get(3));
    let about: Vec<&Told> = told.iter().filter(|told| told.head["approval_id"] == id).collect();
    let step = |name: &'static str| move |told: &&&Told| told.kind == 6 && told.head["step"] == name;
    let asked = about.iter().find(step("asked")).map(|told| told.seq);
    let decided = about.iter().rfind(step("decided"));
    let decision = decided.and_then(|told| told.head["decision"].as_str());
    let sealed = about.iter().rfind(|told| told.head["seal"].is_string());
    let is_spent = about.iter().any(|told| told.kind == 10);
    let read = serde_json::from_str::<Approval>(body);
    let what = match (state, decision, &read) {
        _ if asked.is_none() => "it was never asked",
        (_, _, Err(_)) => "it cannot be read",
        (1 | 4, None | Some("denied" | "withdrawn"), _) => "nobody approved it",
        (0, Some("approved" | "denied" | "withdrawn"), _) => "it was decided",
        (0 | 1, _, _) if is_spent => "it was used",
        (0 | 1, Some("expired"), _) => "it has run out",
        (_, _, Ok(approval)) if approval.id.to_string() != id || number(approval.state) != state => {
            "its columns say otherwise"
        }
        (_, _, Ok(approval)) => {
            let seal = seal::of_approval(approval).ok()?;
            match sealed.is_some_and(|told| told.head["seal"] == seal.as_str()) {
                true => return None,
                false => "its row was changed",
            }
        }
    };
    let state = ApprovalState::ALL.into_iter().find(|known| number(*known) == state);
    let state = state.map_or("unknown", |known| known.as_str());
    difference(
        Concern::Approvals,
        asked,
        format!("the approval {id} is {state} in the table `approvals`, and {what}"),
    )
}

fn check_rule(row: &Row, told: &[Told]) -> Option<Difference> {
    let (id, body): (&str, &str) = (row.get(1), row.get(2));
    let Ok(rule) = serde_json::from_str::<Rule>(body) else {
        return difference(
            Concern::Approvals,
            None,
            format!("the rule {id} in the table `approval_rules` cannot be read"),
        );
    };
    let seal = seal::of_rule(&rule).ok()?;
    let made =
        told.iter().any(|told| told.head["step"] == "decided" && told.head["rule_seal"] == seal.as_str());
    let revoked = told.iter().any(|told| told.head["step"] == "rule_revoked" && told.head["rule_id"] == id);
    if made && rule.id.to_string() == id && revoked == rule.revoked_at.is_some() {
        return None;
    }
    let what = "is not as anybody made it: its row was changed or added, or it was taken back";
    difference(Concern::Approvals, None, format!("the rule {id} in the table `approval_rules` {what}"))
}

fn check_effect(row: &Row, told: &[Told]) -> Option<Difference> {
    let (name, number, state): (&str, i64, i64) = (row.get(1), row.get(3), row.get(5));
    let seal = effect_seal_of_row(row, 2).unwrap_or_default();
    let is_about = |told: &&Told| {
        let step = told.head["step"].as_str();
        matches!(step, Some("effect_applied" | "effect_rolled_back")) && told.head["index"] == number
    };
    let last = told.iter().rfind(is_about);
    let is_applied = last.is_some_and(|told| told.head["step"] == "effect_applied");
    let fits = match state {
        0 => is_applied && last.is_some_and(|told| told.head["seal"] == seal.as_str()),
        1 => !is_applied,
        _ => true,
    };
    if fits {
        return None;
    }
    let what = format!(
        "what the effect {name} would restore is not what was there: its row in the table `effects` was changed or added"
    );
    difference(Concern::Effects, last.map(|told| told.seq), what)
}
