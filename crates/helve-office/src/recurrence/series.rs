//! The events of a document by their UID: one that repeats, and its overrides.

use std::collections::{HashMap, HashSet};

use super::event::{Event, Start};
use super::exceptions::{Extra, excluded, extras};
use super::id::{RecurrenceId, zone_of};
use crate::ical::{Component, DateValue, Document, ValueError};
use crate::rule::{Rule, RuleError};
use crate::zones::{UnknownZone, ZoneTable};

/// How many overrides one event may have.
const OVERRIDES_MAX: usize = 20_000;

/// Why the times of an event cannot be known. It must be shown as such: to leave it out would make its time free.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It has no `DTSTART`.
    #[error("it has no start")]
    NoStart,
    /// It has more exceptions or overrides than may be read.
    #[error("it has more than {max} exceptions or overrides")]
    TooMany {
        /// How many there may be.
        max: usize,
    },
    /// A date or a duration cannot be read.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// A rule cannot be read.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A zone is not known.
    #[error(transparent)]
    Zone(#[from] UnknownZone),
}

/// Which occurrences an override is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This occurrence alone.
    This,
    /// One and all later ones.
    ThisAndFuture,
}

/// An occurrence, or all from one on, that is not like its series.
#[derive(Debug, Clone)]
pub struct Override {
    /// The occurrence that it replaces, or begins with.
    pub id: RecurrenceId,
    /// Whether the later ones as well.
    pub scope: Scope,
    /// What it is instead.
    pub event: Event,
}

/// An event that happens once or often, with everything that says when.
#[derive(Debug, Clone)]
pub struct Series {
    uid: String,
    pub(super) main: Option<Main>,
    pub(super) overrides: Vec<Override>,
}

/// The event itself; missing where a person was invited to single occurrences.
#[derive(Debug, Clone)]
pub(super) struct Main {
    pub(super) event: Event,
    pub(super) rules: Vec<Rule>,
    /// `EXRULE`, which old programs wrote.
    pub(super) without: Vec<Rule>,
    pub(super) extras: Vec<Extra>,
    pub(super) excluded: HashSet<RecurrenceId>,
}

impl Series {
    /// Every series among a document's events of that kind, `VEVENT` or `VTODO`, in their order. One that cannot
    /// be read does not keep the others from it. Of several revisions in one document the highest counts.
    pub fn read_all(document: &Document, kind: &str) -> Vec<(String, Result<Self, Unreadable>)> {
        let mut zones = ZoneTable::of(document);
        let mut order: Vec<String> = Vec::new();
        let mut by_uid: HashMap<String, Vec<(usize, &Component)>> = HashMap::new();
        for (place, component) in document.events(kind).enumerate() {
            let uid = component.property("UID").map(|uid| uid.text_value()).unwrap_or_default();
            // Events without a UID have nothing to do with each other.
            let key = if uid.is_empty() { format!("\u{0}{place}") } else { uid };
            let parts = by_uid.entry(key.clone()).or_default();
            if parts.is_empty() {
                order.push(key);
            }
            parts.push((place, component));
        }
        let mut series = Vec::with_capacity(order.len());
        for key in order {
            let uid = if key.starts_with('\u{0}') { String::new() } else { key.clone() };
            let read = Self::read(uid.clone(), &by_uid[&key], &mut zones);
            series.push((uid, read));
        }
        series
    }

    /// The series with that UID.
    pub fn find(document: &Document, kind: &str, uid: &str) -> Option<Result<Self, Unreadable>> {
        let mut zones = ZoneTable::of(document);
        let has_uid = |component: &Component| {
            component.property("UID").is_some_and(|property| property.text_value() == uid)
        };
        let parts: Vec<_> = document.events(kind).enumerate().filter(|(_, part)| has_uid(part)).collect();
        (!parts.is_empty()).then(|| Self::read(uid.to_owned(), &parts, &mut zones))
    }

