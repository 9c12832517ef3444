//! When one event happens: its start, its length, its status.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

use super::id::zone_of;
use super::occurrence::When;
use super::series::Unreadable;
use crate::ical::{Component, DateValue, DurationValue, PeriodEnd};
use crate::rule::{local_time, naive_seconds};
use crate::zones::{Clock, Moment, Zone, ZoneTable};

const DAY: i64 = 86_400;

/// When an event starts.
#[derive(Debug, Clone)]
pub enum Start {
    /// An all-day event, from this day.
    Day(Date),
    /// At a time on a clock.
    Time {
        /// What the clock shows.
        local: DateTime,
        /// The zone in which that clock runs.
        clock: Clock,
    },
}

impl Start {
    /// A value, with the zone that its property names.
    pub(super) fn of(value: DateValue, zone: Option<Zone>) -> Self {
        match value {
            DateValue::Date(date) => Self::Day(date),
            DateValue::Utc(local) => Self::Time { local, clock: Clock::In(Zone::UTC) },
            DateValue::Local(local) => Self::Time { local, clock: zone.map_or(Clock::Floating, Clock::In) },
        }
    }

    /// What its clock shows; midnight where it is all-day.
    pub(super) fn local(&self) -> DateTime {
        match self {
            Self::Day(date) => date.at(0, 0, 0, 0),
            Self::Time { local, .. } => *local,
        }
    }

    /// The same kind of start at another local time.
    pub(super) fn at(&self, local: DateTime) -> Self {
        match self {
            Self::Day(_) => Self::Day(local.date()),
            Self::Time { clock, .. } => Self::Time { local, clock: clock.clone() },
        }
    }

    /// The zone in which it is told to a person who asks from one.
    pub(super) fn zone<'a>(&'a self, asker: &'a Zone) -> &'a Zone {
        match self {
            Self::Day(_) => asker,
            Self::Time { clock, .. } => clock.zone(asker),
        }
    }
}

/// How long an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// So many seconds, whatever the clock does: by `DTEND`.
    Exact(i64),
    /// So many days and seconds: by `DURATION`, or all-day.
    Nominal(DurationValue),
}

impl Length {
    pub(super) const DAY: Self = Self::Nominal(DurationValue { days: 1, seconds: 0 });

    /// No occurrence takes more seconds than this.
    pub(super) fn seconds_max(self) -> i64 {
        match self {
            Self::Exact(seconds) => seconds,
            Self::Nominal(length) => (length.days + 1) * DAY + length.seconds,
        }
    }

    /// So many seconds on a clock that never changes: to compare lengths that are written in different ways.
    pub(super) fn naive(self) -> i64 {
        match self {
            Self::Exact(seconds) => seconds,
            Self::Nominal(length) => length.days * DAY + length.seconds,
        }
    }

    /// What a start and this length make. No end is before its start.
    pub(super) fn from(self, start: &Start, asker: &Zone) -> When {
        match start {
            Start::Day(first) => When::AllDay { first: *first, end: self.end_day(*first) },
            Start::Time { local, clock } => {
                let zone = clock.zone(asker).clone();
                let instant = zone.instant(*local);
                let end = match self {
                    Self::Exact(seconds) => instant.as_second() + seconds,
                    Self::Nominal(DurationValue { days: 0, seconds }) => instant.as_second() + seconds,
                    Self::Nominal(DurationValue { days, seconds }) => {
                        let later = local_time(naive_seconds(*local) + days * DAY).unwrap_or(*local);
                        zone.instant(later).as_second() + seconds
                    }
                };
                let end = Timestamp::from_second(end).unwrap_or(Timestamp::MAX).max(instant);
                When::Timed {
                    start: Moment { instant, zone: zone.clone() },
                    end: Moment { instant: end, zone },
                }
            }
        }
    }

    /// The day behind the last; an all-day event takes one at least.
    fn end_day(self, first: Date) -> Date {
        let days = match self {
            Self::Exact(seconds) => seconds / DAY,
            Self::Nominal(length) => length.days + length.seconds / DAY,
        };
        let end = naive_seconds(first.at(0, 0, 0, 0)) + days.max(1) * DAY;
        local_time(end).map_or(first, DateTime::date)
    }
}

/// What an event says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// It takes place.
    #[default]
    Confirmed,
    /// It may take place.
    Tentative,
    /// It does not take place.
    Cancelled,
}

/// One event, or one override, as far as time is concerned.
#[derive(Debug, Clone)]
pub struct Event {
    /// When it starts.
    pub start: Start,
    /// How long it is.
    pub length: Length,
    /// Whether it takes place.
    pub status: Status,
    /// Which of its document's events of its kind it is, counted from 0: where the rest of it is to be read.
    pub place: usize,
}

impl Event {
    pub(super) fn read(
        component: &Component,
        place: usize,
        zones: &mut ZoneTable<'_>,
    ) -> Result<Self, Unreadable> {
        // A task may have nothing but the time at which it is due.
        let property = component.property("DTSTART").or_else(|| component.property("DUE"));
        let property = property.ok_or(Unreadable::NoStart)?;
        let start = Start::of(DateValue::parse(property.value())?, zone_of(&property, zones)?);
        let length = length(component, &start, zones)?;
        let status = component.property("STATUS").map_or(Status::Confirmed, |status| {
            match status.value().trim().to_ascii_uppercase().as_str() {
                "CANCELLED" => Status::Cancelled,
                "TENTATIVE" => Status::Tentative,
                _ => Status::Confirmed,
            }
        });
        Ok(Self { start, length, status, place })
    }
}

/// `DTEND` (`DUE` of a task), else `DURATION`, else what the standard says of neither.
fn length(component: &Component, start: &Start, zones: &mut ZoneTable<'_>) -> Result<Length, Unreadable> {
    if let Some(property) = component.property("DTEND").or_else(|| component.property("DUE")) {
        let end = Start::of(DateValue::parse(property.value())?, zone_of(&property, zones)?);
        return Ok(until(start, &end));
    }
    if let Some(property) = component.property("DURATION") {
        let length = DurationValue::parse(property.value())?;
        let is_backward = length.days < 0 || length.seconds < 0;
        return Ok(Length::Nominal(if is_backward { DurationValue::default() } else { length }));
    }
    Ok(match start {
        Start::Day(_) => Length::DAY,
        Start::Time { .. } => Length::Exact(0),
    })
}

/// The length between a start and an end. Where one is a day and the other a time, which the standard forbids,
/// the start decides.
fn until(start: &Start, end: &Start) -> Length {
    let naive = naive_seconds(end.local()) - naive_seconds(start.local());
    match (start, end) {
        (Start::Day(_), Start::Day(_) | Start::Time { .. }) => {
            Length::Nominal(DurationValue { days: (naive / DAY).max(1), seconds: 0 })
        }
        (Start::Time { local, clock: Clock::In(zone) }, end) => {
            let end = end.zone(zone).instant(end.local());
            Length::Exact((end.as_second() - zone.instant(*local).as_second()).max(0))
        }
        (Start::Time { clock: Clock::Floating, .. }, _) => Length::Exact(naive.max(0)),
    }
}

/// The length of a period from a start.
pub(super) fn period_length(start: &Start, end: PeriodEnd, zone: Option<Zone>) -> Length {
    match end {
        PeriodEnd::After(length) => Length::Nominal(length),
        PeriodEnd::At(value) => until(start, &Start::of(value, zone)),
    }
}
