//! A clock that stands still until it is told otherwise.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use helve_core::ports::Clock;
use jiff::Timestamp;

/// A clock that tests move by hand.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
}

impl ManualClock {
    /// Stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self { micros: AtomicI64::new(start.as_microsecond()) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).expect("tests do not span ages");
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// Jumps to any time, also back.
    pub fn set(&self, to: Timestamp) {
        self.micros.store(to.as_microsecond(), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new(Timestamp::from_second(1_800_000_000).expect("a time in range"))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.micros.load(Ordering::SeqCst)).expect("a time in range")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_only_by_hand() {
        let clock = ManualClock::default();
        let start = clock.now();
        assert_eq!(clock.now(), start);
        clock.advance(Duration::from_millis(1_500));
        assert_eq!(clock.now().as_millisecond() - start.as_millisecond(), 1_500);
        clock.set(start);
        assert_eq!(clock.now(), start);
    }
}
