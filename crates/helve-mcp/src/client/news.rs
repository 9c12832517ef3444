//! What has changed at a server, remembered until the next look: a flood is as cheap as one.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// How many changed resources are remembered.
const UPDATED_MAX: usize = 1_000;

/// The list that a server says has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Tools = 1,
    Resources = 2,
    Prompts = 4,
    /// What more resources hold than are remembered: of any.
    Contents = 8,
}

/// What has changed at a server.
#[derive(Default)]
pub(crate) struct News {
    changed: AtomicU8,
    updated: Mutex<BTreeSet<String>>,
    there: Notify,
}

/// What had changed at the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    bits: u8,
    /// Resources with new content.
    pub(crate) updated: BTreeSet<String>,
}

impl Changes {
    pub(crate) fn has(&self, change: Change) -> bool {
        self.bits & change as u8 != 0
    }
}

impl News {
    pub(crate) fn add(&self, change: Change) {
        self.changed.fetch_or(change as u8, Ordering::Relaxed);
        self.there.notify_one();
    }

    pub(crate) fn updated(&self, uri: String) {
        let mut updated = self.updated.lock().unwrap_or_else(PoisonError::into_inner);
        if updated.len() < UPDATED_MAX {
            updated.insert(uri);
            self.there.notify_one();
        } else if !updated.contains(&uri) {
            self.add(Change::Contents);
        }
    }

    /// Waits for changes, and takes them.
    pub(crate) async fn take(&self) -> Changes {
        loop {
            let bits = self.changed.swap(0, Ordering::Relaxed);
            let updated = std::mem::take(&mut *self.updated.lock().unwrap_or_else(PoisonError::into_inner));
            if bits != 0 || !updated.is_empty() {
                return Changes { bits, updated };
            }
            self.there.notified().await;
        }
    }
}
