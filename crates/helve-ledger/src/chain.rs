//! The hash chain: each entry's hash covers the one before it.
//!
//! A payload is covered by a salted commitment only. Once salt and payload are erased, the
//! commitment says nothing about what it was, and the chain still holds.

use sha2::{Digest, Sha256};

/// How long a digest is.
pub const HASH_BYTES: usize = 32;

/// A SHA-256 digest.
pub type Hash = [u8; HASH_BYTES];

/// Keeps a commitment from telling what it is to.
pub type Salt = [u8; 16];

/// What the first entry follows.
pub const GENESIS: Hash = [0; HASH_BYTES];

// Hashes made for one purpose are of no use for another.
const ENTRY_DOMAIN: &[u8] = b"helve journal entry v1\0";
const PART_DOMAIN: &[u8] = b"helve journal part v1\0";
const PAYLOAD_DOMAIN: &[u8] = b"helve journal payload v1\0";

/// A place in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// How many entries there are so far.
    pub seq: i64,
    /// The last one's hash.
    pub hash: Hash,
}

impl Position {
    /// Before the first entry.
    pub const START: Self = Self { seq: 0, hash: GENESIS };

    /// The place of `link`, which comes next.
    pub fn next(&self, link: &Link<'_>) -> Self {
        let seq = self.seq + 1;
        Self { seq, hash: link.hash(&self.hash, seq) }
    }
}

/// What an entry's hash covers beside its place.
pub struct Link<'a> {
    /// What it tells.
    pub kind: Kind,
    /// The call it is about; empty where it is about none.
    pub call_id: &'a [u8],
    /// The run that the call is a part of.
    pub run_id: Option<&'a [u8]>,
    /// What is never erased.
    pub head: &'a [u8],
    /// The commitment to what can be erased; empty where nothing was said.
    pub commitment: &'a [u8],
}

impl Link<'_> {
    fn hash(&self, previous: &Hash, seq: i64) -> Hash {
        // The lengths make every field's end unambiguous.
        let lengths = [self.commitment.len() as u64, self.call_id.len() as u64].map(u64::to_le_bytes);
        let beginning = match self.run_id {
            None => Sha256::new_with_prefix(ENTRY_DOMAIN),
            Some(run_id) => Sha256::new_with_prefix(PART_DOMAIN)
                .chain_update((run_id.len() as u64).to_le_bytes())
                .chain_update(run_id),
        };
        beginning
            .chain_update(previous)
            .chain_update(seq.to_le_bytes())
            .chain_update([self.kind as u8])
            .chain_update(lengths.as_flattened())
            .chain_update(self.commitment)
            .chain_update(self.call_id)
            .chain_update(self.head)
            .finalize()
            .into()
    }
}

/// The one list of kinds: the enum and the way back from its number come from it.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $number:literal,)*) => {
        /// What an entry tells. The number is stored and hashed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $variant = $number,)*
        }

        impl Kind {
            /// The kind that is stored as this number.
            pub fn from_number(number: i64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// A call is about to start.
    Started = 0,
    /// A call has ended.
    Finished = 1,
    /// The payloads of a call were erased.
    Erased = 2,
    /// A call gave back its idempotency key: it never ran, or died and may be repeated.
    Released = 3,
    /// The anchor was missing when a store was opened. About no call. Earlier versions wrote it.
    Unanchored = 4,
    /// A person accepted the journal, whatever the anchor said. About no call.
    Accepted = 5,
    /// Something happened in the middle of a run.
    Step = 6,
    /// The file was brought to another format. About no call.
    Migrated = 7,
    /// Vouches for a row: see `vouch.rs`.
    Vouched = 8,
    /// A process took a run over.
    Adopted = 9,
    /// An approval was used up.
    Spent = 10,
    /// Which key signs for the journal. About no call.
    Keyed = 11,
    /// The oldest entries were removed, or what was said in some. About no call.
    Pruned = 12,
}

/// The commitment to a payload.
pub fn commit_to(salt: &[u8], payload: &[u8]) -> Hash {
    Sha256::new().chain_update(PAYLOAD_DOMAIN).chain_update(salt).chain_update(payload).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_changes_with_every_part_and_with_where_parts_end() {
        let link =
            Link { kind: Kind::Started, call_id: b"ab", run_id: None, head: b"cd", commitment: &[7; 32] };
        let hash = link.hash(&GENESIS, 1);
        let others = [
            Link { kind: Kind::Finished, ..link }.hash(&GENESIS, 1),
            Link { call_id: b"a", head: b"bcd", ..link }.hash(&GENESIS, 1),
            Link { run_id: Some(b""), ..link }.hash(&GENESIS, 1),
            Link { run_id: Some(b"r"), ..link }.hash(&GENESIS, 1),
            Link { head: b"ce", ..link }.hash(&GENESIS, 1),
            Link { commitment: &[8; 32], ..link }.hash(&GENESIS, 1),
            link.hash(&[1; 32], 1),
            link.hash(&GENESIS, 2),
        ];
        assert!(others.iter().all(|other| *other != hash));
        assert_ne!(commit_to(b"salt", b"payload"), commit_to(b"tlas", b"payload"));
    }
}
