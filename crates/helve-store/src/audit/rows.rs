//! Entries as they come out of the database.

use std::ops::ControlFlow;

use rusqlite::{Connection, Row, Rows};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Audit;
use crate::error::StoreError;
use helve_ledger::chain::Kind;

/// The columns that [`StoredEntry::read`] expects.
pub(super) const COLUMNS: &str = "seq, kind, call_id, hash, head, payload, length(commitment) > 0";

/// The same without what was said. SQLite does not even read that: it stands behind all the others.
pub(super) const HEADS: &str = "seq, kind, call_id, hash, head, NULL, 0";

/// A row of the journal, before its JSON is read.
pub(super) struct StoredEntry {
    pub(super) seq: i64,
    /// Absent: no kind that we know.
    pub(super) kind: Option<Kind>,
    pub(super) call_id: String,
    pub(super) hash: Vec<u8>,
    head: Vec<u8>,
    payload: Option<Vec<u8>>,
    /// Whether there was a payload when it was written.
    had_payload: bool,
}

impl StoredEntry {
    /// Takes what is there, so that one damaged row does not hide the others. What is missing is
    /// noticed when it is parsed.
    pub(super) fn read(row: &Row<'_>) -> Self {
        let bytes = |column| row.get_ref(column).ok()?.as_bytes_or_null().ok()?.map(<[u8]>::to_vec);
        Self {
            seq: row.get(0).unwrap_or_default(),
            kind: row.get(1).ok().and_then(Kind::from_number),
            call_id: String::from_utf8_lossy(&bytes(2).unwrap_or_default()).into_owned(),
            hash: bytes(3).unwrap_or_default(),
            head: bytes(4).unwrap_or_default(),
            payload: bytes(5),
            had_payload: row.get(6).unwrap_or_default(),
        }
    }

    pub(super) fn parse_head<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Damage> {
        serde_json::from_slice(&self.head).map_err(|error| self.damage("head", error))
    }

    pub(super) fn parse_payload<T: DeserializeOwned>(&self) -> Result<Option<T>, Damage> {
        let payload = self.payload.as_deref().map(serde_json::from_slice).transpose();
        payload.map_err(|error| self.damage("payload", error))
    }

    /// Reads what was said, where only the head was read so far.
    pub(super) fn load_payload(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let mut select = db.prepare_cached("SELECT payload FROM entries WHERE seq = ?1")?;
        let mut rows = select.query([self.seq])?;
        if let Some(row) = rows.next()? {
            self.payload = row.get_ref(0)?.as_bytes_or_null().ok().flatten().map(<[u8]>::to_vec);
        }
        Ok(())
    }

    /// Whether what was said was erased.
    pub(super) fn is_erased(&self) -> bool {
        self.had_payload && self.payload.is_none()
    }

    pub(super) fn damage(&self, part: &str, why: impl std::fmt::Display) -> Damage {
        Damage(format!("the {part} of entry {} cannot be read: {why}", self.seq))
    }
}

/// Why a part of an entry cannot be read.
pub(crate) struct Damage(pub(crate) String);

/// Hands over the entries of one call after the other, oldest entry first, until told to stop.
/// The rows must come ordered by call.
pub(super) fn each_call(
    audit: &Audit,
    mut rows: Rows<'_>,
    mut visit: impl FnMut(&mut [StoredEntry]) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut entries: Vec<StoredEntry> = Vec::new();
    loop {
        let row = match rows.next() {
            Ok(row) => row,
            Err(source) => {
                // What was read up to the damage is handed over all the same.
                entries.sort_unstable_by_key(|entry| entry.seq);
                if !entries.is_empty() {
                    let _ = visit(&mut entries)?;
                }
                return Err(audit.error(source));
            }
        };
        let next = row.map(StoredEntry::read);
        let same_call =
            matches!((&next, entries.last()), (Some(next), Some(last)) if next.call_id == last.call_id);
        if !same_call && !entries.is_empty() {
            entries.sort_unstable_by_key(|entry| entry.seq);
            if visit(&mut entries)?.is_break() {
                return Ok(());
            }
            entries.clear();
        }
        match next {
            Some(next) => entries.push(next),
            None => return Ok(()),
        }
    }
}
