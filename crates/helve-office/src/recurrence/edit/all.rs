//! All occurrences: the event, and the overrides that follow it.

use std::collections::HashMap;

use jiff::civil::DateTime;

use super::changes::{Changes, KIND, Revision, SeriesEditError, event_mut, series, stamp};
use super::one::{slot, take_out};
use super::times::{Form, Kept, end_zone, move_to, original_start, rewrite_values, shifted, slot_of};
use crate::ical::{Component, DateValue, Document, EditError, NewProperty};
use crate::recurrence::event::{Event, Start};
use crate::recurrence::{RecurrenceId, Series};
use crate::rule::{End, Rule, naive_seconds, with_end};
use crate::zones::{Clock, Zone, ZoneTable};

/// What an edit of all occurrences did besides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changed {
    /// Overrides that went, because the new rule has no occurrence for them.
    pub dropped: Vec<RecurrenceId>,
}

/// Changes an event and all of its occurrences. An override takes a new value where it had the same as the event;
/// what was changed for it alone stays, but for its status.
pub fn change_all(document: &mut Document, uid: &str, changes: &Changes) -> Result<Changed, SeriesEditError> {
    let before = series(document, uid)?;
    let event = before.event().ok_or(SeriesEditError::NoEvent)?;
    check_rule(document, event, changes)?;
    let stored = document.clone();
    let old = stored.events(KIND).nth(event.place).ok_or(SeriesEditError::NoEvent)?;
    let revision = if changes.is_revision() { Revision::New } else { Revision::Same };
    for over in before.overrides() {
        let known = same_values(event_mut(document, over.event.place)?, old, changes);
        let component = event_mut(document, over.event.place)?;
        changes.write(component, |name| !known.get(&name.to_ascii_uppercase()).copied().unwrap_or(false));
    }
    if let Some(time) = &changes.time {
        let form = Form::new(time.start, time.tzid.clone());
        shift(document, &before, event, &form, changes)?;
    }
    for over in before.overrides() {
        let component = event_mut(document, over.event.place)?;
        if stored.events(KIND).nth(over.event.place) != Some(&*component) {
            stamp(component, changes.now, revision)?;
        }
    }
    let component = event_mut(document, event.place)?;
    changes.write(component, is_identity);
    changes.write_time(component)?;
    stamp(component, changes.now, revision)?;
    match changes.names("RRULE") {
        true => drop_orphans(document, uid),
        false => Ok(Changed::default()),
    }
}

