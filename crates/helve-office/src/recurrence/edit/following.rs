//! This and the following: the series is split.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::all::{Changed, change_all};
use super::changes::{Changes, KIND, Revision, SeriesEditError, event_mut, series, stamp};
use super::one::{change_first, slot, take_out};
use super::times::{Form, Kept, end_zone, move_to, original_start, rewrite_values, shifted, slot_of};
use crate::ical::{Component, DateValue, Document, EditError, NewProperty};
use crate::recurrence::event::{Event, Start};
use crate::recurrence::{RecurrenceId, Scope, Series};
use crate::rule::{End, with_end};
use crate::zones::{Clock, ZoneTable};

/// What became of a series that was to be changed from an occurrence on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Split {
    /// The occurrence was the first: the whole series was changed.
    Whole(Changed),
    /// The old series ends before the occurrence; this object holds the new one, and has to be stored as well.
    /// Store it first: should the second write fail, an event is shown twice and none is lost.
    New(Document, Changed),
}

/// Changes an occurrence, also where it has an override, and all later ones: ends the series before it and makes a new one, with its own UID.
pub fn change_following(
    document: &mut Document,
    uid: &str,
    id: RecurrenceId,
    changes: &Changes,
    new_uid: &str,
) -> Result<Split, SeriesEditError> {
    let series = series(document, uid)?;
    let Some(at) = split_at(&series, id)? else {
        let changed = change_all(document, uid, changes)?;
        change_first(document, uid, changes)?;
        return Ok(Split::Whole(changed));
    };
    let mut new = later_half(document, &series, at, new_uid)?;
    let changed = change_all(&mut new, new_uid, changes)?;
    change_first(&mut new, new_uid, changes)?;
    let mut old = document.clone();
    end_before(&mut old, &series, at, changes.now)?;
    *document = old;
    Ok(Split::New(new, changed))
}

/// Takes an occurrence and all later ones out of a series.
///
/// The first cannot be meant: then the whole event goes, which is the caller's to do.
pub fn remove_following(
    document: &mut Document,
    uid: &str,
    id: RecurrenceId,
    now: Timestamp,
) -> Result<(), SeriesEditError> {
    let series = series(document, uid)?;
    let at = split_at(&series, id)?.ok_or(SeriesEditError::NoOccurrence { id })?;
    let mut ended = document.clone();
    end_before(&mut ended, &series, at, now)?;
    *document = ended;
    Ok(())
}

/// The local start at which a series is split; `None` where that is its first.
fn split_at(series: &Series, id: RecurrenceId) -> Result<Option<DateTime>, SeriesEditError> {
    if series.overrides().iter().any(|over| over.scope == Scope::ThisAndFuture) {
        return Err(SeriesEditError::HasFutureRange);
    }
    let start = &series.event().ok_or(SeriesEditError::NoEvent)?.start;
    let at = slot(series, id)?;
    Ok((at != start.local()).then_some(at))
}

/// Ends a series before a local time.
fn end_before(
    document: &mut Document,
    series: &Series,
    at: DateTime,
    now: Timestamp,
) -> Result<(), SeriesEditError> {
    let event = series.event().ok_or(SeriesEditError::NoEvent)?;
    let main = series.main.as_ref().ok_or(SeriesEditError::NoEvent)?;
    // A rule that is over by then keeps its own end: a later one would bring occurrences back.
    let over: Vec<bool> =
        main.rules.iter().map(|rule| main.ends_before(rule, at)).collect::<Result<_, _>>()?;
    let copy = document.clone();
    let component = event_mut(document, event.place)?;
    rewrite_rules(component, |rule, which| match over.get(which) {
        Some(true) => Some(rule.to_owned()),
        Some(false) | None => Some(with_end(rule, End::Until(last_before(&event.start, at)))),
    })?;
    keep_dates(component, event, &copy, |local| local < at)?;
    stamp(component, now, Revision::New)?;
    take_out(document, &override_places(series, event, |local| local >= at));
    Ok(())
}

