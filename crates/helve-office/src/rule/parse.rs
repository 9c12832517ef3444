//! The grammar of a rule.

use jiff::civil::Weekday;

use crate::ical::DateValue;

/// No rule is longer: every list in it is full by then.
const BYTES_MAX: usize = 8_192;

/// How often a rule's period comes round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the words are the meaning")]
pub enum Frequency {
    Secondly,
    Minutely,
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Yearly,
}

/// A weekday, perhaps the nth of its month or year: `MO`, `2TU`, `-1FR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NthWeekday {
    /// Which one, counted from the end where negative; `None` for every one.
    pub nth: Option<i8>,
    /// The day of the week.
    pub weekday: Weekday,
}

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It has no `FREQ`.
    #[error("a recurrence rule needs a FREQ, such as `FREQ=WEEKLY;BYDAY=MO`")]
    NoFrequency,
    /// A part has a value that it cannot have.
    #[error("`{part}` of the recurrence rule has the value `{value}`; {want}")]
    Part {
        /// The part: `BYDAY`.
        part: String,
        /// Its value, cut short.
        value: String,
        /// What it may be.
        want: &'static str,
    },
    /// A part that is not known: to leave it out would change what the rule means.
    #[error("`{part}` is no part of a recurrence rule that can be expanded here")]
    Unknown {
        /// The name of the part.
        part: String,
    },
    /// A part stands there twice.
    #[error("`{part}` stands twice in the recurrence rule")]
    Twice {
        /// The name of the part.
        part: String,
    },
    /// Longer than any sensible rule.
    #[error("the recurrence rule has more than {BYTES_MAX} bytes")]
    TooLong,
}

/// A recurrence rule, checked. Lists are sorted, and hold each value once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The unit that the rule counts in.
    pub frequency: Frequency,
    /// Every how many periods; at least 1.
    pub interval: u32,
    /// How many occurrences in all.
    pub count: Option<u32>,
    /// When the last one may be. The caller applies it: what it means depends on the zone of the series.
    pub until: Option<DateValue>,
    pub(super) seconds: Vec<i16>,
    pub(super) minutes: Vec<i16>,
    pub(super) hours: Vec<i16>,
    pub(super) days: Vec<NthWeekday>,
    pub(super) month_days: Vec<i16>,
    pub(super) year_days: Vec<i16>,
    pub(super) weeks: Vec<i16>,
    pub(super) months: Vec<i16>,
    pub(super) positions: Vec<i16>,
    pub(super) week_start: Weekday,
}

impl Rule {
    /// A rule with nothing but a frequency.
    pub fn every(frequency: Frequency) -> Self {
        Self {
            frequency,
            interval: 1,
            count: None,
            until: None,
            seconds: Vec::new(),
            minutes: Vec::new(),
            hours: Vec::new(),
            days: Vec::new(),
            month_days: Vec::new(),
            year_days: Vec::new(),
            weeks: Vec::new(),
            months: Vec::new(),
            positions: Vec::new(),
            week_start: Weekday::Monday,
        }
    }

