//! What of a series happens in a range.

use std::collections::HashSet;

use jiff::Timestamp;
use jiff::civil::DateTime;

use super::event::{Length, Start};
use super::exceptions::Extra;
use super::id::RecurrenceId;
use super::occurrence::{Occurrence, Range, Source, When};
use super::series::{Main, Override, Scope, Series};
use crate::ical::DateValue;
use crate::rule::{Budget, First, OverBudget, Rule, Window, local_time, naive_seconds};
use crate::zones::{Clock, Zone};

const DAY: i64 = 86_400;

/// Local times in different zones are never further apart than this.
const ZONES_APART: i64 = 2 * DAY;

impl Series {
    /// Every occurrence that lies in a range, if only in part, in the order of their starts. Those that are
    /// cancelled are among them.
    pub fn expand(&self, range: &Range, budget: &mut Budget) -> Result<Vec<Occurrence>, OverBudget> {
        let mut found = Vec::new();
        if let Some(main) = &self.main {
            self.expand_main(main, range, budget, &mut found)?;
        }
        for over in self.overrides.iter().filter(|over| !self.is_excluded(over.id)) {
            budget.work(1)?;
            let when = over.event.length.from(&over.event.start, &range.asker);
            if when.overlaps(range) {
                budget.occurrence()?;
                let source = match over.scope {
                    Scope::This => Source::Override,
                    Scope::ThisAndFuture => Source::ThisAndFuture,
                };
                let (status, place) = (over.event.status, over.event.place);
                found.push(Occurrence { when, id: Some(over.id), source, status, place });
            }
        }
        // Mostly they are in order already: rules fire in order, but a gap or an override changes it.
        let start = |occurrence: &Occurrence| occurrence.when.instants(&range.asker);
        if !found.is_sorted_by_key(start) {
            found.sort_by_cached_key(start);
        }
        Ok(found)
    }

    /// The override with `RANGE=THISANDFUTURE` that says what the occurrence at a local time is, and how many seconds it
    /// moves it.
    pub(super) fn range_over(&self, local: DateTime) -> Option<(&Override, i64)> {
        Futures::of(self, self.main.as_ref()?).at(local)
    }

    /// Whether the occurrence at a local time has an override.
    pub(super) fn has_override(&self, local: DateTime) -> bool {
        let Some(main) = &self.main else { return false };
        self.override_of(main.event.start.id(local)).is_some()
    }

    fn is_excluded(&self, id: RecurrenceId) -> bool {
        self.main.as_ref().is_some_and(|main| main.excludes(id))
    }

    fn expand_main(
        &self,
        main: &Main,
        range: &Range,
        budget: &mut Budget,
        found: &mut Vec<Occurrence>,
    ) -> Result<(), OverBudget> {
        let futures = Futures::of(self, main);
        let slots = main.slots(main.window(range, &futures), budget)?;
        let overridden: HashSet<RecurrenceId> = self.overrides.iter().map(|over| over.id).collect();
        for slot in slots {
            let event = &main.event;
            let (start, length, of, source) = match futures.at(slot.local) {
                None => {
                    let length = slot.length.unwrap_or(event.length);
                    (event.start.at(slot.local), length, event, Source::Series)
                }
                Some((over, shift)) => {
                    let local = local_time(naive_seconds(slot.local) + shift).unwrap_or(slot.local);
                    (over.event.start.at(local), over.event.length, &over.event, Source::ThisAndFuture)
                }
            };
            let when = length.from(&start, &range.asker);
            let id = match (&when, &event.start, source) {
                // What was just looked up need not be looked up again.
                (When::Timed { start, .. }, Start::Time { clock: Clock::In(_), .. }, Source::Series) => {
                    RecurrenceId::Instant(start.instant)
                }
                _ => event.start.id(slot.local),
            };
            let is_replaced = overridden.contains(&id) || is_overridden_by_day(&overridden, slot);
            if is_replaced || main.excludes(id) || !when.overlaps(range) {
                continue;
            }
            let id = self.repeats().then_some(id);
            found.push(Occurrence { when, id, source, status: of.status, place: of.place });
        }
        Ok(())
    }
}

/// An override of a series with times may name a day only.
fn is_overridden_by_day(overridden: &HashSet<RecurrenceId>, slot: Extra) -> bool {
    !overridden.is_empty() && overridden.contains(&RecurrenceId::Day(slot.local.date()))
}

/// The overrides that move all later occurrences, each with how far.
struct Futures<'a>(Vec<(DateTime, i64, &'a Override)>);

impl<'a> Futures<'a> {
    fn of(series: &'a Series, main: &Main) -> Self {
        let all = series.overrides.iter().filter(|over| over.scope == Scope::ThisAndFuture);
        let mut futures: Vec<_> = all
            .filter(|over| !main.excludes(over.id))
            .map(|over| {
                let original = over.id.local(&main.event.start);
                let shift = naive_seconds(over.event.start.local()) - naive_seconds(original);
                (original, shift, over)
            })
            .collect();
        futures.sort_by_key(|(original, ..)| *original);
        Self(futures)
    }

    /// The last one that began at or before a local time.
    fn at(&self, local: DateTime) -> Option<(&'a Override, i64)> {
        let count = self.0.partition_point(|(original, ..)| *original <= local);
        count.checked_sub(1).map(|last| (self.0[last].2, self.0[last].1))
    }

    fn shifts(&self) -> (i64, i64) {
        let shifts = || self.0.iter().map(|(_, shift, _)| *shift);
        (shifts().min().unwrap_or(0).min(0), shifts().max().unwrap_or(0).max(0))
    }
}

