//! From a `TZID` to a zone.

use std::collections::HashMap;

use jiff::tz::{Offset, TimeZone};

use super::custom::CustomZone;
use super::windows::{iana_for_display, iana_for_windows};
use super::zone::Zone;
use crate::ical::{Component, Document};

/// How many zones one document may define.
const ZONES_MAX: usize = 200;

/// A zone that nobody knows: its local times could be anywhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no time zone `{name}`{why}")]
pub struct UnknownZone {
    name: String,
    why: String,
}

impl UnknownZone {
    fn new(name: &str, why: String) -> Self {
        Self { name: helve_core::hidden::one_line(name, 100), why }
    }
}

/// The zones that a document's times are in, by their `TZID`.
#[derive(Debug, Default)]
pub struct ZoneTable<'a> {
    defined: HashMap<String, &'a Component>,
    known: HashMap<String, Result<Zone, UnknownZone>>,
}

impl<'a> ZoneTable<'a> {
    /// The zones that a document defines. They are read when they are asked for.
    pub fn of(document: &'a Document) -> Self {
        let mut table = Self::default();
        for zone in document.events("VTIMEZONE").take(ZONES_MAX) {
            if let Some(name) = zone.property("TZID") {
                table.defined.entry(name.text_value()).or_insert(zone);
            }
        }
        table
    }

    /// The zone of that name. The [module](super) says in which order it is looked for.
    pub fn resolve(&mut self, tzid: &str) -> Result<Zone, UnknownZone> {
        if let Some(known) = self.known.get(tzid) {
            return known.clone();
        }
        let resolved = self.look_up(tzid);
        self.known.insert(tzid.to_owned(), resolved.clone());
        resolved
    }

    fn look_up(&self, tzid: &str) -> Result<Zone, UnknownZone> {
        let named = Zone::iana(tzid)
            .or_else(|| iana_in_path(tzid))
            .or_else(|| iana_for_windows(tzid).and_then(Zone::iana));
        if let Some(zone) = named {
            return Ok(zone);
        }
        if let Some(component) = self.defined.get(tzid) {
            if let Some(zone) = component.property("X-LIC-LOCATION").and_then(|name| Zone::iana(name.value()))
            {
                return Ok(zone);
            }
            let custom = CustomZone::read(tzid, component);
            return custom
                .map(Zone::from)
                .map_err(|error| UnknownZone::new(tzid, format!(", and its VTIMEZONE is broken: {error}")));
        }
        let shown = iana_for_display(tzid).and_then(Zone::iana).or_else(|| fixed_offset(tzid));
        shown.ok_or_else(|| UnknownZone::new(tzid, ", and no VTIMEZONE defines it".to_owned()))
    }
}

/// The zone at the end of a name such as `/freeassociation.sourceforge.net/Tzfile/Europe/Berlin`: the longest end
/// of it that is one.
fn iana_in_path(tzid: &str) -> Option<Zone> {
    let mut rest = tzid.strip_prefix('/')?;
    // Names of zones have three parts at most; a long path is no reason for many questions.
    for _ in 0..8 {
        if let Some(zone) = Zone::iana(rest) {
            return Some(zone);
        }
        rest = rest.split_once('/')?.1;
    }
    None
}

/// The zone of `UTC+02:00`, `GMT-5` or `+0530`.
fn fixed_offset(tzid: &str) -> Option<Zone> {
    let text = tzid.trim();
    let text = text.strip_prefix("UTC").or_else(|| text.strip_prefix("GMT")).unwrap_or(text);
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some(parts), _) => parts,
        (None, 4) => digits.split_at_checked(2)?,
        (None, 1 | 2) => (digits, "0"),
        (None, _) => return None,
    };
    let number = |text: &str, max: i32| text.parse().ok().filter(|number: &i32| (0..=max).contains(number));
    let seconds = sign * (number(hours, 18)? * 3600 + number(minutes, 59)? * 60);
    Some(TimeZone::fixed(Offset::from_seconds(seconds).ok()?).into())
}
