//! Turns for what strangers to this process can set off as often as they like, such as the beginning of
//! a session: each caller waits for themselves, and not in the way of others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use helve_core::Caller;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Events of one caller whose hooks run at a time.
const PER_CALLER_MAX: usize = 8;
/// Events of all callers whose hooks run at a time.
const ALL_MAX: usize = 32;

/// Who has a turn.
pub(super) struct Turns {
    all: Arc<Semaphore>,
    /// Of callers who have a turn or wait for one. Whoever has no name shares with all of these.
    own: Mutex<HashMap<Option<String>, Arc<Semaphore>>>,
}

/// A turn, over once this is dropped.
pub(super) type Turn = (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>);

impl Default for Turns {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ALL_MAX)), own: Mutex::default() }
    }
}

impl Turns {
    fn own(&self, caller: &Caller) -> Arc<Semaphore> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|_, turns| Arc::strong_count(turns) > 1);
        let turns = own.entry(caller.principal.clone());
        Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(PER_CALLER_MAX))))
    }

    /// Waits for a turn: first one of the caller's own.
    pub(super) async fn next(&self, caller: &Caller) -> Turn {
        // Nobody closes them, so there is always a turn in the end.
        let own = self.own(caller).acquire_owned().await.ok();
        (own, Arc::clone(&self.all).acquire_owned().await.ok())
    }
}
