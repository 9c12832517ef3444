//! A range of time without a gap, each part with its state.

use jiff::Timestamp;

/// A stretch of time: from an instant up to another, which is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval {
    /// The first instant of the interval.
    pub from: Timestamp,
    /// The first instant after the interval.
    pub to: Timestamp,
}

impl Interval {
    /// An interval, unless it takes no time.
    pub fn new(from: Timestamp, to: Timestamp) -> Option<Self> {
        (from < to).then_some(Self { from, to })
    }

    /// What of it lies in another.
    pub fn within(self, other: Self) -> Option<Self> {
        Self::new(self.from.max(other.from), self.to.min(other.to))
    }

    /// How many seconds it takes.
    pub fn seconds(self) -> i64 {
        self.to.as_second() - self.from.as_second()
    }
}

/// What is known of a person at a time. Ordered by what counts where two are true at once: a calendar that says
/// *busy* is right whatever the others hide, but one that says *tentative* may hide a *busy* in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Every calendar was seen, and none has anything.
    Free,
    /// Something that may take place, or that they have not answered.
    Tentative,
    /// Not everything could be seen.
    Unknown,
    /// Something takes place.
    Busy,
}

/// A part of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The part's beginning and end.
    pub interval: Interval,
    /// What is known.
    pub state: State,
}

/// A range, taken apart by state. Its parts follow each other without a gap, and neighbours differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    range: Interval,
    parts: Vec<Part>,
}

impl Timeline {
    /// A range that has one state, but for what is laid over it: the strongest counts.
    pub fn new(range: Interval, ground: State, laid: impl IntoIterator<Item = Part>) -> Self {
        let mut edges: Vec<(Timestamp, State, i32)> = Vec::new();
        for part in laid {
            if let Some(interval) = part.interval.within(range) {
                edges.extend([(interval.from, part.state, 1), (interval.to, part.state, -1)]);
            }
        }
        edges.sort_unstable_by_key(|(at, ..)| *at);
        let mut sweep = Sweep { open: [0; 4], ground, parts: Vec::new() };
        let mut from = range.from;
        for (at, state, by) in edges {
            sweep.push(Interval { from, to: at });
            from = at;
            sweep.open[state as usize] += by;
        }
        sweep.push(Interval { from, to: range.to });
        Self { range, parts: sweep.parts }
    }

    /// The range that it covers.
    pub fn range(&self) -> Interval {
        self.range
    }

    /// Its parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Several at once, over the range of the first: at each time the strongest state counts. Beyond the range of
    /// one of them it is unknown. Of none at all everything is unknown.
    pub fn together<'a>(range: Interval, all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut parts = Vec::new();
        let mut is_empty = true;
        for timeline in all {
            is_empty = false;
            parts.extend_from_slice(&timeline.parts);
            let unseen =
                [Interval::new(range.from, timeline.range.from), Interval::new(timeline.range.to, range.to)];
            parts.extend(
                unseen.into_iter().flatten().map(|interval| Part { interval, state: State::Unknown }),
            );
        }
        Self::new(range, if is_empty { State::Unknown } else { State::Free }, parts)
    }

    /// The strongest state within an interval; unknown beyond the range.
    pub fn state(&self, interval: Interval) -> State {
        if interval.from < self.range.from || interval.to > self.range.to {
            return State::Unknown;
        }
        let first = self.parts.partition_point(|part| part.interval.to <= interval.from);
        let touched = self.parts[first..].iter().take_while(|part| part.interval.from < interval.to);
        touched.map(|part| part.state).max().unwrap_or(State::Unknown)
    }
}

/// Goes over the edges of parts, and knows how many of each state are open.
struct Sweep {
    open: [i32; 4],
    ground: State,
    parts: Vec<Part>,
}

impl Sweep {
    fn push(&mut self, interval: Interval) {
        if interval.from >= interval.to {
            return;
        }
        let states = [State::Busy, State::Unknown, State::Tentative, State::Free];
        let laid = states.into_iter().find(|state| self.open[*state as usize] > 0);
        let state = laid.unwrap_or(State::Free).max(self.ground);
        match self.parts.last_mut() {
            Some(last) if last.state == state => last.interval.to = interval.to,
            _ => self.parts.push(Part { interval, state }),
        }
    }
}