    /// Reads the value of an `RRULE`.
    ///
    /// Where both `COUNT` and `UNTIL` stand, which the standard forbids, the earlier of the two ends it. A number
    /// before a weekday counts in months and years only, and is ignored elsewhere, as other programs do. `SKIP`
    /// and calendars other than the Gregorian one (RFC 7529) are refused.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        if text.len() > BYTES_MAX {
            return Err(RuleError::TooLong);
        }
        let mut rule = Self::every(Frequency::Daily);
        let mut seen: Vec<String> = Vec::new();
        for part in text.trim().split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let name = name.trim().to_ascii_uppercase();
            if seen.contains(&name) {
                return Err(RuleError::Twice { part: shown(&name) });
            }
            rule.read_part(&name, value.trim())?;
            seen.push(name);
        }
        if !seen.iter().any(|name| name == "FREQ") {
            return Err(RuleError::NoFrequency);
        }
        if !matches!(rule.frequency, Frequency::Monthly | Frequency::Yearly) || !rule.weeks.is_empty() {
            rule.days.iter_mut().for_each(|day| day.nth = None);
        }
        Ok(rule)
    }

    /// Whether it says itself on which days it fires, instead of following its start.
    pub fn names_days(&self) -> bool {
        !(self.days.is_empty()
            && self.month_days.is_empty()
            && self.year_days.is_empty()
            && self.months.is_empty())
    }

    fn read_part(&mut self, name: &str, value: &str) -> Result<(), RuleError> {
        let wrong = |want| RuleError::Part { part: name.to_owned(), value: shown(value), want };
        let list = |low, high, want| numbers(value, low, high).ok_or_else(|| wrong(want));
        match name {
            "FREQ" => {
                self.frequency = frequency(value).ok_or_else(|| wrong("use DAILY, WEEKLY, MONTHLY, …"))?
            }
            "INTERVAL" => self.interval = positive(value).ok_or_else(|| wrong("use a number from 1"))?,
            "COUNT" => self.count = Some(positive(value).ok_or_else(|| wrong("use a number from 1"))?),
            "UNTIL" => {
                let until = DateValue::parse(value).map_err(|_| wrong("use 20260301 or 20260301T120000Z"))?;
                self.until = Some(until);
            }
            "WKST" => self.week_start = weekday(value).ok_or_else(|| wrong("use MO, SU, …"))?,
            "BYDAY" => self.days = weekdays(value).ok_or_else(|| wrong("use MO, 2TU, -1FR, …"))?,
            // A leap second counts as the second before it, as it does in a time.
            "BYSECOND" => {
                self.seconds = list(0, 60, "use 0 to 59")?.into_iter().map(|second| second.min(59)).collect();
                self.seconds.dedup();
            }
            "BYMINUTE" => self.minutes = list(0, 59, "use 0 to 59")?,
            "BYHOUR" => self.hours = list(0, 23, "use 0 to 23")?,
            "BYMONTHDAY" => self.month_days = list(-31, 31, "use 1 to 31 or -31 to -1")?,
            "BYYEARDAY" => self.year_days = list(-366, 366, "use 1 to 366 or -366 to -1")?,
            "BYWEEKNO" => self.weeks = list(-53, 53, "use 1 to 53 or -53 to -1")?,
            "BYMONTH" => self.months = list(1, 12, "use 1 to 12")?,
            "BYSETPOS" => self.positions = list(-366, 366, "use 1 to 366 or -366 to -1")?,
            "RSCALE" if value.eq_ignore_ascii_case("GREGORIAN") => {}
            "SKIP" if value.eq_ignore_ascii_case("OMIT") => {}
            name if name.starts_with("X-") => {}
            name => return Err(RuleError::Unknown { part: shown(name) }),
        }
        Ok(())
    }
}

fn shown(text: &str) -> String {
    helve_core::hidden::one_line(text, 40)
}

fn frequency(text: &str) -> Option<Frequency> {
    Some(match text.to_ascii_uppercase().as_str() {
        "SECONDLY" => Frequency::Secondly,
        "MINUTELY" => Frequency::Minutely,
        "HOURLY" => Frequency::Hourly,
        "DAILY" => Frequency::Daily,
        "WEEKLY" => Frequency::Weekly,
        "MONTHLY" => Frequency::Monthly,
        "YEARLY" => Frequency::Yearly,
        _ => return None,
    })
}

fn positive(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number > 0)
}

/// Numbers within bounds, sorted, each once. Zero is refused where negative ones are allowed.
fn numbers(text: &str, low: i16, high: i16) -> Option<Vec<i16>> {
    let mut numbers = Vec::new();
    for item in text.split(',') {
        let number: i16 = item.trim().parse().ok()?;
        if !(low..=high).contains(&number) || (low < 0 && number == 0) {
            return None;
        }
        numbers.push(number);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Some(numbers)
}

fn weekdays(text: &str) -> Option<Vec<NthWeekday>> {
    let mut days = Vec::new();
    for item in text.split(',').map(str::trim) {
        let at = item.len().checked_sub(2).filter(|at| item.is_char_boundary(*at))?;
        let (nth, day) = item.split_at(at);
        let nth = match nth {
            "" => None,
            nth => Some(nth.parse().ok().filter(|nth: &i8| *nth != 0 && nth.abs() <= 53)?),
        };
        let day = NthWeekday { nth, weekday: weekday(day)? };
        if !days.contains(&day) {
            days.push(day);
        }
    }
    Some(days)
}

fn weekday(text: &str) -> Option<Weekday> {
    Some(match text.to_ascii_uppercase().as_str() {
        "MO" => Weekday::Monday,
        "TU" => Weekday::Tuesday,
        "WE" => Weekday::Wednesday,
        "TH" => Weekday::Thursday,
        "FR" => Weekday::Friday,
        "SA" => Weekday::Saturday,
        "SU" => Weekday::Sunday,
        _ => return None,
    })
}
