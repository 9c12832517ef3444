//! Idempotency keys within a group: each claimed in the order in which they stand, so that no two replicas wait for
//! each other.

use std::collections::{BTreeMap, BTreeSet};

use helve_core::CallId;
use helve_core::ports::{JournalError, KeyClaim, KeyHolder};
use helve_ledger::keys::{DamagedKey, Found, KeyRow, KeyState, Meaning, Standing};
use tokio_postgres::{Client, Row};

use super::Stop;
use super::needs::Needs;
use super::slot::{Change, Slot};
use crate::sql::params;

type ScopedKey = [u8; 32];

/// A row whose seal fits, or that was changed.
#[derive(Debug, Clone, PartialEq)]
enum Stored {
    Sound(Sealed),
    Damaged,
}

/// A row, comparable by its seal.
#[derive(Debug, Clone)]
struct Sealed(KeyRow);

impl PartialEq for Sealed {
    fn eq(&self, other: &Self) -> bool {
        self.0.seal() == other.0.seal()
    }
}

/// The keys that a group touches, locked.
pub(super) struct Keys {
    us: String,
    slots: BTreeMap<ScopedKey, Slot<Stored>>,
}

impl Keys {
    /// Makes a place for each key that is claimed and new, and locks the others, in order.
    pub(super) async fn lock(db: &Client, us: i64, needs: &Needs) -> Result<Self, Stop> {
        let mut slots: BTreeMap<_, _> = needs.keys.keys().map(|key| (*key, Slot::empty())).collect();
        if slots.is_empty() && needs.keys_of.is_empty() {
            return Ok(Self { us: us.to_string(), slots });
        }
        let claimed: Vec<&KeyRow> = needs.keys.values().flatten().collect();
        if !claimed.is_empty() {
            let insert = format!("{INSERT} ON CONFLICT (scoped_key) DO NOTHING RETURNING scoped_key");
            for row in write(db, &insert, &claimed).await? {
                let key = scoped(&row)?;
                if let Some(Some(placed)) = needs.keys.get(&key) {
                    slots.insert(key, Slot::placed(Stored::Sound(Sealed(placed.clone()))));
                }
            }
        }
        let locked = format!(
            "{SELECT} WHERE scoped_key = ANY($1) OR call_id = ANY($2) ORDER BY scoped_key FOR UPDATE"
        );
        let found = db
            .query_typed(
                &locked,
                params![
                    needs.keys.keys().map(|key| &key[..]).collect::<Vec<_>>(),
                    needs.keys_of.iter().map(|id| &**id).collect::<Vec<_>>()
                ],
            )
            .await?;
        for row in found {
            let (key, stored) = (scoped(&row)?, read(&row)?);
            let slot = slots.entry(key).or_insert_with(Slot::empty);
            if matches!(slot.change(), Change::Nothing) {
                *slot = Slot::found(stored);
            }
        }
        Ok(Self { us: us.to_string(), slots })
    }

    /// Calls that hold a key and have not ended: how their runs stand decides about claims.
    pub(super) fn holders(&self) -> BTreeSet<CallId> {
        let rows = self.slots.values().filter_map(|slot| match slot.get() {
            Some(Stored::Sound(Sealed(row))) if row.state == KeyState::Running => Some(row),
            Some(Stored::Sound(_) | Stored::Damaged) | None => None,
        });
        rows.filter_map(|row| row.call_id.parse().ok()).collect()
    }

    fn find(&self, key: &ScopedKey) -> Result<Option<&KeyRow>, DamagedKey> {
        match self.slots.get(key).and_then(Slot::get) {
            None => Ok(None),
            Some(Stored::Sound(Sealed(row))) => Ok(Some(row)),
            Some(Stored::Damaged) => Err(DamagedKey::new(key)),
        }
    }

    fn set(&mut self, key: &ScopedKey, row: Option<KeyRow>) {
        let stored = row.map(|row| Stored::Sound(Sealed(row)));
        self.slots.entry(*key).or_insert_with(Slot::empty).set(stored);
    }

    /// The replica that runs the call which holds a key, where it has not ended.
    pub(super) fn owner(&self, key: &ScopedKey) -> Option<i64> {
        let row = self.find(key).ok().flatten()?;
        (row.state == KeyState::Running).then(|| row.owner.parse().ok()).flatten()
    }

    /// Claims a key for `call_id`, unless it is taken. `standing`: how a call that holds it stands.
    pub(super) fn claim(
        &mut self,
        claim: &KeyClaim,
        call_id: CallId,
        standing: impl FnOnce(CallId) -> Standing,
    ) -> Result<Found, DamagedKey> {
        let from = match self.find(&claim.scoped_key)? {
            None => None,
            Some(row) => match row.meaning(claim, |earlier| Ok::<_, DamagedKey>(standing(earlier)))? {
                Meaning::Found(found) => return Ok(found),
                Meaning::Free(earlier) => Some(earlier),
            },
        };
        self.set(&claim.scoped_key, Some(KeyRow::running(claim, call_id, &self.us)));
        Ok(Found::Claimed { from })
    }

    /// Keeps the answer to a key, if `call_id` is the call that holds it.
    pub(super) fn finish(
        &mut self,
        claim: &KeyClaim,
        call_id: CallId,
        status: String,
    ) -> Result<(), DamagedKey> {
        let held = self.find(&claim.scoped_key)?.filter(|row| holds(row, call_id)).cloned();
        if let Some(row) = held {
            let row = KeyRow { state: KeyState::Finished, status: Some(status), ..row };
            self.set(&claim.scoped_key, Some(row));
        }
        Ok(())
    }

