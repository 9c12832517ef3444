//! Entries as they come out of the file.

use std::ops::ControlFlow;

use helve_ledger::audit::stored::StoredEntry;
use helve_ledger::chain::Kind;
use rusqlite::{Connection, Row, Rows};

use super::Audit;
use crate::error::StoreError;

/// The columns that [`read`] expects.
pub(super) const COLUMNS: &str = "seq, kind, call_id, hash, head, payload, length(commitment) > 0";

/// The same without what was said. SQLite does not even read that: it stands behind all the others.
pub(super) const HEADS: &str = "seq, kind, call_id, hash, head, NULL, 0";

/// Takes what is there, so that one damaged row does not hide the others. What is missing is
/// noticed when it is parsed.
pub(super) fn read(row: &Row<'_>) -> StoredEntry {
    let bytes = |column| row.get_ref(column).ok()?.as_bytes_or_null().ok()?.map(<[u8]>::to_vec);
    StoredEntry {
        seq: row.get(0).unwrap_or_default(),
        writer: None,
        kind: row.get(1).ok().and_then(Kind::from_number),
        call_id: String::from_utf8_lossy(&bytes(2).unwrap_or_default()).into_owned(),
        hash: bytes(3).unwrap_or_default(),
        head: bytes(4).unwrap_or_default(),
        payload: bytes(5),
        had_payload: row.get(6).unwrap_or_default(),
    }
}

/// Reads what was said, where only the head was read so far.
pub(super) fn load_payload(entry: &mut StoredEntry, db: &Connection) -> rusqlite::Result<()> {
    let mut select = db.prepare_cached("SELECT payload FROM entries WHERE seq = ?1")?;
    let mut rows = select.query([entry.seq])?;
    if let Some(row) = rows.next()? {
        entry.payload = row.get_ref(0)?.as_bytes_or_null().ok().flatten().map(<[u8]>::to_vec);
    }
    Ok(())
}

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
        let next = row.map(read);
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
