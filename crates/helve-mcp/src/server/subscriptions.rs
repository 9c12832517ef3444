//! The resources that one client of the session era watches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::message::RpcError;

/// Most resources that one session can watch.
const SUBSCRIPTIONS_MAX: usize = 1_000;

/// The resources that a client watches.
#[derive(Default)]
pub(super) struct Subscriptions {
    of: Mutex<HashMap<Arc<str>, Subscription>>,
    asked: AtomicU64,
}

struct Subscription {
    /// Tells apart the requests that asked for it.
    number: u64,
    /// Whether the backend has agreed.
    is_agreed: bool,
}

impl Subscriptions {
    /// Notes that a request asks to watch a resource. Nothing where the client watches it already; a resource that is
    /// only asked for is asked for anew, as nobody knows what will become of the request before.
    pub(super) fn ask(&self, uri: &str) -> Result<Option<Asking<'_>>, RpcError> {
        let mut of = self.lock();
        match of.get(uri) {
            Some(Subscription { is_agreed: true, .. }) => return Ok(None),
            None if of.len() >= SUBSCRIPTIONS_MAX => {
                return Err(RpcError::new(-32000, "too many subscriptions"));
            }
            Some(_) | None => {}
        }
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let uri: Arc<str> = uri.into();
        of.insert(Arc::clone(&uri), Subscription { number, is_agreed: false });
        Ok(Some(Asking { subscriptions: self, uri, number }))
    }

    pub(super) fn contains(&self, uri: &str) -> bool {
        self.lock().contains_key(uri)
    }

    pub(super) fn all(&self) -> Vec<Arc<str>> {
        self.lock().keys().cloned().collect()
    }

    /// Notes that the client watches a resource no longer. False where it never did.
    pub(super) fn remove(&self, uri: &str) -> bool {
        self.lock().remove(uri).is_some()
    }

    /// Takes all of them.
    pub(super) fn take(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut *self.lock()).into_keys().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Subscription>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request to watch a resource. Dropped before the backend has agreed, nothing is left of it: also where the
/// client has hung up, so that the next one asks the backend again.
pub(super) struct Asking<'s> {
    subscriptions: &'s Subscriptions,
    uri: Arc<str>,
    number: u64,
}

impl Asking<'_> {
    /// The backend has agreed. False where the client no longer wants it, or wants it by another request.
    pub(super) fn agreed(self) -> bool {
        match self.subscriptions.lock().get_mut(&self.uri) {
            Some(known) if known.number == self.number => {
                known.is_agreed = true;
                true
            }
            Some(_) | None => false,
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut of = self.subscriptions.lock();
        if of.get(&self.uri).is_some_and(|known| known.number == self.number && !known.is_agreed) {
            of.remove(&self.uri);
        }
    }
}