    /// Gives a key back, if `call_id` holds it and has not ended. Returns whether it did.
    pub(super) fn release(&mut self, key: &ScopedKey, call_id: CallId) -> bool {
        let is_held = matches!(self.find(key), Ok(Some(row)) if holds(row, call_id));
        if is_held {
            self.set(key, None);
        }
        is_held
    }

    /// Takes over the keys of a call whose run was taken over, so that its end answers for them.
    pub(super) fn take_over(&mut self, call_id: CallId) {
        for (key, row) in self.of_call(call_id) {
            if row.state == KeyState::Running {
                let owner = self.us.clone();
                self.set(&key, Some(KeyRow { owner, ..row }));
            }
        }
    }

    /// Forgets the answer of a call.
    pub(super) fn erase(&mut self, call_id: CallId) {
        for (key, row) in self.of_call(call_id) {
            if row.state == KeyState::Finished {
                self.set(&key, Some(KeyRow { state: KeyState::Erased, status: None, ..row }));
            }
        }
    }

    fn of_call(&self, call_id: CallId) -> Vec<(ScopedKey, KeyRow)> {
        let id = call_id.to_string();
        let rows = self.slots.keys().filter_map(|key| Some((*key, self.find(key).ok()??.clone())));
        rows.filter(|(_, row)| row.call_id == id).collect()
    }

    /// Writes what changed.
    pub(super) async fn flush(&self, db: &Client) -> Result<(), Stop> {
        let (mut put, mut gone) = (Vec::new(), Vec::new());
        for (key, slot) in &self.slots {
            match slot.change() {
                Change::Nothing | Change::Put(Stored::Damaged) => {}
                Change::Put(Stored::Sound(Sealed(row))) => put.push(row),
                Change::Delete => gone.push(&key[..]),
            }
        }
        if !gone.is_empty() {
            db.execute_typed("DELETE FROM helve.keys WHERE scoped_key = ANY($1)", params![gone]).await?;
        }
        if !put.is_empty() {
            write(db, &format!("{INSERT} {CHANGE}"), &put).await?;
        }
        Ok(())
    }
}

fn holds(row: &KeyRow, call_id: CallId) -> bool {
    row.state == KeyState::Running && row.call_id == call_id.to_string()
}

/// A key's columns, as rows are read.
pub(crate) const SELECT: &str =
    "SELECT scoped_key, fingerprint, call_id, owner, state, status, seal FROM helve.keys";

const INSERT: &str = "
    INSERT INTO helve.keys (scoped_key, fingerprint, call_id, owner, state, status, seal)
    SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::int8[], $5::int8[], $6::text[], $7::bytea[])
        AS claimed (key) ORDER BY key";

const CHANGE: &str = "
    ON CONFLICT (scoped_key) DO UPDATE SET fingerprint = excluded.fingerprint, call_id = excluded.call_id,
        owner = excluded.owner, state = excluded.state, status = excluded.status, seal = excluded.seal";

async fn write(db: &Client, statement: &str, rows: &[&KeyRow]) -> Result<Vec<Row>, Stop> {
    let seals: Vec<_> = rows.iter().map(|row| row.seal()).collect();
    let written = db
        .query_typed(
            statement,
            params![
                rows.iter().map(|row| &row.scoped_key[..]).collect::<Vec<_>>(),
                rows.iter().map(|row| &row.fingerprint[..]).collect::<Vec<_>>(),
                rows.iter().map(|row| &*row.call_id).collect::<Vec<_>>(),
                rows.iter().map(|row| row.owner.parse().unwrap_or_default()).collect::<Vec<i64>>(),
                rows.iter().map(|row| row.state as i64).collect::<Vec<_>>(),
                rows.iter().map(|row| row.status.as_deref()).collect::<Vec<_>>(),
                seals.iter().map(|seal| &seal[..]).collect::<Vec<_>>(),
            ],
        )
        .await?;
    Ok(written)
}

/// The call that has the key of a row, compared with a claim on it.
pub(crate) fn holder_of_row(row: &Row, claim: &KeyClaim) -> Result<KeyHolder, JournalError> {
    let damaged = |error: DamagedKey| JournalError::new(error.to_string());
    match read(row) {
        Ok(Stored::Sound(Sealed(found))) => found.holder(claim).map_err(damaged),
        Ok(Stored::Damaged) | Err(_) => Err(damaged(DamagedKey::new(&claim.scoped_key))),
    }
}

/// Whether a row's seal fits.
pub(crate) fn is_sound(row: &Row) -> bool {
    matches!(read(row), Ok(Stored::Sound(_)))
}

fn scoped(row: &Row) -> Result<ScopedKey, Stop> {
    let key: &[u8] = row.try_get(0)?;
    key.try_into().map_err(|_| Stop::damaged("an idempotency key in the table `keys` has another length"))
}

fn read(row: &Row) -> Result<Stored, Stop> {
    let Some(state) = KeyState::from_number(row.try_get(4)?) else { return Ok(Stored::Damaged) };
    let seal: &[u8] = row.try_get(6)?;
    let found = KeyRow {
        scoped_key: row.try_get(0)?,
        fingerprint: row.try_get(1)?,
        call_id: row.try_get(2)?,
        owner: row.try_get::<_, i64>(3)?.to_string(),
        state,
        status: row.try_get(5)?,
    };
    Ok(if found.seal() == seal { Stored::Sound(Sealed(found)) } else { Stored::Damaged })
}
