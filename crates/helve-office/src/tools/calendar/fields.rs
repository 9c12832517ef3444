//! Arguments as properties: checked text, times with their zones, rules.

use helve::json::sha256_hex;
use helve::{Context, ToolError};
use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};

use super::fault::{refused, wrong};
use super::time::GivenTime;
use crate::ical::{Component, DateValue, Document, EditError, Eol, NewProperty};
use crate::recurrence::edit::define_zone;
use crate::rule::{Budget, End, First, Frequency, Rule, Window, with_end};
use crate::text::{CalendarText, Subject};
use crate::zones::{Moment, Zone};

/// What we write in calendars of our own.
const PRODID: &str = "-//Helve//Office//EN";
/// Zones are defined for so many years after an event.
const YEARS_AHEAD: i16 = 20;

/// A line of text: title, place, project.
pub(super) fn line(field: &str, text: &str) -> Result<String, ToolError> {
    Subject::new(text).map(|text| text.as_str().to_owned()).map_err(|refusal| refused(field, refusal))
}

/// A text with lines: notes, description.
pub(super) fn text(field: &str, text: &str) -> Result<String, ToolError> {
    CalendarText::new(text).map(|text| text.as_str().to_owned()).map_err(|refusal| refused(field, refusal))
}

/// What cannot go wrong with text that was checked.
pub(super) fn unwritable(error: EditError) -> ToolError {
    wrong("arguments", "text that fits on a line", error.to_string())
}

/// A UID for something new. The same again when the same call is resumed after a crash or repeated under its key.
pub(super) fn new_uid(context: &Context, which: &str) -> String {
    let call = context.call_id().to_string();
    let principal = context.caller().principal.as_deref().unwrap_or_default();
    let key = context.idempotency_key().unwrap_or(&call);
    let seed = format!("{principal}\n{}\n{key}\n{which}", context.tool());
    format!("{}@helve", &sha256_hex(seed.as_bytes())[..32])
}

/// A time as it is written: a day, a local time with its zone, or UTC.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) value: DateValue,
    pub(super) zone: Option<(Zone, String)>,
}

impl Written {
    /// A time with a zone is written as local time in it, so that a series follows its clock. The second pass of an
    /// hour that comes twice cannot be written so, nor can a zone without a name: these become UTC.
    pub(super) fn of(given: &GivenTime) -> Self {
        match given {
            GivenTime::Day(date) => Self { value: DateValue::Date(*date), zone: None },
            GivenTime::At(moment) => Self::at(moment),
        }
    }

    fn at(moment: &Moment) -> Self {
        let local = moment.local();
        let name = moment.zone.known().and_then(|zone| zone.iana_name()).filter(|name| *name != "UTC");
        match name.filter(|_| moment.zone.instant(local) == moment.instant) {
            Some(name) => {
                Self { value: DateValue::Local(local), zone: Some((moment.zone.clone(), name.to_owned())) }
            }
            None => Self { value: DateValue::Utc(Offset::UTC.to_datetime(moment.instant)), zone: None },
        }
    }

    /// It as a property.
    pub(super) fn property(&self, name: &str) -> Result<NewProperty, ToolError> {
        let property = NewProperty::raw(name, &self.value.to_string()).map_err(unwritable)?;
        let property = match (self.value, &self.zone) {
            (DateValue::Date(_), _) => property.with_param("VALUE", "DATE"),
            (DateValue::Local(_), Some((_, tzid))) => property.with_param("TZID", tzid),
            (DateValue::Local(_), None) | (DateValue::Utc(_), _) => Ok(property),
        };
        property.map_err(unwritable)
    }

    /// Sees to it that an object defines its zone.
    pub(super) fn define(&self, document: &mut Document) -> Result<(), ToolError> {
        let Some((zone, tzid)) = &self.zone else { return Ok(()) };
        let year = self.value.date().year();
        let years = year.saturating_sub(1)..=year.saturating_add(YEARS_AHEAD);
        define_zone(document, zone, tzid, years)
            .map_err(|error| ToolError::failed("the time zone could not be written").with_source(error))?;
        Ok(())
    }
}

/// Now, in UTC, as a stamp is written.
pub(super) fn stamp(now: Timestamp) -> String {
    DateValue::Utc(Offset::UTC.to_datetime(now)).to_string()
}

