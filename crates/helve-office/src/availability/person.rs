//! What can be seen of a person.

use super::timeline::{Interval, Part, State, Timeline};
use super::weigh::{Weight, weigh};
use crate::ical::{Component, Document};
use crate::recurrence::{Range, Series};
use crate::rule::Budget;
use crate::text::Address;
use crate::zones::Zone;

/// How many reasons one calendar gives; more are the same trouble again.
const REASONS_MAX: usize = 5;

/// What was seen of one calendar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// Everything: what takes time in it.
    Seen(Vec<Part>),
    /// Something, but not all: what takes time as far as is known, and why the rest is not.
    Partly {
        /// What takes time.
        parts: Vec<Part>,
        /// What could not be read.
        why: Vec<String>,
    },
    /// Nothing, and why.
    Unseen(String),
}

/// One calendar of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// What it is called.
    pub name: String,
    /// What was seen of it.
    pub sight: Sight,
}

/// A person whose time is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Their name or address, as the caller gave it.
    pub who: String,
    /// The calendars in which their events are.
    pub calendars: Vec<Calendar>,
}

impl Person {
    /// A person of whom nothing is known: their time is unknown, and not free.
    pub fn unseen(who: impl Into<String>) -> Self {
        Self { who: who.into(), calendars: Vec::new() }
    }

    /// Their time in a range.
    pub fn timeline(&self, range: Interval) -> Timeline {
        let is_seen = |calendar: &Calendar| matches!(calendar.sight, Sight::Seen(_));
        let all_seen = !self.calendars.is_empty() && self.calendars.iter().all(is_seen);
        let parts = self.calendars.iter().flat_map(|calendar| match &calendar.sight {
            Sight::Seen(parts) | Sight::Partly { parts, .. } => parts.as_slice(),
            Sight::Unseen(_) => &[],
        });
        Timeline::new(range, if all_seen { State::Free } else { State::Unknown }, parts.copied())
    }

    /// Why some of their time is unknown; empty where none is.
    pub fn unknown_because(&self) -> Vec<String> {
        if self.calendars.is_empty() {
            return vec![format!("no calendar of {} is connected", self.who)];
        }
        let reasons = self.calendars.iter().flat_map(|calendar| {
            let why = match &calendar.sight {
                Sight::Seen(_) => &[],
                Sight::Partly { why, .. } => why.as_slice(),
                Sight::Unseen(why) => std::slice::from_ref(why),
            };
            why.iter().map(move |why| format!("{}: {why}", calendar.name))
        });
        reasons.collect()
    }
}

impl Sight {
    /// What of a calendar's objects takes time of a person in a range. All-day and floating events count on the
    /// clock of their zone. An object that cannot be read makes the calendar seen only in part: its time could be
    /// any.
    pub fn of<'a>(
        objects: impl IntoIterator<Item = &'a Document>,
        range: Interval,
        zone: &Zone,
        addresses: &[Address],
    ) -> Self {
        let range = Range { from: range.from, to: range.to, asker: zone.clone() };
        let (mut parts, mut why) = (Vec::new(), Vec::new());
        for object in objects {
            let components: Vec<&Component> = object.events("VEVENT").collect();
            for (uid, series) in Series::read_all(object, "VEVENT") {
                let seen = series
                    .map_err(|error| error.to_string())
                    .and_then(|series| time_of(&series, &components, &range, addresses));
                match seen {
                    Ok(seen) => parts.extend(seen),
                    Err(error) if why.len() < REASONS_MAX => {
                        let uid = helve_core::hidden::one_line(&uid, 60);
                        why.push(format!("the event `{uid}` cannot be placed: {error}"));
                    }
                    Err(_) => {}
                }
            }
        }
        match why.is_empty() {
            true => Self::Seen(parts),
            false => Self::Partly { parts, why },
        }
    }
}

fn time_of(
    series: &Series,
    components: &[&Component],
    range: &Range,
    addresses: &[Address],
) -> Result<Vec<Part>, String> {
    let occurrences = series.expand(range, &mut Budget::default()).map_err(|error| error.to_string())?;
    let mut parts = Vec::new();
    for occurrence in occurrences {
        let Some(component) = components.get(occurrence.place) else { continue };
        let state = match weigh(&occurrence, component, addresses) {
            Weight::None => continue,
            Weight::Tentative => State::Tentative,
            Weight::Busy => State::Busy,
        };
        let (from, to) = occurrence.when.instants(&range.asker);
        parts.extend(Interval::new(from, to).map(|interval| Part { interval, state }));
    }
    Ok(parts)
}
