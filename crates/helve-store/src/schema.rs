//! The database file: its tables, its settings, and the entries' last position.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, TransactionBehavior};

use crate::approvals::table as approvals;
use crate::error::StoreError;
use crate::identity::table as identity;
use crate::memory::{effects, values};
use crate::prune;
use crate::runs::table as runs;
use crate::sessions::table as sessions;
use crate::vouch;
use helve_ledger::chain::Position;

/// The format that this version writes. See `migrations/` for the earlier ones.
pub(crate) const VERSION: i64 = 3;

/// More than the writer has statements, so that it prepares none twice. A cache that is too small
/// by one is as good as none, where they are used in turn.
const STATEMENTS_MAX: usize = 64;

/// The pages of a new file. Every group writes each page that it touches into the log as a whole, and most groups
/// are small: with pages of 16,384 bytes, a composed call wrote more than twice as many bytes for the same work of the
/// processor, and a call took a quarter more in the file (`cargo run -p helve-store --example bytes`).
const PAGE_BYTES: u32 = 4_096;

/// Pages in the log after which it is moved into the database: 16 MiB, so that this is seldom.
const LOG_PAGES: u32 = 4_096;

/// Pages that nothing uses can be given back a few at a time. That has to be said before a file has its first
/// table, because each page then is noted with what refers to it: one page in 3,000. Rewriting the whole file
/// instead, with `VACUUM`, would keep everybody waiting. Files of earlier versions use free pages again.
pub(crate) const AUTO_VACUUM_INCREMENTAL: i64 = 2;

/// How long to wait for another process's transaction.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before a file that others are just making is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

// - `entries`: the chain. `payload` and `salt` are NULL once erased. `made_ms` is the time in the
//   call's id, 0 without a call, and where a call's entries are found. Indexed instead of the id,
//   because small numbers that only grow make the cheapest index: they go to its right edge.
//   `run_id` is there for parts of runs alone, so that other calls do not pay for its index. Which calls are
//   runs is told by their starts and steps, and by their parts: `entries_of_runs` finds the former and costs
//   calls that only read nothing. `entries_about_journal` leads to the few that tell of the journal itself.
// - `keys`: idempotency keys. See `keys.rs`.
// - `room`: empty but for a moment, when it is tried whether the disk has space again.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    seq INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    made_ms INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    run_id TEXT,
    hash BLOB NOT NULL,
    commitment BLOB NOT NULL,
    salt BLOB,
    head TEXT NOT NULL,
    payload TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS entries_by_time ON entries (made_ms);
