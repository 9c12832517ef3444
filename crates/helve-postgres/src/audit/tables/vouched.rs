//! Memory, sessions and API keys: each row is as the last entry that names it tells, and none is missing.

use std::collections::BTreeMap;

use helve_ledger::audit::verification::Concern;
use jiff::Timestamp;

use super::{Difference, difference};
use crate::audit::PAGE;
use crate::error::PostgresError;
use crate::server::Readers;
use crate::sql::params;
use crate::vouched;

/// A table whose rows are vouched for.
struct Table {
    concern: Concern,
    name: &'static str,
    /// The row's name in entries, after the table's.
    key: &'static str,
    /// What its rows are read in order of, where that begins, and its type.
    order: (&'static str, &'static str, &'static str),
}

const TABLES: [Table; 3] = [
    Table { concern: Concern::Memory, name: "memory", key: "t.id::text", order: ("t.id", "0", "int8") },
    Table { concern: Concern::Sessions, name: "sessions", key: "t.key", order: ("t.key", "", "text") },
    Table { concern: Concern::ApiKeys, name: "api_keys", key: "t.id", order: ("t.id", "", "text") },
];

/// Compares all tables, both ways.
pub(super) async fn check(readers: &Readers) -> Result<Option<Difference>, PostgresError> {
    for table in &TABLES {
        if let Some(found) = check_rows(readers, table).await? {
            return Ok(Some(found));
        }
    }
    check_missing(readers).await
}

/// Every row, with the last entry about it.
async fn check_rows(readers: &Readers, table: &Table) -> Result<Option<Difference>, PostgresError> {
    let Table { concern, name, key, order: (order, begin, kind) } = table;
    let columns = match *name {
        "memory" => crate::memory::SEALED,
        "sessions" => crate::writer::SEALED_SESSION,
        _ => "t.body",
    };
    let page = format!(
        "SELECT {key}, (SELECT e.head FROM helve.entries e WHERE e.about = '{name}/' || {key} ORDER BY e.id DESC LIMIT 1), \
         {columns} FROM helve.{name} t WHERE {order} > $1::text::{kind} ORDER BY {order} LIMIT $2"
    );
    let mut after = (*begin).to_owned();
    loop {
        let rows = readers.query(&page, params![&*after, PAGE]).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        after = last.get(0);
        for row in &rows {
            let seal = match *name {
                "memory" => crate::memory::seal_of_row(row, 2),
                "sessions" => crate::writer::session_seal_of_row(row, 2),
                _ => Some(crate::writer::key_seal(row.get(2))),
            };
            if seal.is_some() && seal != vouched::seal(row.get(1)) {
                let what = format!(
                    "the row {} in the table `{name}` is not what was written: it was changed or added",
                    row.get::<_, &str>(0)
                );
                return Ok(difference(*concern, None, what));
            }
        }
    }
}

/// The last entries about rows that must be there.
async fn check_missing(readers: &Readers) -> Result<Option<Difference>, PostgresError> {
    let page = "SELECT DISTINCT ON (e.about) e.about, e.head, e.seq,
                    EXISTS (SELECT 1 FROM helve.memory m
                            WHERE m.id = CASE WHEN e.about ~ '^memory/[0-9]{1,18}$' THEN substr(e.about, 8)::int8 END)
                    OR EXISTS (SELECT 1 FROM helve.sessions s
                               WHERE e.about LIKE 'sessions/%' AND s.key = substr(e.about, 10) AND s.body IS NOT NULL)
                    OR EXISTS (SELECT 1 FROM helve.api_keys k WHERE e.about LIKE 'api_keys/%' AND k.id = substr(e.about, 10))
                FROM helve.entries e WHERE e.about > $1 ORDER BY e.about, e.id DESC LIMIT $2";
    let now_us = Timestamp::now().as_microsecond();
    let concerns: BTreeMap<&str, Concern> = TABLES.iter().map(|table| (table.name, table.concern)).collect();
    let mut after = String::new();
    loop {
        let rows = readers.query(page, params![&*after, PAGE]).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        after = last.get(0);
        for row in &rows {
            let (about, is_there): (&str, bool) = (row.get(0), row.get(3));
            let table = about.split('/').next().unwrap_or_default();
            if let Some(concern) = concerns.get(table)
                && !is_there
                && vouched::is_due(row.get(1), now_us)
            {
                let what = format!("the row `{about}` was removed from the table `{table}`");
                return Ok(difference(*concern, Some(row.get(2)), what));
            }
        }
    }
}
