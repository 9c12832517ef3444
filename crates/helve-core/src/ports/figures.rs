//! Figures about a ledger, for people who watch it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a ledger is doing, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerFigures {
    /// Entries in the chain.
    pub entries: u64,
    /// Entries that the anchor vouches for. Absent: the anchor is missing or damaged.
    pub anchored: Option<u64>,
    /// Size of the database, without its log.
    pub bytes: u64,
    /// Size of the write-ahead log.
    pub log_bytes: u64,
    /// Jobs that wait for the disk.
    pub queued: u64,
    /// How long groups of entries took to reach the disk.
    pub commits: Histogram,
    /// Runs that have not ended.
    pub runs: RunFigures,
}

/// Open runs by what they are doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFigures {
    /// A living process is at them.
    pub running: u64,
    /// Their process has gone, and nobody has taken them up.
    pub cut_short: u64,
    /// They wait for a person's approval or decision.
    pub waiting: u64,
    /// They wait for a person because nobody knows whether a call had its effect.
    pub in_doubt: u64,
}

/// Durations, counted by their upper bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many fell into each bucket of [`Histogram::BOUNDS_US`]; the last counts those beyond.
    pub counts: [u64; Self::BOUNDS_US.len() + 1],
    /// All of them together, in microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// The upper bounds, in microseconds.
    pub const BOUNDS_US: [u64; 12] = [
        100, 250, 1_000, 2_500, 10_000, 25_000, 100_000, 250_000, 1_000_000, 2_500_000, 10_000_000,
        60_000_000,
    ];

    /// Counts one more.
    pub fn record_us(&mut self, duration_us: u64) {
        self.counts[bucket(duration_us)] += 1;
        self.sum_us = self.sum_us.saturating_add(duration_us);
    }
}

/// A [`Histogram`] that several threads share.
#[derive(Debug, Default)]
pub struct SharedHistogram {
    counts: [AtomicU64; Histogram::BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl SharedHistogram {
    /// Counts one more.
    pub fn record(&self, duration: Duration) {
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket(duration_us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(duration_us, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> Histogram {
        Histogram {
            counts: std::array::from_fn(|index| self.counts[index].load(Ordering::Relaxed)),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

fn bucket(duration_us: u64) -> usize {
    Histogram::BOUNDS_US.partition_point(|bound| *bound < duration_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_bucket_whose_bound_it_reaches() {
        let shared = SharedHistogram::default();
        let mut plain = Histogram::default();
        for duration_us in [0, 100, 101, 60_000_000, 60_000_001] {
            shared.record(Duration::from_micros(duration_us));
            plain.record_us(duration_us);
        }
        assert_eq!(shared.snapshot(), plain);
        assert_eq!((plain.counts[0], plain.counts[1], plain.counts[11], plain.counts[12]), (2, 1, 1, 1));
        assert_eq!(plain.sum_us, 120_000_202);
    }
}
