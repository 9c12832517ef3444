//! Finding the calls that are runs, without looking at the others.
//!
//! A run is a call that changes the world and has started, that has effects, or that has parts. Two indexes know
//! of them: `entries_of_runs` of starts and steps, `entries_by_run` of parts.

use std::collections::BTreeSet;

use helve_core::CallId;
use rusqlite::{Connection, OptionalExtension, params};

use super::Audit;
use crate::error::StoreError;
use helve_ledger::audit::query::ID_END;
use helve_ledger::audit::runs::tells_of_a_run;
use helve_ledger::chain::Kind;

impl Audit {
    /// Runs that are older than `before`, newest first.
    pub fn runs(&self, before: Option<CallId>, limit: usize) -> Result<Vec<CallId>, StoreError> {
        let db = self.connect()?;
        self.check_filled(&db)?;
        runs(&db, before, limit).map_err(|source| self.error(source))
    }
}

/// The same, from a connection that is there already. The indexes are asked for the latest of each kind, and the
/// latest of both together are among these.
pub(super) fn runs(db: &Connection, before: Option<CallId>, limit: usize) -> rusqlite::Result<Vec<CallId>> {
    let mut found: BTreeSet<CallId> = begun(db, before, limit)?.into_iter().collect();
    found.extend(composed(db, before, limit)?);
    Ok(found.into_iter().rev().take(limit).collect())
}

/// Calls whose own starts and steps tell that they are runs.
fn begun(db: &Connection, before: Option<CallId>, limit: usize) -> rusqlite::Result<Vec<CallId>> {
    let mut select = db.prepare_cached(
        "SELECT call_id, kind, head FROM entries \
         WHERE run_id IS NULL AND kind IN (0, 6) AND made_ms <= ?1 AND call_id < ?2 \
         ORDER BY made_ms DESC, call_id DESC",
    )?;
    let made_ms = before.map_or(i64::MAX, CallId::made_at_ms);
    let mut rows = select.query(params![made_ms, text(before)])?;
    let mut found: Vec<CallId> = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        // What is damaged is found by `list` and `verify`; it does not keep the others from being found.
        let Some(call) = row.get_ref(0)?.as_str().ok().and_then(|id| id.parse().ok()) else { continue };
        let kind = row.get(1).ok().and_then(Kind::from_number);
        let head = row.get_ref(2)?.as_bytes().unwrap_or_default();
        if found.last() != Some(&call) && tells_of_a_run(kind, head) {
            found.push(call);
        }
    }
    Ok(found)
}

/// The runs that parts belong to. Jumps from one run to the next, however many parts each has.
fn composed(db: &Connection, before: Option<CallId>, limit: usize) -> rusqlite::Result<Vec<CallId>> {
    let mut select = db.prepare_cached(
        "SELECT run_id FROM entries WHERE run_id IS NOT NULL AND run_id < ?1 ORDER BY run_id DESC LIMIT 1",
    )?;
    let (mut before, mut found) = (text(before), Vec::new());
    while found.len() < limit
        && let Some(run) = select.query_one([&before], |row| row.get::<_, String>(0)).optional()?
    {
        found.extend(run.parse::<CallId>());
        before = run;
    }
    Ok(found)
}

fn text(before: Option<CallId>) -> String {
    before.map_or_else(|| ID_END.to_owned(), |id| id.to_string())
}
