//! The definitions of zones that an object's times are in.

use std::ops::RangeInclusive;

use super::changes::SeriesEditError;
use crate::ical::{Component, Document};
use crate::zones::{Zone, vtimezone};

/// Sees to it that an object defines the IANA zone of that name, right for some years at least: servers that find
/// no `VTIMEZONE` expand a series with a fixed offset. Says whether one had to be added; a definition that is there
/// stays as it is.
pub fn define_zone(
    document: &mut Document,
    zone: &Zone,
    tzid: &str,
    years: RangeInclusive<i16>,
) -> Result<bool, SeriesEditError> {
    let Some(known) = zone.known() else { return Ok(false) };
    let is_defined = |component: &Component| {
        component.property("TZID").is_some_and(|property| property.text_value() == tzid)
    };
    if document.events("VTIMEZONE").any(is_defined) {
        return Ok(false);
    }
    let definition = vtimezone(known, tzid, years, document.eol())?;
    let calendar = document.components_mut().find(|component| component.is_named("VCALENDAR"));
    calendar.ok_or(SeriesEditError::NoEvent)?.push_first(definition);
    Ok(true)
}
