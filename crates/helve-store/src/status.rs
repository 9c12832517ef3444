//! What a ledger takes on disk.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;

use crate::audit::{Audit, CALLS};
use crate::error::StoreError;
use crate::schema;

/// What a ledger takes on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoreStatus {
    /// The database's size.
    pub bytes: u64,
    /// How much of it is free, for entries to come.
    pub free_bytes: u64,
    /// The size of the log next to it.
    pub log_bytes: u64,
    /// The size of former contents of files, kept to undo changes.
    pub files_bytes: u64,
    /// The size of ledgers that a restore put aside.
    pub aside_bytes: u64,
    /// The first entry that is there; 0 where there is none.
    pub first_entry: i64,
    /// The last one.
    pub last_entry: i64,
    /// How many calls they are about.
    pub calls: u64,
    /// When the first entry was written.
    pub oldest: Option<Timestamp>,
    /// What a call takes on average, all that is written with it included. 0 without calls.
    pub bytes_per_call: u64,
}

impl Audit {
    /// What the ledger takes on disk. Counts calls, so it reads an index from end to end.
    pub fn status(&self) -> Result<StoreStatus, StoreError> {
        let db = self.connect()?;
        let read = || read(&db, self.path());
        read().map_err(|source| self.error(source))
    }
}

fn read(db: &Connection, path: &Path) -> rusqlite::Result<StoreStatus> {
    let number =
        |sql: &str| db.query_one(sql, [], |row| row.get::<_, i64>(0)).map(|found| found.unsigned_abs());
    let page_bytes = number("PRAGMA page_size")?;
    let free_bytes = number("PRAGMA freelist_count")? * page_bytes;
    let used = (number("PRAGMA page_count")? * page_bytes).saturating_sub(free_bytes);
    let first: Option<(i64, Option<String>)> = db
        .query_one("SELECT seq, head ->> 'at' FROM entries ORDER BY seq LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let calls = number(CALLS)?;
    let beside = |ending: &str| {
        let mut file = path.as_os_str().to_owned();
        file.push(ending);
        size(Path::new(&file))
    };
    Ok(StoreStatus {
        bytes: size(path),
        free_bytes,
        log_bytes: beside("-wal"),
        files_bytes: beside(".backups"),
        aside_bytes: beside(".before"),
        first_entry: first.as_ref().map_or(0, |(seq, _)| *seq),
        last_entry: schema::position(db)?.seq,
        calls,
        oldest: first.and_then(|(_, at)| at?.parse().ok()),
        bytes_per_call: used.checked_div(calls).unwrap_or(0),
    })
}

/// The size of a file, or of all files in a folder. What is not there has none.
fn size(path: &Path) -> u64 {
    let Ok(found) = std::fs::symlink_metadata(path) else { return 0 };
    match found.is_dir() {
        true => {
            std::fs::read_dir(path).map_or(0, |files| files.flatten().map(|file| size(&file.path())).sum())
        }
        false => found.len(),
    }
}
