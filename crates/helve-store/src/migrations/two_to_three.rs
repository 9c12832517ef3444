//! Format 2 stood for several: entries had a time to be found by from its second day on, and tables came later.

use helve_core::CallId;
use rusqlite::types::Value;
use rusqlite::{Transaction, params_from_iter};

use crate::schema;

/// What an entry has in every format.
const COLUMNS: &str = "seq, kind, call_id, hash, commitment, salt, head, payload";

/// Tables that got a salt. Each row gets its own when the migration vouches for it.
const SALTED: [(&str, &str); 2] = [
    ("memory", "id, scope, owner, key, value, version, changed_at, expires_at, bytes"),
    ("effects", "call_id, number, run_id, scope, owner, key, added, before, version, expires_at"),
];

pub(super) fn apply(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut anew = Vec::new();
    if !has_column(tx, "entries", "made_ms")? {
        anew.push("entries");
    }
    for (table, _) in SALTED {
        if schema::table_exists(tx, table)? {
            anew.push(table);
        }
    }
    // Their indexes go with the old tables.
    for table in &anew {
        tx.execute_batch(&format!("ALTER TABLE {table} RENAME TO {table}_before"))?;
        drop_indexes(tx, &format!("{table}_before"))?;
    }
    schema::create_missing(tx)?;
    if anew.contains(&"entries") {
        copy_entries(tx)?;
    }
    for (table, columns) in SALTED.into_iter().filter(|(table, _)| anew.contains(table)) {
        let copy = format!("INSERT INTO {table} ({columns}, salt) SELECT {columns}, x'' FROM {table}_before");
        tx.execute_batch(&copy)?;
    }
    anew.iter().try_for_each(|table| tx.execute_batch(&format!("DROP TABLE {table}_before")))
}

/// Frees the names of a table's indexes for those of the table that takes its place.
fn drop_indexes(tx: &Transaction<'_>, table: &str) -> rusqlite::Result<()> {
    let names = tx
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1 AND sql IS NOT NULL")?
        .query_map([table], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    names
        .iter()
        .try_for_each(|name| tx.execute_batch(&format!("DROP INDEX \"{}\"", name.replace('"', "\"\""))))
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
