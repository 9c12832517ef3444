//! The values: reading, changing, and forgetting what has expired.
//!
//! What an owner has in a scope is counted in a separate table, so that limits cost no scan. What has
//! expired counts until it is swept, a few with every change, and all of it before anybody is told
//! that there is no room.
//!
//! An entry vouches for every value: see `vouch.rs`. A value that is not as its entry tells is not read.
//!
//! Several plain statements instead of one with `RETURNING` or a subquery: SQLite makes a table in
//! memory for those each time, which costs more than all the rest.

use helve_core::memory::{
    Changed, MemoryChange, MemoryError, MemoryLimits, MemoryPlace, MemoryScope, Operation, Remembered,
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::ValueError;
use crate::keys::Disagreement;
use crate::vouch::{self, Register, Voucher};

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
    bytes INTEGER NOT NULL,
    salt BLOB NOT NULL
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
    Ok(find(db, place)?.filter(|remembered| remembered.is_alive(now)))
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
        "SELECT value, version, changed_at, expires_at, id, salt, key FROM memory \
         WHERE scope = ?1 AND owner = ?2 AND key >= ?3 AND (expires_at IS NULL OR expires_at > ?4) ORDER BY key",
    )?;
    let mut rows = select.query(params![number(scope), owner, prefix, now.as_microsecond()])?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let key: String = row.get(6)?;
        // Keys that begin alike stand together.
        if !key.starts_with(prefix) {
            break;
        }
        let place = MemoryPlace { scope, owner: owner.clone(), key };
        let stored = Stored::read(row)?;
        let remembered = stored.checked(db, &place)?;
        found.push((place.key, remembered));
    }
    Ok(found)
}

/// What became of a value, and what the journal is to tell of it.
pub(crate) struct Put<T> {
    pub(crate) changed: T,
    /// Absent: nothing was there and nothing is.
    pub(crate) voucher: Option<Voucher>,
}

/// Changes a value. A refusal leaves everything as it was.
pub(crate) fn change(
    db: &Connection,
    place: &MemoryPlace,
    change: &MemoryChange,
    limits: &MemoryLimits,
    now: Timestamp,
) -> Result<Put<Changed>, ValueError> {
    let before = match find(db, place) {
        // A caller that says what is to be there, or that nothing is, need not know what was. So a person can put right
        // a value that was changed outside of Helve.
        Err(ValueError::Memory(_)) if is_whatever_was(change) => None,
        found => found?.filter(|value| value.is_alive(now)),
    };
    let value = change.evaluate(before.as_ref())?;
    if let Some(value) = &value {
        let bytes = text(value)?.len();
        if bytes > limits.value_bytes_max {
            return Err(MemoryError::Full { what: "the value's bytes", max: limits.value_bytes_max }.into());
        }
        make_room(db, place, bytes, limits, now)?;
    }
    let expires_at = change.time_to_live.map(|time| now.checked_add(time).unwrap_or(Timestamp::MAX));
    let Put { changed: after, voucher } = put(db, place, value, expires_at, now)?;
    sweep(db, now, SWEPT_PER_CHANGE)?;
    Ok(Put { changed: Changed { before, after }, voucher })
}

fn is_whatever_was(change: &MemoryChange) -> bool {
    match change.operation {
        Operation::Write(_) | Operation::Delete => change.expected_version.is_none(),
        Operation::Add(_) | Operation::Update(_) => false,
    }
}

