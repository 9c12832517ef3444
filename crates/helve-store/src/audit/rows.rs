//! Entries as they come out of the database.

use std::ops::ControlFlow;

use helve_core::record::Payload;
use rusqlite::{Row, Rows};
use serde::Deserialize;

use super::Audit;
use crate::chain::Kind;
use crate::error::StoreError;

/// The columns that [`StoredEntry::read`] expects.
pub(super) const COLUMNS: &str = "seq, kind, call_id, hash, head, payload";

/// One row.
pub(super) struct StoredEntry {
    pub(super) seq: i64,
    pub(super) kind: Kind,
    pub(super) call_id: String,
    pub(super) hash: Vec<u8>,
    head: Vec<u8>,
    payload: Option<Vec<u8>>,
}

impl StoredEntry {
    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let seq = row.get(0).unwrap_or_default();
        Self::try_read(row).map_err(|error| unreadable(seq, error))
    }

    fn try_read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let kind = row.get(1)?;
        Ok(Self {
            seq: row.get(0)?,
            kind: Kind::from_number(kind).ok_or(rusqlite::Error::IntegralValueOutOfRange(1, kind))?,
            call_id: row.get(2)?,
            hash: row.get(3)?,
            head: row.get_ref(4)?.as_bytes()?.to_vec(),
            payload: row.get_ref(5)?.as_bytes_or_null()?.map(<[u8]>::to_vec),
        })
    }

    pub(super) fn parse_head<'a, T: Deserialize<'a>>(&'a self) -> Result<T, StoreError> {
        serde_json::from_slice(&self.head).map_err(|error| unreadable(self.seq, error))
    }

    pub(super) fn parse_payload(&self) -> Result<Option<Payload>, StoreError> {
        let payload = self.payload.as_deref().map(serde_json::from_slice).transpose();
        payload.map_err(|error| unreadable(self.seq, error))
    }
}

fn unreadable(seq: i64, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unreadable { seq, source: Box::new(error) }
}

/// Hands over the entries of one call after the other, oldest entry first, until told to stop.
/// The rows must come ordered by call.
pub(super) fn each_call(
    audit: &Audit,
    mut rows: Rows<'_>,
    mut visit: impl FnMut(&[StoredEntry]) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut entries: Vec<StoredEntry> = Vec::new();
    loop {
        let row = rows.next().map_err(|source| audit.error(source))?;
        let next = row.map(StoredEntry::read).transpose()?;
        let same_call =
            matches!((&next, entries.last()), (Some(next), Some(last)) if next.call_id == last.call_id);
        if !same_call && !entries.is_empty() {
            entries.sort_unstable_by_key(|entry| entry.seq);
            if visit(&entries)?.is_break() {
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
