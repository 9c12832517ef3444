//! Which key signs for the journal: the chain tells it, so that another key in its file is noticed.
//!
//! An attacker who replaces the key and signs anew could pass off another journal. The first key that a store sees
//! is an entry, and stays the journal's key until a person accepts the journal without it.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::{SigningKey, VerifyingKey, open_to_read};
use crate::error::StoreError;
use crate::keys::Disagreement;
use crate::schema;

const TOLD: &str = "
    SELECT seq, head ->> 'key' FROM entries
    WHERE kind IN (5, 11) AND kind = 11
      AND seq > ifnull((SELECT max(seq) FROM entries WHERE kind IN (5, 11) AND kind = 5), 0)
    ORDER BY seq LIMIT 1";

/// The entry that tells which key signs for the journal, and the key.
pub(crate) fn told(db: &Connection) -> rusqlite::Result<Option<(i64, String)>> {
    db.prepare_cached(TOLD)?.query_one([], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// The key that the journal at `path` tells of, if there is one.
pub(crate) fn told_at(path: &Path) -> Result<Option<String>, StoreError> {
    if !path.exists() {
        return Ok(None);
    }
    let sqlite = |source| StoreError::sqlite(path, source);
    let db = open_to_read(path).map_err(sqlite)?;
    match schema::format(&db, path)? {
        Some(schema::VERSION) => Ok(told(&db).map_err(sqlite)?.map(|(_, key)| key)),
        // Earlier formats did not tell.
        Some(_) | None => Ok(None),
    }
}

/// Compares the key next to the journal with the chain, which must be sound. One that is not there signs nothing.
pub(super) fn verify(db: &Connection, journal: &Path) -> rusqlite::Result<Option<Disagreement>> {
    let Some((seq, key)) = told(db)? else { return Ok(None) };
    let path = SigningKey::path(journal);
    let Ok(bytes) = std::fs::read(&path) else { return Ok(None) };
    let what = match SigningKey::from_bytes(&bytes).map(|found| found.verifying().to_string()) {
        Some(found) if found == key => return Ok(None),
        Some(_) => "is not the one that signed for this journal: it was replaced",
        None => "is damaged",
    };
    let what = format!("the key in `{}` {what}", path.display());
    Ok(Some(Disagreement { seq: Some(seq), what }))
}

impl VerifyingKey {
    /// Whether the journal that tells of `told` can have this key.
    pub(super) fn is_told(&self, told: Option<&str>) -> bool {
        told.is_none_or(|told| told == self.to_string())
    }
}
