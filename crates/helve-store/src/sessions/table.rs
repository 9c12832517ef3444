//! The table of sessions.
//!
//! `body` is what is remembered, as JSON. Absent principals and sessions are NULL, which no id is,
//! so that an empty text cannot stand for nobody. `changed_ms` is below zero for a session that was
//! ended: that is never forgotten, or its id could be used again.

use helve_core::ports::JournalError;
use helve_core::session::{SessionChange, SessionKey, SessionState};
use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::vouch::{self, Register, Voucher};

pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY,
    principal TEXT,
    session TEXT,
    changed_ms INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS sessions_by_key
    ON sessions (principal IS NULL, principal, session IS NULL, session);
CREATE INDEX IF NOT EXISTS sessions_by_change ON sessions (changed_ms);
";

/// How long a session that does not change is remembered: 90 days.
pub(super) const KEEP_MS: i64 = 90 * 24 * 3_600_000;

const BY_KEY: &str = "(principal IS NULL) = (?1 IS NULL) AND principal IS ?1 \
    AND (session IS NULL) = (?2 IS NULL) AND session IS ?2";

pub(crate) fn find(db: &Connection, key: &SessionKey) -> rusqlite::Result<Option<SessionState>> {
    db.prepare_cached(&format!("SELECT body FROM sessions WHERE {BY_KEY}"))?
        .query_one(params![key.principal.as_deref(), key.session.as_deref()], |row| state(row, 0))
        .optional()
}

const TABLE: &str = "sessions";

/// What the journal is to tell of a session.
pub(crate) fn voucher(key: &SessionKey, changed_ms: i64, body: &str) -> Voucher {
    let seal = vouch::digest(TABLE, &[], &[Some(&changed_ms.to_le_bytes()), Some(body.as_bytes())]);
    // Below zero: it was ended, and is never forgotten.
    let until_us = (changed_ms >= 0).then_some((changed_ms + KEEP_MS).saturating_mul(1_000));
    Voucher { row: row_name(key), seal: Some(seal), until_us }
}

/// Whose it is names it, so that one whose row is gone is missed.
pub(super) fn row_name(key: &SessionKey) -> String {
    let names = [key.principal.as_deref(), key.session.as_deref()].map(|name| name.map(str::as_bytes));
    format!("{TABLE}/{}", vouch::digest("session", &[], &names))
}

/// How entries name the rows that are there.
pub(crate) fn row_names(db: &Connection) -> rusqlite::Result<Vec<String>> {
    db.prepare_cached("SELECT principal, session FROM sessions")?
        .query_map([], |row| {
            let name = |index| row.get::<_, Option<String>>(index).map(|name| name.map(Into::into));
            Ok(row_name(&SessionKey { principal: name(0)?, session: name(1)? }))
        })?
        .collect()
}

/// The last that the journal tells of every session, by row.
pub(super) fn told(db: &Connection) -> rusqlite::Result<Register> {
    Register::of(db, TABLE)
}

