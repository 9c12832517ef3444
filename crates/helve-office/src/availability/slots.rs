//! Times at which several people could meet.

use jiff::Timestamp;

use super::timeline::{Interval, State, Timeline};

/// A time that could do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The time that is free.
    pub interval: Interval,
    /// What is known of all together: free, tentative or unknown, never busy.
    pub state: State,
}

/// What was found, best first by kind and in order of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slots {
    /// Everybody is known to be free.
    pub free: Vec<Slot>,
    /// All are free as far as is known, but one may be busy.
    pub uncertain: Vec<Slot>,
    /// There are more than were asked for.
    pub more: bool,
}

/// Slots of a length within some hours, on the full steps of the clock (of `step_s` seconds), at most `max` of each
/// kind.
///
/// `together` is everybody's [timeline](Timeline::together); `hours` are in order and do not overlap.
pub fn find_slots(together: &Timeline, hours: &[Interval], length_s: i64, step_s: i64, max: usize) -> Slots {
    let mut slots = Slots::default();
    let (length_s, step_s) = (length_s.max(60), step_s.max(60));
    for stretch in hours.iter().filter_map(|stretch| stretch.within(together.range())) {
        let mut from = on_step(stretch.from.as_second(), step_s);
        while let Some(interval) = interval(from, length_s).filter(|interval| interval.to <= stretch.to) {
            let state = together.state(interval);
            let kind = match state {
                State::Free => &mut slots.free,
                State::Tentative | State::Unknown => &mut slots.uncertain,
                State::Busy => {
                    from = after_busy(together, interval, step_s).max(from + step_s);
                    continue;
                }
            };
            match kind.len() < max {
                true => kind.push(Slot { interval, state }),
                false => slots.more = true,
            }
            if slots.free.len() >= max && slots.more {
                return slots;
            }
            from += step_s;
        }
    }
    slots
}

fn interval(from: i64, length_s: i64) -> Option<Interval> {
    Interval::new(Timestamp::from_second(from).ok()?, Timestamp::from_second(from + length_s).ok()?)
}

/// The first step that is not before a time. Zones are whole quarters of an hour apart, so steps that divide one
/// fall on the same minutes in all of them.
fn on_step(at: i64, step_s: i64) -> i64 {
    at + (-at).rem_euclid(step_s)
}

/// The first step behind the last busy part of an interval: nothing before it can do.
fn after_busy(together: &Timeline, interval: Interval, step_s: i64) -> i64 {
    let parts = together.parts();
    let first = parts.partition_point(|part| part.interval.to <= interval.from);
    let touched = parts[first..].iter().take_while(|part| part.interval.from < interval.to);
    let last = touched.filter(|part| part.state == State::Busy).map(|part| part.interval.to).max();
    last.map_or(interval.to.as_second(), |end| on_step(end.as_second(), step_s))
}
