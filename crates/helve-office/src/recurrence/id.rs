//! Which occurrence of a series is meant.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

use super::event::Start;
use crate::ical::{DateValue, Property, ValueError};
use crate::zones::{Clock, UnknownZone, Zone, ZoneTable};

/// The original start of an occurrence: its identity, even after it was moved.
///
/// It is written and read as iCalendar writes times: `20260301`, `20260301T120000Z`, and `20260301T120000` for a
/// series without a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecurrenceId {
    /// A day, of an all-day series.
    Day(Date),
    /// A time on the clock of the series.
    Local(DateTime),
    /// The same instant everywhere.
    Instant(Timestamp),
}

impl RecurrenceId {
    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        Ok(Self::of(DateValue::parse(text)?, None))
    }

    /// A value, on the clock of a zone if it has one.
    pub(super) fn of(value: DateValue, zone: Option<&Zone>) -> Self {
        match (value, zone) {
            (DateValue::Date(date), _) => Self::Day(date),
            (DateValue::Local(at), Some(zone)) => Self::Instant(zone.instant(at)),
            (DateValue::Local(at), None) => Self::Local(at),
            (DateValue::Utc(at), _) => Self::Instant(Zone::UTC.instant(at)),
        }
    }

    /// The same occurrence in the form that all of its series have, so that two can be compared.
    pub(super) fn normal(self, series: &Start) -> Self {
        let utc = |instant: Timestamp| Offset::UTC.to_datetime(instant);
        match (series, self) {
            (Start::Day(_) | Start::Time { .. }, Self::Day(_)) => self,
            (Start::Day(_), Self::Local(at)) => Self::Day(at.date()),
            (Start::Day(_), Self::Instant(at)) => Self::Day(utc(at).date()),
            (Start::Time { clock: Clock::Floating, .. }, Self::Local(_)) => self,
            (Start::Time { clock: Clock::Floating, .. }, Self::Instant(at)) => Self::Local(utc(at)),
            (Start::Time { clock: Clock::In(zone), .. }, Self::Local(at)) => Self::Instant(zone.instant(at)),
            (Start::Time { clock: Clock::In(_), .. }, Self::Instant(_)) => self,
        }
    }

    /// The local time on the clock of its series: midnight for a day.
    pub(super) fn local(self, series: &Start) -> DateTime {
        match (series, self) {
            (_, Self::Day(date)) => date.at(0, 0, 0, 0),
            (_, Self::Local(at)) => at,
            (Start::Time { clock: Clock::In(zone), .. }, Self::Instant(at)) => zone.local(at),
            (_, Self::Instant(at)) => Offset::UTC.to_datetime(at),
        }
    }
}

impl fmt::Display for RecurrenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Day(date) => DateValue::Date(date).fmt(f),
            Self::Local(at) => DateValue::Local(at).fmt(f),
            Self::Instant(at) => DateValue::Utc(Offset::UTC.to_datetime(at)).fmt(f),
        }
    }
}

/// The zone of a property, if it names one.
pub(super) fn zone_of(
    property: &Property<'_>,
    zones: &mut ZoneTable<'_>,
) -> Result<Option<Zone>, UnknownZone> {
    property.param("TZID").map(|tzid| zones.resolve(&tzid)).transpose()
}
