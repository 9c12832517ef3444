//! Idempotency keys: who claimed which key, and what to answer when it comes again.
//!
//! Rows change, so the chain does not cover them. Each has a seal, a digest of the rest, so that
//! a damaged row is noticed instead of answering wrongly. And the heads of the entries that claim
//! and settle a key name it, so that a removed row is noticed:
//!
//! - a start that names a key has its row, until the chain says that the key was given back;
//! - a row belongs to a call that started with it, and says that it ended exactly if the chain does.

use helve_core::CallId;
use helve_core::json::hex;
use helve_core::ports::{KeyClaim, KeyHolder};
use helve_core::run::WaitingFor;
pub(crate) use helve_ledger::keys::Found;
use helve_ledger::keys::{DamagedKey, KeyRow, KeyState, Meaning, Standing};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::owners::{Liveness, Owner};
use crate::runs::{story, table as runs};

const SELECT: &str = "SELECT scoped_key, fingerprint, call_id, owner, state, status, seal FROM keys";

/// Why a key cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Damaged(#[from] DamagedKey),
}

/// A key that does not agree with the chain.
pub(crate) struct Disagreement {
    /// The entry that tells otherwise.
    pub(crate) seq: Option<i64>,
    pub(crate) what: String,
}

/// Claims a key for `call_id`, unless it is taken.
pub(crate) fn claim(
    db: &Connection,
    owner: &Owner,
    claim: &KeyClaim,
    call_id: CallId,
) -> Result<Found, KeyError> {
    let Some(row) = find(db, &claim.scoped_key)? else {
        insert_running(db, owner, claim, call_id)?;
        return Ok(Found::Claimed { from: None });
    };
    match row.meaning(claim, |earlier| standing(db, owner, &row, earlier))? {
        Meaning::Found(found) => Ok(found),
        Meaning::Free(earlier) => {
            insert_running(db, owner, claim, call_id)?;
            Ok(Found::Claimed { from: Some(earlier) })
        }
    }
}

/// How the call that holds a key stands.
fn standing(db: &Connection, owner: &Owner, row: &KeyRow, call: CallId) -> Result<Standing, KeyError> {
    if runs::is_waiting(db, &row.call_id)? {
        return Ok(match story::waits_for(db, call)? {
            Some(WaitingFor::UnknownOutcome) => Standing::InDoubt,
            Some(WaitingFor::Approval | WaitingFor::Decision | WaitingFor::Cancel) | None => Standing::Waits,
        });
    }
    if row.owner == owner.id() {
        return Ok(Standing::Ours);
    }
    Ok(match owner.liveness(&row.owner) {
        Liveness::Alive => Standing::Others,
        Liveness::Dead => Standing::Nobodys,
    })
}

/// The call that a key belongs to.
pub(crate) fn holder(db: &Connection, claim: &KeyClaim) -> Result<Option<KeyHolder>, KeyError> {
    let row = find(db, &claim.scoped_key)?;
    Ok(row.map(|row| row.holder(claim)).transpose()?)
}

/// Keeps the answer to a key, if `call_id` is the call that holds it.
pub(crate) fn finish(
    db: &Connection,
    claim: &KeyClaim,
    call_id: CallId,
    status: String,
) -> Result<(), KeyError> {
    if let Some(row) = find(db, &claim.scoped_key)?
        && row.state == KeyState::Running
        && row.call_id == call_id.to_string()
    {
        write(db, &KeyRow { state: KeyState::Finished, status: Some(status), ..row })?;
    }
    Ok(())
}

/// Gives a key back, if `call_id` holds it and has not ended. Returns whether it did.
pub(crate) fn release(db: &Connection, scoped_key: &[u8; 32], call_id: CallId) -> rusqlite::Result<bool> {
    db.prepare_cached("DELETE FROM keys WHERE scoped_key = ?1 AND call_id = ?2 AND state = ?3")?
        .execute(params![scoped_key, call_id.to_string(), KeyState::Running as i64])
        .map(|deleted| deleted > 0)
}

/// Takes over the key of a call whose run was taken over, so that its end answers for the key.
pub(crate) fn take_over(db: &Connection, owner: &Owner, call_id: CallId) -> Result<(), KeyError> {
    match of_call(db, call_id)? {
        Some(row) if row.state == KeyState::Running => {
            Ok(write(db, &KeyRow { owner: owner.id().to_owned(), ..row })?)
        }
        Some(_) | None => Ok(()),
    }
}

/// Forgets the answer of a call.
pub(crate) fn erase(db: &Connection, call_id: CallId) -> Result<(), KeyError> {
    match of_call(db, call_id)? {
        Some(row) if row.state == KeyState::Finished => {
            Ok(write(db, &KeyRow { state: KeyState::Erased, status: None, ..row })?)
        }
        Some(_) | None => Ok(()),
    }
}

/// The row of the key that a call holds. The chain says which key that is: keys are not found by their call.
fn of_call(db: &Connection, call_id: CallId) -> Result<Option<KeyRow>, KeyError> {
    let id = call_id.to_string();
    let key: Option<[u8; 32]> = db
        .prepare_cached(KEY_OF_CALL)?
        .query_one(params![call_id.made_at_ms(), id], |row| row.get(0))
        .optional()?;
    let Some(key) = key else { return Ok(None) };
    Ok(find(db, &key)?.filter(|row| row.call_id == id))
}