/// Sets or removes a value, whatever the limits.
pub(super) fn put(
    db: &Connection,
    place: &MemoryPlace,
    value: Option<Value>,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<Put<Option<Remembered>>, ValueError> {
    let replaced: Option<(i64, i64)> = db
        .prepare_cached("SELECT id, bytes FROM memory WHERE scope = ?1 AND owner = ?2 AND key = ?3")?
        .query_one(params![number(place.scope), place.owner, place.key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some(value) = value else {
        if let Some((id, bytes)) = replaced {
            remove(db, id)?;
            count(db, number(place.scope), &place.owner, -1, -bytes)?;
        }
        let voucher = replaced.map(|(id, _)| Voucher { row: row_name(id), seal: None, until_us: None });
        return Ok(Put { changed: None, voucher });
    };
    let text = text(&value)?;
    let bytes = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let version = next_version(db)?;
    let (changed_at, expires_us) = (now.as_microsecond(), expires_at.map(Timestamp::as_microsecond));
    let salt = vouch::salt()?;
    let id = match replaced {
        Some((id, _)) => {
            db.prepare_cached(
                "UPDATE memory SET value = ?2, version = ?3, changed_at = ?4, expires_at = ?5, bytes = ?6, \
                 salt = ?7 WHERE id = ?1",
            )?
            .execute(params![id, text, version, changed_at, expires_us, bytes, salt])?;
            id
        }
        None => db
            .prepare_cached(
                "INSERT INTO memory (value, version, changed_at, expires_at, bytes, scope, owner, key, salt) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .insert(params![
                text,
                version,
                changed_at,
                expires_us,
                bytes,
                number(place.scope),
                place.owner,
                place.key,
                salt
            ])?,
    };
    let stored = Stored { text, version, changed_at, expires_at: expires_us, id, salt: salt.to_vec() };
    let (more, old_bytes) = replaced.map_or((1, 0), |(_, bytes)| (0, bytes));
    count(db, number(place.scope), &place.owner, more, bytes - old_bytes)?;
    let changed = Some(Remembered { value, version: version.unsigned_abs(), changed_at: now, expires_at });
    Ok(Put { changed, voucher: Some(stored.voucher(place)) })
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
        let replaced = bytes_at(db, place)?;
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
    text: String,
    version: i64,
    changed_at: i64,
    expires_at: Option<i64>,
    id: i64,
    salt: Vec<u8>,
}

impl Stored {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            text: row.get(0)?,
            version: row.get(1)?,
            changed_at: row.get(2)?,
            expires_at: row.get(3)?,
            id: row.get(4)?,
            salt: row.get(5)?,
        })
    }

    /// What it says, if the journal vouches for it.
    fn checked(&self, db: &Connection, place: &MemoryPlace) -> Result<Remembered, ValueError> {
        let told = vouch::last(db, &row_name(self.id))?;
        if !vouch::tells(told.as_ref(), &self.seal(place)) {
            return Err(ValueError::forged(place));
        }
        self.remembered().ok_or_else(|| ValueError::damaged(place))
    }

    /// None where it is damaged.
    fn remembered(&self) -> Option<Remembered> {
        let time = |micros: i64| Timestamp::from_microsecond(micros).ok();
        Some(Remembered {
            value: serde_json::from_str(&self.text).ok()?,
            version: u64::try_from(self.version).ok()?,
            changed_at: time(self.changed_at)?,
            // A time that cannot be told is past all others.
            expires_at: self.expires_at.and_then(time),
        })
    }

    fn seal(&self, place: &MemoryPlace) -> String {
        let expires_at = self.expires_at.map(i64::to_le_bytes);
        let columns = [
            Some(&self.id.to_le_bytes()[..]),
            Some(&number(place.scope).to_le_bytes()),
            Some(place.owner.as_bytes()),
            Some(place.key.as_bytes()),
            Some(self.text.as_bytes()),
            Some(&self.version.to_le_bytes()),
            Some(&self.changed_at.to_le_bytes()),
            expires_at.as_ref().map(|micros| &micros[..]),
        ];
        vouch::digest(TABLE, &self.salt, &columns)
    }

    fn voucher(&self, place: &MemoryPlace) -> Voucher {
        let (row, seal) = (row_name(self.id), Some(self.seal(place)));
        Voucher { row, seal, until_us: self.expires_at }
    }
}

const TABLE: &str = "memory";

/// How entries name a row.
fn row_name(id: i64) -> String {
    format!("{TABLE}/{id}")
}

fn find(db: &Connection, place: &MemoryPlace) -> Result<Option<Remembered>, ValueError> {
    let found = db
        .prepare_cached(
            "SELECT value, version, changed_at, expires_at, id, salt FROM memory \
             WHERE scope = ?1 AND owner = ?2 AND key = ?3",
        )?
        .query_one(params![number(place.scope), place.owner, place.key], Stored::read)
        .optional()?;
    found.map(|stored| stored.checked(db, place)).transpose()
}

fn bytes_at(db: &Connection, place: &MemoryPlace) -> rusqlite::Result<Option<usize>> {
    let bytes: Option<i64> = db
        .prepare_cached("SELECT bytes FROM memory WHERE scope = ?1 AND owner = ?2 AND key = ?3")?
        .query_one(params![number(place.scope), place.owner, place.key], |row| row.get(0))
        .optional()?;
    Ok(bytes.map(|bytes| usize::try_from(bytes).unwrap_or(0)))
}