/// A new calendar around one component.
pub(super) fn calendar(component: Component) -> Result<Document, ToolError> {
    let make = || -> Result<Document, EditError> {
        let mut calendar = Component::new("VCALENDAR", Eol::Crlf)?;
        calendar.add(&NewProperty::raw("VERSION", "2.0")?);
        calendar.add(&NewProperty::raw("PRODID", PRODID)?);
        calendar.push(component);
        Ok(Document::of(calendar))
    };
    make().map_err(unwritable)
}

/// A component with its UID and stamps.
pub(super) fn component(kind: &str, uid: &str, now: Timestamp) -> Result<Component, ToolError> {
    let make = || -> Result<Component, EditError> {
        let mut component = Component::new(kind, Eol::Crlf)?;
        component.add(&NewProperty::text("UID", uid)?);
        component.add(&NewProperty::raw("DTSTAMP", &stamp(now))?);
        component.add(&NewProperty::raw("CREATED", &stamp(now))?);
        Ok(component)
    };
    make().map_err(unwritable)
}

/// How something repeats: a word, or an iCalendar rule. `start` says which form the end of the rule has.
pub(super) fn rule(text: &str, start: &Written) -> Result<String, ToolError> {
    let expected =
        "`daily`, `weekdays`, `weekly`, `monthly`, `yearly`, or a rule such as `FREQ=WEEKLY;BYDAY=MO,WE`";
    let text = text.trim();
    let rule = match text.to_ascii_lowercase().as_str() {
        "daily" => "FREQ=DAILY".to_owned(),
        "weekdays" => "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR".to_owned(),
        "weekly" => "FREQ=WEEKLY".to_owned(),
        "monthly" => "FREQ=MONTHLY".to_owned(),
        "yearly" => "FREQ=YEARLY".to_owned(),
        lower => {
            let upper = lower.to_ascii_uppercase();
            upper.strip_prefix("RRULE:").unwrap_or(&upper).to_owned()
        }
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "=;,-+".contains(c);
    if rule.len() > 500 || !rule.chars().all(is_plain) {
        return Err(wrong("recurrence", expected, "it has characters that no rule has"));
    }
    let read = Rule::parse(&rule).map_err(|error| wrong("recurrence", expected, error.to_string()))?;
    if matches!(read.frequency, Frequency::Secondly | Frequency::Minutely) {
        return Err(wrong("recurrence", expected, "nothing here repeats more often than every hour"));
    }
    if read.count.is_some() && read.until.is_some() {
        return Err(wrong("recurrence", expected, "it has both COUNT and UNTIL; give one of them"));
    }
    if read.until.is_some_and(|until| until.date() < start.value.date()) {
        return Err(wrong("recurrence", expected, "it ends before the event begins"));
    }
    if !fires(&read, start.value) {
        return Err(wrong("recurrence", expected, "there is no day that it picks"));
    }
    Ok(match read.until {
        Some(until) => with_end(&rule, End::Until(end_like(until, start))),
        None => rule,
    })
}

/// Whether a rule ever picks a time. One that takes too long to tell picks many.
fn fires(rule: &Rule, start: DateValue) -> bool {
    let start = match start {
        DateValue::Date(date) => date.at(0, 0, 0, 0),
        DateValue::Local(at) | DateValue::Utc(at) => at,
    };
    // Most rules pick one soon. February 29th on a Monday comes every 28 years, and not in 2100.
    [1, 8, 44].into_iter().any(|years| {
        let to =
            start.checked_add((years * i64::from(rule.interval.min(20))).years()).unwrap_or(DateTime::MAX);
        let found = rule.expand(start, Window { from: start, to }, First::IfPicked, &mut Budget::default());
        found.map_or(true, |found| !found.is_empty())
    })
}

/// The end of a rule in the form that the standard wants for its start: a date for days, UTC for times in a zone.
fn end_like(until: DateValue, start: &Written) -> DateValue {
    let utc = |instant| DateValue::Utc(Offset::UTC.to_datetime(instant));
    match (start.value, until, &start.zone) {
        (DateValue::Date(_), until, _) => DateValue::Date(until.date()),
        (DateValue::Local(_), DateValue::Date(date), Some((zone, _))) => {
            utc(zone.instant(date.at(23, 59, 59, 0)))
        }
        (DateValue::Local(_), DateValue::Local(at), Some((zone, _))) => utc(zone.instant(at)),
        (DateValue::Utc(_), DateValue::Date(date), _) => DateValue::Utc(date.at(23, 59, 59, 0)),
        (DateValue::Utc(_), DateValue::Local(at), _) => DateValue::Utc(at),
        (DateValue::Local(_) | DateValue::Utc(_), until, _) => until,
    }
}
