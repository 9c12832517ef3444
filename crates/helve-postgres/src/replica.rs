//! Who this process is among those that write, and what time it is for all of them.

use std::sync::atomic::{AtomicI64, Ordering};

use helve_core::ports::Clock;
use helve_ledger::chain::Hash;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// One life of a replica: each start is another epoch.
#[derive(Debug, Clone)]
pub(crate) struct Replica {
    /// The row of its chain and its lease.
    pub(crate) id: i64,
    /// How entries name it: `name/epoch`.
    pub(crate) label: String,
}

impl Replica {
    pub(crate) fn new(id: i64, name: &str, epoch: i64) -> Self {
        Self { id, label: label(name, epoch) }
    }

    /// What the first entry of its chain follows. No two chains begin alike, so that none passes for another.
    pub(crate) fn genesis(name: &str, epoch: i64) -> Hash {
        Sha256::new_with_prefix(b"helve journal writer v1\0")
            .chain_update((name.len() as u64).to_le_bytes())
            .chain_update(name)
            .chain_update(epoch.to_le_bytes())
            .finalize()
            .into()
    }
}

/// How a chain is named.
pub(crate) fn label(name: &str, epoch: i64) -> String {
    format!("{name}/{epoch}")
}

/// The database's time, which all replicas share, as far as the last answer told it.
#[derive(Debug, Default)]
pub(crate) struct DatabaseClock {
    /// How much the database is ahead of this machine.
    ahead_us: AtomicI64,
}

impl DatabaseClock {
    /// Takes what the database said it was at a moment between two of this machine's.
    pub(crate) fn set(&self, database_us: i64, asked: Timestamp, answered: Timestamp) {
        let here_us = asked.as_microsecond() / 2 + answered.as_microsecond() / 2;
        self.ahead_us.store(database_us - here_us, Ordering::Relaxed);
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        let there = now.as_microsecond().saturating_add(self.ahead_us.load(Ordering::Relaxed));
        Timestamp::from_microsecond(there).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn chains_begin_differently() {
        let all = [("a", 1), ("a", 2), ("b", 1), ("", 1)].map(|(name, epoch)| Replica::genesis(name, epoch));
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn a_machine_whose_clock_is_wrong_goes_by_the_database() {
        let clock = DatabaseClock::default();
        let now = Timestamp::now();
        let hour = SignedDuration::from_hours(1);
        clock.set((now + hour).as_microsecond(), now, now);
        let off = clock.now().duration_since(now + hour).abs();
        assert!(off < SignedDuration::from_secs(5), "{off}");
    }
}
