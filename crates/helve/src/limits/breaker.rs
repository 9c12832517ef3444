//! One tool's circuit breaker: closed, open, or trying.

use std::time::Duration;

use tokio::time::Instant;

/// When to come back while another call is trying.
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// Whether a tool is called at all. Pure: it is told the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Breaker {
    /// It is. So many calls failed in a row.
    Closed { failures: u32 },
    /// It is left alone.
    Open { since: Instant, until: Instant },
    /// One call finds out whether it is well again.
    Trying { since: Instant },
}

/// How a call came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entrance {
    /// Like any other.
    Free,
    /// As the one that finds out.
    Probe,
}

/// Why a call did not come through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shut {
    pub(super) since: Instant,
    pub(super) wait: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Breaker {
    pub(super) fn enter(&mut self, now: Instant) -> Result<Entrance, Shut> {
        match *self {
            Self::Closed { .. } => Ok(Entrance::Free),
            Self::Open { since, until } if now < until => Err(Shut { since, wait: until - now }),
            Self::Open { since, .. } => {
                *self = Self::Trying { since };
                Ok(Entrance::Probe)
            }
            Self::Trying { since } => Err(Shut { since, wait: PROBE_WAIT }),
        }
    }

    /// Whether the tool is left alone, but for a call that finds out how it is.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Closed { .. } => false,
            Self::Open { .. } | Self::Trying { .. } => true,
        }
    }

    /// A call found the tool well.
    pub(super) fn succeeded(&mut self, entrance: Entrance) {
        match (*self, entrance) {
            (Self::Closed { .. }, _) | (Self::Trying { .. }, Entrance::Probe) => *self = Self::default(),
            // It began before the breaker opened: old news.
            (Self::Open { .. }, _) | (Self::Trying { .. }, Entrance::Free) => {}
        }
    }

    /// A call found the tool unwell.
    pub(super) fn failed(
        &mut self,
        entrance: Entrance,
        failures_max: u32,
        cool_down: Duration,
        now: Instant,
    ) {
        match (*self, entrance) {
            (Self::Closed { failures }, _) if failures + 1 < failures_max => {
                *self = Self::Closed { failures: failures + 1 };
            }
            (Self::Closed { .. }, _) => *self = Self::Open { since: now, until: now + cool_down },
            (Self::Trying { since }, Entrance::Probe) => {
                *self = Self::Open { since, until: now + cool_down };
            }
            // Calls that were still running when it opened do not keep it open longer.
            (Self::Open { .. }, _) | (Self::Trying { .. }, Entrance::Free) => {}
        }
    }

    /// The probe ended without finding out. The next call is one.
    pub(super) fn undecided(&mut self, now: Instant) {
        if let Self::Trying { since } = *self {
            *self = Self::Open { since, until: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOL_DOWN: Duration = Duration::from_secs(30);

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..3 {
            assert_eq!(breaker.enter(now), Ok(Entrance::Free));
            breaker.failed(Entrance::Free, 3, COOL_DOWN, now);
        }
        breaker
    }

    #[tokio::test]
    async fn only_failures_in_a_row_open_it() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            breaker.failed(Entrance::Free, 3, COOL_DOWN, now);
            breaker.failed(Entrance::Free, 3, COOL_DOWN, now);
            breaker.succeeded(Entrance::Free);
        }
        assert_eq!(breaker, Breaker::default());
        assert_eq!(opened(now).enter(now), Err(Shut { since: now, wait: COOL_DOWN }));
    }

    #[tokio::test]
    async fn old_news_neither_closes_it_nor_keeps_it_open() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.succeeded(Entrance::Free);
        breaker.failed(Entrance::Free, 3, COOL_DOWN, now + COOL_DOWN / 2);
        assert!(breaker.enter(now + COOL_DOWN / 2).is_err());
        assert_eq!(breaker.enter(now + COOL_DOWN), Ok(Entrance::Probe));
        breaker.succeeded(Entrance::Free);
        breaker.failed(Entrance::Free, 3, COOL_DOWN, now + COOL_DOWN);
        assert_eq!(breaker, Breaker::Trying { since: now });
    }

    #[tokio::test]
    async fn the_probe_decides_and_where_it_cannot_the_next_one_does() {
        let now = Instant::now();
        let later = now + COOL_DOWN;
        let mut breaker = opened(now);
        assert_eq!(breaker.enter(later), Ok(Entrance::Probe));
        assert!(breaker.enter(later).is_err(), "one is enough");
        breaker.undecided(later);
        assert_eq!(breaker.enter(later), Ok(Entrance::Probe));
        breaker.failed(Entrance::Probe, 3, COOL_DOWN, later);
        assert_eq!(breaker.enter(later), Err(Shut { since: now, wait: COOL_DOWN }));
        assert_eq!(breaker.enter(later + COOL_DOWN), Ok(Entrance::Probe));
        breaker.succeeded(Entrance::Probe);
        assert_eq!(breaker.enter(later + COOL_DOWN), Ok(Entrance::Free));
    }
}
