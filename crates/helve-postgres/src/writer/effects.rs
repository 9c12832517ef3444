//! What it takes to undo the effects of calls, within a group: one row an effect that was applied.

use helve_core::CallId;
use helve_core::memory::{MemoryChange, MemoryError, MemoryPlace, Operation, Remembered, negated};
use helve_core::ports::{EffectId, JournalError};
use helve_core::run::Step;
use helve_ledger::entry::{Seals, unwritable};
use helve_ledger::vouch;
use jiff::{SignedDuration, Timestamp};
use serde_json::Number;
use tokio_postgres::{Client, Row};

use super::Stop;
use super::group::Group;
use super::memory::{self, Put};
use crate::sql::params;

/// How long what an effect did can be undone.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);

/// How many rows of old calls are removed with every effect.
const SWEPT_PER_EFFECT: i64 = 4;

const APPLIED: i64 = 0;
const UNDONE: i64 = 1;
const ERASED: i64 = 2;

/// What an effect did, as its row has it.
struct EffectRow {
    call_id: String,
    number: i64,
    run_id: String,
    state: i64,
    scope: i64,
    owner: String,
    key: String,
    added: Option<String>,
    before: Option<String>,
    version: i64,
    expires_us: Option<i64>,
    salt: Vec<u8>,
    /// The digest of the rest, of which the effect's step tells too.
    seal: String,
}

impl Group<'_> {
    /// Changes a value as the effect of a call, and writes the step that tells of it, unless that was done before.
    pub(super) async fn apply_effect(
        &mut self,
        effect: EffectId,
        place: &MemoryPlace,
        change: &MemoryChange,
        step: &Step,
    ) -> Result<(), Stop> {
        self.entries.text().set_step(step)?;
        let before = EffectRow::find(self.db, effect).await?;
        if before.is_some_and(|row| row.state != UNDONE) {
            return Ok(());
        }
        let now = self.settings.now();
        let Put { changed, voucher } = self.change_at(place, change, now).await?;
        let added = match &change.operation {
            Operation::Add(number) => Some(number.to_string()),
            Operation::Write(_) | Operation::Update(_) | Operation::Delete => None,
        };
        let before = changed.before.map(|before| serde_json::to_string(&before)).transpose();
        let version = changed.after.as_ref().map_or(0, |after| after.version);
        let mut row = EffectRow {
            call_id: effect.call_id.to_string(),
            number: i64::from(effect.index),
            run_id: step.run.to_string(),
            state: APPLIED,
            scope: memory::number(place.scope),
            owner: place.owner.clone(),
            key: place.key.clone(),
            added,
            before: before.map_err(|error| unwritable("value", error))?,
            version: i64::try_from(version).unwrap_or(i64::MAX),
            expires_us: changed.after.and_then(|after| after.expires_at).map(Timestamp::as_microsecond),
            salt: vouch::salt().map_err(super::group::no_salt)?.to_vec(),
            seal: String::new(),
        };
        row.seal = row.digest();
        row.write(self.db).await?;
        sweep(self.db, step.run, now).await?;
        self.tell(step, &Seals { seal: Some(row.seal), value: voucher, ..Seals::default() })
    }

    /// Takes back what an effect did, with the step that tells of it.
    pub(super) async fn undo_effect(&mut self, effect: EffectId, step: &Step) -> Result<(), Stop> {
        self.entries.text().set_step(step)?;
        self.flush_others().await?;
        let now = self.settings.now();
        let row = EffectRow::find(self.db, effect).await?.filter(|row| row.state == APPLIED);
        let row = row.ok_or(Stop::Memory(MemoryError::NothingToUndo))?;
        if !was_told(self.db, effect, &row).await? {
            return Err(Stop::Memory(MemoryError::from(JournalError::new(
                "what this would restore is not what was there: somebody changed it; nothing was restored, run \
                 `helve audit verify`",
            ))));
        }
        let applied = row.parse()?;
        let place = &applied.place;
        let current = memory::read(self.db, place, now).await?;
        let put = match (&current, &applied.added) {
            (current, _) if applied.still_stands(current.as_ref(), now) => {
                let before = applied.before.filter(|before| before.is_alive(now));
                let (value, expires_at) = before.map(|before| (before.value, before.expires_at)).unzip();
                memory::put(self.db, place, value, expires_at.flatten(), now).await?
            }
            (Some(current), Some(added)) => {
                let subtract = MemoryChange::new(Operation::Add(negated(added).map_err(Stop::Memory)?));
                let value = subtract.evaluate(Some(current)).map_err(Stop::Memory)?;
                memory::put(self.db, place, value, current.expires_at, now).await?
            }
            (None, _) | (Some(_), None) => {
                return Err(Stop::Memory(MemoryError::ChangedSince { key: place.key.clone() }));
            }
        };
        let undone = "UPDATE helve.effects SET state = $3, before = NULL WHERE call_id = $1 AND number = $2";
        self.db.execute_typed(undone, params![row.call_id, row.number, UNDONE]).await?;
        self.tell(step, &Seals { value: put.voucher, ..Seals::default() })
    }
}

