//! What agents remember, within a group.
//!
//! Who changes a value holds the lock on its owner's totals: so limits hold over all replicas.

use std::collections::BTreeSet;

use helve_core::memory::{
    Changed, MemoryChange, MemoryError, MemoryLimits, MemoryPlace, MemoryScope, Operation, Remembered,
};
use helve_ledger::entry::unwritable;
use helve_ledger::vouch::Voucher;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Client;

use super::Stop;
use super::group::Group;
use crate::memory::{Stored, row_name};
use crate::sql::params;

pub(crate) use crate::memory::number;

/// How many expired values are forgotten with every change.
const SWEPT_PER_CHANGE: i64 = 4;

/// How many at once where there is no room.
const SWEPT_FOR_ROOM: i64 = 1_000;

/// Makes totals for owners that are new, and locks all of them, in order.
pub(super) async fn lock(db: &Client, owners: &BTreeSet<(i64, String)>) -> Result<(), Stop> {
    if owners.is_empty() {
        return Ok(());
    }
    let scopes: Vec<i64> = owners.iter().map(|(scope, _)| *scope).collect();
    let names: Vec<&str> = owners.iter().map(|(_, owner)| &**owner).collect();
    db.execute_typed(
        "INSERT INTO helve.memory_totals (scope, owner, value_count, bytes) \
         SELECT scope, owner, 0, 0 FROM unnest($1::int8[], $2::text[]) AS named (scope, owner) \
         ORDER BY scope, owner COLLATE \"C\" ON CONFLICT (scope, owner) DO NOTHING",
        params![scopes, names],
    )
    .await?;
    db.query_typed(
        "SELECT 1 FROM helve.memory_totals \
         WHERE (scope, owner) IN (SELECT * FROM unnest($1::int8[], $2::text[])) \
         ORDER BY scope, owner FOR UPDATE",
        params![scopes, names],
    )
    .await?;
    Ok(())
}

/// What became of a value.
pub(super) struct Put<T> {
    pub(super) changed: T,
    /// What the journal is to tell. Absent: nothing was there and nothing is.
    pub(super) voucher: Option<Voucher>,
}

impl Group<'_> {
    pub(super) async fn change_value(
        &mut self,
        place: &MemoryPlace,
        change: &MemoryChange,
    ) -> Result<Changed, Stop> {
        let now = self.settings.now();
        let Put { changed, voucher } = self.change_at(place, change, now).await?;
        if let Some(voucher) = voucher {
            self.vouch(voucher, now)?;
        }
        Ok(changed)
    }

    /// Changes a value. A refusal leaves everything as it was.
    pub(super) async fn change_at(
        &mut self,
        place: &MemoryPlace,
        change: &MemoryChange,
        now: Timestamp,
    ) -> Result<Put<Changed>, Stop> {
        // What vouches for the value may be among the entries that wait.
        self.flush_others().await?;
        let found = Stored::find(self.db, place).await?;
        let before = match found.map(|stored| stored.checked(place)).transpose() {
            // Who says what is to be there, or that nothing is, need not know what was. So a person can put right a
            // value that was changed in the table.
            Err(_) if is_whatever_was(change) => None,
            checked => checked.map_err(Stop::Memory)?.filter(|value| value.is_alive(now)),
        };
        let value = change.evaluate(before.as_ref()).map_err(Stop::Memory)?;
        let limits = self.settings.limits;
        if let Some(value) = &value {
            let bytes = text(value)?.len();
            if bytes > limits.value_bytes_max {
                let what = "the value's bytes";
                return Err(Stop::Memory(MemoryError::Full { what, max: limits.value_bytes_max }));
            }
            make_room(self.db, place, bytes, &limits, now).await?;
        }
        let expires_at = change.time_to_live.map(|time| now.checked_add(time).unwrap_or(Timestamp::MAX));
        let Put { changed: after, voucher } = put(self.db, place, value, expires_at, now).await?;
        sweep(self.db, now, SWEPT_PER_CHANGE).await?;
        Ok(Put { changed: Changed { before, after }, voucher })
    }
}

fn is_whatever_was(change: &MemoryChange) -> bool {
    match change.operation {
        Operation::Write(_) | Operation::Delete => change.expected_version.is_none(),
        Operation::Add(_) | Operation::Update(_) => false,
    }
}

/// The value at a place, if it is there, is as it was written, and has not expired.
pub(super) async fn read(
    db: &Client,
    place: &MemoryPlace,
    now: Timestamp,
) -> Result<Option<Remembered>, Stop> {
    let found = Stored::find(db, place).await?;
    let checked = found.map(|stored| stored.checked(place)).transpose().map_err(Stop::Memory)?;
    Ok(checked.filter(|value| value.is_alive(now)))
}

