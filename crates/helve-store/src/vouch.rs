//! Which entries vouch for which rows: see [`helve_ledger::vouch`].

use std::collections::HashMap;

use helve_ledger::chain::Salt;
pub(crate) use helve_ledger::vouch::{Told, Voucher, digest, tells};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

/// Leads from a row to the entries that name it. Only steps and vouchers are looked into, so that calls do not pay
/// for it.
pub(crate) const TABLES: &str = "
CREATE INDEX IF NOT EXISTS entries_by_row ON entries (head ->> 'row')
    WHERE kind IN (6, 8) AND head ->> 'row' IS NOT NULL;
";

const LAST: &str = "
    SELECT seq, head ->> 'row_seal', head ->> 'row_until_us' FROM entries
    WHERE kind IN (6, 8) AND head ->> 'row' IS NOT NULL AND head ->> 'row' = ?1
    ORDER BY seq DESC LIMIT 1";

/// The last entry that names a row.
pub(crate) fn last(db: &Connection, row: &str) -> rusqlite::Result<Option<Told>> {
    db.prepare_cached(LAST)?
        .query_one([row], |row| Ok(Told { seq: row.get(0)?, seal: row.get(1)?, until_us: row.get(2)? }))
        .optional()
}

/// What entries said last about rows, up to `end`, each with the entry's number. Rows of which a later entry
/// tells are left out, and so are those that were removed.
pub(crate) fn told_up_to(db: &Connection, end: i64) -> rusqlite::Result<Vec<(i64, Voucher)>> {
    // By number: the index would lead through all that there are.
    db.prepare_cached(
        "SELECT seq, head ->> 'row', head ->> 'row_seal', head ->> 'row_until_us' FROM entries AS told NOT INDEXED \
         WHERE seq <= ?1 AND kind IN (6, 8) AND head ->> 'row' IS NOT NULL AND head ->> 'row_seal' IS NOT NULL \
           AND NOT EXISTS (SELECT 1 FROM entries WHERE kind IN (6, 8) AND head ->> 'row' IS NOT NULL \
                           AND head ->> 'row' = told.head ->> 'row' AND seq > told.seq) \
         ORDER BY seq",
    )?
    .query_map([end], |row| {
        Ok((row.get(0)?, Voucher { row: row.get(1)?, seal: row.get(2)?, until_us: row.get(3)? }))
    })?
    .collect()
}

/// What the chain tells of the rows of a table.
pub(crate) struct Register {
    /// The last statement about each row that was not found yet.
    told: HashMap<String, Told>,
    /// Now, or when the last of them was written, should clocks differ.
    now_us: i64,
}

impl Register {
    pub(crate) fn of(db: &Connection, table: &str) -> rusqlite::Result<Self> {
        let mut select = db.prepare(
            "SELECT head ->> 'row', seq, head ->> 'row_seal', head ->> 'row_until_us', head ->> 'at' FROM entries \
             WHERE kind IN (6, 8) AND head ->> 'row' IS NOT NULL ORDER BY seq",
        )?;
        let mut rows = select.query([])?;
        let (mut told, mut now_us) = (HashMap::new(), Timestamp::now().as_microsecond());
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            if name.strip_prefix(table).is_some_and(|key| key.starts_with('/')) {
                let last = Told { seq: row.get(1)?, seal: row.get(2)?, until_us: row.get(3)? };
                told.insert(name, last);
                let at: Option<String> = row.get(4)?;
                let at = at.and_then(|at| at.parse::<Timestamp>().ok());
                now_us = now_us.max(at.map_or(0, Timestamp::as_microsecond));
            }
        }
        Ok(Self { told, now_us })
    }

    /// The last statement about a row that is there.
    pub(crate) fn take(&mut self, row: &str) -> Option<Told> {
        self.told.remove(row)
    }

    /// The first entry after `accepted_at` that tells of a row which should be there and was not taken.
    pub(crate) fn missed(&self, accepted_at: i64) -> Option<i64> {
        let due = self.told.values().filter(|told| told.is_due(self.now_us) && told.seq > accepted_at);
        due.map(|told| told.seq).min()
    }
}

/// A salt for one row.
pub(crate) fn salt() -> rusqlite::Result<Salt> {
    helve_ledger::vouch::salt().map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_by_the_index() {
        let db = Connection::open_in_memory().unwrap();
        crate::schema::create_missing(&db).unwrap();
        let plan = format!("EXPLAIN QUERY PLAN {LAST}");
        let plan: String = db.query_one(&plan, ["memory/1"], |row| row.get("detail")).unwrap();
        assert!(plan.contains("USING INDEX entries_by_row (<expr>=?)"), "{plan}");
    }
}
