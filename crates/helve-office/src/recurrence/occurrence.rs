//! One time that an event happens.

use jiff::Timestamp;
use jiff::civil::Date;

use super::event::Status;
use super::id::RecurrenceId;
use crate::zones::{Moment, Zone};

/// What is asked: everything that happens between two instants, for a person in a zone.
#[derive(Debug, Clone)]
pub struct Range {
    /// The first instant of the range.
    pub from: Timestamp,
    /// The first instant after the range.
    pub to: Timestamp,
    /// The zone of the person who asks. All-day and floating events are read on its clock.
    pub asker: Zone,
}

/// When an occurrence happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// On whole days, in whatever zone.
    AllDay {
        /// The first day.
        first: Date,
        /// The day behind the last.
        end: Date,
    },
    /// From a moment to a moment.
    Timed {
        /// When it starts, in the zone of the event, or of the asker where the event floats.
        start: Moment,
        /// When it ends.
        end: Moment,
    },
}

impl When {
    /// From when to when it is, as instants; all-day on the clock of a zone.
    pub fn instants(&self, asker: &Zone) -> (Timestamp, Timestamp) {
        match self {
            Self::AllDay { first, end } => {
                (asker.instant(first.at(0, 0, 0, 0)), asker.instant(end.at(0, 0, 0, 0)))
            }
            Self::Timed { start, end } => (start.instant, end.instant),
        }
    }

    /// Whether it lies in a range, if only in part. What takes no time lies in the range that holds its start.
    pub fn overlaps(&self, range: &Range) -> bool {
        let (start, end) = self.instants(&range.asker);
        start < range.to && (end > range.from || (start == end && start >= range.from))
    }
}

/// Where an occurrence comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The event itself, by its start, a rule or an `RDATE`.
    Series,
    /// An override of this occurrence alone.
    Override,
    /// An override of this and all later ones.
    ThisAndFuture,
}

/// One time that an event happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// When the occurrence begins and ends.
    pub when: When,
    /// Which occurrence it is, by its original start; `None` where the event happens only once.
    pub id: Option<RecurrenceId>,
    /// Where its times and its text come from.
    pub source: Source,
    /// Whether it takes place.
    pub status: Status,
    /// Which of its document's events of its kind has the rest of it, counted from 0.
    pub place: usize,
}
