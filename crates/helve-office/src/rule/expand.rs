//! When a rule fires between two local times.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;
use jiff::{Timestamp, civil};

use super::budget::{Budget, OverBudget};
use super::days::DayRules;
use super::parse::{Frequency, Rule};
use super::times::TimeRules;

const DAY: i64 = 86_400;

/// Whether the start of a series is an occurrence in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// It is the first occurrence, and `COUNT` counts it, whether the rule picks it or not: what RFC 5545 says of
    /// `DTSTART`.
    Always,
    /// It is one only where the rule picks it: what an `EXRULE` needs.
    IfPicked,
}

/// What part of a rule's occurrences is asked for, both ends included.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// The first that counts.
    pub from: DateTime,
    /// The last that counts.
    pub to: DateTime,
}

impl Rule {
    /// The occurrences within a window of a series that starts at `start`, in order. `UNTIL` is the caller's to
    /// apply: end the window there.
    ///
    /// ```
    /// use helve_office::rule::{Budget, First, Rule, Window};
    /// use jiff::civil::date;
    /// let rule = Rule::parse("FREQ=MONTHLY;BYDAY=-1FR")?;
    /// let window = Window { from: date(2026, 1, 1).at(0, 0, 0, 0), to: date(2026, 2, 28).at(0, 0, 0, 0) };
    /// let start = date(2020, 1, 31).at(9, 0, 0, 0);
    /// let found = rule.expand(start, window, First::Always, &mut Budget::default())?;
    /// assert_eq!(found, [date(2026, 1, 30).at(9, 0, 0, 0), date(2026, 2, 27).at(9, 0, 0, 0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expand(
        &self,
        start: DateTime,
        window: Window,
        first: First,
        budget: &mut Budget,
    ) -> Result<Vec<DateTime>, OverBudget> {
        let start_s = naive_seconds(start);
        let mut sink = Sink {
            start: start_s,
            from: naive_seconds(window.from),
            to: naive_seconds(window.to),
            left: self.count,
            skips_start: first == First::Always,
            found: Vec::new(),
            budget,
        };
        if first == First::Always {
            sink.keep(start_s)?;
        }
        if !sink.is_done(start_s) {
            Walk { rule: self, days: DayRules::new(self, start.date()), start, sink: &mut sink }.run()?;
        }
        Ok(sink.found)
    }
}

/// A local time as if it were UTC: arithmetic on it is plain.
pub(crate) fn naive_seconds(at: DateTime) -> i64 {
    Offset::UTC.to_timestamp(at).map_or_else(
        |_| if at.year() > 0 { Timestamp::MAX.as_second() } else { Timestamp::MIN.as_second() },
        Timestamp::as_second,
    )
}

/// The local time of such seconds, if there is one.
pub(crate) fn local_time(seconds: i64) -> Option<DateTime> {
    Timestamp::from_second(seconds).ok().map(|at| Offset::UTC.to_datetime(at))
}

fn date_of(day: i64) -> Option<Date> {
    local_time(day.checked_mul(DAY)?).map(DateTime::date)
}

fn day_of(date: Date) -> i64 {
    naive_seconds(date.to_datetime(Time::midnight())).div_euclid(DAY)
}

/// Where occurrences go: counts them, and keeps those in the window.
struct Sink<'b> {
    start: i64,
    from: i64,
    to: i64,
    left: Option<u32>,
    /// The start was kept before all others.
    skips_start: bool,
    found: Vec<DateTime>,
    budget: &'b mut Budget,
}