    fn read(
        uid: String,
        parts: &[(usize, &Component)],
        zones: &mut ZoneTable<'_>,
    ) -> Result<Self, Unreadable> {
        let (overriding, main): (Vec<_>, Vec<_>) =
            parts.iter().partition(|(_, part)| part.property("RECURRENCE-ID").is_some());
        if overriding.len() > OVERRIDES_MAX {
            return Err(Unreadable::TooMany { max: OVERRIDES_MAX });
        }
        // `max_by_key` takes the last of those that are alike.
        let main = main.into_iter().max_by_key(|(_, part)| revision(part));
        let main = main.map(|(place, part)| Main::read(part, place, zones)).transpose()?;
        let mut latest: HashMap<RecurrenceId, (u32, usize)> = HashMap::new();
        let mut overrides: Vec<Override> = Vec::new();
        for (place, part) in overriding {
            let read = read_override(part, place, main.as_ref().map(|main| &main.event.start), zones)?;
            let revision = revision(part);
            match latest.get(&read.id) {
                Some((known, _)) if *known > revision => {}
                Some((_, at)) => {
                    let at = *at;
                    latest.insert(read.id, (revision, at));
                    overrides[at] = read;
                }
                None => {
                    latest.insert(read.id, (revision, overrides.len()));
                    overrides.push(read);
                }
            }
        }
        Ok(Self { uid, main, overrides })
    }

    /// Its UID; empty where it has none.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The event itself; `None` where only overrides of it are known.
    pub fn event(&self) -> Option<&Event> {
        self.main.as_ref().map(|main| &main.event)
    }

    /// What its first occurrence is known by.
    pub fn first(&self) -> Option<RecurrenceId> {
        self.event().map(|event| event.start.id(event.start.local()))
    }

    /// The override of an occurrence: one that names it, else one that names its day.
    pub(super) fn override_of(&self, id: RecurrenceId) -> Option<&Override> {
        let start =
            |over: &Override| self.event().map_or(over.event.start.clone(), |event| event.start.clone());
        let exact = self.overrides.iter().find(|over| over.id == id.normal(&start(over)));
        exact.or_else(|| {
            let start = &self.event()?.start;
            let day = RecurrenceId::Day(id.normal(start).local(start).date());
            self.overrides.iter().find(|over| over.id == day)
        })
    }

    /// Its overrides, in their order.
    pub fn overrides(&self) -> &[Override] {
        &self.overrides
    }

    /// Whether the time of an occurrence says nothing of the times of its series: it has an override with a time or a
    /// length of its own, or another program moved all from some occurrence on.
    pub fn is_moved(&self, id: RecurrenceId) -> bool {
        let Some(event) = self.event() else { return false };
        let id = id.normal(&event.start);
        self.overrides.iter().any(|over| {
            let start = &over.event.start;
            let is_elsewhere = || start.id(start.local()).normal(&event.start) != id;
            let is_other = || over.event.length.naive() != event.length.naive();
            over.scope == Scope::ThisAndFuture || over.id == id && (is_elsewhere() || is_other())
        })
    }

    /// Whether it can happen more than once.
    pub fn repeats(&self) -> bool {
        self.main.as_ref().is_some_and(|main| !(main.rules.is_empty() && main.extras.is_empty()))
    }
}

impl Main {
    fn read(component: &Component, place: usize, zones: &mut ZoneTable<'_>) -> Result<Self, Unreadable> {
        let event = Event::read(component, place, zones)?;
        let rules = |name: &'static str| -> Result<Vec<Rule>, Unreadable> {
            Ok(component.all(name).map(|rule| Rule::parse(rule.value())).collect::<Result<_, _>>()?)
        };
        Ok(Self {
            rules: rules("RRULE")?,
            without: rules("EXRULE")?,
            extras: extras(component, &event.start, zones)?,
            excluded: excluded(component, &event.start, zones)?,
            event,
        })
    }
}

/// Which revision of an event or an override it is: the highest counts (RFC 5546 2.1.5).
fn revision(component: &Component) -> u32 {
    component.property("SEQUENCE").and_then(|sequence| sequence.value().trim().parse().ok()).unwrap_or(0)
}

fn read_override(
    component: &Component,
    place: usize,
    series: Option<&Start>,
    zones: &mut ZoneTable<'_>,
) -> Result<Override, Unreadable> {
    let event = Event::read(component, place, zones)?;
    let property = component.property("RECURRENCE-ID").ok_or(Unreadable::NoStart)?;
    let id = RecurrenceId::of(DateValue::parse(property.value())?, zone_of(&property, zones)?.as_ref());
    let scope = match property.param("RANGE") {
        Some(range) if range.eq_ignore_ascii_case("THISANDFUTURE") => Scope::ThisAndFuture,
        _ => Scope::This,
    };
    Ok(Override { id: id.normal(series.unwrap_or(&event.start)), scope, event })
}
