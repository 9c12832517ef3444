//! What keeps one caller from taking all, and all callers from pressing on a tool that is unwell.
//!
//! - `Limits` holds calls to the configured rules, counted by a [`Limiter`];
//!   [`LocalLimiter`] is the one that counts in this process.
//! - `Costs` holds them to what they may cost.
//! - `Health` knows which tools fail: it has the circuit breaker and the retry budget of each.

mod costs;
mod local;
mod rules;

mod breaker;
mod health;

pub(crate) use costs::{Costs, Held};
pub use health::{BreakerSettings, RetryBudget};
pub(crate) use health::{Health, Pass, Verdict};
pub use local::LocalLimiter;
pub(crate) use rules::Limits;

use std::sync::Arc;
use std::time::Duration;

use helve_core::limit::LimitRule;
use helve_core::ports::Limiter;

/// What limits calls in one runtime.
pub(crate) struct Limiters {
    /// The rules of the settings.
    pub(crate) calls: Limits,
    /// What holds for events from outside besides these.
    pub(crate) events: Limits,
    pub(crate) costs: Costs,
    pub(crate) health: Health,
}

impl Limiters {
    pub(crate) fn new(
        calls: &[LimitRule],
        events: &[LimitRule],
        health: Health,
        limiter: Arc<dyn Limiter>,
    ) -> Self {
        Self {
            calls: Limits::new(calls, Arc::clone(&limiter)),
            events: Limits::new(events, limiter),
            costs: Costs::new(calls),
            health,
        }
    }
}

/// Errors carry whole milliseconds. Rounded down, who waits that long would come too early.
fn whole_ms(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// A time for people, rounded up for the same reason.
fn shown(time: Duration) -> String {
    match whole_ms(time).as_millis() {
        ms @ 0..=999 => format!("{ms} ms"),
        ms => format!("{} s", ms.div_ceil(1_000)),
    }
}
