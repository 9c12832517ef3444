//! What time it is.

use jiff::{SignedDuration, Timestamp};

/// Tells the time. Tests bring their own.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// How far a clock may be put right without anybody minding.
const PUT_RIGHT: SignedDuration = SignedDuration::from_secs(60);

/// Whether the clock stands before something that has happened. What holds for a time does not hold
/// then: nobody knows how much of that time has passed.
pub(crate) fn was_set_back(now: Timestamp, happened: Timestamp) -> bool {
    happened.duration_since(now) > PUT_RIGHT
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
