//! What it takes to undo the effects of calls: one row an effect that was applied.
//!
//! The chain tells that an effect was applied; what was there before is a user's data, kept here
//! for a while and erased with its call. The step of the effect carries a digest of its row, so that nothing is
//! restored that was not there.

use helve_core::CallId;
use helve_core::memory::{
    MemoryChange, MemoryError, MemoryLimits, MemoryPlace, MemoryScope, Operation, Remembered, negated,
};
use helve_core::ports::{EffectId, JournalError};
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Number;

use super::ValueError;
use super::values::{self, Put};
use crate::keys::Disagreement;
use crate::vouch;
use helve_ledger::entry::Seals;

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
    salt BLOB NOT NULL,
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

/// What became of an effect.
pub(crate) enum Applying {
    /// It was applied or undone now, and the journal is to tell of it.
    Now(Seals),
    /// It was applied before.
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
    // The chain says it, not the table: a row that was removed would let it be done twice.
    if last_told(db, effect.call_id, effect.index)?.is_some_and(|told| told.is_applied) {
        return Ok(Applying::Before);
    }
    let Put { changed, voucher } = values::change(db, place, change, limits, now)?;
    let added = match &change.operation {
        Operation::Add(number) => Some(number.to_string()),
        Operation::Write(_) | Operation::Update(_) | Operation::Delete => None,
    };
    let before = changed.before.map(|before| serde_json::to_string(&before)).transpose();
    let version = changed.after.as_ref().map_or(0, |after| after.version);
    let row = EffectRow {
        call_id: effect.call_id.to_string(),
        number: i64::from(effect.index),
        run_id: run.to_string(),
        scope: values::number(place.scope),
        owner: place.owner.clone(),
        key: place.key.clone(),
        added,
        before: before.map_err(|_| ValueError::damaged(place))?,
        version: i64::try_from(version).unwrap_or(i64::MAX),
        expires_at: changed.after.and_then(|after| after.expires_at).map(Timestamp::as_microsecond),
        salt: vouch::salt()?.to_vec(),
    };
    row.write(db)?;
    sweep(db, run, now)?;
    Ok(Applying::Now(Seals { seal: Some(row.seal()), value: voucher, ..Seals::default() }))
}

/// Takes back what an effect did.
pub(crate) fn undo(db: &Connection, effect: EffectId, now: Timestamp) -> Result<Applying, ValueError> {
    let row = EffectRow::find(db, effect)?.ok_or(MemoryError::NothingToUndo)?;
    let told = last_told(db, effect.call_id, effect.index)?;
    if !told.is_some_and(|told| told.is_applied && told.seal == Some(row.seal())) {
        let what = "what this would restore is not what was there: it was changed outside of Helve; nothing was restored, run \
                    `helve audit verify`";
        return Err(MemoryError::from(JournalError::new(what)).into());
    }
    let applied = row.parse()?;
    let place = &applied.place;
    let current = values::read(db, place, now)?;
    let put = match (&current, &applied.added) {
        (current, _) if applied.still_stands(current.as_ref(), now) => {
            let before = applied.before.filter(|before| before.is_alive(now));
            let (value, expires_at) = before.map(|before| (before.value, before.expires_at)).unzip();
            values::put(db, place, value, expires_at.flatten(), now)?
        }
        (Some(current), Some(added)) => {
            let subtract = MemoryChange::new(Operation::Add(negated(added)?));
            let value = subtract.evaluate(Some(current))?;
            values::put(db, place, value, current.expires_at, now)?
        }
        (None, _) | (Some(_), None) => {
            return Err(MemoryError::ChangedSince { key: place.key.clone() }.into());
        }
    };
    db.prepare_cached("DELETE FROM effects WHERE call_id = ?1 AND number = ?2")?
        .execute(params![effect.call_id.to_string(), effect.index])?;
    Ok(Applying::Now(Seals { value: put.voucher, ..Seals::default() }))
}

/// Forgets what was there before the effects of a call.
pub(crate) fn erase(db: &Connection, call_id: CallId) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM effects WHERE call_id = ?1")?.execute([call_id.to_string()]).map(drop)
}