/// Whose memory the undoing of effects would change.
pub(super) async fn owners(db: &Client, effects: &[EffectId]) -> Result<Vec<(i64, String)>, Stop> {
    let mut owners = Vec::new();
    for effect in effects {
        owners.extend(EffectRow::find(db, *effect).await?.map(|row| (row.scope, row.owner)));
    }
    Ok(owners)
}

/// Forgets what was there before the effects of a call. That they were applied stays known.
pub(super) async fn erase(db: &Client, call_id: CallId) -> Result<(), Stop> {
    let erased = "UPDATE helve.effects SET state = $2, added = NULL, before = NULL WHERE call_id = $1";
    db.execute_typed(erased, params![call_id.to_string(), ERASED]).await?;
    Ok(())
}

/// Whether the last that the chain tells of an effect is that it was applied and left this row.
async fn was_told(db: &Client, effect: EffectId, row: &EffectRow) -> Result<bool, Stop> {
    let steps =
        "SELECT head FROM helve.entries WHERE made_ms = $1 AND call_id = $2 AND kind = 6 ORDER BY id DESC";
    for step in
        db.query_typed(steps, params![effect.call_id.made_at_ms(), effect.call_id.to_string()]).await?
    {
        let Ok(head) = serde_json::from_str::<serde_json::Value>(step.try_get(0)?) else { continue };
        if head["index"] != effect.index {
            continue;
        }
        match head["step"].as_str() {
            Some("effect_applied") => {
                return Ok(head["seal"] == row.seal.as_str() && row.seal == row.digest());
            }
            Some("effect_rolled_back") => return Ok(false),
            Some(_) | None => {}
        }
    }
    Ok(false)
}

/// Removes rows of old calls, but for those of `run` and of runs that are still open.
async fn sweep(db: &Client, run: CallId, now: Timestamp) -> Result<(), Stop> {
    // Ids are ordered by time.
    let oldest = CallId::first_at(now.checked_sub(KEPT).unwrap_or(Timestamp::UNIX_EPOCH));
    db.execute_typed(
        "DELETE FROM helve.effects WHERE (call_id, number) IN (
             SELECT e.call_id, e.number FROM helve.effects e WHERE e.call_id < $1 AND e.run_id <> $3
               AND NOT EXISTS (SELECT 1 FROM helve.runs r WHERE r.run_id = e.run_id)
             ORDER BY e.call_id LIMIT $2 FOR UPDATE SKIP LOCKED)",
        params![oldest.to_string(), SWEPT_PER_EFFECT, run.to_string()],
    )
    .await?;
    Ok(())
}

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

