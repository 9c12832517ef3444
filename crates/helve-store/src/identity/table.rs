//! The table of API keys. Only digests of secrets are in it.

use helve_core::KeyId;
use helve_core::identity::{Key, Purpose};
use helve_core::ports::KEYS_MAX;
use jiff::{SignedDuration, Timestamp};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::vouch::{self, Voucher};

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

/// What the journal is to tell of a key as it is now. About when it was last used is nobody's business, but for a
/// code, which is good once.
pub(crate) fn voucher(key: &Key) -> rusqlite::Result<Voucher> {
    let mut lasting = key.clone();
    if key.purpose != Purpose::SignIn {
        lasting.used_at = None;
    }
    let body = serde_json::to_string(&lasting)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let seal = vouch::digest(TABLE, &[], &[Some(body.as_bytes())]);
    // Codes are forgotten.
    let until_us = (key.purpose == Purpose::SignIn).then(|| key.made_at.as_microsecond());
    Ok(Voucher { row: row_name(&key.id), seal: Some(seal), until_us })
}

pub(super) const TABLE: &str = "api_keys";

fn row_name(id: &KeyId) -> String {
    format!("{TABLE}/{id}")
}

/// How entries name the rows that are there.
pub(crate) fn row_names(db: &Connection) -> rusqlite::Result<Vec<String>> {
    db.prepare_cached("SELECT id FROM api_keys")?
        .query_map([], |row| Ok(format!("{TABLE}/{}", row.get::<_, String>(0)?)))?
        .collect()
}

/// The key that an entry names so, if there is one that the journal vouches for.
pub(crate) fn find_named(db: &Connection, row: &str) -> rusqlite::Result<Option<Key>> {
    match row.strip_prefix(TABLE).and_then(|id| id.strip_prefix('/')).map(str::parse) {
        Some(Ok(id)) => find_vouched(db, id),
        Some(Err(_)) | None => Ok(None),
    }
}

/// Forgets a key.
pub(crate) fn forget(db: &Connection, id: KeyId) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM api_keys WHERE id = ?1")?.execute([id.to_string()]).map(drop)
}

/// Whether the journal vouches for a key as it is.
pub(crate) fn is_vouched(db: &Connection, key: &Key) -> rusqlite::Result<bool> {
    let (told, voucher) = (vouch::last(db, &row_name(&key.id))?, voucher(key)?);
    let is_told = vouch::tells(told.as_ref(), voucher.seal.as_deref().unwrap_or_default());
    if !is_told {
        tracing::error!(key = %key.id, "the journal does not vouch for this key; run verify");
    }
    Ok(is_told)
}

/// One key that the journal vouches for.
pub(crate) fn find_vouched(db: &Connection, id: KeyId) -> rusqlite::Result<Option<Key>> {
    match find(db, id)? {
        Some(key) if key.id == id && is_vouched(db, &key)? => Ok(Some(key)),
        Some(_) | None => Ok(None),
    }
}