CREATE INDEX IF NOT EXISTS entries_by_run ON entries (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS entries_about_journal ON entries (kind) WHERE kind IN (5, 11);
CREATE INDEX IF NOT EXISTS entries_of_runs ON entries (made_ms) WHERE run_id IS NULL AND kind IN (0, 6);
CREATE TABLE IF NOT EXISTS keys (
    scoped_key BLOB PRIMARY KEY,
    fingerprint BLOB NOT NULL,
    call_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    state INTEGER NOT NULL,
    status TEXT,
    seal BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS room (id INTEGER PRIMARY KEY, filler BLOB NOT NULL) STRICT;
";

/// All tables. Those of runs, memory and approvals are described where they are used.
const ALL_TABLES: [&str; 8] = [
    TABLES,
    vouch::TABLES,
    runs::TABLES,
    values::TABLES,
    effects::TABLES,
    approvals::TABLES,
    sessions::TABLES,
    identity::TABLES,
];

/// Creates an empty file that only this user may read, unless there is one.
pub(crate) fn create_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // Never opens a file that exists: closing it again would drop SQLite's locks on it.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Which file stands at a path, to notice when another one does.
#[cfg(unix)]
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Which file stands at a path. Only Unix can delete a file that is open.
#[cfg(not(unix))]
pub(crate) fn identity(_path: &Path) -> Option<(u64, u64)> {
    None
}

/// Opens a file of this format for writing. An empty file gets its tables.
pub(crate) fn open(path: &Path) -> Result<Connection, StoreError> {
    let sqlite = |source| StoreError::sqlite(path, source);
    let mut db = connect(path, BUSY_TIMEOUT)?;
    // SQLite itself does not wait for others while the log is first made, nor for their locks then.
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        let prepared = check_version(&db, path).and_then(|()| configure(&db).map_err(sqlite));
        match prepared.and_then(|()| create_tables(&mut db).map_err(sqlite)) {
            Ok(()) => return Ok(db),
            Err(StoreError::Busy { .. }) if Instant::now() < deadline => std::thread::sleep(BUSY_PAUSE),
            Err(error) => return Err(error),
        }
    }
}

/// A ledger in which nothing is, and which no file holds.
pub(crate) fn nothing() -> rusqlite::Result<Connection> {
    let db = Connection::open_in_memory()?;
    create_missing(&db)?;
    Ok(db)
}

/// Refuses a file of another program or of a later format.
pub(crate) fn check_file(path: &Path) -> Result<(), StoreError> {
    format(&connect(path, BUSY_TIMEOUT)?, path).map(drop)
}

/// A connection that may write, to a file of any format.
pub(crate) fn connect(path: &Path, busy_timeout: Duration) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connected = Connection::open_with_flags(path, flags).and_then(|db| {
        db.busy_timeout(busy_timeout)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        Ok(db)
    });
    connected.map_err(|source| StoreError::sqlite(path, source))
}

pub(crate) fn configure(db: &Connection) -> rusqlite::Result<()> {
    // Before the log is made, since from then on it cannot change: a file that is there keeps its own.
    db.pragma_update(None, "page_size", PAGE_BYTES)?;
    db.pragma_update(None, "auto_vacuum", AUTO_VACUUM_INCREMENTAL)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    // NORMAL would lose acknowledged entries in a power cut.
    db.pragma_update(None, "synchronous", "full")?;
    // Erased payloads are overwritten, not just forgotten.
    db.pragma_update(None, "secure_delete", "on")?;
    db.pragma_update(None, "trusted_schema", "off")
}

fn create_tables(db: &mut Connection) -> rusqlite::Result<()> {
    if !is_empty(db)? {
        return Ok(());
    }
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process, of a later version say, may have been faster.
    if is_empty(&tx)? {
        create_missing(&tx)?;
        tx.execute("INSERT INTO meta VALUES ('schema_version', ?1)", [VERSION])?;
    }
    tx.commit()
}

/// Creates the tables and indexes that are not there.
pub(crate) fn create_missing(db: &Connection) -> rusqlite::Result<()> {
    ALL_TABLES.into_iter().try_for_each(|tables| db.execute_batch(tables))
}

/// Refuses files of other programs and of other formats. An empty file is a new journal.
pub(crate) fn check_version(db: &Connection, path: &Path) -> Result<(), StoreError> {
    match format(db, path)? {
        Some(found) if found < VERSION => {
            Err(StoreError::Older { path: path.to_owned(), found, known: VERSION })
        }
        Some(_) | None => Ok(()),
    }
}

/// The format of a file, ours or an earlier one. None: it is empty.
pub(crate) fn format(db: &Connection, path: &Path) -> Result<Option<i64>, StoreError> {
    let sqlite = |source| StoreError::sqlite(path, source);
    if is_empty(db).map_err(sqlite)? {
        return Ok(None);
    }
    if !table_exists(db, "meta").map_err(sqlite)? {
        return Err(StoreError::Foreign(path.to_owned()));
    }
    match version(db).map_err(sqlite)? {
        None => Err(StoreError::Foreign(path.to_owned())),
        Some(found) if found > VERSION => {
            Err(StoreError::Newer { path: path.to_owned(), found, known: VERSION })
        }
        found @ Some(_) => Ok(found),
    }
}

