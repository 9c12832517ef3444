//! A zone, a clock, and a moment on it.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::custom::CustomZone;

/// A time zone: one of IANA's, a fixed offset, or one that a file defines.
#[derive(Debug, Clone)]
pub struct Zone(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Known(TimeZone),
    Custom(Arc<CustomZone>),
}

impl Zone {
    /// Coordinated Universal Time.
    pub const UTC: Self = Self(Kind::Known(TimeZone::UTC));

    /// The zone with that IANA name, in capitals or not.
    pub fn iana(name: &str) -> Option<Self> {
        // `Etc/Unknown` is what jiff answers where it does not know.
        TimeZone::get(name).ok().filter(|zone| !zone.is_unknown()).map(Self::from)
    }

    /// Its name: IANA's, or the `TZID` of a file.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Kind::Known(zone) => zone.iana_name(),
            Kind::Custom(zone) => Some(zone.name()),
        }
    }

    /// The zone as jiff knows it, unless a file defines it.
    pub fn known(&self) -> Option<&TimeZone> {
        match &self.0 {
            Kind::Known(zone) => Some(zone),
            Kind::Custom(_) => None,
        }
    }

    /// The instant at which a clock in this zone shows a local time. In a gap the offset before it counts, in a
    /// fold the first of the two instants. Beyond what can be represented it is the last instant that can.
    pub fn instant(&self, local: DateTime) -> Timestamp {
        let instant = match &self.0 {
            Kind::Known(zone) => zone.to_ambiguous_timestamp(local).compatible(),
            Kind::Custom(zone) => zone.offset_for(local).to_timestamp(local),
        };
        instant.unwrap_or(if local.year() > 0 { Timestamp::MAX } else { Timestamp::MIN })
    }

    /// The offset from UTC at an instant.
    pub fn offset(&self, instant: Timestamp) -> Offset {
        match &self.0 {
            Kind::Known(zone) => zone.to_offset(instant),
            Kind::Custom(zone) => zone.offset_at(instant),
        }
    }

    /// What a clock in this zone shows at an instant.
    pub fn local(&self, instant: Timestamp) -> DateTime {
        self.offset(instant).to_datetime(instant)
    }
}

impl From<TimeZone> for Zone {
    fn from(zone: TimeZone) -> Self {
        Self(Kind::Known(zone))
    }
}

impl From<CustomZone> for Zone {
    fn from(zone: CustomZone) -> Self {
        Self(Kind::Custom(Arc::new(zone)))
    }
}

/// The clock that a local time is read from.
#[derive(Debug, Clone)]
pub enum Clock {
    /// That of the person who asks, wherever they are.
    Floating,
    /// That of a zone.
    In(Zone),
}

impl Clock {
    /// The zone, for a person who asks from one.
    pub fn zone<'a>(&'a self, asker: &'a Zone) -> &'a Zone {
        match self {
            Self::Floating => asker,
            Self::In(zone) => zone,
        }
    }
}

/// An instant, and the zone in whose local time it is told.
#[derive(Clone)]
pub struct Moment {
    /// The instant on the world's clock.
    pub instant: Timestamp,
    /// The zone whose local time is shown.
    pub zone: Zone,
}

impl Moment {
    /// The offset from UTC.
    pub fn offset(&self) -> Offset {
        self.zone.offset(self.instant)
    }

    /// What the clock shows.
    pub fn local(&self) -> DateTime {
        self.zone.local(self.instant)
    }

    /// The same instant told in another zone.
    #[must_use]
    pub fn told_in(&self, zone: &Zone) -> Self {
        Self { instant: self.instant, zone: zone.clone() }
    }
}

/// Two moments are the same where the instants are, in whatever zone they are told.
impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.instant == other.instant
    }
}

impl Eq for Moment {}

/// As RFC 9557 writes it: `2026-03-01T12:00:00+01:00[Europe/Berlin]`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.offset();
        let seconds = offset.seconds().unsigned_abs();
        let sign = if offset.is_negative() { '-' } else { '+' };
        write!(
            f,
            "{}{sign}{:02}:{:02}",
            offset.to_datetime(self.instant),
            seconds / 3600,
            seconds / 60 % 60
        )?;
        if !seconds.is_multiple_of(60) {
            write!(f, ":{:02}", seconds % 60)?;
        }
        match self.zone.name() {
            Some(name) => write!(f, "[{}]", helve_core::hidden::one_line(name, 100)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
