//! What calls cost.

use helve_core::cost::Spending;
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, params};

use super::Audit;
use super::record::StoredHead;
use super::rows::{COLUMNS, Damage, StoredEntry};
use crate::error::StoreError;
use helve_ledger::chain::Kind;

/// Stands in the head of an end that cost something.
pub(crate) const COST_MARK: &str = "\"cost\":{";

/// How long a call that counts may have taken, waiting for a person included.
const LONGEST: SignedDuration = SignedDuration::from_hours(30 * 24);

/// From when on calls are looked at that may have ended since then. Entries are found by when their call began.
pub(crate) fn begun_from(since: Timestamp) -> Timestamp {
    since.saturating_sub(LONGEST).unwrap_or(Timestamp::UNIX_EPOCH)
}

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
        match parse(&StoredEntry::read(row)) {
            Ok(one) => spent.extend(one.filter(|one| one.at >= since)),
            Err(damage) => return Ok(Err(damage)),
        }
    }
    Ok(Ok(spent))
}

fn parse(stored: &StoredEntry) -> Result<Option<Spending>, Damage> {
    let head: StoredHead = stored.parse_head()?;
    let cost = head.ending.filter(|_| !head.fenced).and_then(|ending| ending.cost);
    Ok(cost.map(|cost| Spending {
        at: head.at,
        tool: head.facts.tool.to_string(),
        principal: head.facts.caller.principal.clone(),
        session: head.facts.caller.session.clone(),
        cost: *cost,
    }))
}