/// How entries name the rows that are there.
pub(crate) fn row_names(db: &Connection) -> rusqlite::Result<Vec<String>> {
    db.prepare_cached("SELECT id FROM memory")?.query_map([], |row| row.get(0).map(row_name))?.collect()
}

const PLACED: &str = "SELECT value, version, changed_at, expires_at, id, salt, scope, owner, key FROM memory";

/// A value with its place.
fn read_placed(row: &Row<'_>) -> rusqlite::Result<(MemoryPlace, Stored)> {
    let scope: i64 = row.get(6)?;
    let scope = MemoryScope::ALL.into_iter().find(|known| number(*known) == scope);
    // Of no scope that is kept here: nobody vouches for that.
    let scope = scope.unwrap_or(MemoryScope::Working);
    let place = MemoryPlace { scope, owner: row.get(7)?, key: row.get(8)? };
    Ok((place, Stored::read(row)?))
}

/// What an entry is to tell of every value that an earlier format kept without one, each with its own salt.
pub(crate) fn vouch_for_all(db: &Connection) -> rusqlite::Result<Vec<Voucher>> {
    let ids: Vec<i64> = db
        .prepare("SELECT id FROM memory ORDER BY id")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut vouchers = Vec::new();
    for id in ids {
        db.prepare_cached("UPDATE memory SET salt = ?2 WHERE id = ?1")?
            .execute(params![id, vouch::salt()?])?;
        let (place, stored) =
            db.prepare_cached(&format!("{PLACED} WHERE id = ?1"))?.query_one([id], read_placed)?;
        vouchers.push(stored.voucher(&place));
    }
    Ok(vouchers)
}

/// Compares values and chain, which must be sound, both ways. Returns the first difference. What was missing when
/// a person accepted the journal, at entry `accepted_at`, is not missed again.
pub(crate) fn verify(db: &Connection, accepted_at: i64) -> rusqlite::Result<Option<Disagreement>> {
    let mut told = Register::of(db, TABLE)?;
    let mut select = db.prepare(&format!("{PLACED} ORDER BY id"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (place, stored) = read_placed(row)?;
        let last = told.take(&row_name(stored.id));
        if !vouch::tells(last.as_ref(), &stored.seal(&place)) {
            let what =
                format!("what is remembered as `{}` is not what was written: its row was changed", place.key);
            return Ok(Some(Disagreement { seq: last.map(|last| last.seq), what }));
        }
    }
    if let Some(seq) = told.missed(accepted_at) {
        let what = "a value that was remembered was removed from the table `memory`".to_owned();
        return Ok(Some(Disagreement { seq: Some(seq), what }));
    }
    verify_totals(db)
}

/// What is counted of values must be as they are, or limits would not hold.
fn verify_totals(db: &Connection) -> rusqlite::Result<Option<Disagreement>> {
    const WRONG: [(&str, &str); 3] = [
        (
            "SELECT 1 FROM memory WHERE bytes <> length(CAST(value AS BLOB)) LIMIT 1",
            "a value in the table `memory` has another size than it says",
        ),
        (
            "SELECT 1 FROM (SELECT scope, owner, count(*) AS n, sum(bytes) AS b FROM memory GROUP BY scope, owner) AS a \
             FULL JOIN memory_totals AS t ON a.scope = t.scope AND a.owner = t.owner \
             WHERE a.n IS NOT t.value_count OR a.b IS NOT t.bytes LIMIT 1",
            "the table `memory_totals` does not count what is remembered",
        ),
        (
            "SELECT 1 FROM memory, meta WHERE name = 'memory_version' AND version > meta.value LIMIT 1",
            "a value in the table `memory` has a version that was never given",
        ),
    ];
    for (sql, what) in WRONG {
        if db.prepare(sql)?.exists([])? {
            return Ok(Some(Disagreement { seq: None, what: what.to_owned() }));
        }
    }
    Ok(None)
}

fn text(value: &Value) -> Result<String, ValueError> {
    serde_json::to_string(value).map_err(|error| {
        let error =
            helve_core::ports::JournalError::new("the value cannot be written as JSON").with_source(error);
        ValueError::Memory(error.into())
    })
}