/// Forgets what it took to undo effects of which only entries up to `end` tell: these go.
pub(crate) fn forget_up_to(db: &Connection, end: i64) -> rusqlite::Result<()> {
    let told: Vec<(String, Option<u32>)> = db
        .prepare_cached(
            "SELECT DISTINCT call_id, ifnull(head ->> 'index', head ->> 'effect') FROM entries \
             WHERE seq <= ?1 AND (kind = 6 AND head ->> 'step' = 'effect_applied' \
                                  OR kind = 8 AND head ->> 'effect' IS NOT NULL)",
        )?
        .query_map([end], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut forget = db.prepare_cached("DELETE FROM effects WHERE call_id = ?1 AND number = ?2")?;
    for (call_id, number) in told {
        let (Ok(id), Some(number)) = (call_id.parse(), number) else { continue };
        if last_told(db, id, number)?.is_none_or(|last| last.seq <= end) {
            forget.execute(params![call_id, number])?;
        }
    }
    Ok(())
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

/// A row as it stands.
struct EffectRow {
    call_id: String,
    number: i64,
    run_id: String,
    scope: i64,
    owner: String,
    key: String,
    added: Option<String>,
    before: Option<String>,
    version: i64,
    expires_at: Option<i64>,
    salt: Vec<u8>,
}

const SELECT: &str = "SELECT call_id, number, run_id, scope, owner, key, added, before, version, expires_at, salt FROM effects";

impl EffectRow {
    fn find(db: &Connection, effect: EffectId) -> rusqlite::Result<Option<Self>> {
        db.prepare_cached(&format!("{SELECT} WHERE call_id = ?1 AND number = ?2"))?
            .query_one(params![effect.call_id.to_string(), effect.index], Self::read)
            .optional()
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            call_id: row.get(0)?,
            number: row.get(1)?,
            run_id: row.get(2)?,
            scope: row.get(3)?,
            owner: row.get(4)?,
            key: row.get(5)?,
            added: row.get(6)?,
            before: row.get(7)?,
            version: row.get(8)?,
            expires_at: row.get(9)?,
            salt: row.get(10)?,
        })
    }

    fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        // A value that was there was swept out of the chain's sight, or never recorded.
        db.prepare_cached(
            "INSERT OR REPLACE INTO effects VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            self.call_id,
            self.number,
            self.run_id,
            self.scope,
            self.owner,
            self.key,
            self.added,
            self.before,
            self.version,
            self.expires_at,
            self.salt
        ])
        .map(drop)
    }

    fn seal(&self) -> String {
        let text = |text: &'_ Option<String>| text.as_ref().map(|text| text.clone().into_bytes());
        let columns = [
            Some(self.call_id.clone().into_bytes()),
            Some(self.number.to_le_bytes().to_vec()),
            Some(self.run_id.clone().into_bytes()),
            Some(self.scope.to_le_bytes().to_vec()),
            Some(self.owner.clone().into_bytes()),
            Some(self.key.clone().into_bytes()),
            text(&self.added),
            text(&self.before),
            Some(self.version.to_le_bytes().to_vec()),
            self.expires_at.map(|micros| micros.to_le_bytes().to_vec()),
        ];
        vouch::digest("effects", &self.salt, &columns.each_ref().map(Option::as_deref))
    }

    fn parse(&self) -> Result<Applied, ValueError> {
        let scope = MemoryScope::ALL.into_iter().find(|scope| values::number(*scope) == self.scope);
        let place = MemoryPlace {
            scope: scope.unwrap_or_default(),
            owner: self.owner.clone(),
            key: self.key.clone(),
        };
        let damaged = || ValueError::damaged(&place);
        scope.ok_or_else(damaged)?;
        let added = self.added.as_deref().map(serde_json::from_str).transpose().map_err(|_| damaged())?;
        let before = self.before.as_deref().map(serde_json::from_str).transpose().map_err(|_| damaged())?;
        Ok(Applied {
            added,
            before,
            version: u64::try_from(self.version).unwrap_or(0),
            expires_at: self.expires_at.and_then(|micros| Timestamp::from_microsecond(micros).ok()),
            place,
        })
    }
}

/// The last that the chain tells of an effect.
struct LastTold {
    seq: i64,
    /// Whether it was applied, and not undone since.
    is_applied: bool,
    seal: Option<String>,
}

const LAST_TOLD: &str = "
    SELECT seq, head ->> 'step', head ->> 'seal' FROM entries
    WHERE made_ms = ?1 AND call_id = ?2
      AND (kind = 6 AND head ->> 'step' IN ('effect_applied', 'effect_rolled_back') AND head ->> 'index' = ?3
           OR kind = 8 AND head ->> 'effect' = ?3)
    ORDER BY seq DESC LIMIT 1";

