//! `[journal.retention]`: how long the record of calls is kept.

use std::time::Duration;

use helve::limit::LimitRule;
use helve_store::Retention;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long the record is kept. `helve up` prunes by it; by itself nothing goes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionSection {
    /// Entries of calls that are older go, in days. 0: age removes none.
    #[schemars(range(max = 36_500))]
    pub(crate) older_than_days: u32,
    /// The oldest entries go while the journal has more bytes. 0: size removes none.
    pub(crate) size_bytes: u64,
    /// What was said in calls that only read goes sooner, after so many days; that they were made stays. 0: not sooner.
    #[schemars(range(max = 36_500))]
    pub(crate) reads_older_than_days: u32,
    /// Calls that may have changed the world stay for so many days, so that they can be undone.
    #[schemars(range(max = 36_500))]
    pub undo_days: u32,
    /// How often `helve up` prunes, in seconds. The first time is a minute after its start. 0: never.
    pub(crate) every_s: u64,
}

impl Default for RetentionSection {
    fn default() -> Self {
        Self { older_than_days: 0, size_bytes: 0, reads_older_than_days: 0, undo_days: 30, every_s: 86_400 }
    }
}

impl RetentionSection {
    /// Whether anything may go.
    pub fn is_set(&self) -> bool {
        self.older_than_days > 0 || self.size_bytes > 0 || self.reads_older_than_days > 0
    }

    /// What may go now.
    pub fn at(&self, limits: &[LimitRule], now: Timestamp, by: &str) -> Retention {
        let set = |days: u32| (days > 0).then(|| ago(now, days));
        let mut retention = Retention::default();
        retention.before = set(self.older_than_days);
        retention.bytes_max = (self.size_bytes > 0).then_some(self.size_bytes);
        retention.reads_before = set(self.reads_older_than_days);
        retention.undo_from = ago(now, self.undo_days);
        retention.costs_from = costs_from(limits, now);
        retention.by = by.to_owned();
        retention
    }
}

fn ago(now: Timestamp, days: u32) -> Timestamp {
    now.saturating_sub(SignedDuration::from_hours(24 * i64::from(days))).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Since when costs count towards a limit: for its longest time, or from the beginning where it has none.
fn costs_from(limits: &[LimitRule], now: Timestamp) -> Option<Timestamp> {
    let since = |period: Option<Duration>| period.and_then(|period| now.checked_sub(period).ok());
    let costs = limits.iter().filter_map(|rule| rule.cost.as_ref());
    costs.map(|cost| since(cost.period).unwrap_or(Timestamp::UNIX_EPOCH)).min()
}
