//! Entries that vouch for rows.
//!
//! Rows that decide change and are removed, so they are no part of the chain. But the writer of one appends, in
//! the same transaction, an entry that names it and carries a digest of it; the last entry that names a row tells
//! how it must be. So the row is compared when it is used, and by `verify`.
//!
//! What may be erased, and could be guessed from its digest, is hashed with a salt that stands in the row and goes
//! with it.

use helve_core::json::hex;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::chain::Salt;

/// What an entry tells of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Voucher {
    /// Its table and its key there.
    pub row: String,
    /// Its digest. Absent: it was removed.
    #[serde(rename = "row_seal", skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
    /// From when on it may be gone without an entry that tells of it.
    #[serde(rename = "row_until_us", skip_serializing_if = "Option::is_none")]
    pub until_us: Option<i64>,
}

impl Voucher {
    /// Whether the row must be there at a time.
    pub fn is_due(&self, now_us: i64) -> bool {
        self.seal.is_some() && self.until_us.is_none_or(|until| until > now_us)
    }
}

/// What the newest entry about a row says of it.
#[derive(Debug, Clone)]
pub struct Told {
    /// The entry that tells it.
    pub seq: i64,
    /// The row's digest. Absent: it was removed.
    pub seal: Option<String>,
    /// From when on it may be gone without an entry that tells of it.
    pub until_us: Option<i64>,
}

impl Told {
    /// Whether the row must be there at a time.
    pub fn is_due(&self, now_us: i64) -> bool {
        self.seal.is_some() && self.until_us.is_none_or(|until| until > now_us)
    }
}

/// Whether the last entry about a row tells that it has this digest.
pub fn tells(told: Option<&Told>, seal: &str) -> bool {
    told.is_some_and(|told| told.seal.as_deref() == Some(seal))
}

/// The digest of a row's columns. Their lengths make every column's end unambiguous.
pub fn digest(table: &str, salt: &[u8], columns: &[Option<&[u8]>]) -> String {
    let mut digest = Sha256::new_with_prefix(b"helve row v1\0");
    for column in [Some(table.as_bytes()), Some(salt)].iter().chain(columns) {
        match column {
            Some(bytes) => {
                digest.update([1]);
                digest.update((bytes.len() as u64).to_le_bytes());
                digest.update(bytes);
            }
            None => digest.update([0]),
        }
    }
    hex(&digest.finalize())
}

/// A salt for one row.
pub fn salt() -> Result<Salt, getrandom::Error> {
    let mut salt = Salt::default();
    getrandom::fill(&mut salt)?;
    Ok(salt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_changes_with_every_column_and_with_where_columns_end() {
        let digest = |columns: &[Option<&[u8]>]| digest("t", b"salt", columns);
        let all = [
            digest(&[Some(b"ab"), Some(b"c")]),
            digest(&[Some(b"a"), Some(b"bc")]),
            digest(&[Some(b"abc"), None]),
            digest(&[None, Some(b"abc")]),
            digest(&[Some(b""), Some(b"abc")]),
            super::digest("t", b"tlas", &[Some(b"ab"), Some(b"c")]),
            super::digest("u", b"salt", &[Some(b"ab"), Some(b"c")]),
        ];
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
