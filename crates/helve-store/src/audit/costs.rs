//! What calls cost.

use helve_core::cost::Spending;
use helve_ledger::audit::costs::{self, COST_MARK, begun_from};
use helve_ledger::audit::stored::Damage;
use helve_ledger::chain::Kind;
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::Audit;
use super::rows::{COLUMNS, read};
use crate::error::StoreError;

impl Audit {
    /// The calls that ended since then and cost something, oldest first. Ends that do not count, because another process
    /// had taken the run over by then, are left out.
    pub fn spending(&self, since: Timestamp) -> Result<Vec<Spending>, StoreError> {
        let db = self.connect()?;
        let spent = read_spending(&db, since).map_err(|source| self.error(source))?;
        spent.map_err(|Damage(why)| StoreError::DamagedEntry(why))
    }
}

/// The same, from a connection that is there already.
pub(crate) fn read_spending(
    db: &Connection,
    since: Timestamp,
) -> rusqlite::Result<Result<Vec<Spending>, Damage>> {
    // Only heads that may tell of a cost are read as JSON: most calls cost nothing.
    let mut select = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM entries WHERE made_ms >= ?1 AND kind = ?2 AND instr(head, ?3) > 0 ORDER BY seq"
    ))?;
    let begun = begun_from(since).as_millisecond();
    let mut rows = select.query(params![begun, Kind::Finished as i64, COST_MARK])?;
    let mut spent = Vec::new();
    while let Some(row) = rows.next()? {
        match costs::spending(&read(row)) {
            Ok(one) => spent.extend(one.filter(|one| one.at >= since)),
            Err(damage) => return Ok(Err(damage)),
        }
    }
    Ok(Ok(spent))
}
