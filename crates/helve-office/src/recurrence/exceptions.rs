//! `RDATE` and `EXDATE`: times that a rule does not know of.

use std::collections::HashSet;

use jiff::civil::DateTime;

use super::event::{Length, Start, period_length};
use super::id::{RecurrenceId, zone_of};
use super::series::Unreadable;
use crate::ical::{Component, DateValue, PeriodValue, split_list};
use crate::zones::ZoneTable;

/// How many exceptions one event may have.
const MAX: usize = 20_000;

/// An additional occurrence (`RDATE`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Extra {
    /// On the clock of the series.
    pub(super) local: DateTime,
    /// Its own length, where it is a period.
    pub(super) length: Option<Length>,
}

/// Every `RDATE` of an event, on its clock.
pub(super) fn extras(
    component: &Component,
    series: &Start,
    zones: &mut ZoneTable<'_>,
) -> Result<Vec<Extra>, Unreadable> {
    let mut extras = Vec::new();
    for property in component.all("RDATE") {
        let zone = zone_of(&property, zones)?;
        for item in split_list(property.value()).filter(|item| !item.trim().is_empty()) {
            let (start, end) = match item.contains('/') {
                true => PeriodValue::parse(item).map(|period| (period.start, Some(period.end)))?,
                false => (DateValue::parse(item)?, None),
            };
            let id = RecurrenceId::of(start, zone.as_ref()).normal(series);
            // A date in a series with times means the usual time on that day.
            let local = match (id, series) {
                (RecurrenceId::Day(date), Start::Time { local, .. }) => date.to_datetime(local.time()),
                (id, series) => id.local(series),
            };
            let length = end.map(|end| period_length(&Start::of(start, zone.clone()), end, zone.clone()));
            extras.push(Extra { local, length });
            check_count(extras.len())?;
        }
    }
    Ok(extras)
}

/// Every `EXDATE` of an event, in the form that its occurrences have.
pub(super) fn excluded(
    component: &Component,
    series: &Start,
    zones: &mut ZoneTable<'_>,
) -> Result<HashSet<RecurrenceId>, Unreadable> {
    let mut excluded = HashSet::new();
    for property in component.all("EXDATE") {
        let zone = zone_of(&property, zones)?;
        for item in split_list(property.value()).filter(|item| !item.trim().is_empty()) {
            excluded.insert(RecurrenceId::of(DateValue::parse(item)?, zone.as_ref()).normal(series));
            check_count(excluded.len())?;
        }
    }
    Ok(excluded)
}

fn check_count(count: usize) -> Result<(), Unreadable> {
    if count > MAX { Err(Unreadable::TooMany { max: MAX }) } else { Ok(()) }
}
