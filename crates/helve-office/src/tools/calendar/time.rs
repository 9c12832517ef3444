//! Times as models give them, and as they are told to them.
//!
//! A time is a date (`2026-03-01`), a time with an offset (`2026-03-01T12:00:00+01:00`, perhaps with a zone behind it
//! in brackets), or a local time (`2026-03-01T12:00`) on the clock of a zone. A local time that the clock skips or
//! shows twice is refused with both times that it could be: a guess would be an hour off without anybody seeing it.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset};

use helve::ToolError;

use super::fault::wrong;
use crate::Office;
use crate::rule::naive_seconds;
use crate::zones::{Moment, Zone, iana_for_windows};

const EXPECTED: &str = "a date (`2026-03-01`), a time with an offset (`2026-03-01T12:00:00+01:00`) or a local time (`2026-03-01T12:00`)";

/// A time as the caller gave it.
#[derive(Debug, Clone)]
pub(in crate::tools) enum GivenTime {
    /// A day, in whatever zone.
    Day(Date),
    /// An instant, and the zone in which it is meant.
    At(Moment),
}

impl GivenTime {
    /// The instant at which it begins; a day on the clock of a zone.
    pub(in crate::tools) fn begins(&self, zone: &Zone) -> Timestamp {
        match self {
            Self::Day(date) => zone.instant(date.at(0, 0, 0, 0)),
            Self::At(moment) => moment.instant,
        }
    }

    /// The instant at which it is over, where it ends a range: a day counts in full.
    pub(in crate::tools) fn ends(&self, zone: &Zone) -> Timestamp {
        match self {
            Self::Day(date) => zone.instant(date.tomorrow().unwrap_or(*date).at(0, 0, 0, 0)),
            Self::At(moment) => moment.instant,
        }
    }
}

/// The zone of the person who asks: the named zone, else the operator's.
pub(in crate::tools) fn asker(office: &Office, name: Option<&String>) -> Result<Zone, ToolError> {
    match name {
        Some(name) => zone("timeZone", name),
        None => Ok(Zone::from(office.settings().zone.clone())),
    }
}

/// The zone of that name: IANA's, or Windows'.
pub(in crate::tools) fn zone(field: &str, name: &str) -> Result<Zone, ToolError> {
    let known = (name.len() <= 100).then(|| name.trim());
    let found =
        known.and_then(|name| Zone::iana(name).or_else(|| iana_for_windows(name).and_then(Zone::iana)));
    found.ok_or_else(|| wrong(field, "an IANA name such as `Europe/Berlin`", "there is no such time zone"))
}

/// Reads a time; a local one is on the clock of `zone`.
pub(in crate::tools) fn read(field: &str, text: &str, zone: &Zone) -> Result<GivenTime, ToolError> {
    let text = text.trim();
    let unreadable = || wrong(field, EXPECTED, "it is no date or time that can be read");
    if text.len() > 100 || !text.is_ascii() {
        return Err(unreadable());
    }
    let (text, own) = match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
        Some((text, name)) => (text, Some(self::zone(field, name)?)),
        None => (text, None),
    };
    let zone = own.as_ref().unwrap_or(zone);
    if let (10, Ok(date)) = (text.len(), text.parse::<Date>()) {
        return in_bounds(field, date).map(|()| GivenTime::Day(date));
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        let instant = Timestamp::from_second(instant.as_second()).map_err(|_| unreadable())?;
        if !has_real_offset(text, instant) {
            return Err(wrong(field, EXPECTED, "no place on earth has this offset from UTC"));
        }
        in_bounds(field, zone.local(instant).date())?;
        check_offset(field, text, instant, own.as_ref())?;
        return Ok(GivenTime::At(Moment { instant, zone: zone.clone() }));
    }
    let local: DateTime = text.parse().map_err(|_| unreadable())?;
    let local = local.date().at(local.hour(), local.minute(), local.second(), 0);
    in_bounds(field, local.date())?;
    Ok(GivenTime::At(Moment { instant: unambiguous(field, local, zone)?, zone: zone.clone() }))
}

/// Whether the offset that stands in a text is one that clocks have had somewhere: less than 16 hours.
pub(in crate::tools) fn has_real_offset(text: &str, instant: Timestamp) -> bool {
    // What stands in front of the offset, read without it.
    let Ok(local) = text.parse::<DateTime>() else { return true };
    let offset = naive_seconds(local) - naive_seconds(Offset::UTC.to_datetime(instant));
    offset.abs() < 16 * 3_600
}

fn in_bounds(field: &str, date: Date) -> Result<(), ToolError> {
    match (1900..=2200).contains(&date.year()) {
        true => Ok(()),
        false => Err(wrong(field, "a year from 1900 to 2200", "its year is out of bounds")),
    }
}

/// An offset that the zone behind it does not have then is a mistake in one of the two.
fn check_offset(field: &str, text: &str, instant: Timestamp, zone: Option<&Zone>) -> Result<(), ToolError> {
    let Some(zone) = zone.filter(|_| !text.ends_with(['Z', 'z'])) else { return Ok(()) };
    let right = Moment { instant, zone: zone.clone() };
    let local: Option<DateTime> = text.parse().ok();
    let says = local.map(|local| local.date().at(local.hour(), local.minute(), local.second(), 0));
    match says == Some(right.local()) {
        true => Ok(()),
        false => Err(wrong(field, EXPECTED, "the zone in brackets has another offset at this time")
            .suggest(format!("leave the offset out, or give {right} if that instant is meant"))),
    }
}

fn unambiguous(field: &str, local: DateTime, zone: &Zone) -> Result<Timestamp, ToolError> {
    let Some(known) = zone.known() else { return Ok(zone.instant(local)) };
    let (before, after, what) = match known.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { .. } => return Ok(zone.instant(local)),
        AmbiguousOffset::Gap { before, after } => (before, after, "does not exist there: the clock skips it"),
        AmbiguousOffset::Fold { before, after } => {
            (before, after, "comes twice there: the clock is set back")
        }
    };
    let told = |offset: Offset| {
        let instant = offset.to_timestamp(local).unwrap_or(Timestamp::UNIX_EPOCH);
        Moment { instant, zone: zone.clone() }.to_string()
    };
    let name = zone.name().unwrap_or("this zone");
    Err(wrong(field, "a time that the clock shows once", format!("{local} in {name} {what}"))
        .suggest(format!("give the offset: {} or {}", told(before), told(after))))
}
