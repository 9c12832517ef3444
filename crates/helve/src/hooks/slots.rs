//! How many hooks strangers to this process can set off at a time, such as those of the beginning of a session: each
//! caller waits for themselves, and not in the way of others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use helve_core::Caller;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Events of one caller whose hooks run at a time.
const PER_CALLER_MAX: usize = 8;
/// Events of all callers whose hooks run at a time.
const ALL_MAX: usize = 32;

/// Bounds how many events have their hooks running: for each caller, and in all.
pub(super) struct HookSlots {
    all: Arc<Semaphore>,
    /// The slots of callers that use or await one. Callers without a name share theirs.
    own: Mutex<HashMap<Option<String>, Arc<Semaphore>>>,
}

/// A slot, free again once this is dropped.
pub(super) type HookSlot = (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>);

impl Default for HookSlots {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ALL_MAX)), own: Mutex::default() }
    }
}

impl HookSlots {
    fn own(&self, caller: &Caller) -> Arc<Semaphore> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|_, slots| Arc::strong_count(slots) > 1);
        let slots = own.entry(caller.principal.clone());
        Arc::clone(slots.or_insert_with(|| Arc::new(Semaphore::new(PER_CALLER_MAX))))
    }

    /// Waits for a slot: first one of the caller's own, then one of all.
    pub(super) async fn next(&self, caller: &Caller) -> HookSlot {
        // Nothing closes the semaphores, so a slot always comes.
        let own = self.own(caller).acquire_owned().await.ok();
        (own, Arc::clone(&self.all).acquire_owned().await.ok())
    }
}
