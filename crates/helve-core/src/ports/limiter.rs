//! Who counts calls.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::limit::Rate;

/// Counts calls, in this process or for a cluster.
///
/// Nothing here waits: one who counts for a cluster leases tokens and slots in blocks beforehand,
/// gives from its block, and refuses with a wait until the next one comes. What time it is, is its
/// own business for the same reason.
///
/// It must bound what it keeps: callers can invent as many keys as they like. A key that was
/// forgotten while nothing of it was in use counts like a new one.
pub trait Limiter: Send + Sync + 'static {
    /// Takes one token of `key`, of which `rate` says how many there are. A token is not given back.
    fn try_take(&self, key: &LimitKey, rate: Rate) -> Result<(), Refusal>;

    /// Takes one of the `slots` that there are of `key`, until the answer is dropped.
    fn try_enter(&self, key: &LimitKey, slots: NonZeroU32) -> Result<Slot, Refusal>;
}

/// What is counted: a digest, so that its size is fixed whatever callers call themselves, and
/// so that nobody's name lies about in the memory of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LimitKey([u8; 32]);

impl LimitKey {
    /// A key from its parts, in order. One part never runs into the next.
    pub fn new<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// The digest by which limiters file their counts.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitKey(")?;
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("…)")
    }
}

/// Why there is no token or slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// All are taken. After so long there will be one; of slots nobody knows, and this is a guess.
    Wait(Duration),
    /// More is in use than can be counted, and one more cannot.
    Full,
}

/// A slot that is held. Dropped, it is free again.
pub struct Slot {
    _held: Box<dyn Send + Sync>,
}

impl Slot {
    /// A slot that is given back by dropping `held`.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_other_parts_never_meet() {
        assert_ne!(LimitKey::new(["ab", "c"]), LimitKey::new(["a", "bc"]));
        assert_ne!(LimitKey::new(["a"]), LimitKey::new(["a", ""]));
        assert_eq!(LimitKey::new(["a", "b"]), LimitKey::new(["a", "b"]));
    }
}