fn last_told(db: &Connection, call_id: CallId, number: u32) -> rusqlite::Result<Option<LastTold>> {
    db.prepare_cached(LAST_TOLD)?
        .query_one(params![call_id.made_at_ms(), call_id.to_string(), number], |row| {
            let step: Option<String> = row.get(1)?;
            let is_applied = step.as_deref() != Some("effect_rolled_back");
            Ok(LastTold { seq: row.get(0)?, is_applied, seal: row.get(2)? })
        })
        .optional()
}

fn all(db: &Connection) -> rusqlite::Result<Vec<EffectRow>> {
    db.prepare(&format!("{SELECT} ORDER BY call_id, number"))?.query_map([], EffectRow::read)?.collect()
}

/// What an entry is to tell of an effect that an earlier format kept without a digest.
pub(crate) struct Kept {
    pub(crate) call_id: CallId,
    pub(crate) number: u32,
    pub(crate) seal: String,
}

/// Gives a salt to every row that an earlier format wrote, and says what to tell of it.
pub(crate) fn vouch_for_all(db: &Connection) -> rusqlite::Result<Vec<Kept>> {
    let mut kept = Vec::new();
    for mut row in all(db)? {
        let (Ok(call_id), Ok(number)) = (row.call_id.parse(), u32::try_from(row.number)) else { continue };
        // One that the chain does not tell of gets nothing, so that nobody can use it.
        if !last_told(db, call_id, number)?.is_some_and(|told| told.is_applied) {
            continue;
        }
        row.salt = vouch::salt()?.to_vec();
        row.write(db)?;
        kept.push(Kept { call_id, number, seal: row.seal() });
    }
    Ok(kept)
}

/// Compares what effects would restore with the chain, which must be sound, both ways. Returns the first
/// difference. What was missing at entry `accepted_at` is not missed again.
pub(crate) fn verify(db: &Connection, accepted_at: i64) -> rusqlite::Result<Option<Disagreement>> {
    for row in all(db)? {
        let told = match (row.call_id.parse(), u32::try_from(row.number)) {
            (Ok(call_id), Ok(number)) => last_told(db, call_id, number)?,
            (Err(_), _) | (_, Err(_)) => None,
        };
        let is_told = told.as_ref().is_some_and(|told| told.is_applied && told.seal == Some(row.seal()));
        if !is_told {
            let what = format!(
                "what the effect {} of {} would restore is not what was there: its row in the table `effects` was \
                 changed or added",
                row.number, row.call_id
            );
            return Ok(Some(Disagreement { seq: told.map(|told| told.seq), what }));
        }
    }
    let youngest = CallId::first_at(Timestamp::now().saturating_sub(KEPT).unwrap_or(Timestamp::UNIX_EPOCH));
    db.query_one(GONE, params![accepted_at, youngest.made_at_ms() + A_DAY_MS], |row| {
        let (seq, call_id): (i64, String) = (row.get(0)?, row.get(1)?);
        let what = format!("what an effect of {call_id} would restore was removed from the table `effects`");
        Ok(Disagreement { seq: Some(seq), what })
    })
    .optional()
}

/// Rows are swept about then.
const A_DAY_MS: i64 = 24 * 3_600_000;

/// Effects of the last weeks that were neither undone nor erased, and have no row.
const GONE: &str = "
    SELECT seq, call_id FROM entries AS applied
    WHERE seq > ?1 AND made_ms > ?2 AND (kind = 6 AND head ->> 'step' = 'effect_applied' OR kind = 8 AND head ->> 'effect' IS NOT NULL)
      AND head ->> 'seal' IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM effects
                      WHERE call_id = applied.call_id
                        AND number = ifnull(applied.head ->> 'index', applied.head ->> 'effect'))
      AND NOT EXISTS (SELECT 1 FROM entries
                      WHERE made_ms = applied.made_ms AND call_id = applied.call_id
                        AND (kind = 2 OR kind = 6 AND seq > applied.seq AND head ->> 'step' = 'effect_rolled_back'
                             AND head ->> 'index' = ifnull(applied.head ->> 'index', applied.head ->> 'effect')))
    ORDER BY seq LIMIT 1";

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
