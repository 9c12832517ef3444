//! A ledger in memory: for tests, and for programs that keep their own records.

mod approvals;
mod journal;
mod memory;
mod runs;
mod sessions;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_core::memory::MemoryLimits;
use helve_core::ports::{Clock, SystemClock};
use helve_core::record::Entry;
use helve_core::session::{SessionKey, SessionState};

pub(crate) use memory::{Applied, MemoryTable};

/// A ledger in memory. It survives nothing; the durable one is in the crate `helve-store`.
pub struct VolatileLedger {
    log: Mutex<runs::Log>,
    keys: Mutex<HashMap<[u8; 32], journal::Key>>,
    memory: Mutex<MemoryTable>,
    approvals: Mutex<approvals::ApprovalTable>,
    sessions: Mutex<HashMap<SessionKey, SessionState>>,
    clock: Arc<dyn Clock>,
}

impl Default for VolatileLedger {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock), MemoryLimits::default())
    }
}

impl VolatileLedger {
    /// An empty ledger that takes the time from `clock`.
    pub fn new(clock: Arc<dyn Clock>, limits: MemoryLimits) -> Self {
        Self {
            log: Mutex::default(),
            keys: Mutex::default(),
            memory: Mutex::new(MemoryTable::new(limits)),
            approvals: Mutex::default(),
            sessions: Mutex::default(),
            clock,
        }
    }

    /// What is kept, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        lock(&self.log).entries().map(|entry| Entry::clone(entry)).collect()
    }

    /// Rehearses a crash: every run that is open counts as left behind by a process that has gone.
    pub fn abandon_runs(&self) {
        lock(&self.log).abandon();
    }
}

/// Nothing panics while holding these locks; were it so, what they guard would still be whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