/// How a session's row differs from what the journal tells of it, and the entry that tells it.
pub(crate) fn difference(
    db: &Connection,
    key: &SessionKey,
    now: Timestamp,
) -> rusqlite::Result<Option<(Option<i64>, &'static str)>> {
    let told = vouch::last(db, &row_name(key))?;
    let row: Option<(i64, String)> = db
        .prepare_cached(&format!("SELECT changed_ms, body FROM sessions WHERE {BY_KEY}"))?
        .query_one(params![key.principal.as_deref(), key.session.as_deref()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let seq = told.as_ref().map(|told| told.seq);
    Ok(match row {
        Some((changed_ms, body)) => {
            let seal = voucher(key, changed_ms, &body).seal.unwrap_or_default();
            (!vouch::tells(told.as_ref(), &seal)).then_some((seq, "was changed"))
        }
        None => told.is_some_and(|told| told.is_due(now.as_microsecond())).then_some((seq, "was removed")),
    })
}

/// A session that is as the journal tells.
pub(crate) fn find_vouched(
    db: &Connection,
    key: &SessionKey,
    now: Timestamp,
) -> rusqlite::Result<Result<Option<SessionState>, JournalError>> {
    match difference(db, key, now)? {
        None => find(db, key).map(Ok),
        Some((_, what)) => {
            let told = format!("what is remembered of this session {what}; begin another, and run verify");
            Ok(Err(JournalError::new(told)))
        }
    }
}

/// Every session, for a migration to vouch for.
pub(crate) fn vouch_for_all(db: &Connection) -> rusqlite::Result<Vec<Voucher>> {
    db.prepare("SELECT principal, session, changed_ms, body FROM sessions ORDER BY id")?
        .query_map([], |row| {
            let name = |index| row.get::<_, Option<String>>(index).map(|name| name.map(Into::into));
            let key = SessionKey { principal: name(0)?, session: name(1)? };
            Ok(voucher(&key, row.get(2)?, &row.get::<_, String>(3)?))
        })?
        .collect()
}

/// Sessions, last changed first; those that were ended come last.
pub(crate) fn list(
    db: &Connection,
    principal: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<(SessionKey, SessionState)>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    db.prepare_cached(
        "SELECT principal, session, body FROM sessions WHERE ?1 IS NULL OR principal = ?1 \
         ORDER BY changed_ms DESC LIMIT ?2",
    )?
    .query_map(params![principal, limit], |row| {
        let name = |index| row.get::<_, Option<String>>(index).map(|name| name.map(Into::into));
        Ok((SessionKey { principal: name(0)?, session: name(1)? }, state(row, 2)?))
    })?
    .collect()
}

/// Makes a change, and says how the session is now.
pub(crate) fn change(
    db: &Connection,
    key: &SessionKey,
    change: &SessionChange,
    now: Timestamp,
    forget_before: Timestamp,
) -> rusqlite::Result<Result<(SessionState, Voucher), JournalError>> {
    let found = match (find_vouched(db, key, now)?, change) {
        (Ok(found), _) => found,
        // Whatever it was, it ends.
        (Err(_), SessionChange::End { .. }) => None,
        (Err(error), SessionChange::Raise(_) | SessionChange::Permit(_)) => return Ok(Err(error)),
    };
    let found = found.filter(|state| state.changed_at >= forget_before);
    let mut state = found.unwrap_or_else(|| SessionState::new(now));
    if let Err(error) = state.apply(change, now) {
        return Ok(Err(JournalError::new(error.to_string())));
    }
    let body = serde_json::to_string(&state)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let changed_ms = match state.ended_at {
        Some(_) => -now.as_millisecond(),
        None => now.as_millisecond(),
    };
    let voucher = voucher(key, changed_ms, &body);
    let values = params![key.principal.as_deref(), key.session.as_deref(), changed_ms, body];
    let update = format!("UPDATE sessions SET changed_ms = ?3, body = ?4 WHERE {BY_KEY}");
    if db.prepare_cached(&update)?.execute(values)? == 0 {
        let insert = "INSERT INTO sessions (principal, session, changed_ms, body) VALUES (?1, ?2, ?3, ?4)";
        db.prepare_cached(insert)?.execute(values)?;
    }
    // Those of long ago make room; a thousand at a time keeps this short.
    let long_ago = now.as_millisecond() - KEEP_MS;
    db.prepare_cached(
        "DELETE FROM sessions WHERE id IN \
         (SELECT id FROM sessions WHERE changed_ms BETWEEN 0 AND ?1 LIMIT 1000)",
    )?
    .execute([long_ago])?;
    Ok(Ok((state, voucher)))
}

fn state(row: &Row<'_>, index: usize) -> rusqlite::Result<SessionState> {
    let body: String = row.get(index)?;
    serde_json::from_str(&body)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, error.into()))
}