/// Sets or removes a value, whatever the limits.
pub(super) async fn put(
    db: &Client,
    place: &MemoryPlace,
    value: Option<Value>,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<Put<Option<Remembered>>, Stop> {
    let scope = number(place.scope);
    let replaced: Option<(i64, i64)> = db
        .query_typed_opt(
            "SELECT id, bytes FROM helve.memory WHERE scope = $1 AND owner = $2 AND key = $3",
            params![scope, &*place.owner, &*place.key],
        )
        .await?
        .map(|row| (row.get(0), row.get(1)));
    let Some(value) = value else {
        let Some((id, bytes)) = replaced else { return Ok(Put { changed: None, voucher: None }) };
        db.execute_typed("DELETE FROM helve.memory WHERE id = $1", params![id]).await?;
        count(db, scope, &place.owner, -1, -bytes).await?;
        let voucher = Some(Voucher { row: row_name(id), seal: None, until_us: None });
        return Ok(Put { changed: None, voucher });
    };
    let text = text(&value)?;
    let bytes = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let salt = helve_ledger::vouch::salt().map_err(super::group::no_salt)?;
    let (changed_us, expires_us) = (now.as_microsecond(), expires_at.map(Timestamp::as_microsecond));
    let row = db
        .query_typed_one(
            "INSERT INTO helve.memory (scope, owner, key, value, version, changed_us, expires_us, bytes, salt) \
             VALUES ($1, $2, $3, $4, nextval('helve.memory_versions'), $5, $6, $7, $8) \
             ON CONFLICT (scope, owner, key) DO UPDATE SET value = excluded.value, version = excluded.version, \
                 changed_us = excluded.changed_us, expires_us = excluded.expires_us, bytes = excluded.bytes, \
                 salt = excluded.salt \
             RETURNING id, version",
            params![scope, &*place.owner, &*place.key, text, changed_us, expires_us, bytes, &salt[..]],
        )
        .await?;
    let (id, version): (i64, i64) = (row.get(0), row.get(1));
    let (more, old_bytes) = replaced.map_or((1, 0), |(_, bytes)| (0, bytes));
    count(db, scope, &place.owner, more, bytes - old_bytes).await?;
    let stored = Stored { text, version, changed_us, expires_us, id, salt: salt.to_vec(), told: None };
    let changed = Some(Remembered { value, version: version.unsigned_abs(), changed_at: now, expires_at });
    Ok(Put { changed, voucher: Some(stored.voucher(place)) })
}

/// Makes sure that a value of so many bytes may be put at a place.
async fn make_room(
    db: &Client,
    place: &MemoryPlace,
    bytes: usize,
    limits: &MemoryLimits,
    now: Timestamp,
) -> Result<(), Stop> {
    loop {
        let row = db
            .query_typed_one(
                "SELECT t.value_count, t.bytes, m.bytes FROM helve.memory_totals t \
                 LEFT JOIN helve.memory m ON m.scope = t.scope AND m.owner = t.owner AND m.key = $3 \
                 WHERE t.scope = $1 AND t.owner = $2",
                params![number(place.scope), &*place.owner, &*place.key],
            )
            .await?;
        let size = |number: i64| usize::try_from(number).unwrap_or(0);
        let (count, total) = (size(row.get(0)), size(row.get(1)));
        let replaced = row.get::<_, Option<i64>>(2).map(size);
        let all_bytes = (total + bytes).saturating_sub(replaced.unwrap_or(0));
        // What does not grow is let through, should the limits have been lowered.
        let lack = if count >= limits.values_max && replaced.is_none() {
            MemoryError::Full { what: "the number of values", max: limits.values_max }
        } else if all_bytes > limits.bytes_max && bytes > replaced.unwrap_or(0) {
            MemoryError::Full { what: "the bytes of all values", max: limits.bytes_max }
        } else {
            return Ok(());
        };
        if sweep(db, now, SWEPT_FOR_ROOM).await? == 0 {
            return Err(Stop::Memory(lack));
        }
    }
}

async fn count(db: &Client, scope: i64, owner: &str, values: i64, bytes: i64) -> Result<(), Stop> {
    db.execute_typed(
        "UPDATE helve.memory_totals SET value_count = value_count + $3, bytes = bytes + $4 \
         WHERE scope = $1 AND owner = $2",
        params![scope, owner, values, bytes],
    )
    .await?;
    Ok(())
}

/// Forgets what expired first, of all owners, and returns how much. Owners whose memory another replica changes just now
/// are left out, so that no replica waits for another.
async fn sweep(db: &Client, now: Timestamp, most: i64) -> Result<u64, Stop> {
    let swept = db
        .query_typed_one(
            "WITH expired AS (
                 SELECT m.id, m.scope, m.owner FROM helve.memory m
                 JOIN helve.memory_totals t ON t.scope = m.scope AND t.owner = m.owner
                 WHERE m.expires_us <= $1 ORDER BY m.expires_us LIMIT $2 FOR UPDATE SKIP LOCKED),
             gone AS (DELETE FROM helve.memory m USING expired WHERE m.id = expired.id
                      RETURNING m.scope, m.owner, m.bytes),
             less AS (SELECT scope, owner, count(*) AS n, sum(bytes) AS b FROM gone GROUP BY scope, owner),
             counted AS (UPDATE helve.memory_totals t SET value_count = t.value_count - less.n, bytes = t.bytes - less.b
                         FROM less WHERE t.scope = less.scope AND t.owner = less.owner)
             SELECT count(*) FROM gone",
            params![now.as_microsecond(), most],
        )
        .await?;
    Ok(swept.get::<_, i64>(0).unsigned_abs())
}

fn text(value: &Value) -> Result<String, Stop> {
    serde_json::to_string(value).map_err(|error| unwritable("value", error).into())
}

/// The scope with a number.
pub(super) fn scope(number: i64) -> Option<MemoryScope> {
    MemoryScope::ALL.into_iter().find(|scope| self::number(*scope) == number)
}
