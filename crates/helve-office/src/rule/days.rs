//! Which days a rule picks.

use jiff::civil::{Date, Weekday};

use super::parse::{Frequency, NthWeekday, Rule};

/// The parts of a rule that pick days, with what its start fills in.
pub(super) struct DayRules<'r> {
    rule: &'r Rule,
    /// `BYMONTHDAY`, or the day of the start.
    month_days: Vec<i16>,
    /// `BYMONTH`, or the month of the start.
    months: Vec<i16>,
    /// `BYDAY`, or the weekday of the start.
    weekdays: Vec<NthWeekday>,
    /// What a number before a weekday counts in.
    nth_in: NthIn,
}

#[derive(Clone, Copy)]
enum NthIn {
    Month,
    Year,
}

impl<'r> DayRules<'r> {
    /// What a rule leaves open comes from its start: the day of the month, the month, the weekday.
    pub(super) fn new(rule: &'r Rule, start: Date) -> Self {
        let mut month_days = rule.month_days.clone();
        let mut months = rule.months.clone();
        let mut weekdays = rule.days.clone();
        let of_start = NthWeekday { nth: None, weekday: start.weekday() };
        let says_day = !(month_days.is_empty() && weekdays.is_empty() && rule.year_days.is_empty());
        match rule.frequency {
            // A week has seven days; the standard takes the start's one, where dateutil takes all.
            Frequency::Yearly if !rule.weeks.is_empty() => {
                if !says_day {
                    weekdays.push(of_start);
                }
            }
            Frequency::Yearly if !says_day => {
                if months.is_empty() {
                    months.push(i16::from(start.month()));
                }
                month_days.push(i16::from(start.day()));
            }
            Frequency::Monthly if !says_day => month_days.push(i16::from(start.day())),
            Frequency::Weekly if weekdays.is_empty() => weekdays.push(of_start),
            Frequency::Yearly
            | Frequency::Monthly
            | Frequency::Weekly
            | Frequency::Daily
            | Frequency::Hourly
            | Frequency::Minutely
            | Frequency::Secondly => {}
        }
        let in_year = rule.frequency == Frequency::Yearly && rule.months.is_empty();
        let nth_in = if in_year { NthIn::Year } else { NthIn::Month };
        Self { rule, month_days, months, weekdays, nth_in }
    }

    /// The months of a year that can have days.
    pub(super) fn months(&self) -> impl Iterator<Item = i8> {
        (1..=12).filter(|month| self.has_month(*month))
    }

    pub(super) fn has_month(&self, month: i8) -> bool {
        self.months.is_empty() || self.months.contains(&i16::from(month))
    }

    /// Days of a month that are worth asking [`picks`](Self::picks) about, in order.
    pub(super) fn candidates(&self, first: Date, out: &mut Vec<Date>) {
        let length = i16::from(first.days_in_month());
        let from = out.len();
        let mut push = |day: i16| {
            let day = i8::try_from(day).ok().and_then(|day| Date::new(first.year(), first.month(), day).ok());
            out.extend(day);
        };
        match self.month_days.is_empty() {
            true => (1..=length).for_each(push),
            false => self
                .month_days
                .iter()
                .map(|day| if *day < 0 { length + 1 + day } else { *day })
                .filter(|day| (1..=length).contains(day))
                .for_each(&mut push),
        }
        out[from..].sort_unstable();
        // `31` and `-1` are often the same day.
        let mut last = None;
        let mut at = 0;
        out.retain(|date| {
            at += 1;
            at <= from || last.replace(*date) != Some(*date)
        });
    }

    /// Whether the rule picks a day.
    pub(super) fn picks(&self, date: Date) -> bool {
        self.has_month(date.month())
            && (self.month_days.is_empty() || self.picks_month_day(date))
            && (self.rule.year_days.is_empty() || self.picks_year_day(date))
            && (self.weekdays.is_empty() || self.weekdays.iter().any(|day| self.picks_weekday(*day, date)))
            && (self.rule.weeks.is_empty() || self.picks_week(date))
    }

    fn picks_month_day(&self, date: Date) -> bool {
        let (day, length) = (i16::from(date.day()), i16::from(date.days_in_month()));
        self.month_days.contains(&day) || self.month_days.contains(&(day - length - 1))
    }

    fn picks_year_day(&self, date: Date) -> bool {
        let (day, length) = (date.day_of_year(), date.days_in_year());
        self.rule.year_days.contains(&day) || self.rule.year_days.contains(&(day - length - 1))
    }

    fn picks_weekday(&self, day: NthWeekday, date: Date) -> bool {
        if date.weekday() != day.weekday {
            return false;
        }
        let Some(nth) = day.nth else { return true };
        let (at, length) = match self.nth_in {
            NthIn::Month => (i16::from(date.day()), i16::from(date.days_in_month())),
            NthIn::Year => (date.day_of_year(), date.days_in_year()),
        };
        match nth > 0 {
            true => (at - 1) / 7 + 1 == i16::from(nth),
            false => (length - at) / 7 + 1 == -i16::from(nth),
        }
    }

    fn picks_week(&self, date: Date) -> bool {
        let (week, weeks) = week_of(date, self.rule.week_start);
        self.rule.weeks.contains(&week) || self.rule.weeks.contains(&(week - weeks - 1))
    }
}

/// The number of a day's week and of the weeks in the year it counts to. Week 1 is the first with four days or
/// more in its year.
fn week_of(date: Date, week_start: Weekday) -> (i16, i16) {
    let into_week = i16::from(date.weekday().since(week_start));
    // The fourth day of a week lies in the year that the week counts to.
    let fourth = date.day_of_year() - into_week + 3;
    let length = date.days_in_year();
    let (at, year_length) = match fourth {
        ..=0 => {
            let before = i16::from(date.year().checked_sub(1).is_some_and(is_leap)) + 365;
            (fourth + before, before)
        }
        fourth if fourth > length => {
            (fourth - length, i16::from(date.year().checked_add(1).is_some_and(is_leap)) + 365)
        }
        fourth => (fourth, length),
    };
    ((at - 1) / 7 + 1, (year_length - (at - 1) % 7 - 1) / 7 + 1)
}

fn is_leap(year: i16) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}
