//! A slow tick while calls come, so that their deadlines cost no system call.
//!
//! Tokio wakes a sleeping worker whenever a timer is set that would fire before all others. With
//! nothing else waiting, that is every call's deadline: two context switches a call, more than
//! all the rest of it. While a nearer timer is always set, deadlines are only entered in a list.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Nearer than nearly every deadline, and too slow to be noticed.
const TICK: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct DeadlineTicker(Arc<State>);

#[derive(Default)]
struct State {
    beating: AtomicBool,
    calls: AtomicU64,
}

impl DeadlineTicker {
    /// Notes a call, and begins to tick if need be.
    pub(crate) fn note_call(&self) {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        if !self.0.beating.load(Ordering::Relaxed) && !self.0.beating.swap(true, Ordering::Relaxed) {
            tokio::spawn(beat(Arc::clone(&self.0)));
        }
    }
}

/// Ticks until no call has come between two ticks: an idle process sleeps.
async fn beat(state: Arc<State>) {
    let mut seen = 0;
    loop {
        tokio::time::sleep(TICK).await;
        let calls = state.calls.load(Ordering::Relaxed);
        if calls == seen {
            break;
        }
        seen = calls;
    }
    state.beating.store(false, Ordering::Relaxed);
}
