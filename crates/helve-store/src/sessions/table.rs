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
) -> rusqlite::Result<Result<SessionState, JournalError>> {
    let found = find(db, key)?.filter(|state| state.changed_at >= forget_before);
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
    Ok(Ok(state))
}

fn state(row: &Row<'_>, index: usize) -> rusqlite::Result<SessionState> {
    let body: String = row.get(index)?;
    serde_json::from_str(&body)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, error.into()))
}
