//! When a person works.

use jiff::civil::{Date, Time, Weekday};

use super::timeline::Interval;
use crate::zones::Zone;

/// From when to when on one day. An end that is not after its start is on the next day: a night shift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayHours {
    /// The first minute.
    pub from: Time,
    /// The first minute that is no longer one.
    pub to: Time,
}

/// The hours of a week in a zone.
#[derive(Debug, Clone)]
pub struct WorkingHours {
    /// On whose clock.
    pub zone: Zone,
    /// On which days, and when. A day may stand there twice, around a break.
    pub days: Vec<(Weekday, DayHours)>,
}

impl WorkingHours {
    /// The same hours on every day from Monday to Friday.
    pub fn weekdays(zone: Zone, from: Time, to: Time) -> Self {
        let days = Weekday::Monday.cycle_forward().take(5);
        Self { zone, days: days.map(|day| (day, DayHours { from, to })).collect() }
    }

    /// What of a range they cover, in order and without overlaps. Where the clock changes they are as long as the
    /// clock makes them.
    pub fn within(&self, range: Interval) -> Vec<Interval> {
        let last = self.zone.local(range.to).date();
        // A night shift may begin the day before.
        let first = self.zone.local(range.from).date();
        let mut day = first.yesterday().unwrap_or(first);
        let mut hours: Vec<Interval> = Vec::new();
        while day <= last {
            hours.extend(self.on(day).filter_map(|interval| interval.within(range)));
            let Ok(next) = day.tomorrow() else { break };
            day = next;
        }
        merged(hours)
    }

    fn on(&self, day: Date) -> impl Iterator<Item = Interval> {
        self.days.iter().filter(move |(weekday, _)| *weekday == day.weekday()).filter_map(
            move |(_, hours)| {
                let end = if hours.to > hours.from { day } else { day.tomorrow().ok()? };
                let from = self.zone.instant(day.to_datetime(hours.from));
                Interval::new(from, self.zone.instant(end.to_datetime(hours.to)))
            },
        )
    }
}

fn merged(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
    for interval in intervals {
        match merged.last_mut() {
            Some(last) if interval.from <= last.to => last.to = last.to.max(interval.to),
            _ => merged.push(interval),
        }
    }
    merged
}