fn is_identity(name: &str) -> bool {
    ["UID", "RECURRENCE-ID"].iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// For each name that changes: whether an override had what the event had.
fn same_values(over: &Component, event: &Component, changes: &Changes) -> HashMap<String, bool> {
    let values = |component: &Component, name: &str| -> Vec<String> {
        component.all(name).map(|property| property.value().to_owned()).collect()
    };
    let of_series = ["RRULE", "RDATE", "EXDATE", "EXRULE", "UID", "RECURRENCE-ID"];
    let names = changes.set.iter().map(NewProperty::name).chain(changes.remove.iter().map(String::as_str));
    names
        .map(str::to_ascii_uppercase)
        .map(|name| {
            // What is cancelled for all is cancelled for one that said of itself that it takes place.
            let same = name == "STATUS" || values(over, &name) == values(event, &name);
            let same = same && !of_series.contains(&name.as_str());
            (name, same)
        })
        .collect()
}

/// A series that moves to other days needs a rule for them, unless its rule follows the start.
fn check_rule(document: &Document, event: &Event, changes: &Changes) -> Result<(), SeriesEditError> {
    let moves = changes.time.as_ref().is_some_and(|time| time.start.date() != event.start.local().date());
    if !moves || changes.names("RRULE") {
        return Ok(());
    }
    let component = document.events(KIND).nth(event.place).ok_or(SeriesEditError::NoEvent)?;
    for property in component.all("RRULE") {
        let rule = property.value().to_owned();
        if Rule::parse(&rule).is_ok_and(|rule| rule.names_days()) {
            return Err(SeriesEditError::NeedsRule { rule });
        }
    }
    Ok(())
}

/// Moves what depends on the start of a series: exceptions, the end of the rule, and its overrides.
fn shift(
    document: &mut Document,
    series: &Series,
    event: &Event,
    form: &Form,
    changes: &Changes,
) -> Result<(), SeriesEditError> {
    let Some(time) = &changes.time else { return Ok(()) };
    let new_local = match time.start {
        DateValue::Date(date) => date.at(0, 0, 0, 0),
        DateValue::Local(at) | DateValue::Utc(at) => at,
    };
    let by = naive_seconds(new_local) - naive_seconds(event.start.local());
    let copy = document.clone();
    let mut zones = ZoneTable::of(&copy);
    let start = &event.start;
    let component = event_mut(document, event.place)?;
    for name in ["EXDATE", "RDATE"] {
        rewrite_values(component, name, form, |item, property| {
            match slot_of(item, property, start, &mut zones) {
                Some(local) => Kept::At(shifted(local, by)),
                None => Kept::Gone,
            }
        })?;
    }
    let zone = time.tzid.as_deref().and_then(|tzid| zones.resolve(tzid).ok());
    shift_until(component, start, by, form, zone)?;
    for over in series.overrides() {
        let original = original_start(over, start);
        let component = event_mut(document, over.event.place)?;
        let is_range = component.property("RECURRENCE-ID").and_then(|id| id.param("RANGE"));
        let mut id = form.property("RECURRENCE-ID", &[form.value(shifted(original, by))])?;
        if let Some(range) = is_range {
            id = id.with_param("RANGE", &range)?;
        }
        component.set(&id);
        // What was moved for this occurrence alone stays where it was put.
        if over.event.start.local() == original {
            let end_zone = end_zone(component, &mut zones);
            let length = length_of(event, &over.event, changes);
            follow(component, &over.event, shifted(original, by), form, end_zone, length)?;
        }
    }
    Ok(())
}

/// The length that the new times have, in seconds of their own clock.
fn time_length(changes: &Changes) -> Option<i64> {
    let seconds = |value: DateValue| match value {
        DateValue::Date(date) => naive_seconds(date.at(0, 0, 0, 0)),
        DateValue::Local(at) | DateValue::Utc(at) => naive_seconds(at),
    };
    changes.time.as_ref().map(|time| seconds(time.end) - seconds(time.start))
}

/// The length of an override that moves with its series: the new one, unless it had one of its own. Days and times have
/// no length in common, so where one becomes the other all take the new one.
fn length_of(event: &Event, over: &Event, changes: &Changes) -> Option<i64> {
    let is_day = |start: DateValue| matches!(start, DateValue::Date(_));
    let stays_kind =
        changes.time.as_ref().is_some_and(|time| is_day(time.start) == matches!(over.start, Start::Day(_)));
    match stays_kind && over.length.naive() != event.length.naive() {
        true => Some(over.length.naive()),
        false => time_length(changes),
    }
}

/// Moves an override along with its series.
fn follow(
    component: &mut Component,
    event: &Event,
    local: DateTime,
    form: &Form,
    end_zone: Option<Zone>,
    length: Option<i64>,
) -> Result<(), EditError> {
    let Some(length) = length else { return move_to(component, event, local, end_zone) };
    component.rewrite(&form.property("DTSTART", &[form.value(local)])?);
    component.remove("DURATION");
    component.rewrite(&form.property("DTEND", &[form.value(shifted(local, length))])?);
    Ok(())
}

/// Moves the `UNTIL` of rules with the series, so that it keeps its last occurrence.
fn shift_until(
    component: &mut Component,
    start: &Start,
    by: i64,
    form: &Form,
    zone: Option<Zone>,
) -> Result<(), EditError> {
    let Some(rule) = component.property("RRULE").map(|rule| rule.value().to_owned()) else { return Ok(()) };
    let Some(until) = Rule::parse(&rule).ok().and_then(|rule| rule.until) else { return Ok(()) };
    let last = match (until, start) {
        (DateValue::Utc(at), Start::Time { clock: Clock::In(own), .. }) => own.local(Zone::UTC.instant(at)),
        (DateValue::Date(date), Start::Time { .. }) => date.at(23, 59, 59, 0),
        (DateValue::Date(date), Start::Day(_)) => date.at(0, 0, 0, 0),
        (DateValue::Local(at) | DateValue::Utc(at), _) => at,
    };
    let until = match (form.value(shifted(last, by)), zone) {
        (DateValue::Local(at), Some(zone)) => {
            DateValue::Utc(jiff::tz::Offset::UTC.to_datetime(zone.instant(at)))
        }
        (value, _) => value,
    };
    component.set_value("RRULE", &with_end(&rule, End::Until(until)))?;
    Ok(())
}

/// Takes out overrides that the new rule has no occurrence for: they would be shown next to it.
fn drop_orphans(document: &mut Document, uid: &str) -> Result<Changed, SeriesEditError> {
    let series = series(document, uid)?;
    let mut changed = Changed::default();
    let mut places = Vec::new();
    for over in series.overrides() {
        match slot(&series, over.id) {
            Ok(_) => {}
            Err(SeriesEditError::NoOccurrence { id }) => {
                changed.dropped.push(id);
                places.push(over.event.place);
            }
            Err(error) => return Err(error),
        }
    }
    take_out(document, &places);
    Ok(changed)
}
