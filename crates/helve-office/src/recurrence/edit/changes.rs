//! What an edit changes.

use jiff::Timestamp;
use jiff::tz::Offset;

use super::super::series::Unreadable;
use crate::ical::{Component, DateValue, Document, EditError, NewProperty};
use crate::recurrence::{RecurrenceId, Series};
use crate::rule::OverBudget;

/// The kind of component that these edits are about.
pub(super) const KIND: &str = "VEVENT";

/// Why a series cannot be edited like that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeriesEditError {
    /// The document has no event with that UID, or only overrides of it.
    #[error("the calendar object has no event with this UID")]
    NoEvent,
    /// The series has no occurrence at that time.
    #[error("the series has no occurrence `{id}`; list its events to see which it has")]
    NoOccurrence {
        /// Which was asked for.
        id: RecurrenceId,
    },
    /// The day moves, and the rule says on which days the event is.
    #[error("the event moves to another day, but its rule `{rule}` names days; give the new rule as well")]
    NeedsRule {
        /// The rule as it is.
        rule: String,
    },
    /// Another program changed this and all later occurrences in a way that cannot be split.
    #[error(
        "another program changed later occurrences with RANGE=THISANDFUTURE; edit one or all of them instead"
    )]
    HasFutureRange,
    /// The series has single dates with lengths of their own, which would have to move.
    #[error("the series has RDATE periods, which cannot be moved or split; edit single occurrences instead")]
    HasPeriods,
    /// The times of the event cannot be read.
    #[error("the times of the event cannot be read: {0}")]
    Unreadable(#[from] Unreadable),
    /// The rule takes too much work.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// A property cannot be written.
    #[error(transparent)]
    Write(#[from] EditError),
}

/// Another time for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTime {
    /// When it starts.
    pub start: DateValue,
    /// When it ends; of the same kind as the start.
    pub end: DateValue,
    /// The zone of both, where they are local times; without one they float. The caller sees to it that the
    /// document [defines](super::define_zone) it.
    pub tzid: Option<String>,
}

impl NewTime {
    pub(super) fn property(&self, name: &str, value: DateValue) -> Result<NewProperty, EditError> {
        let property = NewProperty::raw(name, &value.to_string())?;
        match (value, &self.tzid) {
            (DateValue::Date(_), _) => property.with_param("VALUE", "DATE"),
            (DateValue::Local(_), Some(tzid)) => property.with_param("TZID", tzid),
            (DateValue::Local(_), None) | (DateValue::Utc(_), _) => Ok(property),
        }
    }
}

/// What an edit changes. What it does not name stays.
#[derive(Debug, Clone)]
pub struct Changes {
    /// Properties to write. Those of one name together replace all of that name.
    pub set: Vec<NewProperty>,
    /// Names of properties to take out.
    pub remove: Vec<String>,
    /// Another time. For a series it is that of the occurrence from which the edit counts: the named one,
    /// or the first.
    pub time: Option<NewTime>,
    /// When the edit is made.
    pub now: Timestamp,
}

impl Changes {
    /// An edit that changes nothing yet.
    pub fn at(now: Timestamp) -> Self {
        Self { set: Vec::new(), remove: Vec::new(), time: None, now }
    }

    /// Whether it says what the rule is from now on.
    pub(super) fn names(&self, name: &str) -> bool {
        self.set.iter().any(|property| property.name().eq_ignore_ascii_case(name))
            || self.remove.iter().any(|removed| removed.eq_ignore_ascii_case(name))
    }

    /// Writes everything but the time; parameters that say nothing of the value stay. `keeps` is asked about each name first.
    pub(super) fn write(&self, component: &mut Component, mut keeps: impl FnMut(&str) -> bool) {
        for name in self.remove.iter().filter(|name| !keeps(name)) {
            component.remove(name);
        }
        let mut written: Vec<&str> = Vec::new();
        for property in self.set.iter().filter(|property| !keeps(property.name())) {
            match written.iter().any(|name| name.eq_ignore_ascii_case(property.name())) {
                true => component.add(property),
                false => component.rewrite(property),
            }
            written.push(property.name());
        }
    }

    /// Writes the time: start and end, no duration.
    pub(super) fn write_time(&self, component: &mut Component) -> Result<(), EditError> {
        let Some(time) = &self.time else { return Ok(()) };
        component.rewrite(&time.property("DTSTART", time.start)?);
        component.remove("DURATION");
        component.rewrite(&time.property("DTEND", time.end)?);
        Ok(())
    }

    /// Whether others have to learn of a new revision (RFC 5546 2.1.4).
    pub(super) fn is_revision(&self) -> bool {
        let counts = ["DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "STATUS"];
        self.time.is_some() || counts.iter().any(|name| self.names(name))
    }
}

/// Whether an edit makes a new revision that attendees compare by `SEQUENCE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Revision {
    Same,
    New,
}

/// Renews the stamps, and counts the revision up where it is a new one.
pub(super) fn stamp(component: &mut Component, now: Timestamp, revision: Revision) -> Result<(), EditError> {
    let now = DateValue::Utc(Offset::UTC.to_datetime(now)).to_string();
    component.set(&NewProperty::raw("DTSTAMP", &now)?);
    component.set(&NewProperty::raw("LAST-MODIFIED", &now)?);
    if revision == Revision::New {
        let last = component.property("SEQUENCE").and_then(|sequence| sequence.value().trim().parse().ok());
        let next: u32 = last.map_or(1, |last: u32| last.saturating_add(1));
        component.set(&NewProperty::raw("SEQUENCE", &next.to_string())?);
    }
    Ok(())
}

/// The series with that UID, which has more than overrides.
pub(super) fn series(document: &Document, uid: &str) -> Result<Series, SeriesEditError> {
    let series = Series::find(document, KIND, uid).ok_or(SeriesEditError::NoEvent)??;
    if series.event().is_none() { Err(SeriesEditError::NoEvent) } else { Ok(series) }
}

/// The event at a place.
pub(super) fn event_mut(document: &mut Document, place: usize) -> Result<&mut Component, SeriesEditError> {
    document.events_mut(KIND).nth(place).ok_or(SeriesEditError::NoEvent)
}
