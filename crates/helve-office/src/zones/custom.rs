//! A zone that a file defines with a `VTIMEZONE`.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::observances::Observance;
use crate::ical::Component;
use crate::rule::{Budget, OverBudget, RuleError};

/// How many observances one zone may have.
const OBSERVANCES_MAX: usize = 200;

/// What is wrong with a `VTIMEZONE`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokenZone {
    /// A property is missing or cannot be read.
    #[error("it has no {0} that can be read")]
    Lacks(&'static str),
    /// It has no `STANDARD` and no `DAYLIGHT`, or too many.
    #[error("it has no STANDARD and no DAYLIGHT part, or more than {OBSERVANCES_MAX}")]
    Observances,
    /// A rule cannot be read.
    #[error(transparent)]
    Rule(RuleError),
    /// A rule fires too often.
    #[error(transparent)]
    OverBudget(OverBudget),
}

/// A zone by its observances.
///
/// Changes are computed from 1900 to 2100; after that the last offset stays. Before the first change the offset
/// is what that one changes from.
#[derive(Debug)]
pub struct CustomZone {
    name: Box<str>,
    /// The offset before the first change.
    first: Offset,
    changes: Vec<Change>,
}

#[derive(Debug, Clone, Copy)]
struct Change {
    at: Timestamp,
    /// Local times from here on are read with the offset after the change. It is the later of the two local times
    /// at the change, so that both a gap and the first pass of a fold are read with the offset before.
    local: DateTime,
    to: Offset,
}

impl CustomZone {
    /// Reads a `VTIMEZONE`.
    pub fn read(name: &str, component: &Component) -> Result<Self, BrokenZone> {
        let parts =
            || component.components().filter(|part| part.is_named("STANDARD") || part.is_named("DAYLIGHT"));
        if !(1..=OBSERVANCES_MAX).contains(&parts().count()) {
            return Err(BrokenZone::Observances);
        }
        let mut budget = Budget::new(5_000, 100_000);
        let observances =
            parts().map(|part| Observance::read(part, &mut budget)).collect::<Result<Vec<_>, _>>()?;
        let mut changes: Vec<(Change, Offset)> = observances.iter().flat_map(changes).collect();
        changes.sort_by_key(|(change, _)| change.at);
        let first = changes.first().map_or(Offset::UTC, |(_, from)| *from);
        Ok(Self {
            name: name.into(),
            first,
            changes: changes.into_iter().map(|(change, _)| change).collect(),
        })
    }

    /// The `TZID` that events refer to.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn offset_at(&self, instant: Timestamp) -> Offset {
        self.after(self.changes.partition_point(|change| change.at <= instant))
    }

    pub(super) fn offset_for(&self, local: DateTime) -> Offset {
        self.after(self.changes.partition_point(|change| change.local <= local))
    }

    /// The offset after so many changes.
    fn after(&self, count: usize) -> Offset {
        count.checked_sub(1).map_or(self.first, |last| self.changes[last].to)
    }
}

/// The changes of one observance, each with the offset before.
fn changes(observance: &Observance) -> impl Iterator<Item = (Change, Offset)> {
    observance.onsets.iter().filter_map(|onset| {
        let at = observance.from.to_timestamp(*onset).ok()?;
        let local = observance.from.to_datetime(at).max(observance.to.to_datetime(at));
        Some((Change { at, local, to: observance.to }, observance.from))
    })
}
