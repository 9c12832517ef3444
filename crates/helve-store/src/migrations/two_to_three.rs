//! Format 2 stood for several: entries had a time to be found by from its second day on, and tables came later.

use helve_core::CallId;
use rusqlite::types::Value;
use rusqlite::{Transaction, params_from_iter};

use crate::schema;

/// What an entry has in every format.
const COLUMNS: &str = "seq, kind, call_id, hash, commitment, salt, head, payload";

pub(super) fn apply(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    if has_column(tx, "entries", "made_ms")? {
        return Ok(());
    }
    // Its index goes with the old table.
    tx.execute_batch("ALTER TABLE entries RENAME TO entries_before")?;
    schema::create_missing(tx)?;
    copy_entries(tx)?;
    tx.execute_batch("DROP TABLE entries_before")
}

/// Copies entries as they are, each with the time in its call's id and, where the file has that, its run.
fn copy_entries(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    let run_id = if has_column(tx, "entries_before", "run_id")? { "run_id" } else { "NULL" };
    let mut select = tx.prepare(&format!("SELECT {COLUMNS}, {run_id} FROM entries_before ORDER BY seq"))?;
    let mut insert = tx.prepare(&format!(
        "INSERT INTO entries ({COLUMNS}, run_id, made_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    ))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let mut values = (0..9).map(|column| row.get(column)).collect::<rusqlite::Result<Vec<Value>>>()?;
        let call_id: String = row.get(2)?;
        values.push(Value::Integer(call_id.parse().map_or(0, CallId::made_at_ms)));
        insert.execute(params_from_iter(values))?;
    }
    Ok(())
}

fn has_column(tx: &Transaction<'_>, table: &str, column: &str) -> rusqlite::Result<bool> {
    tx.query_one("SELECT count(*) > 0 FROM pragma_table_info(?1) WHERE name = ?2", [table, column], |row| {
        row.get(0)
    })
}
