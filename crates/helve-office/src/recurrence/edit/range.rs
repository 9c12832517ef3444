//! Occurrences that another program moved with all later ones, by `RANGE=THISANDFUTURE`.
//!
//! Such a component says what many occurrences are. An edit of the first of them alone must not reach the others, so
//! the range then begins with the next.

use jiff::civil::DateTime;
use jiff::{Timestamp, ToSpan};

use super::changes::{KIND, Revision, SeriesEditError, event_mut, stamp};
use super::times::{Form, end_zone, move_to, shifted};
use crate::ical::{Component, Document};
use crate::recurrence::{Override, RecurrenceId, Scope, Series};
use crate::rule::{Budget, Window, naive_seconds};
use crate::zones::ZoneTable;

/// Takes an occurrence out of the range that begins with it: it gets an override that says the same of it alone.
pub(super) fn free(
    document: &mut Document,
    uid: &str,
    id: RecurrenceId,
    now: Timestamp,
) -> Result<(), SeriesEditError> {
    let series = Series::find(document, KIND, uid).ok_or(SeriesEditError::NoEvent)??;
    let Some(range) = begins_with(&series, id) else { return Ok(()) };
    let place = range.event.place;
    let alone = event_mut(document, place)?.clone();
    match next_of_range(&series, range)? {
        Some(next) => {
            begin_later(document, &series, range, next)?;
            stamp(event_mut(document, place)?, now, Revision::New)?;
            let at = push_after(document, place, alone)?;
            covers_one(event_mut(document, at)?)
        }
        None => covers_one(event_mut(document, place)?),
    }
}

fn begins_with(series: &Series, id: RecurrenceId) -> Option<&Override> {
    series.override_of(id).filter(|over| over.scope == Scope::ThisAndFuture)
}

fn covers_one(component: &mut Component) -> Result<(), SeriesEditError> {
    component.set_param("RECURRENCE-ID", |_| true, "RANGE", None)?;
    Ok(())
}

/// The next occurrence that a range says anything of: one without an override, before another range begins.
fn next_of_range(series: &Series, range: &Override) -> Result<Option<DateTime>, SeriesEditError> {
    let Some(main) = &series.main else { return Err(SeriesEditError::HasFutureRange) };
    let start = &main.event.start;
    let others = series.overrides().iter().filter(|over| over.id != range.id);
    let is_free = |local: DateTime| !main.excludes(start.id(local)) && !series.has_override(local);
    let mut from = shifted(range.id.local(start), 1);
    let later = others.filter(|over| over.scope == Scope::ThisAndFuture).map(|over| over.id.local(start));
    let end = later.filter(|local| *local >= from).min().unwrap_or(DateTime::MAX);
    // Most series go on soon, so a short look comes first.
    for days in [40, 400, 4_000] {
        let to = from.checked_add(days.days()).unwrap_or(DateTime::MAX).min(end);
        let slots = main.slots(Window { from, to }, &mut Budget::default())?;
        let next = slots.iter().map(|slot| slot.local).find(|local| *local < end && is_free(*local));
        if next.is_some() || to == end {
            return Ok(next);
        }
        from = to;
    }
    Ok(None)
}

/// Lets a range begin with a later occurrence, which is where the range had put it.
fn begin_later(
    document: &mut Document,
    series: &Series,
    range: &Override,
    next: DateTime,
) -> Result<(), SeriesEditError> {
    let event = series.event().ok_or(SeriesEditError::NoEvent)?;
    let main = document.events(KIND).nth(event.place).ok_or(SeriesEditError::NoEvent)?;
    let form = Form::of(main).ok_or(SeriesEditError::NoEvent)?;
    let by = naive_seconds(next) - naive_seconds(range.id.local(&event.start));
    let copy = document.clone();
    let component = event_mut(document, range.event.place)?;
    let end_zone = end_zone(component, &mut ZoneTable::of(&copy));
    move_to(component, &range.event, shifted(range.event.start.local(), by), end_zone)?;
    let shown = event.start.id(next).local(&event.start);
    let id = form.property("RECURRENCE-ID", &[form.value(shown)])?.with_param("RANGE", "THISANDFUTURE")?;
    component.set(&id);
    Ok(())
}

/// Puts a component into the calendar that has the event at a place, and says where it is.
pub(super) fn push_after(
    document: &mut Document,
    place: usize,
    component: Component,
) -> Result<usize, SeriesEditError> {
    let mut at = 0;
    for calendar in document.components_mut() {
        at += calendar.components().filter(|component| component.is_named(KIND)).count();
        if place < at {
            calendar.push(component);
            return Ok(at);
        }
    }
    Err(SeriesEditError::NoEvent)
}
