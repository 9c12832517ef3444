//! Everything that is recorded of a run, as the entries that were written.

use helve_core::CallId;
use helve_core::record::{Entry, Finished, Payload, RawJson, Started};
use helve_core::run::{Step, StepKind};
use rusqlite::{Connection, params};
use serde_json::value::RawValue;

use super::Audit;
use super::record::{StepHead, StoredHead};
use super::rows::{COLUMNS, Damage, HEADS, StoredEntry};
use crate::error::StoreError;
use crate::runs::table as runs;
use crate::schema;
use helve_ledger::chain::Kind;

impl Audit {
    /// The runs that are open, oldest first, whichever process is at them.
    pub fn open_runs(&self) -> Result<Vec<CallId>, StoreError> {
        let db = self.connect()?;
        if schema::is_empty(&db).map_err(|source| self.error(source))? {
            return Ok(Vec::new());
        }
        let runs = runs::all(&db).map_err(|source| self.error(source))?;
        Ok(runs.into_iter().map(|(run, ..)| run).collect())
    }

    /// The entries of a run and of its parts, in order. Ends that do not count, because another
    /// process had taken the run over by then, are left out.
    ///
    /// What was erased reads as withheld.
    pub fn history(&self, run: CallId) -> Result<Vec<Entry>, StoreError> {
        let db = self.connect()?;
        let entries = read_history(&db, run, Payloads::Read).map_err(|source| self.error(source))?;
        entries.map_err(|Damage(why)| StoreError::DamagedEntry(why))
    }
}

/// Whether what was said is read, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payloads {
    Read,
    /// How a run stands can be told without.
    LeftOut,
}

/// The same, from a connection that is there already.
pub(crate) fn read_history(
    db: &Connection,
    run: CallId,
    payloads: Payloads,
) -> rusqlite::Result<Result<Vec<Entry>, Damage>> {
    let columns = match payloads {
        Payloads::Read => COLUMNS,
        Payloads::LeftOut => HEADS,
    };
    let mut select = db.prepare_cached(&format!(
        "SELECT {columns} FROM entries WHERE made_ms = ?1 AND call_id = ?2 OR run_id = ?2 ORDER BY seq"
    ))?;
    let mut rows = select.query(params![run.made_at_ms(), run.to_string()])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        match parse(&StoredEntry::read(row)) {
            Ok(entry) => entries.extend(entry),
            Err(damage) => return Ok(Err(damage)),
        }
    }
    Ok(Ok(entries))
}

/// None where it is our own note.
fn parse(stored: &StoredEntry) -> Result<Option<Entry>, Damage> {
    match stored.kind {
        Some(Kind::Started) => started(stored).map(Some),
        Some(Kind::Step) => step(stored).map(Some),
        Some(Kind::Finished) => finished(stored),
        Some(Kind::Erased | Kind::Released | Kind::Unanchored | Kind::Accepted) => Ok(None),
        Some(Kind::Migrated | Kind::Vouched | Kind::Adopted | Kind::Spent | Kind::Keyed | Kind::Pruned) => {
            Ok(None)
        }
        None => Err(stored.damage("kind", "no such kind")),
    }
}

fn started(stored: &StoredEntry) -> Result<Entry, Damage> {
    let head: StoredHead = stored.parse_head()?;
    let payload: Option<Payload> = stored.parse_payload()?;
    let arguments = payload.and_then(|payload| payload.arguments);
    Ok(Entry::Started(Box::new(Started {
        at: head.at,
        facts: head.facts,
        // Format 1 did not tell it. No tool has this one, so the run counts as one whose tool has changed.
        digest: head.digest.unwrap_or_default(),
        withheld: head.withheld || stored.is_erased(),
        grant: head.grant,
        arguments: arguments.unwrap_or_else(|| RawValue::NULL.to_owned()),
    })))
}

fn step(stored: &StoredEntry) -> Result<Entry, Damage> {
    let head: StepHead = stored.parse_head()?;
    let payload: Option<RawJson> = stored.parse_payload()?;
    let kind = match head.kind {
        StepKind::Executed { withheld } => StepKind::Executed { withheld: withheld || stored.is_erased() },
        other => other,
    };
    Ok(Entry::Step(Box::new(Step { at: head.at, call_id: head.call_id, run: head.run, kind, payload })))
}

fn finished(stored: &StoredEntry) -> Result<Option<Entry>, Damage> {
    let head: StoredHead = stored.parse_head()?;
    if head.fenced {
        return Ok(None);
    }
    let mut ending = head.ending.ok_or_else(|| stored.damage("head", "there is no ending"))?;
    let payload: Option<Payload> = stored.parse_payload()?;
    ending.withheld |= stored.is_erased();
    let payload = payload.unwrap_or_default();
    Ok(Some(Entry::Finished(Box::new(Finished { at: head.at, facts: head.facts, ending, payload }))))
}