impl Applied {
    /// Whether the value is unchanged since.
    fn still_stands(&self, current: Option<&Remembered>, now: Timestamp) -> bool {
        match current {
            Some(current) => current.version == self.version,
            // What the effect wrote may have expired by itself, and what it removed is still gone.
            None => self.version == 0 || self.expires_at.is_some_and(|at| at <= now),
        }
    }
}

/// What [`effect_seal_of_row`] reads, after what comes before.
pub(crate) const EFFECT_COLUMNS: &str = "t.call_id, t.number, t.run_id, t.state, t.scope, t.owner, t.key, t.added, \
                                         t.before, t.version, t.expires_us, t.salt, t.seal";

/// The digest of a row as it stands. None: it cannot be read.
pub(crate) fn effect_seal_of_row(row: &Row, first: usize) -> Option<String> {
    EffectRow::read(row, first).ok().map(|row| row.digest())
}

impl EffectRow {
    async fn find(db: &Client, effect: EffectId) -> Result<Option<Self>, Stop> {
        let found =
            format!("SELECT {EFFECT_COLUMNS} FROM helve.effects t WHERE t.call_id = $1 AND t.number = $2");
        let row =
            db.query_typed_opt(&found, params![effect.call_id.to_string(), i64::from(effect.index)]).await?;
        Ok(row.map(|row| Self::read(&row, 0)).transpose()?)
    }

    fn read(row: &Row, first: usize) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            call_id: row.try_get(first)?,
            number: row.try_get(first + 1)?,
            run_id: row.try_get(first + 2)?,
            state: row.try_get(first + 3)?,
            scope: row.try_get(first + 4)?,
            owner: row.try_get(first + 5)?,
            key: row.try_get(first + 6)?,
            added: row.try_get(first + 7)?,
            before: row.try_get(first + 8)?,
            version: row.try_get(first + 9)?,
            expires_us: row.try_get(first + 10)?,
            salt: row.try_get(first + 11)?,
            seal: row.try_get(first + 12)?,
        })
    }

    async fn write(&self, db: &Client) -> Result<(), Stop> {
        db.execute_typed(
            "INSERT INTO helve.effects \
                 (call_id, number, run_id, state, scope, owner, key, added, before, version, expires_us, salt, seal) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) \
             ON CONFLICT (call_id, number) DO UPDATE SET run_id = excluded.run_id, state = excluded.state, \
                 scope = excluded.scope, owner = excluded.owner, key = excluded.key, added = excluded.added, \
                 before = excluded.before, version = excluded.version, expires_us = excluded.expires_us, \
                 salt = excluded.salt, seal = excluded.seal",
            params![
                self.call_id,
                self.number,
                self.run_id,
                self.state,
                self.scope,
                self.owner,
                self.key,
                self.added,
                self.before,
                self.version,
                self.expires_us,
                self.salt,
                self.seal,
            ],
        )
        .await?;
        Ok(())
    }

    fn digest(&self) -> String {
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
            self.expires_us.map(|micros| micros.to_le_bytes().to_vec()),
        ];
        vouch::digest("effects", &self.salt, &columns.each_ref().map(Option::as_deref))
    }

    fn parse(&self) -> Result<Applied, Stop> {
        let damaged = || {
            let what = format!("what the effect {} of {} did is damaged", self.number, self.call_id);
            Stop::Memory(JournalError::new(what).into())
        };
        let scope = memory::scope(self.scope).ok_or_else(damaged)?;
        let added = self.added.as_deref().map(serde_json::from_str).transpose().map_err(|_| damaged())?;
        let before = self.before.as_deref().map(serde_json::from_str).transpose().map_err(|_| damaged())?;
        Ok(Applied {
            added,
            before,
            version: u64::try_from(self.version).unwrap_or(0),
            expires_at: self.expires_us.and_then(|micros| Timestamp::from_microsecond(micros).ok()),
            place: MemoryPlace { scope, owner: self.owner.clone(), key: self.key.clone() },
        })
    }
}
