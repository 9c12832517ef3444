//! Everything that is recorded of a run, as the entries that were written.

use helve_core::CallId;
use helve_core::record::Entry;
use helve_ledger::audit::history;
use helve_ledger::audit::stored::Damage;
use rusqlite::{Connection, params};

use super::Audit;
use super::rows::{COLUMNS, HEADS, read};
use crate::error::StoreError;
use crate::runs::table as runs;
use crate::schema;

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
        match history::entry(&read(row)) {
            Ok(entry) => entries.extend(entry),
            Err(damage) => return Ok(Err(damage)),
        }
    }
    Ok(Ok(entries))
}
