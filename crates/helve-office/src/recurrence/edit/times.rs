//! Times in the form in which an event has its own.

use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::changes::SeriesEditError;
use crate::ical::{Component, DateValue, EditError, NewProperty, Property, split_list};
use crate::recurrence::event::{Event, Start};
use crate::recurrence::{Override, RecurrenceId, When};
use crate::rule::{local_time, naive_seconds};
use crate::zones::{Clock, Zone, ZoneTable};

/// How an event writes its times: as days, in UTC, or as local times perhaps with a zone.
#[derive(Debug, Clone)]
pub(super) struct Form {
    /// One value as an example.
    like: DateValue,
    tzid: Option<String>,
}

impl Form {
    /// The form of an event's `DTSTART`.
    pub(super) fn of(component: &Component) -> Option<Self> {
        let start = component.property("DTSTART")?;
        Some(Self { like: DateValue::parse(start.value()).ok()?, tzid: start.param("TZID") })
    }

    pub(super) fn new(like: DateValue, tzid: Option<String>) -> Self {
        Self { like, tzid }
    }

    /// A local time on the event's own clock.
    pub(super) fn value(&self, local: DateTime) -> DateValue {
        match self.like {
            DateValue::Date(_) => DateValue::Date(local.date()),
            DateValue::Local(_) => DateValue::Local(local),
            DateValue::Utc(_) => DateValue::Utc(local),
        }
    }

    /// A property with values in this form.
    pub(super) fn property(&self, name: &str, values: &[DateValue]) -> Result<NewProperty, EditError> {
        let values: Vec<String> = values.iter().map(DateValue::to_string).collect();
        let property = NewProperty::raw(name, &values.join(","))?;
        match (self.like, &self.tzid) {
            (DateValue::Date(_), _) => property.with_param("VALUE", "DATE"),
            (DateValue::Local(_), Some(tzid)) => property.with_param("TZID", tzid),
            (DateValue::Local(_), None) | (DateValue::Utc(_), _) => Ok(property),
        }
    }
}

/// Moves an event to another local start on its own clock; it stays as long as it is. Parameters stay.
pub(super) fn move_to(
    component: &mut Component,
    event: &Event,
    local: DateTime,
    end_zone: Option<Zone>,
) -> Result<(), EditError> {
    let Some(form) = Form::of(component) else { return Ok(()) };
    component.set_value("DTSTART", &form.value(local).to_string())?;
    let end = component.property("DTEND").and_then(|end| DateValue::parse(end.value()).ok());
    let Some(end) = end else { return Ok(()) };
    let own = match &event.start {
        Start::Time { clock: Clock::In(zone), .. } => zone.clone(),
        Start::Time { clock: Clock::Floating, .. } | Start::Day(_) => Zone::UTC,
    };
    let value = match event.length.from(&event.start.at(local), &own) {
        When::AllDay { end, .. } => DateValue::Date(end),
        When::Timed { end: moment, .. } => match end {
            DateValue::Utc(_) => DateValue::Utc(Offset::UTC.to_datetime(moment.instant)),
            DateValue::Local(_) => DateValue::Local(end_zone.unwrap_or(own).local(moment.instant)),
            DateValue::Date(_) => DateValue::Date(moment.local().date()),
        },
    };
    component.set_value("DTEND", &value.to_string())?;
    Ok(())
}

/// The zone that an event's `DTEND` names.
pub(super) fn end_zone(component: &Component, zones: &mut ZoneTable<'_>) -> Option<Zone> {
    let tzid = component.property("DTEND")?.param("TZID")?;
    zones.resolve(&tzid).ok()
}

/// The occurrence that one value of an `RDATE`, `EXDATE` or `RECURRENCE-ID` is about, on the clock of the series.
pub(super) fn slot_of(
    item: &str,
    property: &Property<'_>,
    series: &Start,
    zones: &mut ZoneTable<'_>,
) -> Option<DateTime> {
    let start = item.split('/').next().unwrap_or(item);
    let zone = property.param("TZID").and_then(|tzid| zones.resolve(&tzid).ok());
    let id = RecurrenceId::of(DateValue::parse(start).ok()?, zone.as_ref()).normal(series);
    Some(match (id, series) {
        (RecurrenceId::Day(date), Start::Time { local, .. }) => date.to_datetime(local.time()),
        (id, series) => id.local(series),
    })
}

/// When the occurrence of an override was to start, on the clock of its series. A day in a series with times means the
/// usual time on that day.
pub(super) fn original_start(over: &Override, series: &Start) -> DateTime {
    match (over.id, series) {
        (RecurrenceId::Day(date), Start::Time { local, .. }) => date.to_datetime(local.time()),
        (id, series) => id.local(series),
    }
}

/// A local time moved by so many seconds.
pub(super) fn shifted(local: DateTime, seconds: i64) -> DateTime {
    local_time(naive_seconds(local) + seconds).unwrap_or(local)
}

/// What becomes of each value in every property of that name. Where all stay, the line stays as it is; else it is
/// written anew in a form.
pub(super) fn rewrite_values(
    component: &mut Component,
    name: &str,
    form: &Form,
    mut becomes: impl FnMut(&str, &Property<'_>) -> Kept,
) -> Result<(), SeriesEditError> {
    let mut whole = Vec::new();
    let mut new = Vec::new();
    for property in component.all(name) {
        let kept: Vec<Kept> = split_list(property.value()).map(|item| becomes(item, &property)).collect();
        whole.push(kept.iter().all(|kept| matches!(kept, Kept::AsIs(_))));
        if whole.last() == Some(&false) {
            // A period has its own length, which the new line would lose.
            if property.value().contains('/') {
                return Err(SeriesEditError::HasPeriods);
            }
            let values: Vec<DateValue> = kept.into_iter().filter_map(|kept| kept.value(form)).collect();
            new.extend((!values.is_empty()).then_some(values));
        }
    }
    let mut whole = whole.into_iter();
    component.remove_where(name, |_| whole.next() == Some(false));
    for values in new {
        component.add(&form.property(name, &values)?);
    }
    Ok(())
}

/// What becomes of one value.
pub(super) enum Kept {
    /// It stays; the local time is for the case that another on its line does not.
    AsIs(DateTime),
    /// It becomes another local time.
    At(DateTime),
    /// It is taken out.
    Gone,
}

impl Kept {
    fn value(self, form: &Form) -> Option<DateValue> {
        match self {
            Self::AsIs(local) | Self::At(local) => Some(form.value(local)),
            Self::Gone => None,
        }
    }
}