/// The `UNTIL` that a series has which ends before a local time: in UTC where it has a zone, as the standard wants it.
fn last_before(start: &Start, at: DateTime) -> DateValue {
    match start {
        Start::Day(_) => DateValue::Date(shifted(at, -86_400).date()),
        Start::Time { clock: Clock::Floating, .. } => DateValue::Local(shifted(at, -1)),
        Start::Time { clock: Clock::In(zone), .. } => {
            let last = zone.instant(at).as_second() - 1;
            DateValue::Utc(Timestamp::from_second(last).map_or(at, |last| Offset::UTC.to_datetime(last)))
        }
    }
}

/// A copy of an object with the occurrences from a local time on, under a new UID.
fn later_half(
    document: &Document,
    series: &Series,
    at: DateTime,
    new_uid: &str,
) -> Result<Document, SeriesEditError> {
    let event = series.event().ok_or(SeriesEditError::NoEvent)?;
    let main = series.main.as_ref().ok_or(SeriesEditError::NoEvent)?;
    let mut new = document.clone();
    let mut zones = ZoneTable::of(document);
    let mut counts = Vec::new();
    for rule in &main.rules {
        let past = u32::try_from(main.fires_before(rule, at)?).unwrap_or(u32::MAX);
        counts.push(match main.ends_before(rule, at)? {
            true => Some(0),
            false => rule.count.map(|count| count.saturating_sub(past)),
        });
    }
    let component = event_mut(&mut new, event.place)?;
    rewrite_rules(component, |rule, which| match counts.get(which).copied().flatten() {
        // It was over before: what goes on are single dates.
        Some(0) => None,
        Some(left) => Some(with_end(rule, End::Count(left))),
        None => Some(rule.to_owned()),
    })?;
    keep_dates(component, event, document, |local| local >= at)?;
    let end_zone = end_zone(component, &mut zones);
    move_to(component, event, at, end_zone)?;
    component.remove("SEQUENCE");
    component.add(&NewProperty::text("RELATED-TO", series.uid())?.with_param("RELTYPE", "SIBLING")?);
    for place in override_places(series, event, |local| local >= at).into_iter().chain([event.place]) {
        event_mut(&mut new, place)?.set(&NewProperty::text("UID", new_uid)?);
    }
    let is_other =
        |component: &Component| component.property("UID").is_none_or(|uid| uid.text_value() != new_uid);
    for calendar in new.components_mut() {
        calendar.take_components(|component| component.is_named(KIND) && is_other(component));
    }
    Ok(new)
}

/// The places of overrides whose original start a test picks.
fn override_places(series: &Series, event: &Event, picks: impl Fn(DateTime) -> bool) -> Vec<usize> {
    let picked = series.overrides().iter().filter(|over| picks(original_start(over, &event.start)));
    picked.map(|over| over.event.place).collect()
}

/// Keeps those dates of `RDATE` and `EXDATE` that a test picks.
fn keep_dates(
    component: &mut Component,
    event: &Event,
    document: &Document,
    keeps: impl Fn(DateTime) -> bool,
) -> Result<(), SeriesEditError> {
    let mut zones = ZoneTable::of(document);
    let form = Form::of(component).ok_or(SeriesEditError::NoEvent)?;
    for name in ["RDATE", "EXDATE"] {
        rewrite_values(component, name, &form, |item, property| {
            match slot_of(item, property, &event.start, &mut zones) {
                Some(local) if keeps(local) => Kept::AsIs(local),
                Some(_) | None => Kept::Gone,
            }
        })?;
    }
    Ok(())
}

/// Writes every rule anew, or takes it out. Parameters and unknown parts stay.
fn rewrite_rules(
    component: &mut Component,
    becomes: impl Fn(&str, usize) -> Option<String>,
) -> Result<(), EditError> {
    let rules: Vec<String> = component.all("RRULE").map(|rule| rule.value().to_owned()).collect();
    let new: Vec<String> = rules.iter().enumerate().filter_map(|(i, rule)| becomes(rule, i)).collect();
    if new == rules {
        return Ok(());
    }
    if let ([_], [rule]) = (&rules[..], &new[..]) {
        component.set_value("RRULE", rule)?;
        return Ok(());
    }
    component.remove("RRULE");
    for rule in new {
        component.add(&NewProperty::raw("RRULE", &rule)?);
    }
    Ok(())
}
