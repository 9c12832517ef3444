//! Dates, date-times, durations and periods (RFC 5545 3.3).

use std::fmt;

use jiff::civil::{Date, DateTime, Time};

/// A value that is not what its property needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {kind}")]
pub struct ValueError {
    text: String,
    kind: &'static str,
}

impl ValueError {
    pub(crate) fn new(text: &str, kind: &'static str) -> Self {
        Self { text: helve_core::hidden::one_line(text, 60), kind }
    }
}

/// A `DATE` or `DATE-TIME` as it is written; what a local time means is a matter of [`zones`](crate::zones).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DateValue {
    /// A day: `20260301`.
    Date(Date),
    /// A time on some clock: `20260301T120000`.
    Local(DateTime),
    /// A time in UTC: `20260301T120000Z`.
    Utc(DateTime),
}

impl DateValue {
    /// Reads a value. A leap second counts as the second before it.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let wrong = || ValueError::new(text, "date (`20260301`) or date-time (`20260301T120000`)");
        let text = text.trim();
        let date = date(text.get(..8).ok_or_else(wrong)?).ok_or_else(wrong)?;
        let rest = &text[8..];
        if rest.is_empty() {
            return Ok(Self::Date(date));
        }
        let rest = rest.strip_prefix(['T', 't']).ok_or_else(wrong)?;
        let at = time(rest.get(..6).ok_or_else(wrong)?).ok_or_else(wrong)?;
        match &rest[6..] {
            "" => Ok(Self::Local(date.to_datetime(at))),
            "Z" | "z" => Ok(Self::Utc(date.to_datetime(at))),
            _ => Err(wrong()),
        }
    }

    /// The day that it says, on whatever clock.
    pub fn date(self) -> Date {
        match self {
            Self::Date(date) => date,
            Self::Local(at) | Self::Utc(at) => at.date(),
        }
    }
}

impl fmt::Display for DateValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = self.date();
        write!(f, "{:04}{:02}{:02}", date.year(), date.month(), date.day())?;
        match self {
            Self::Date(_) => Ok(()),
            Self::Local(at) => write!(f, "T{:02}{:02}{:02}", at.hour(), at.minute(), at.second()),
            Self::Utc(at) => write!(f, "T{:02}{:02}{:02}Z", at.hour(), at.minute(), at.second()),
        }
    }
}

fn date(text: &str) -> Option<Date> {
    let number = digits(text)?;
    let part = |number: u32| i8::try_from(number).ok();
    Date::new(i16::try_from(number / 10_000).ok()?, part(number / 100 % 100)?, part(number % 100)?).ok()
}

fn time(text: &str) -> Option<Time> {
    let number = digits(text)?;
    let part = |number: u32| i8::try_from(number).ok();
    let second = if number % 100 == 60 { 59 } else { number % 100 };
    Time::new(part(number / 10_000)?, part(number / 100 % 100)?, part(second)?, 0).ok()
}

fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A `DURATION`. Days follow the calendar, seconds the clock: over a change to summer time `P1D` is 23 hours, and
/// `PT24H` ends an hour later on the wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DurationValue {
    /// Whole days, weeks included; negative before.
    pub days: i64,
    /// Hours, minutes and seconds; negative before.
    pub seconds: i64,
}

impl DurationValue {
    /// No longer than this, so that arithmetic cannot overflow: a thousand years.
    const DAYS_MAX: i64 = 366_000;

    /// Reads `P1W`, `P1DT2H30M`, `-PT15M`.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        Self::read(text.trim()).ok_or_else(|| ValueError::new(text, "duration (`PT1H30M`, `P1D`)"))
    }

    fn read(text: &str) -> Option<Self> {
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let rest = rest.strip_prefix(['P', 'p'])?;
        let (mut days, mut seconds, mut number, mut in_time, mut units) = (0, 0, None::<i64>, false, 0);
        for byte in rest.bytes() {
            let unit = byte.to_ascii_uppercase();
            match unit {
                b'0'..=b'9' => {
                    let digit = i64::from(unit - b'0');
                    number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit)?);
                    continue;
                }
                b'T' if !in_time && number.is_none() => in_time = true,
                b'W' if !in_time => days += number.take()?.checked_mul(7)?,
                b'D' if !in_time => days += number.take()?,
                b'H' if in_time => seconds += number.take()?.checked_mul(3600)?,
                b'M' if in_time => seconds += number.take()?.checked_mul(60)?,
                b'S' if in_time => seconds += number.take()?,
                _ => return None,
            }
            units += i32::from(unit != b'T');
            if days > Self::DAYS_MAX || seconds > Self::DAYS_MAX * 86_400 {
                return None;
            }
        }
        (units > 0 && number.is_none()).then_some(Self { days: sign * days, seconds: sign * seconds })
    }
}

impl fmt::Display for DurationValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let negative = self.days < 0 || self.seconds < 0;
        let (days, seconds) = (self.days.abs(), self.seconds.abs());
        f.write_str(if negative { "-P" } else { "P" })?;
        if days > 0 {
            write!(f, "{days}D")?;
        }
        if seconds == 0 {
            return f.write_str(if days == 0 { "T0S" } else { "" });
        }
        f.write_str("T")?;
        for (unit, count) in [("H", seconds / 3600), ("M", seconds / 60 % 60), ("S", seconds % 60)] {
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

/// How a `PERIOD` ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeriodEnd {
    /// At a time.
    At(DateValue),
    /// After a while.
    After(DurationValue),
}

/// A `PERIOD`: `19970101T180000Z/PT5H30M` or with two times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodValue {
    /// When it begins.
    pub start: DateValue,
    /// How it ends.
    pub end: PeriodEnd,
}

impl PeriodValue {
    /// Reads a period.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let wrong = || ValueError::new(text, "period (`20260301T120000Z/PT1H`)");
        let (start, end) = text.split_once('/').ok_or_else(wrong)?;
        let end = match end.trim_start().starts_with(['P', 'p', '+', '-']) {
            true => PeriodEnd::After(DurationValue::parse(end)?),
            false => PeriodEnd::At(DateValue::parse(end)?),
        };
        Ok(Self { start: DateValue::parse(start)?, end })
    }
}
