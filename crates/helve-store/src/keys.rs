//! Idempotency keys: who claimed which key, and what to answer when it comes again.
//!
//! Rows change, so the chain does not cover them. Each has a seal, a digest of the rest, so that
//! a damaged row is noticed instead of answering wrongly.

use std::sync::Arc;

use helve_core::ports::{Begun, KeyClaim};
use helve_core::{CallId, Status};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::{Digest, Sha256};

use crate::chain::Hash;
use crate::owners::{Liveness, Owner};

const SELECT: &str = "SELECT scoped_key, fingerprint, call_id, owner, state, status, seal FROM keys";

/// What a key's row says.
#[derive(Debug, Clone)]
struct KeyRow {
    scoped_key: Vec<u8>,
    fingerprint: Vec<u8>,
    call_id: String,
    owner: String,
    state: KeyState,
    status: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum KeyState {
    Running = 0,
    Finished = 1,
    Erased = 2,
}

/// What is known of a key that somebody claims.
pub(crate) enum Found {
    /// Nothing, or nothing that counts: the claim is made.
    Claimed,
    /// This process is running it.
    Ours,
    /// Another living process is running it.
    Elsewhere,
    /// It is decided.
    Settled(Begun),
}

/// A row that is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the row of an idempotency key is damaged; `verify` tells more")]
pub(crate) struct DamagedKey;

/// Why a key cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    #[error(transparent)]
    Damaged(#[from] DamagedKey),
}

impl From<rusqlite::Error> for KeyError {
    fn from(error: rusqlite::Error) -> Self {
        // What is not SQLite's own failure is a column with something unexpected in it.
        match error.sqlite_error() {
            Some(_) => Self::Sqlite(error),
            None => Self::Damaged(DamagedKey),
        }
    }
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
        return Ok(Found::Claimed);
    };
    let earlier = row.call_id.parse().map_err(|_| DamagedKey)?;
    if row.fingerprint != claim.fingerprint {
        return Ok(Found::Settled(Begun::Conflict { call_id: earlier }));
    }
    match row.state {
        KeyState::Finished => {
            let text = row.status.as_deref().ok_or(DamagedKey)?;
            let status: Status = serde_json::from_str(text).map_err(|_| DamagedKey)?;
            Ok(Found::Settled(Begun::Finished { call_id: earlier, status: Arc::new(status) }))
        }
        // The answer is gone, and running again could do the work twice.
        KeyState::Erased => Ok(Found::Settled(Begun::Unknown { call_id: earlier })),
        KeyState::Running if row.owner == owner.id() => Ok(Found::Ours),
        KeyState::Running => match (owner.liveness(&row.owner), claim.repeatable) {
            (Liveness::Alive, _) => Ok(Found::Elsewhere),
            (Liveness::Dead, true) => {
                insert_running(db, owner, claim, call_id)?;
                Ok(Found::Claimed)
            }
            (Liveness::Dead, false) => Ok(Found::Settled(Begun::Unknown { call_id: earlier })),
        },
    }
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

/// Gives a key back, if `call_id` holds it and has not ended.
pub(crate) fn release(db: &Connection, scoped_key: &[u8; 32], call_id: CallId) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM keys WHERE scoped_key = ?1 AND call_id = ?2 AND state = ?3")?
        .execute(params![scoped_key, call_id.to_string(), KeyState::Running as i64])
        .map(drop)
}

/// Forgets the answers of a call.
pub(crate) fn erase(db: &Connection, call_id: CallId) -> Result<(), KeyError> {
    let mut select = db.prepare(&format!("{SELECT} WHERE call_id = ?1 AND state = ?2"))?;
    let mut rows = select.query(params![call_id.to_string(), KeyState::Finished as i64])?;
    let mut answered = Vec::new();
    while let Some(row) = rows.next()? {
        answered.push(read(row)?);
    }
    for row in answered {
        write(db, &KeyRow { state: KeyState::Erased, status: None, ..row })?;
    }
    Ok(())
}

/// Checks every row's seal.
pub(crate) fn verify(db: &Connection) -> Result<(), KeyError> {
    let mut select = db.prepare(SELECT)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        read(row)?;
    }
    Ok(())
}

fn insert_running(db: &Connection, owner: &Owner, claim: &KeyClaim, call_id: CallId) -> rusqlite::Result<()> {
    write(
        db,
        &KeyRow {
            scoped_key: claim.scoped_key.to_vec(),
            fingerprint: claim.fingerprint.to_vec(),
            call_id: call_id.to_string(),
            owner: owner.id().to_owned(),
            state: KeyState::Running,
            status: None,
        },
    )
}

fn find(db: &Connection, scoped_key: &[u8; 32]) -> Result<Option<KeyRow>, KeyError> {
    db.prepare_cached(&format!("{SELECT} WHERE scoped_key = ?1"))?
        .query_one([scoped_key], |row| Ok(read(row)))
        .optional()?
        .transpose()
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

fn read(row: &Row<'_>) -> Result<KeyRow, KeyError> {
    let state = match row.get(4)? {
        0_i64 => KeyState::Running,
        1 => KeyState::Finished,
        2 => KeyState::Erased,
        _ => return Err(DamagedKey.into()),
    };
    let seal: Vec<u8> = row.get(6)?;
    let row = KeyRow {
        scoped_key: row.get(0)?,
        fingerprint: row.get(1)?,
        call_id: row.get(2)?,
        owner: row.get(3)?,
        state,
        status: row.get(5)?,
    };
    if row.seal().as_slice() == seal { Ok(row) } else { Err(DamagedKey.into()) }
}

impl KeyRow {
    fn seal(&self) -> Hash {
        let status = self.status.as_deref().unwrap_or_default();
        let fields = [
            &self.scoped_key[..],
            &self.fingerprint,
            self.call_id.as_bytes(),
            self.owner.as_bytes(),
            &[self.state as u8],
            status.as_bytes(),
        ];
        let mut digest = Sha256::new_with_prefix(b"helve idempotency key v1\0");
        for field in fields {
            digest.update((field.len() as u64).to_le_bytes());
            digest.update(field);
        }
        digest.finalize().into()
    }
}