/// All keys that the journal vouches for, newest first.
pub(crate) fn list_vouched(db: &Connection) -> rusqlite::Result<Vec<Key>> {
    let mut vouched = Vec::new();
    for key in list(db)? {
        if is_vouched(db, &key)? {
            vouched.push(key);
        }
    }
    Ok(vouched)
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

/// Reads one key by its id.
pub(crate) fn find(db: &Connection, id: KeyId) -> rusqlite::Result<Option<Key>> {
    db.prepare_cached("SELECT body FROM api_keys WHERE id = ?1")?.query_one([id.to_string()], body).optional()
}

/// All keys, newest first.
pub(crate) fn list(db: &Connection) -> rusqlite::Result<Vec<Key>> {
    db.prepare_cached("SELECT body FROM api_keys ORDER BY id DESC")?.query_map([], body)?.collect()
}

/// Whether one more of the like may be kept: another link to a question, or another key.
pub(crate) fn has_room(db: &Connection, key: &Key) -> rusqlite::Result<bool> {
    const ALL: &str = "SELECT count(*) FROM api_keys";
    // Those that are good. That a row is there says little: keys that ended are kept for good.
    const LIVE: &str = "SELECT count(*) FROM api_keys
        WHERE (expires_ms IS NULL OR expires_ms > ?1) AND body ->> '$.revoked_at' IS NULL
          AND NOT (purpose = ?2 AND body ->> '$.used_at' IS NOT NULL)
          AND (body ->> '$.only' IS NOT NULL) = ?3";
    let has_room = |count: i64| usize::try_from(count).is_ok_and(|count| count < KEYS_MAX);
    // Mostly that is enough.
    if has_room(db.prepare_cached(ALL)?.query_one([], |row| row.get(0))?) {
        return Ok(true);
    }
    forget_links(db)?;
    let (now, is_link) = (key.made_at.as_millisecond(), key.only.is_some());
    db.prepare_cached(LIVE)?
        .query_one(params![now, Purpose::SignIn.as_str(), is_link], |row| row.get(0))
        .map(has_room)
}

/// Forgets links to questions that wait no more, and lead nowhere.
fn forget_links(db: &Connection) -> rusqlite::Result<()> {
    db.prepare_cached(
        "DELETE FROM api_keys WHERE body ->> '$.only' IS NOT NULL AND NOT EXISTS
            (SELECT 1 FROM approvals WHERE approvals.id = api_keys.body ->> '$.only' AND state = 0)",
    )?
    .execute([])
    .map(drop)
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

#[cfg(test)]
mod tests {
    use helve_core::{ApprovalId, Caller};

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    /// A table that is full of keys of a sort, and one question that waits.
    fn full(purpose: Purpose, change: impl Fn(usize, &mut Key)) -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&format!("{TABLES}{}", crate::approvals::table::TABLES)).unwrap();
        db.execute(
            "INSERT INTO approvals VALUES (?1, 0, '', '', '', '', 0, 0, '')",
            [question().to_string()],
        )
        .unwrap();
        for number in 0..KEYS_MAX {
            let mut key = made(purpose);
            change(number, &mut key);
            keep(&db, &key).unwrap();
        }
        db
    }

    fn question() -> ApprovalId {
        ApprovalId::first_at(now())
    }

    fn made(purpose: Purpose) -> Key {
        Key::generate("ci", purpose, "ada", now()).0
    }

    fn link() -> Key {
        let mut link = made(Purpose::SignIn);
        link.only = Some(question());
        link
    }

    #[test]
    fn keys_that_ended_take_no_room() {
        let db = full(Purpose::Call, |number, key| match number % 2 {
            0 => key.expires_at = Some(now()),
            _ => assert!(key.revoke(&Caller::principal("ada"), now())),
        });
        assert!(has_room(&db, &made(Purpose::Call)).unwrap() && has_room(&db, &link()).unwrap());
        assert_eq!(list(&db).unwrap().len(), KEYS_MAX, "what became of them is still there to see");
        let db = full(Purpose::SignIn, |_, code| code.used_at = Some(now()));
        assert!(has_room(&db, &made(Purpose::Call)).unwrap());
    }

    #[test]
    fn keys_that_are_good_take_no_room_from_links() {
        let db = full(Purpose::Call, |_, key| key.used_at = Some(now()));
        assert!(!has_room(&db, &made(Purpose::Call)).unwrap() && has_room(&db, &link()).unwrap());
    }

    #[test]
    fn links_take_no_room_from_keys_and_lead_nowhere_once_their_question_has_ended() {
        let db = full(Purpose::SignIn, |_, link| link.only = Some(question()));
        for purpose in [Purpose::Call, Purpose::Decide, Purpose::SignIn] {
            assert!(has_room(&db, &made(purpose)).unwrap(), "{purpose:?}");
        }
        assert!(!has_room(&db, &link()).unwrap());
        db.execute("UPDATE approvals SET state = 5", []).unwrap();
        assert!(has_room(&db, &link()).unwrap());
        assert!(list(&db).unwrap().is_empty());
    }
}
