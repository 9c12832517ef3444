//! One occurrence: an override of it, or an exception.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::changes::{Changes, KIND, Revision, SeriesEditError, event_mut, series, stamp};
use super::range;
use super::times::{Form, end_zone, move_to, shifted};
use crate::ical::{Component, DateValue, Document};
use crate::recurrence::event::{Event, Start};
use crate::recurrence::{RecurrenceId, Series};
use crate::rule::{Budget, Window};
use crate::zones::ZoneTable;

/// Changes one occurrence. Where it has an override that is edited, else one is made.
pub fn change_one(
    document: &mut Document,
    uid: &str,
    id: RecurrenceId,
    changes: &Changes,
) -> Result<(), SeriesEditError> {
    let mut made = document.clone();
    range::free(&mut made, uid, id, changes.now)?;
    let place = match override_place(&made, uid, id)? {
        Some(place) => place,
        None => add_override(&mut made, uid, id)?,
    };
    let component = event_mut(&mut made, place)?;
    write_override(component, changes)?;
    let revision = if changes.is_revision() { Revision::New } else { Revision::Same };
    stamp(component, changes.now, revision)?;
    *document = made;
    Ok(())
}

/// Writes changes to an override, but for what an occurrence does not have: it does not repeat by itself.
fn write_override(component: &mut Component, changes: &Changes) -> Result<(), SeriesEditError> {
    let is_of_series = |name: &str| {
        ["RRULE", "RDATE", "EXDATE", "EXRULE", "UID", "RECURRENCE-ID"]
            .iter()
            .any(|own| own.eq_ignore_ascii_case(name))
    };
    changes.write(component, is_of_series);
    Ok(changes.write_time(component)?)
}

/// Writes changes to the override of a series' first occurrence, where that has one: from which on all are changed is
/// changed itself, also where it was changed alone before.
pub(super) fn change_first(
    document: &mut Document,
    uid: &str,
    changes: &Changes,
) -> Result<(), SeriesEditError> {
    let series = series(document, uid)?;
    let start = &series.event().ok_or(SeriesEditError::NoEvent)?.start;
    let first = start.id(start.local());
    let Some(over) = series.override_of(first) else { return Ok(()) };
    let component = event_mut(document, over.event.place)?;
    write_override(component, changes)?;
    let now = DateValue::Utc(Offset::UTC.to_datetime(changes.now)).to_string();
    let is_stamped = component.property("DTSTAMP").is_some_and(|stamp| stamp.value() == now);
    let is_new = changes.is_revision() && !is_stamped;
    Ok(stamp(component, changes.now, if is_new { Revision::New } else { Revision::Same })?)
}

/// Takes one occurrence out of a series, and its override with it.
pub fn remove_one(
    document: &mut Document,
    uid: &str,
    id: RecurrenceId,
    now: Timestamp,
) -> Result<(), SeriesEditError> {
    let mut made = document.clone();
    range::free(&mut made, uid, id, now)?;
    let series = series(&made, uid)?;
    let event = series.event().ok_or(SeriesEditError::NoEvent)?;
    let id = id.normal(&event.start);
    let overridden: Vec<usize> = series.override_of(id).map(|over| over.event.place).into_iter().collect();
    let local = match overridden.is_empty() {
        true => slot(&series, id)?,
        false => id.local(&event.start),
    };
    let component = event_mut(&mut made, event.place)?;
    let form = Form::of(component).ok_or(SeriesEditError::NoEvent)?;
    component.add(&form.property("EXDATE", &[form.value(local)])?);
    stamp(component, now, Revision::New)?;
    take_out(&mut made, &overridden);
    *document = made;
    Ok(())
}

/// Takes out the events at those places.
pub(super) fn take_out(document: &mut Document, places: &[usize]) -> Vec<Component> {
    let mut at = 0;
    let mut taken = Vec::new();
    for calendar in document.components_mut() {
        taken.extend(calendar.take_components(|component| {
            if !component.is_named(KIND) {
                return false;
            }
            at += 1;
            places.contains(&(at - 1))
        }));
    }
    taken
}

/// The local start of an occurrence that the series has.
pub(super) fn slot(series: &Series, id: RecurrenceId) -> Result<DateTime, SeriesEditError> {
    let main = series.main.as_ref().ok_or(SeriesEditError::NoEvent)?;
    let start = &main.event.start;
    let id = id.normal(start);
    let local = id.local(start);
    // A day's worth around it: in a gap the clock shows another time than the rule says.
    let window = Window { from: local.date().at(0, 0, 0, 0), to: local.date().at(23, 59, 59, 0) };
    let slots = main.slots(window, &mut Budget::default())?;
    let found = slots.iter().find(|slot| {
        let own = start.id(slot.local);
        (own == id || id == RecurrenceId::Day(slot.local.date())) && !main.excluded.contains(&own)
    });
    found.map(|slot| slot.local).ok_or(SeriesEditError::NoOccurrence { id })
}

fn override_place(
    document: &Document,
    uid: &str,
    id: RecurrenceId,
) -> Result<Option<usize>, SeriesEditError> {
    let series = Series::find(document, KIND, uid).ok_or(SeriesEditError::NoEvent)??;
    Ok(series.override_of(id).map(|over| over.event.place))
}

/// Makes an override of an occurrence that has none, as the event stands or as a range of later ones says of it, and
/// says where.
fn add_override(document: &mut Document, uid: &str, id: RecurrenceId) -> Result<usize, SeriesEditError> {
    let series = series(document, uid)?;
    let event = series.event().ok_or(SeriesEditError::NoEvent)?;
    let local = slot(&series, id)?;
    let mut made = match series.range_over(local) {
        Some((range, by)) => copy_at(document, &range.event, shifted(local, by))?,
        None => copy_at(document, event, local)?,
    };
    let main = document.events(KIND).nth(event.place).ok_or(SeriesEditError::NoEvent)?;
    let form = Form::of(main).ok_or(SeriesEditError::NoEvent)?;
    // In a gap the id is what the clock shows, as every reader computes it.
    let shown = match &event.start {
        Start::Day(_) => local,
        start @ Start::Time { .. } => start.id(local).local(start),
    };
    made.add(&form.property("RECURRENCE-ID", &[form.value(shown)])?);
    range::push_after(document, event.place, made)
}

/// What an event says, at another start and for one occurrence.
fn copy_at(document: &Document, event: &Event, local: DateTime) -> Result<Component, SeriesEditError> {
    let mut zones = ZoneTable::of(document);
    let original = document.events(KIND).nth(event.place).ok_or(SeriesEditError::NoEvent)?;
    let mut made = original.clone();
    for name in ["RRULE", "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID"] {
        made.remove(name);
    }
    move_to(&mut made, event, local, end_zone(original, &mut zones))?;
    Ok(made)
}