/// The number that the file says. Read in every transaction: a later version may migrate the file while we have
/// it open.
pub(crate) fn version(db: &Connection) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT value FROM meta WHERE name = 'schema_version'")?
        .query_one([], |row| row.get(0))
        .optional()
}

pub(crate) fn table_exists(db: &Connection, name: &str) -> rusqlite::Result<bool> {
    db.query_one("SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?1", [name], |row| {
        row.get(0)
    })
}

/// What differs between the tables and those that we make, in words. A trigger or a view could
/// change what we write or read.
pub(crate) fn difference(db: &Connection) -> rusqlite::Result<Option<String>> {
    let (ours, found) = (definitions(&nothing()?)?, definitions(db)?);
    // Backwards, so that a table is missed before its index.
    for (object @ (kind, name), definition) in ours.iter().rev() {
        match found.get(object) {
            Some(found) if found == definition => {}
            Some(_) => return Ok(Some(format!("the {kind} `{name}` is not as Helve made it"))),
            None => return Ok(Some(format!("the {kind} `{name}` is gone"))),
        }
    }
    let foreign = found.iter().find(|(object, _)| !ours.contains_key(*object));
    Ok(foreign.map(|((kind, name), (table, _))| match kind.as_str() {
        "trigger" => format!("the table `{table}` has a trigger that Helve did not make: `{name}`"),
        "index" => format!("the table `{table}` has an index that Helve did not make: `{name}`"),
        _ => format!("there is a {kind} that Helve did not make: `{name}`"),
    }))
}

/// Kind and name of what a database holds.
type Object = (String, String);

/// Everything in a database, each with its table and the SQL that made it.
fn definitions(db: &Connection) -> rusqlite::Result<BTreeMap<Object, (String, Option<String>)>> {
    db.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema")?
        .query_map([], |row| Ok(((row.get(0)?, row.get(1)?), (row.get(2)?, row.get(3)?))))?
        .collect()
}

/// Whether there is nothing in the database yet.
pub(crate) fn is_empty(db: &Connection) -> rusqlite::Result<bool> {
    db.query_one("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// How far the chain has come. Read in every transaction, since other processes write too.
pub(crate) fn position(db: &Connection) -> rusqlite::Result<Position> {
    db.prepare_cached("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1")?
        .query_one([], read_position)
        .optional()
        .map(|last| last.unwrap_or(Position::START))
}

/// Whether the chain once stood at `position`, which an anchor tells. The entry must be there: no pruning takes the one
/// that an honest anchor knows, and anybody could write a cut that nobody signed.
pub(crate) fn passed(db: &Connection, position: Position) -> rusqlite::Result<bool> {
    if position.seq == 0 {
        return Ok(true);
    }
    Ok(entry_at(db, position.seq)? == Some(position))
}

/// Whether the chain once stood where this process left it, which another one may have pruned since.
pub(crate) fn passed_or_pruned(db: &Connection, position: Position) -> rusqlite::Result<bool> {
    if position.seq == 0 {
        return Ok(true);
    }
    match entry_at(db, position.seq)? {
        Some(found) => Ok(found == position),
        // That the cut is signed is for `verify` to say.
        None => Ok(position.seq <= prune::last_cut(db)?),
    }
}

fn entry_at(db: &Connection, seq: i64) -> rusqlite::Result<Option<Position>> {
    db.prepare_cached("SELECT seq, hash FROM entries WHERE seq = ?1")?
        .query_one([seq], read_position)
        .optional()
}

/// The last entry that notes that a person accepted the journal; 0 where there is none.
pub(crate) fn accepted_at(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT ifnull(max(seq), 0) FROM entries WHERE kind IN (5, 11) AND kind = 5")?
        .query_one([], |row| row.get(0))
}

fn read_position(row: &Row<'_>) -> rusqlite::Result<Position> {
    Ok(Position { seq: row.get(0)?, hash: row.get(1)? })
}
