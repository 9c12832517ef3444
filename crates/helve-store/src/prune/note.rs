//! The entry that tells of a pruning, and its signature.
//!
//! A chain is not keyed: an attacker who can write the file can cut off its beginning and append an entry that says
//! so. So a cut is signed with the journal's key, and `verify` takes no other. A checkpoint's signature does not do: it
//! says how far the chain had come, and not that anything before may go.

use helve_core::json::hex;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

use crate::audit::{Checkpoint, Head, SigningKey, VerifyingKey};
use helve_ledger::chain::{HASH_BYTES, Hash, Kind, Position};

/// Where the number of the last cut's entry is kept. It only leads there: what counts is the entry.
const LAST_CUT: &str = "last_cut";

/// The head of an entry of the kind [`Kind::Pruned`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PrunedHead {
    pub(crate) at: Timestamp,
    pub(crate) by: String,
    /// The entries that were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cut: Option<Cut>,
    /// The format to which the last migration that was removed brought the file, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<i64>,
    /// The entries among which calls that only read lost what was said in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) erased: Option<Range>,
}

/// What a pruning removed: entries from the beginning of what was there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cut {
    /// The first entry that was removed then.
    pub first: i64,
    /// The last one. All before are gone, too.
    pub last: i64,
    /// How many calls they were about.
    pub calls: i64,
    /// The last one's hash in hexadecimal.
    pub hash: String,
    /// The signed note that vouches for the cut.
    pub note: String,
}

/// Entries from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Range {
    /// The number of the first entry.
    pub first: i64,
    /// The number of the last entry, which is part of the range.
    pub last: i64,
    /// How many of them are concerned.
    pub entries: i64,
}

impl Cut {
    pub(crate) fn new(first: i64, end: Position, calls: i64, at: Timestamp, key: &SigningKey) -> Self {
        let head = Head { seq: end.seq, hash: hex(&end.hash) };
        let hash = head.hash.clone();
        let note = key.sign_cut(&Checkpoint::new(head, at));
        Self { first, last: end.seq, calls, hash, note }
    }

    /// Whether it ends before the entry `first`, and `entry`, which tells of it, stands after it.
    pub(crate) fn leads_to(&self, first: i64, entry: i64) -> bool {
        self.last + 1 == first && self.last < entry
    }

    /// The same cut, signed by another key. None: it is damaged.
    pub(crate) fn signed_anew(&self, at: Timestamp, key: &SigningKey) -> Option<Self> {
        let end = Position { seq: self.last, hash: parse_hash(&self.hash)? };
        Some(Self::new(self.first, end, self.calls, at, key))
    }

    /// Where the chain goes on from, if this key signed the cut.
    pub(crate) fn check(&self, key: &VerifyingKey) -> Option<Position> {
        let signed = key.check_cut(&self.note).ok()?;
        let fits = signed.head.seq == self.last && signed.head.hash == self.hash;
        Some(Position { seq: self.last, hash: parse_hash(&self.hash)? }).filter(|_| fits)
    }
}

fn parse_hash(digits: &str) -> Option<Hash> {
    let mut hash = [0; HASH_BYTES];
    if digits.len() != 2 * HASH_BYTES || !digits.is_ascii() {
        return None;
    }
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(hash)
}

/// Every entry that tells of a pruning. One that cannot be read is left out, because it vouches for nothing; so is
/// what comes after a damaged page, but for the last cut, so that a check can say what is sound before that.
pub(crate) fn all(db: &Connection) -> rusqlite::Result<Vec<(i64, PrunedHead)>> {
    let mut last = db.prepare(
        "SELECT seq, head FROM entries WHERE kind = ?1 AND seq = (SELECT value FROM meta WHERE name = ?2)",
    )?;
    let mut each = db.prepare("SELECT seq, head FROM entries WHERE kind = ?1 AND ?2 <> ''")?;
    let mut found = Vec::new();
    for select in [&mut last, &mut each] {
        let mut rows = select.query(rusqlite::params![Kind::Pruned as i64, LAST_CUT])?;
        while let Ok(Some(row)) = rows.next() {
            let head = row.get_ref(1)?.as_bytes().unwrap_or_default();
            if let Ok(head) = serde_json::from_slice(head) {
                found.push((row.get(0)?, head));
            }
        }
    }
    Ok(found)
}

/// The entries that tell of the cut after which the first entry stands.
pub(crate) fn of_first_entry(db: &Connection) -> rusqlite::Result<Vec<(i64, PrunedHead)>> {
    let first: i64 = db.query_one("SELECT ifnull(min(seq), 1) FROM entries", [], |row| row.get(0))?;
    let leads_there =
        |entry: i64, head: &PrunedHead| head.cut.as_ref().is_some_and(|cut| cut.leads_to(first, entry));
    Ok(all(db)?.into_iter().filter(|(entry, head)| leads_there(*entry, head)).collect())
}

/// Remembers the entry of the last cut.
pub(crate) fn remember(db: &Connection, seq: i64) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?
        .execute(rusqlite::params![LAST_CUT, seq])
        .map(drop)
}

/// The last entry that was cut off; 0 where none was.
pub(crate) fn last_cut(db: &Connection) -> rusqlite::Result<i64> {
    Ok(of_last_cut(db, "$.cut.last")?.unwrap_or(0))
}

/// The format to which a migration up to the entry `end`, or one that was cut off before, brought the file.
pub(crate) fn format_up_to(db: &Connection, end: i64) -> rusqlite::Result<Option<i64>> {
    let migrated = db
        .prepare_cached(
            "SELECT head ->> 'to' FROM entries WHERE seq <= ?1 AND kind = ?2 ORDER BY seq DESC LIMIT 1",
        )?
        .query_one(rusqlite::params![end, Kind::Migrated as i64], |row| row.get(0))
        .optional()?;
    match migrated {
        Some(format) => Ok(Some(format)),
        None => of_last_cut(db, "$.format"),
    }
}

/// A number that the entry about the last cut tells.
fn of_last_cut(db: &Connection, path: &str) -> rusqlite::Result<Option<i64>> {
    let found: Option<Option<i64>> = db
        .prepare_cached(
            "SELECT (SELECT head ->> ?3 FROM entries WHERE seq = meta.value AND kind = ?2) \
             FROM meta WHERE name = ?1",
        )?
        .query_one(rusqlite::params![LAST_CUT, Kind::Pruned as i64, path], |row| row.get(0))
        .optional()?;
    Ok(found.flatten())
}
