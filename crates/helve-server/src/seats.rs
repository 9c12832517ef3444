//! What lasts, counted by principal: sessions that live as long as their connection (WebSockets, and the HTTP
//! transport of 2024), and messages of models that are being answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve::Caller;

/// Who sits where. Nobody is moved for another.
pub(crate) struct Seats {
    taken: Arc<Taken>,
    max: usize,
    per_principal_max: usize,
}

/// How many each principal has. Of callers without a name nobody knows whether they are one.
#[derive(Default)]
struct Taken(Mutex<HashMap<Option<String>, usize>>);

impl Taken {
    fn lock(&self) -> MutexGuard<'_, HashMap<Option<String>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place, which is free again once this is dropped.
pub(crate) struct Seat {
    taken: Arc<Taken>,
    principal: Option<String>,
}

impl Seats {
    pub(crate) fn new(max: usize, per_principal_max: usize) -> Self {
        Self { taken: Arc::default(), max, per_principal_max }
    }

    /// A place for this caller. None where there are too many, in all or of theirs.
    pub(crate) fn take(&self, caller: &Caller) -> Option<Seat> {
        let mut taken = self.taken.lock();
        let own = taken.get(&caller.principal).copied().unwrap_or(0);
        let is_own_full = caller.principal.is_some() && own >= self.per_principal_max;
        if is_own_full || taken.values().sum::<usize>() >= self.max {
            return None;
        }
        let principal = caller.principal.clone();
        *taken.entry(principal.clone()).or_default() += 1;
        Some(Seat { taken: Arc::clone(&self.taken), principal })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Some(count) = taken.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.principal);
            }
        }
    }
}