impl Start {
    /// What an occurrence at a local time is known by.
    pub(super) fn id(&self, local: DateTime) -> RecurrenceId {
        match self {
            Self::Day(_) => RecurrenceId::Day(local.date()),
            Self::Time { clock: Clock::Floating, .. } => RecurrenceId::Local(local),
            Self::Time { clock: Clock::In(zone), .. } => RecurrenceId::Instant(zone.instant(local)),
        }
    }
}

impl Main {
    pub(super) fn excludes(&self, id: RecurrenceId) -> bool {
        !self.excluded.is_empty()
            && (self.excluded.contains(&id)
                || self.excluded.contains(&RecurrenceId::Day(id.local(&self.event.start).date())))
    }

    /// The local times between which occurrences can start that reach into a range.
    fn window(&self, range: &Range, futures: &Futures<'_>) -> Window {
        let zone = self.event.start.zone(&range.asker);
        let future = futures.0.iter().map(|(_, _, over)| over.event.length);
        let lengths = future.chain(self.extras.iter().filter_map(|extra| extra.length));
        let longest = lengths.chain([self.event.length]).map(Length::seconds_max).max().unwrap_or(0).max(DAY);
        let (back, ahead) = futures.shifts();
        let from = naive_seconds(zone.local(range.from)) - longest - ZONES_APART - ahead;
        let to = naive_seconds(zone.local(range.to)) + ZONES_APART - back;
        Window {
            from: local_time(from).unwrap_or(DateTime::MIN),
            to: local_time(to).unwrap_or(DateTime::MAX),
        }
    }

    /// The local starts in a window by rules, dates and the start itself, exceptions included; each once.
    pub(super) fn slots(&self, window: Window, budget: &mut Budget) -> Result<Vec<Extra>, OverBudget> {
        let start = self.event.start.local();
        let mut slots = Vec::new();
        for rule in &self.rules {
            let found = self.fires(rule, window, First::Always, budget)?;
            slots.extend(found.into_iter().map(|local| Extra { local, length: None }));
        }
        let is_within = |local: DateTime| window.from <= local && local <= window.to;
        if self.rules.is_empty() && is_within(start) {
            slots.push(Extra { local: start, length: None });
        }
        budget.work(self.extras.len())?;
        slots.extend(self.extras.iter().filter(|extra| is_within(extra.local)));
        // Where a period has the time of another occurrence, its length counts.
        slots.sort_by_key(|slot| (slot.local, slot.length.is_none()));
        slots.dedup_by_key(|slot| slot.local);
        for rule in &self.without {
            let gone: HashSet<_> = self.fires(rule, window, First::IfPicked, budget)?.into_iter().collect();
            slots.retain(|slot| !gone.contains(&slot.local));
        }
        Ok(slots)
    }

    /// How often a rule fires before a local time.
    pub(super) fn fires_before(&self, rule: &Rule, at: DateTime) -> Result<usize, OverBudget> {
        let to = local_time(naive_seconds(at) - 1).unwrap_or(at);
        let window = Window { from: DateTime::MIN, to };
        // One edit may take more than one of many expansions.
        let mut budget = Budget::new(100_000, 5_000_000);
        Ok(self.fires(rule, window, First::Always, &mut budget)?.len())
    }

    /// Whether a rule is over before a local time.
    pub(super) fn ends_before(&self, rule: &Rule, at: DateTime) -> Result<bool, OverBudget> {
        let counted = match rule.count {
            Some(count) => self.fires_before(rule, at)? >= usize::try_from(count).unwrap_or(usize::MAX),
            None => false,
        };
        Ok(counted
            || match Until::of(rule, &self.event.start) {
                Until::Never => false,
                Until::Local(until) => until < at,
                Until::Instant(until, zone) => until < zone.instant(at),
            })
    }

    /// When a rule fires, up to its `UNTIL`.
    pub(super) fn fires(
        &self,
        rule: &Rule,
        window: Window,
        first: First,
        budget: &mut Budget,
    ) -> Result<Vec<DateTime>, OverBudget> {
        let start = &self.event.start;
        let end = Until::of(rule, start);
        let window = Window { to: end.local().map_or(window.to, |end| end.min(window.to)), ..window };
        let mut fires = rule.expand(start.local(), window, first, budget)?;
        if let Until::Instant(until, zone) = end {
            fires.retain(|local| zone.instant(*local) <= until);
        }
        Ok(fires)
    }
}

/// What `UNTIL` means on the clock of a series.
enum Until<'a> {
    Never,
    Local(DateTime),
    Instant(Timestamp, &'a Zone),
}

impl<'a> Until<'a> {
    fn of(rule: &Rule, start: &'a Start) -> Self {
        match (rule.until, start) {
            (None, _) => Self::Never,
            (Some(until), Start::Day(_)) => Self::Local(until.date().at(0, 0, 0, 0)),
            (Some(DateValue::Date(date)), Start::Time { .. }) => Self::Local(date.at(23, 59, 59, 0)),
            (Some(DateValue::Utc(at)), Start::Time { clock: Clock::In(zone), .. }) => {
                Self::Instant(Zone::UTC.instant(at), zone)
            }
            (Some(DateValue::Local(at) | DateValue::Utc(at)), Start::Time { .. }) => Self::Local(at),
        }
    }

    /// A local time behind which there is certainly nothing.
    fn local(&self) -> Option<DateTime> {
        match self {
            Self::Never => None,
            Self::Local(at) => Some(*at),
            Self::Instant(at, zone) => local_time(naive_seconds(zone.local(*at)) + DAY),
        }
    }
}
