//! The table of API keys. Only digests of secrets are in it.

use helve_core::KeyId;
use helve_core::identity::{Key, Purpose};
use jiff::{SignedDuration, Timestamp};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

// - `body`: what is kept of the key, as JSON.
pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS api_keys (
    id TEXT PRIMARY KEY,
    purpose TEXT NOT NULL,
    expires_ms INTEGER,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// How long a sign-in code is kept once it is no longer good.
const KEEP_CODES: SignedDuration = SignedDuration::from_hours(24);

/// Writes a key as it is now.
pub(crate) fn keep(db: &Connection, key: &Key) -> rusqlite::Result<()> {
    let body = serde_json::to_string(key)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let expires_ms = key.expires_at.map(Timestamp::as_millisecond);
    db.prepare_cached("INSERT OR REPLACE INTO api_keys VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![key.id.to_string(), key.purpose.as_str(), expires_ms, body])
        .map(drop)
}

/// Notes that who may come in has changed.
pub(crate) fn changed(db: &Connection) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO meta VALUES ('key_changes', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1",
    )?
    .execute([])
    .map(drop)
}

/// How often who may come in has changed.
pub(crate) fn changes(db: &Connection) -> rusqlite::Result<u64> {
    let changes: Option<i64> = db
        .prepare_cached("SELECT value FROM meta WHERE name = 'key_changes'")?
        .query_one([], |row| row.get(0))
        .optional()?;
    Ok(changes.and_then(|changes| u64::try_from(changes).ok()).unwrap_or(0))
}

/// One key.
pub(crate) fn find(db: &Connection, id: KeyId) -> rusqlite::Result<Option<Key>> {
    db.prepare_cached("SELECT body FROM api_keys WHERE id = ?1")?.query_one([id.to_string()], body).optional()
}

/// All keys, newest first.
pub(crate) fn list(db: &Connection) -> rusqlite::Result<Vec<Key>> {
    db.prepare_cached("SELECT body FROM api_keys ORDER BY id DESC")?.query_map([], body)?.collect()
}

/// How many there are.
pub(crate) fn count(db: &Connection) -> rusqlite::Result<usize> {
    let count: i64 = db.prepare_cached("SELECT count(*) FROM api_keys")?.query_one([], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Forgets sign-in codes that were good long ago.
pub(crate) fn forget_codes(db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let before = now.saturating_sub(KEEP_CODES).unwrap_or(Timestamp::MIN);
    db.prepare_cached("DELETE FROM api_keys WHERE purpose = ?1 AND expires_ms < ?2")?
        .execute(params![Purpose::SignIn.as_str(), before.as_millisecond()])
        .map(drop)
}

fn body(row: &Row<'_>) -> rusqlite::Result<Key> {
    let text: String = row.get(0)?;
    serde_json::from_str(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}
