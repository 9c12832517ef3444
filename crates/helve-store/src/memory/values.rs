//! The values: reading, changing, and forgetting what has expired.
//!
//! What an owner has in a scope is counted in a table beside, so that limits cost no scan. What has
//! expired counts until it is swept, a few with every change, and all of it before anybody is told
//! that there is no room.
//!
//! Several plain statements instead of one with `RETURNING` or a subquery: SQLite makes a table in
//! memory for those each time, which costs more than all the rest.

use helve_core::memory::{
    Changed, MemoryChange, MemoryError, MemoryLimits, MemoryPlace, MemoryScope, Remembered,
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::ValueError;

pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS memory (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL,
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    version INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    expires_at INTEGER,
    bytes INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS memory_by_place ON memory (scope, owner, key);
CREATE INDEX IF NOT EXISTS memory_by_expiry ON memory (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS memory_totals (
    scope INTEGER NOT NULL,
    owner TEXT NOT NULL,
    value_count INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (scope, owner)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO meta VALUES ('memory_version', 0);
";

/// How many expired values are forgotten with every change.
const SWEPT_PER_CHANGE: i64 = 4;

/// How many at once where there is no room.
const SWEPT_FOR_ROOM: i64 = 1_000;

/// A scope's number in the table.
pub(super) fn number(scope: MemoryScope) -> i64 {
    match scope {
        MemoryScope::Working => 0,
        MemoryScope::ShortTerm => 1,
        MemoryScope::LongTerm => 2,
    }
}

/// The value at a place, if it is there and has not expired.
pub(crate) fn read(
    db: &Connection,
    place: &MemoryPlace,
    now: Timestamp,
) -> Result<Option<Remembered>, ValueError> {
    Ok(find(db, place)?.map(|stored| stored.remembered).filter(|remembered| remembered.is_alive(now)))
}

/// An owner's values whose keys start with `prefix`.
pub(crate) fn list(
    db: &Connection,
    scope: MemoryScope,
    owner: String,
    prefix: &str,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<(String, Remembered)>, ValueError> {
    let mut select = db.prepare_cached(
        "SELECT value, version, changed_at, expires_at, bytes, key FROM memory \
         WHERE scope = ?1 AND owner = ?2 AND key >= ?3 AND (expires_at IS NULL OR expires_at > ?4) ORDER BY key",
    )?;
    let mut rows = select.query(params![number(scope), owner, prefix, now.as_microsecond()])?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let key: String = row.get(5)?;
        // Keys that begin alike stand together.
        if !key.starts_with(prefix) {
            break;
        }
        let stored = read_row(row)?.ok_or_else(|| {
            ValueError::damaged(&MemoryPlace { scope, owner: owner.clone(), key: key.clone() })
        })?;
        found.push((key, stored.remembered));
    }
    Ok(found)
}

/// Changes a value. A refusal leaves everything as it was.
pub(crate) fn change(
    db: &Connection,
    place: &MemoryPlace,
    change: &MemoryChange,
    limits: &MemoryLimits,
    now: Timestamp,
) -> Result<Changed, ValueError> {
    let stored = find(db, place)?;
    let before = stored.as_ref().map(|stored| &stored.remembered).filter(|value| value.is_alive(now));
    let value = change.evaluate(before)?;
    let before = before.cloned();
    if let Some(value) = &value {
        let bytes = text(value)?.len();
        if bytes > limits.value_bytes_max {
            return Err(MemoryError::Full { what: "the value's bytes", max: limits.value_bytes_max }.into());
        }
        make_room(db, place, bytes, limits, now)?;
    }
    let expires_at = change.time_to_live.map(|time| now.checked_add(time).unwrap_or(Timestamp::MAX));
    let after = put(db, place, value, expires_at, now)?;
    sweep(db, now, SWEPT_PER_CHANGE)?;
    Ok(Changed { before, after })
}

/// Sets or removes a value, whatever the limits.
pub(super) fn put(
    db: &Connection,
    place: &MemoryPlace,
    value: Option<Value>,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<Option<Remembered>, ValueError> {
    let replaced: Option<(i64, i64)> = db
        .prepare_cached("SELECT id, bytes FROM memory WHERE scope = ?1 AND owner = ?2 AND key = ?3")?
        .query_one(params![number(place.scope), place.owner, place.key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some(value) = value else {
        if let Some((id, bytes)) = replaced {
            remove(db, id)?;
            count(db, number(place.scope), &place.owner, -1, -bytes)?;
        }
        return Ok(None);
    };
    let text = text(&value)?;
    let bytes = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let version = next_version(db)?;
    let (changed_at, expires_us) = (now.as_microsecond(), expires_at.map(Timestamp::as_microsecond));
    match replaced {
        Some((id, _)) => db
            .prepare_cached(
                "UPDATE memory SET value = ?2, version = ?3, changed_at = ?4, expires_at = ?5, bytes = ?6 \
                 WHERE id = ?1",
            )?
            .execute(params![id, text, version, changed_at, expires_us, bytes])?,
        None => db
            .prepare_cached(
                "INSERT INTO memory (value, version, changed_at, expires_at, bytes, scope, owner, key) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                text,
                version,
                changed_at,
                expires_us,
                bytes,
                number(place.scope),
                place.owner,
                place.key
            ])?,
    };
    let (more, old_bytes) = replaced.map_or((1, 0), |(_, bytes)| (0, bytes));
    count(db, number(place.scope), &place.owner, more, bytes - old_bytes)?;
    Ok(Some(Remembered { value, version: version.unsigned_abs(), changed_at: now, expires_at }))
}

/// One number for all keys, so that none has a version twice, also not after a deletion.
fn next_version(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("UPDATE meta SET value = value + 1 WHERE name = 'memory_version'")?.execute([])?;
    db.prepare_cached("SELECT value FROM meta WHERE name = 'memory_version'")?.query_one([], |row| row.get(0))
}

/// Makes sure that a value of so many bytes may be put at a place.
fn make_room(
    db: &Connection,
    place: &MemoryPlace,
    bytes: usize,
    limits: &MemoryLimits,
    now: Timestamp,
) -> Result<(), ValueError> {
    loop {
        let replaced = find(db, place)?.map(|stored| stored.bytes);
        let totals = totals(db, place)?;
        let values = totals.values + usize::from(replaced.is_none());
        let all_bytes = (totals.bytes + bytes).saturating_sub(replaced.unwrap_or(0));
        // What does not grow is let through, should the limits have been lowered.
        let lack = if values > limits.values_max && replaced.is_none() {
            MemoryError::Full { what: "the number of values", max: limits.values_max }
        } else if all_bytes > limits.bytes_max && bytes > replaced.unwrap_or(0) {
            MemoryError::Full { what: "the bytes of all values", max: limits.bytes_max }
        } else {
            return Ok(());
        };
        if sweep(db, now, SWEPT_FOR_ROOM)? == 0 {
            return Err(lack.into());
        }
    }
}

/// What an owner has in a scope.
#[derive(Default)]
struct Totals {
    values: usize,
    bytes: usize,
}

fn totals(db: &Connection, place: &MemoryPlace) -> rusqlite::Result<Totals> {
    let size = |number: i64| usize::try_from(number).unwrap_or(0);
    db.prepare_cached("SELECT value_count, bytes FROM memory_totals WHERE scope = ?1 AND owner = ?2")?
        .query_one(params![number(place.scope), place.owner], |row| {
            Ok(Totals { values: size(row.get(0)?), bytes: size(row.get(1)?) })
        })
        .optional()
        .map(Option::unwrap_or_default)
}

fn count(db: &Connection, scope: i64, owner: &str, values: i64, bytes: i64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO memory_totals VALUES (?1, ?2, ?3, ?4) ON CONFLICT (scope, owner) \
         DO UPDATE SET value_count = value_count + excluded.value_count, bytes = bytes + excluded.bytes",
    )?
    .execute(params![scope, owner, values, bytes])?;
    if values < 0 {
        db.prepare_cached("DELETE FROM memory_totals WHERE scope = ?1 AND owner = ?2 AND value_count <= 0")?
            .execute(params![scope, owner])?;
    }
    Ok(())
}

/// Forgets what expired first, anybody's, and returns how much.
fn sweep(db: &Connection, now: Timestamp, most: i64) -> rusqlite::Result<usize> {
    let swept = db
        .prepare_cached(
            "SELECT id, scope, owner, bytes FROM memory WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2",
        )?
        .query_map(params![now.as_microsecond(), most], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?
        .collect::<rusqlite::Result<Vec<(i64, i64, String, i64)>>>()?;
    for (id, scope, owner, bytes) in &swept {
        remove(db, *id)?;
        count(db, *scope, owner, -1, -bytes)?;
    }
    Ok(swept.len())
}

fn remove(db: &Connection, id: i64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM memory WHERE id = ?1")?.execute([id]).map(drop)
}

/// A row, whether or not it has expired.
struct Stored {
    remembered: Remembered,
    bytes: usize,
}

fn find(db: &Connection, place: &MemoryPlace) -> Result<Option<Stored>, ValueError> {
    let found = db
        .prepare_cached(
            "SELECT value, version, changed_at, expires_at, bytes FROM memory \
             WHERE scope = ?1 AND owner = ?2 AND key = ?3",
        )?
        .query_one(params![number(place.scope), place.owner, place.key], read_row)
        .optional()?;
    found.map(|row| row.ok_or_else(|| ValueError::damaged(place))).transpose()
}

/// None where it is damaged.
fn read_row(row: &Row<'_>) -> rusqlite::Result<Option<Stored>> {
    let time = |micros: i64| Timestamp::from_microsecond(micros).ok();
    let (value, version): (String, i64) = (row.get(0)?, row.get(1)?);
    let (changed_at, expires_at): (i64, Option<i64>) = (row.get(2)?, row.get(3)?);
    let bytes: i64 = row.get(4)?;
    let parsed = serde_json::from_str(&value).ok().zip(time(changed_at)).zip(u64::try_from(version).ok());
    Ok(parsed.map(|((value, changed_at), version)| Stored {
        // A time that cannot be told is past all others.
        remembered: Remembered { value, version, changed_at, expires_at: expires_at.and_then(time) },
        bytes: usize::try_from(bytes).unwrap_or(0),
    }))
}

fn text(value: &Value) -> Result<String, ValueError> {
    serde_json::to_string(value).map_err(|error| {
        let error =
            helve_core::ports::JournalError::new("the value cannot be written as JSON").with_source(error);
        ValueError::Memory(error.into())
    })
}
