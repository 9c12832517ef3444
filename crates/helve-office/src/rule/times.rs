//! Which times of a day a rule picks.

use super::parse::{Frequency, Rule};

/// Seconds of a day, an hour or a minute that a rule picks, and how a rule below a day jumps over the rest.
pub(super) struct TimeRules<'r> {
    rule: &'r Rule,
    /// Seconds since the beginning of the period's day, hour or minute; sorted.
    offsets: Vec<i64>,
}

impl<'r> TimeRules<'r> {
    /// `start` is in seconds of a day. Parts below the frequency multiply; those that are missing come from it.
    pub(super) fn new(rule: &'r Rule, start: i64) -> Self {
        let or = |list: &[i16], start: i64| -> Vec<i64> {
            if list.is_empty() { vec![start] } else { list.iter().copied().map(i64::from).collect() }
        };
        let seconds = or(&rule.seconds, start % 60);
        let minutes = or(&rule.minutes, start / 60 % 60);
        let hours = or(&rule.hours, start / 3600);
        let (hours, minutes, seconds) = match rule.frequency {
            Frequency::Secondly => (vec![0], vec![0], vec![0]),
            Frequency::Minutely => (vec![0], vec![0], seconds),
            Frequency::Hourly => (vec![0], minutes, seconds),
            Frequency::Daily | Frequency::Weekly | Frequency::Monthly | Frequency::Yearly => {
                (hours, minutes, seconds)
            }
        };
        let mut offsets = Vec::with_capacity(hours.len() * minutes.len() * seconds.len());
        for hour in &hours {
            for minute in &minutes {
                offsets.extend(seconds.iter().map(|second| hour * 3600 + minute * 60 + second));
            }
        }
        Self { rule, offsets }
    }

    pub(super) fn offsets(&self) -> &[i64] {
        &self.offsets
    }

    /// For a period below a day: where the next one may be that can match, or `None` where this one does. Both in
    /// seconds since some midnight.
    pub(super) fn next_from(&self, at: i64) -> Option<i64> {
        let (hour, minute, second) = (at / 3600 % 24, at / 60 % 60, at % 60);
        let lacks = |list: &[i16], value: i64| {
            !list.is_empty() && !list.iter().any(|allowed| i64::from(*allowed) == value)
        };
        let frequency = self.rule.frequency;
        if lacks(&self.rule.hours, hour) {
            Some((at / 3600 + 1) * 3600)
        } else if frequency < Frequency::Hourly && lacks(&self.rule.minutes, minute) {
            Some((at / 60 + 1) * 60)
        } else if frequency < Frequency::Minutely && lacks(&self.rule.seconds, second) {
            Some(at + 1)
        } else {
            None
        }
    }
}
