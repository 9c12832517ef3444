//! Between which instants all of a series happens: an index looks there first.

use jiff::Timestamp;

use super::occurrence::Range;
use super::series::{Scope, Series};
use crate::rule::Budget;
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
