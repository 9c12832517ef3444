//! Between which instants all of a series happens, where an index looks first; and when single occurrences are.

use jiff::{Timestamp, ToSpan};

use super::event::{Event, Start};
use super::id::RecurrenceId;
use super::occurrence::{Occurrence, Range, When};
use super::series::{Scope, Series};
use crate::rule::{Budget, local_time, naive_seconds};
use crate::zones::Zone;

/// A series that happens more often than this has no last time for an index.
const OCCURRENCES_MAX: usize = 5_000;

impl Series {
    /// The first and the last instant of all that happens; all-day and floating times as if in UTC. The last is
    /// missing where there is none, or it takes too much work to find.
    pub fn span(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let all = Range { from: Timestamp::MIN, to: Timestamp::MAX, asker: Zone::UTC };
        let over = self.overrides.iter().map(|over| over.event.length.from(&over.event.start, &Zone::UTC));
        let first = over.map(|when| when.instants(&Zone::UTC).0).chain(self.main_start()).min();
        if !self.ends() {
            return (first, None);
        }
        let occurrences = self.expand(&all, &mut Budget::new(OCCURRENCES_MAX, 100_000)).unwrap_or_default();
        (first, occurrences.iter().map(|one| one.when.instants(&Zone::UTC).1).max())
    }

    /// When the event itself is, or one occurrence of it, for a person in a zone; and which of its document's events
    /// has the rest of it. Whether a rule has that occurrence is not asked.
    pub fn when(&self, id: Option<RecurrenceId>, asker: &Zone) -> Option<(When, usize)> {
        let event = self.main.as_ref().map(|main| &main.event);
        let of = |event: &Event, start: &Start| (event.length.from(start, asker), event.place);
        let Some(id) = id else {
            let first = event.or_else(|| self.overrides.first().map(|over| &over.event))?;
            return Some(of(first, &first.start));
        };
        if let Some(over) = self.override_of(id) {
            return Some(of(&over.event, &over.event.start));
        }
        let event = event?;
        let local = id.normal(&event.start).local(&event.start);
        Some(match self.range_over(local) {
            Some((range, by)) => {
                let moved = local_time(naive_seconds(local) + by).unwrap_or(local);
                of(&range.event, &range.event.start.at(moved))
            }
            None => of(event, &event.start.at(local)),
        })
    }

    /// The first occurrence after an instant, where there is one within some years.
    pub fn next_after(&self, after: Timestamp, asker: &Zone) -> Option<Occurrence> {
        let mut from = after;
        // Most series go on soon, so a short look comes first.
        for days in [40, 400, 4_000] {
            let to = from.saturating_add((days * 24).hours()).unwrap_or(Timestamp::MAX);
            let range = Range { from, to, asker: asker.clone() };
            let found = self.expand(&range, &mut Budget::new(5_000, 500_000)).ok()?;
            let next = found.into_iter().find(|one| one.when.instants(asker).0 > after);
            if next.is_some() {
                return next;
            }
            from = to;
        }
        None
    }

    fn main_start(&self) -> Option<Timestamp> {
        let main = self.main.as_ref()?;
        let start = &main.event.start;
        let extras = main.extras.iter().map(|extra| extra.local);
        let earliest = extras.chain([start.local()]).min()?;
        // Later occurrences that were moved as a whole may lie before.
        let moved = self.overrides.iter().any(|over| over.scope == Scope::ThisAndFuture);
        (!moved).then(|| start.zone(&Zone::UTC).instant(earliest)).or(Some(Timestamp::MIN))
    }

    fn ends(&self) -> bool {
        let rules = self.main.iter().flat_map(|main| &main.rules);
        let moved = self.overrides.iter().any(|over| over.scope == Scope::ThisAndFuture);
        !moved && rules.clone().all(|rule| rule.count.is_some() || rule.until.is_some())
    }
}