/// The key that a call started with, where it is one.
const KEY_OF_CALL: &str = "
    SELECT unhex(head ->> 'key') FROM entries
    WHERE made_ms = ?1 AND call_id = ?2 AND kind = 0 AND length(unhex(head ->> 'key')) = 32
    LIMIT 1";

/// Compares keys and chain, which must be sound, both ways. Returns the first difference. Entries up to
/// `unnamed_until` are of format 1, which did not name keys at first.
pub(crate) fn verify(db: &Connection, unnamed_until: i64) -> Result<Option<Disagreement>, KeyError> {
    let mut select = db.prepare(SELECT)?;
    let mut call = db.prepare(CALL_OF_KEY)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let row = read(row)?;
        let key = hex(&row.scoped_key);
        let made_ms = row.call_id.parse().map_or(0, CallId::made_at_ms);
        let told = call.query_one(params![row.call_id, key, made_ms, unnamed_until], |told| {
            Ok(Told {
                started: told.get(0)?,
                ended: told.get(1)?,
                erased: told.get(2)?,
                released: told.get(3)?,
            })
        })?;
        if let Some(wrong) = contradiction(&row, &told) {
            let what = format!("the idempotency key `{key}` of {} {wrong}", row.call_id);
            return Ok(Some(Disagreement { seq: None, what }));
        }
    }
    let missing = db.query_one(MISSING_KEY, [], |row| {
        let (seq, call_id): (i64, String) = (row.get(0)?, row.get(1)?);
        let what = format!("the idempotency key of {call_id} was removed: the same call could run twice");
        Ok(Disagreement { seq: Some(seq), what })
    });
    Ok(missing.optional()?)
}

/// The last entries of each kind of a call. Its start and its end count where they name the key, or could not.
const CALL_OF_KEY: &str = "
    SELECT max(seq) FILTER (WHERE kind = 0 AND (head ->> 'key' = ?2 OR head ->> 'key' IS NULL AND seq <= ?4)),
           max(seq) FILTER (WHERE kind = 1 AND (head ->> 'key' = ?2 OR head ->> 'key' IS NULL AND seq <= ?4)),
           max(seq) FILTER (WHERE kind = 2),
           max(seq) FILTER (WHERE kind = 3)
    FROM entries WHERE made_ms = ?3 AND call_id = ?1";

const MISSING_KEY: &str = "
    SELECT seq, call_id FROM entries AS started
    WHERE kind = 0 AND head ->> 'key' IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM entries
                      WHERE made_ms = started.made_ms AND call_id = started.call_id AND kind = 3)
      AND NOT EXISTS (SELECT 1 FROM keys
                      WHERE scoped_key = unhex(started.head ->> 'key') AND call_id = started.call_id)
    ORDER BY seq LIMIT 1";

/// Which entries the chain has of the call that holds a key.
struct Told {
    started: Option<i64>,
    ended: Option<i64>,
    erased: Option<i64>,
    released: Option<i64>,
}

fn insert_running(db: &Connection, owner: &Owner, claim: &KeyClaim, call_id: CallId) -> rusqlite::Result<()> {
    write(db, &KeyRow::running(claim, call_id, owner.id()))
}

fn find(db: &Connection, scoped_key: &[u8; 32]) -> Result<Option<KeyRow>, KeyError> {
    db.prepare_cached(&format!("{SELECT} WHERE scoped_key = ?1"))?
        .query_one([scoped_key], |row| Ok(read(row)))
        .optional()?
        .transpose()
        .map_err(KeyError::from)
}

fn write(db: &Connection, row: &KeyRow) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO keys VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
        .execute(params![
            row.scoped_key,
            row.fingerprint,
            row.call_id,
            row.owner,
            row.state as i64,
            row.status,
            row.seal()
        ])
        .map(drop)
}

fn read(row: &Row<'_>) -> Result<KeyRow, DamagedKey> {
    let scoped_key: Vec<u8> = row.get(0).unwrap_or_default();
    try_read(row).ok().flatten().ok_or_else(|| DamagedKey::new(&scoped_key))
}

/// None where the seal does not fit.
fn try_read(row: &Row<'_>) -> rusqlite::Result<Option<KeyRow>> {
    let Some(state) = KeyState::from_number(row.get(4)?) else { return Ok(None) };
    let seal: Vec<u8> = row.get(6)?;
    let row = KeyRow {
        scoped_key: row.get(0)?,
        fingerprint: row.get(1)?,
        call_id: row.get(2)?,
        owner: row.get(3)?,
        state,
        status: row.get(5)?,
    };
    Ok((row.seal().as_slice() == seal).then_some(row))
}

/// How a row contradicts what the chain tells of its call.
fn contradiction(row: &KeyRow, told: &Told) -> Option<&'static str> {
    if told.started.is_none() {
        return Some("is there, and the journal does not say that the call used it");
    }
    if told.released.is_some() {
        return Some("was given back, and is there again");
    }
    // `None` is before everything.
    let erased_since = told.erased > told.ended;
    match (row.state, told.ended) {
        (KeyState::Running, None) => None,
        (KeyState::Running, Some(_)) => Some("says that the call is running, and it has ended"),
        (KeyState::Finished | KeyState::Erased, None) => Some("says that the call has ended, and it has not"),
        (KeyState::Finished, Some(_)) if erased_since => Some("has an answer, and that was erased"),
        (KeyState::Erased, Some(_)) if !erased_since => {
            Some("has lost its answer, and no erasure is recorded")
        }
        (KeyState::Finished | KeyState::Erased, Some(_)) => None,
    }
}
