//! `STANDARD` and `DAYLIGHT`: when each begins to count.

use jiff::civil::{DateTime, date};
use jiff::tz::Offset;

use super::custom::BrokenZone;
use crate::ical::{Component, DateValue, PeriodValue, split_list};
use crate::rule::{Budget, First, Rule, Window};

/// Onsets are known from here on. Outlook begins its zones in 1601, and nobody asks about then.
const FROM: DateTime = date(1900, 1, 1).at(0, 0, 0, 0);

/// Onsets are known up to here; later times are told with the last one's offset.
const TO: DateTime = date(2100, 1, 1).at(0, 0, 0, 0);

/// A part of a `VTIMEZONE`: from each onset on, another offset counts.
#[derive(Debug)]
pub(super) struct Observance {
    /// The offset before each onset, in which onsets are told.
    pub(super) from: Offset,
    /// The offset from each onset on.
    pub(super) to: Offset,
    /// When, on the clock before.
    pub(super) onsets: Vec<DateTime>,
}

impl Observance {
    pub(super) fn read(component: &Component, budget: &mut Budget) -> Result<Self, BrokenZone> {
        let from = offset(component, "TZOFFSETFROM")?;
        let to = offset(component, "TZOFFSETTO")?;
        let start = component.property("DTSTART").ok_or(BrokenZone::Lacks("DTSTART"))?;
        let start = local(DateValue::parse(start.value()).map_err(|_| BrokenZone::Lacks("DTSTART"))?, from);
        let mut onsets = vec![start];
        for rule in component.all("RRULE") {
            let rule = Rule::parse(rule.value()).map_err(BrokenZone::Rule)?;
            let until = rule.until.map_or(TO, |until| local(until, from));
            let window = Window { from: FROM, to: until.min(TO) };
            onsets.extend(rule.expand(start, window, First::Always, budget).map_err(BrokenZone::OverBudget)?);
        }
        for dates in component.all("RDATE") {
            for item in split_list(dates.value()) {
                budget.occurrence().map_err(BrokenZone::OverBudget)?;
                let item =
                    PeriodValue::parse(item).map(|period| period.start).or_else(|_| DateValue::parse(item));
                onsets.push(local(item.map_err(|_| BrokenZone::Lacks("RDATE"))?, from));
            }
        }
        onsets.sort_unstable();
        onsets.dedup();
        Ok(Self { from, to, onsets })
    }
}

/// A value on the clock before an onset.
fn local(value: DateValue, before: Offset) -> DateTime {
    match value {
        DateValue::Date(date) => date.at(0, 0, 0, 0),
        DateValue::Local(at) => at,
        DateValue::Utc(at) => Offset::UTC.to_timestamp(at).map_or(at, |instant| before.to_datetime(instant)),
    }
}

fn offset(component: &Component, name: &'static str) -> Result<Offset, BrokenZone> {
    let property = component.property(name).ok_or(BrokenZone::Lacks(name))?;
    read_offset(property.value().trim()).ok_or(BrokenZone::Lacks(name))
}

/// `+0100`, `-0330`, `+001730`.
fn read_offset(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    if !matches!(digits.len(), 4 | 6) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |at: usize| digits.get(at..at + 2).map_or(Some(0), |part| part.parse::<i32>().ok());
    let (hours, minutes, seconds) = (part(0)?, part(2)?, part(4)?);
    (minutes < 60 && seconds < 60)
        .then(|| Offset::from_seconds(sign * (hours * 3600 + minutes * 60 + seconds)).ok())
        .flatten()
}
