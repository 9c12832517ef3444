//! What it takes to undo the effects of calls: one row an effect that was applied.
//!
//! The chain tells that an effect was applied; what was there before is a user's data, kept here
//! for a while and erased with its call.

use helve_core::CallId;
use helve_core::memory::{
    MemoryChange, MemoryError, MemoryLimits, MemoryPlace, MemoryScope, Operation, Remembered, negated,
};
use helve_core::ports::EffectId;
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Number;

use super::{ValueError, values};

pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS effects (
    call_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    scope INTEGER NOT NULL,
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    added TEXT,
    before TEXT,
    version INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (call_id, number)
) STRICT;
";

/// How long what an effect did can be undone.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);

/// How many rows of old calls are removed with every effect.
const SWEPT_PER_EFFECT: i64 = 4;

/// What an effect did.
struct Applied {
    place: MemoryPlace,
    /// The number, where one was added.
    added: Option<Number>,
    before: Option<Remembered>,
    /// The version that it wrote; 0 where it removed the value.
    version: u64,
    /// When what it wrote expires.
    expires_at: Option<Timestamp>,
}

/// Whether an effect was applied now or before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applying {
    Now,
    Before,
}

/// Changes a value as the effect of a call, unless that was done before.
pub(crate) fn apply(
    db: &Connection,
    effect: EffectId,
    run: CallId,
    place: &MemoryPlace,
    change: &MemoryChange,
    limits: &MemoryLimits,
    now: Timestamp,
) -> Result<Applying, ValueError> {
    if exists(db, effect)? {
        return Ok(Applying::Before);
    }
    let changed = values::change(db, place, change, limits, now)?;
    let added = match &change.operation {
        Operation::Add(number) => Some(number.to_string()),
        Operation::Write(_) | Operation::Update(_) | Operation::Delete => None,
    };
    let before = changed.before.map(|before| serde_json::to_string(&before)).transpose();
    let before = before.map_err(|_| ValueError::damaged(place))?;
    let version = changed.after.as_ref().map_or(0, |after| after.version);
    let expires_at = changed.after.and_then(|after| after.expires_at).map(Timestamp::as_microsecond);
    db.prepare_cached("INSERT INTO effects VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?.execute(
        params![
            effect.call_id.to_string(),
            effect.index,
            run.to_string(),
            values::number(place.scope),
            place.owner,
            place.key,
            added,
            before,
            i64::try_from(version).unwrap_or(i64::MAX),
            expires_at
        ],
    )?;
    sweep(db, run, now)?;
    Ok(Applying::Now)
}

/// Takes back what an effect did.
pub(crate) fn undo(db: &Connection, effect: EffectId, now: Timestamp) -> Result<(), ValueError> {
    let applied = find(db, effect)?.ok_or(MemoryError::NothingToUndo)?;
    let place = &applied.place;
    let current = values::read(db, place, now)?;
    match (&current, &applied.added) {
        (current, _) if applied.still_stands(current.as_ref(), now) => {
            let before = applied.before.filter(|before| before.is_alive(now));
            let (value, expires_at) = before.map(|before| (before.value, before.expires_at)).unzip();
            values::put(db, place, value, expires_at.flatten(), now)?;
        }
        (Some(current), Some(added)) => {
            let subtract = MemoryChange::new(Operation::Add(negated(added)?));
            let value = subtract.evaluate(Some(current))?;
            values::put(db, place, value, current.expires_at, now)?;
        }
        (None, _) | (Some(_), None) => {
            return Err(MemoryError::ChangedSince { key: place.key.clone() }.into());
        }
    }
    db.prepare_cached("DELETE FROM effects WHERE call_id = ?1 AND number = ?2")?
        .execute(params![effect.call_id.to_string(), effect.index])?;
    Ok(())
}

/// Forgets what was there before the effects of a call.
pub(crate) fn erase(db: &Connection, call_id: CallId) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM effects WHERE call_id = ?1")?.execute([call_id.to_string()]).map(drop)
}

impl Applied {
    /// Whether nobody has changed the value since.
    fn still_stands(&self, current: Option<&Remembered>, now: Timestamp) -> bool {
        match current {
            Some(current) => current.version == self.version,
            // What the effect wrote may have expired by itself, and what it removed is still gone.
            None => self.version == 0 || self.expires_at.is_some_and(|at| at <= now),
        }
    }
}

fn exists(db: &Connection, effect: EffectId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM effects WHERE call_id = ?1 AND number = ?2")?
        .exists(params![effect.call_id.to_string(), effect.index])
}

fn find(db: &Connection, effect: EffectId) -> Result<Option<Applied>, ValueError> {
    let found = db
        .prepare_cached(
            "SELECT scope, owner, key, added, before, version, expires_at FROM effects \
             WHERE call_id = ?1 AND number = ?2",
        )?
        .query_one(params![effect.call_id.to_string(), effect.index], read_row)
        .optional()?;
    found.transpose()
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<Result<Applied, ValueError>> {
    let number: i64 = row.get(0)?;
    let scope = MemoryScope::ALL.into_iter().find(|scope| values::number(*scope) == number);
    let (owner, key): (String, String) = (row.get(1)?, row.get(2)?);
    let place = MemoryPlace { scope: scope.unwrap_or_default(), owner, key };
    let (added, before): (Option<String>, Option<String>) = (row.get(3)?, row.get(4)?);
    let parsed = added
        .map(|added| serde_json::from_str(&added))
        .transpose()
        .and_then(|added| Ok((added, before.map(|before| serde_json::from_str(&before)).transpose()?)));
    let version = u64::try_from(row.get::<_, i64>(5)?).unwrap_or(0);
    let expires_at: Option<i64> = row.get(6)?;
    Ok(match (parsed, scope) {
        (Ok((added, before)), Some(_)) => Ok(Applied {
            place,
            added,
            before,
            version,
            expires_at: expires_at.and_then(|micros| Timestamp::from_microsecond(micros).ok()),
        }),
        (Err(_), _) | (_, None) => Err(ValueError::damaged(&place)),
    })
}

/// Removes rows of old calls, but for those of `run` and of runs that are still open.
fn sweep(db: &Connection, run: CallId, now: Timestamp) -> rusqlite::Result<()> {
    // Ids are ordered by time.
    let oldest = CallId::first_at(now.checked_sub(KEPT).unwrap_or(Timestamp::UNIX_EPOCH));
    let swept = db
        .prepare_cached(
            "SELECT rowid FROM effects WHERE call_id < ?1 AND run_id <> ?3 \
             AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = effects.run_id) ORDER BY call_id LIMIT ?2",
        )?
        .query_map(params![oldest.to_string(), SWEPT_PER_EFFECT, run.to_string()], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    let mut delete = db.prepare_cached("DELETE FROM effects WHERE rowid = ?1")?;
    swept.into_iter().try_for_each(|row| delete.execute([row]).map(drop))
}
