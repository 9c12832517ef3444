//! A `VTIMEZONE` for an IANA zone. Servers need one with every event with a `TZID`: without it some expand a
//! series with a fixed offset.

use std::ops::RangeInclusive;

use jiff::civil::{DateTime, Weekday, date};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, tz};

use crate::ical::{Component, DateValue, EditError, Eol, NewProperty};

/// Changes are looked at for so many years beyond those asked for, so that none is taken for a rule by chance:
/// weekdays come back to their dates within 28 years.
const YEARS_BEYOND: i16 = 40;

/// So many changes in a row make a rule.
const RULE_MIN: usize = 28;

/// A `VTIMEZONE` that is right from the first of some years on. Where the zone follows a rule it goes on for ever,
/// else it lists every change up to the last year.
///
/// The `tzid` is what the times in the file say.
pub fn vtimezone(
    zone: &TimeZone,
    tzid: &str,
    years: RangeInclusive<i16>,
    eol: Eol,
) -> Result<Component, EditError> {
    let mut component = Component::new("VTIMEZONE", eol)?;
    component.set(&NewProperty::text("TZID", tzid)?);
    if let Some(name) = zone.iana_name() {
        component.set(&NewProperty::text("X-LIC-LOCATION", name)?);
    }
    let from = start_of(*years.start());
    let end = years.end().saturating_add(YEARS_BEYOND);
    let changes = changes(zone, from, start_of(end));
    if changes.is_empty() {
        component.push(always(zone, from, eol)?);
    }
    for group in grouped(changes) {
        for part in group.parts(end - 1, eol)? {
            component.push(part);
        }
    }
    Ok(component)
}

fn start_of(year: i16) -> Timestamp {
    Offset::UTC
        .to_timestamp(date(year.clamp(1900, 9000), 1, 1).at(0, 0, 0, 0))
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// What changes at an onset. Changes of the same kind make one part of the zone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ChangeKind {
    from: Offset,
    to: Offset,
    is_daylight: bool,
    name: String,
}

/// The changes from the last one before `from` up to `to`, told on the clock before each.
fn changes(zone: &TimeZone, from: Timestamp, to: Timestamp) -> Vec<(ChangeKind, DateTime)> {
    let before = zone.preceding(from).next();
    let all = before.into_iter().chain(zone.following(from).take_while(|change| change.timestamp() < to));
    all.map(|change| {
        let at = change.timestamp();
        let from = zone.to_offset(Timestamp::from_second(at.as_second() - 1).unwrap_or(at));
        let kind = ChangeKind {
            from,
            to: change.offset(),
            is_daylight: change.dst() == tz::Dst::Yes,
            name: change.abbreviation().to_owned(),
        };
        (kind, from.to_datetime(at))
    })
    .collect()
}

struct Group {
    kind: ChangeKind,
    onsets: Vec<DateTime>,
}

fn grouped(changes: Vec<(ChangeKind, DateTime)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (kind, onset) in changes {
        match groups.iter_mut().find(|group| group.kind == kind) {
            Some(group) => group.onsets.push(onset),
            None => groups.push(Group { kind, onsets: vec![onset] }),
        }
    }
    groups
}

impl Group {
    /// What follows no rule as dates, and the rest as a rule.
    fn parts(&self, last_year: i16, eol: Eol) -> Result<Vec<Component>, EditError> {
        let ruled =
            (0..self.onsets.len()).find_map(|at| Some((at, yearly_rule(&self.onsets[at..], last_year)?)));
        let (listed, rule) = match &ruled {
            Some((at, rule)) => (&self.onsets[..*at], Some((self.onsets[*at], rule))),
            None => (&self.onsets[..], None),
        };
        let mut parts = Vec::new();
        if let Some((first, rest)) = listed.split_first() {
            let mut part = self.kind.part(*first, eol)?;
            for onset in rest {
                part.add(&NewProperty::raw("RDATE", &DateValue::Local(*onset).to_string())?);
            }
            parts.push(part);
        }
        if let Some((first, rule)) = rule {
            let mut part = self.kind.part(first, eol)?;
            part.add(&NewProperty::raw("RRULE", rule)?);
            parts.push(part);
        }
        Ok(parts)
    }
}

impl ChangeKind {
    fn part(&self, onset: DateTime, eol: Eol) -> Result<Component, EditError> {
        let mut part = Component::new(if self.is_daylight { "DAYLIGHT" } else { "STANDARD" }, eol)?;
        part.add(&NewProperty::raw("DTSTART", &DateValue::Local(onset).to_string())?);
        part.add(&NewProperty::raw("TZOFFSETFROM", &written(self.from))?);
        part.add(&NewProperty::raw("TZOFFSETTO", &written(self.to))?);
        part.add(&NewProperty::text("TZNAME", &self.name)?);
        Ok(part)
    }
}

/// A zone that never changes.
fn always(zone: &TimeZone, from: Timestamp, eol: Eol) -> Result<Component, EditError> {
    let info = zone.to_offset_info(from);
    let (offset, name) = (info.offset(), info.abbreviation().to_owned());
    let kind = ChangeKind { from: offset, to: offset, is_daylight: false, name };
    kind.part(date(1970, 1, 1).at(0, 0, 0, 0), eol)
}

fn written(offset: Offset) -> String {
    let seconds = offset.seconds().unsigned_abs();
    let sign = if offset.is_negative() { '-' } else { '+' };
    let rest = if seconds.is_multiple_of(60) { String::new() } else { format!("{:02}", seconds % 60) };
    format!("{sign}{:02}{:02}{rest}", seconds / 3600, seconds / 60 % 60)
}

/// The rule that onsets follow to the end of what is listed, if there is one: the same month, weekday and time
/// every year, and the last, the nth, or the first from some day on.
fn yearly_rule(onsets: &[DateTime], last_year: i16) -> Option<String> {
    let first = onsets.first()?;
    let same = |(at, onset): (usize, &DateTime)| {
        i16::try_from(at).is_ok_and(|at| onset.year() == first.year() + at)
            && onset.month() == first.month()
            && onset.weekday() == first.weekday()
            && onset.time() == first.time()
    };
    let goes_on = onsets.last().is_some_and(|last| last.year() == last_year);
    if onsets.len() < RULE_MIN || !goes_on || !onsets.iter().enumerate().all(same) {
        return None;
    }
    let weekday = letters(first.weekday());
    let nth = |onset: &DateTime| (onset.day() - 1) / 7 + 1;
    let lowest = onsets.iter().map(|onset| onset.day()).min()?;
    let highest = onsets.iter().map(|onset| onset.day()).max()?;
    let which = if onsets.iter().all(|onset| onset.day() + 7 > onset.days_in_month()) {
        format!("BYDAY=-1{weekday}")
    } else if onsets.iter().all(|onset| nth(onset) == nth(first)) {
        format!("BYDAY={}{weekday}", nth(first))
    } else if highest - lowest == 6 {
        let days: Vec<String> = (lowest..=highest).map(|day| day.to_string()).collect();
        format!("BYMONTHDAY={};BYDAY={weekday}", days.join(","))
    } else {
        return None;
    };
    Some(format!("FREQ=YEARLY;BYMONTH={};{which}", first.month()))
}

fn letters(weekday: Weekday) -> &'static str {
    match weekday {
        Weekday::Monday => "MO",
        Weekday::Tuesday => "TU",
        Weekday::Wednesday => "WE",
        Weekday::Thursday => "TH",
        Weekday::Friday => "FR",
        Weekday::Saturday => "SA",
        Weekday::Sunday => "SU",
    }
}