impl Sink<'_> {
    fn is_done(&self, at: i64) -> bool {
        at > self.to || self.left == Some(0)
    }

    /// Takes the occurrences of one period, in order.
    fn take(&mut self, set: &[i64]) -> Result<(), OverBudget> {
        self.budget.work(set.len())?;
        for at in set {
            if self.is_done(*at) {
                return Ok(());
            }
            if *at > self.start || (*at == self.start && !self.skips_start) {
                self.keep(*at)?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, at: i64) -> Result<(), OverBudget> {
        self.left = self.left.map(|left| left.saturating_sub(1));
        if (self.from..=self.to).contains(&at) {
            self.budget.occurrence()?;
            self.found.extend(local_time(at));
        }
        Ok(())
    }

    /// Where to begin: at the start where occurrences are counted, else not before the window.
    fn enter_at(&self) -> i64 {
        match self.left {
            Some(_) => self.start,
            None => self.start.max(self.from),
        }
    }
}

/// Goes from period to period.
struct Walk<'a, 'b> {
    rule: &'a Rule,
    days: DayRules<'a>,
    start: DateTime,
    sink: &'a mut Sink<'b>,
}

impl Walk<'_, '_> {
    fn run(mut self) -> Result<(), OverBudget> {
        let times = TimeRules::new(self.rule, self.sink.start.rem_euclid(DAY));
        match self.rule.frequency {
            Frequency::Yearly => self.years(&times),
            Frequency::Monthly => self.months(&times),
            Frequency::Weekly => self.weeks(&times),
            Frequency::Daily => self.single_days(&times),
            Frequency::Hourly => self.below_a_day(3600, &times),
            Frequency::Minutely => self.below_a_day(60, &times),
            Frequency::Secondly => self.below_a_day(1, &times),
        }
    }

    /// The first period, counted from that of the start in units of it, at which to look.
    fn first_period(&self, start: i64, entry: i64) -> i64 {
        let interval = i64::from(self.rule.interval);
        start + ((entry - start).max(0) / interval) * interval
    }

    fn years(&mut self, times: &TimeRules<'_>) -> Result<(), OverBudget> {
        let entry = local_time(self.sink.enter_at()).unwrap_or(self.start).year();
        let mut year = self.first_period(self.start.year().into(), entry.into());
        let mut days = Vec::new();
        while let Ok(y) = i16::try_from(year) {
            let Some(first) = civil::Date::new(y, 1, 1).ok().filter(|first| self.reaches(*first)) else {
                break;
            };
            days.clear();
            for month in self.days.months() {
                days.extend(civil::Date::new(first.year(), month, 1).ok().into_iter().flat_map(|first| {
                    let mut days = Vec::new();
                    self.days.candidates(first, &mut days);
                    days
                }));
            }
            self.period(&days, times)?;
            year += i64::from(self.rule.interval);
        }
        Ok(())
    }

    fn months(&mut self, times: &TimeRules<'_>) -> Result<(), OverBudget> {
        let index = |date: Date| i64::from(date.year()) * 12 + i64::from(date.month()) - 1;
        let entry = local_time(self.sink.enter_at()).unwrap_or(self.start);
        let mut month = self.first_period(index(self.start.date()), index(entry.date()));
        let mut days = Vec::new();
        loop {
            let year = i16::try_from(month.div_euclid(12)).ok();
            let in_year = i8::try_from(month.rem_euclid(12) + 1).unwrap_or(1);
            let first = year.and_then(|year| civil::Date::new(year, in_year, 1).ok());
            let Some(first) = first.filter(|first| self.reaches(*first)) else { return Ok(()) };
            days.clear();
            if self.days.has_month(in_year) {
                self.days.candidates(first, &mut days);
            }
            self.period(&days, times)?;
            month += i64::from(self.rule.interval);
        }
    }

    fn weeks(&mut self, times: &TimeRules<'_>) -> Result<(), OverBudget> {
        let begin = |date: Date| day_of(date) - i64::from(date.weekday().since(self.rule.week_start));
        let entry = local_time(self.sink.enter_at()).unwrap_or(self.start);
        let start = begin(self.start.date());
        let weeks = self.first_period(0, (begin(entry.date()) - start) / 7);
        let mut week = start + 7 * weeks;
        while let Some(first) = date_of(week).filter(|first| self.reaches(*first)) {
            let days: Vec<Date> =
                std::iter::successors(Some(first), |day| day.tomorrow().ok()).take(7).collect();
            self.period(&days, times)?;
            week += 7 * i64::from(self.rule.interval);
        }
        Ok(())
    }

    fn single_days(&mut self, times: &TimeRules<'_>) -> Result<(), OverBudget> {
        let entry = self.sink.enter_at().div_euclid(DAY);
        let mut day = self.first_period(day_of(self.start.date()), entry);
        while let Some(date) = date_of(day).filter(|date| self.reaches(*date)) {
            self.period(&[date], times)?;
            day += i64::from(self.rule.interval);
        }
        Ok(())
    }

    /// Hours, minutes or seconds. Whole days, hours and minutes that cannot match are jumped over.
    fn below_a_day(&mut self, unit: i64, times: &TimeRules<'_>) -> Result<(), OverBudget> {
        let step = unit * i64::from(self.rule.interval);
        let origin = self.sink.start.div_euclid(unit) * unit;
        let align = |at: i64| origin + (at - origin + step - 1).div_euclid(step).max(0) * step;
        let mut at = origin + ((self.sink.enter_at() - origin).max(0) / step) * step;
        let mut known: Option<(i64, bool)> = None;
        while !self.sink.is_done(at) {
            self.sink.budget.work(1)?;
            let day = at.div_euclid(DAY);
            let picked = match known {
                Some((known, picked)) if known == day => picked,
                _ => date_of(day).is_some_and(|date| self.days.picks(date)),
            };
            known = Some((day, picked));
            if !picked {
                at = align((day + 1) * DAY);
                continue;
            }
            if let Some(next) = times.next_from(at.rem_euclid(DAY)) {
                at = align(day * DAY + next);
                continue;
            }
            let set: Vec<i64> = times.offsets().iter().map(|offset| at + offset).collect();
            self.emit(set)?;
            at += step;
        }
        Ok(())
    }

    /// Whether a period that begins on a day can still have occurrences.
    fn reaches(&self, first: Date) -> bool {
        !self.sink.is_done(naive_seconds(first.to_datetime(Time::midnight())))
    }

    /// The occurrences on those of a period's days that the rule picks.
    fn period(&mut self, days: &[Date], times: &TimeRules<'_>) -> Result<(), OverBudget> {
        self.sink.budget.work(1 + days.len())?;
        let mut set = Vec::new();
        for day in days.iter().filter(|day| self.days.picks(**day)) {
            self.sink.budget.work(times.offsets().len())?;
            let midnight = day_of(*day) * DAY;
            set.extend(times.offsets().iter().map(|offset| midnight + offset));
        }
        self.emit(set)
    }

    /// Keeps what `BYSETPOS` picks of a period's occurrences.
    fn emit(&mut self, set: Vec<i64>) -> Result<(), OverBudget> {
        if self.rule.positions.is_empty() {
            return self.sink.take(&set);
        }
        let mut picked: Vec<i64> = self
            .rule
            .positions
            .iter()
            .filter_map(|position| {
                let position = isize::from(*position);
                let at = if position > 0 { position - 1 } else { set.len() as isize + position };
                set.get(usize::try_from(at).ok()?).copied()
            })
            .collect();
        picked.sort_unstable();
        picked.dedup();
        self.sink.take(&picked)
    }
}
