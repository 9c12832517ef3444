//! Events as they happen, to the listeners. A slow listener never slows a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use helve_core::event::EventKind;
use helve_core::{Caller, Event};
use tokio::sync::broadcast;

/// How many events a listener may fall behind before it misses some.
const BACKLOG: usize = 1_024;

/// Where events are published.
#[derive(Debug, Clone)]
pub struct Bus {
    sender: broadcast::Sender<Arc<Event>>,
    /// How many listen. The channel would take a lock to tell, at every call.
    listeners: Arc<AtomicUsize>,
}

impl Default for Bus {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(BACKLOG), listeners: Arc::default() }
    }
}

impl Bus {
    /// Starts listening: every event from now on.
    pub fn subscribe(&self) -> Subscription {
        self.listeners.fetch_add(1, Ordering::AcqRel);
        Subscription { receiver: self.sender.subscribe(), listeners: Arc::clone(&self.listeners) }
    }

    /// Whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.listeners.load(Ordering::Acquire) > 0
    }

    /// Publishes what `make` makes, if anybody listens.
    pub(crate) fn publish(&self, make: impl FnOnce() -> EventKind) {
        if self.is_heard() {
            self.send(Event::new(jiff::Timestamp::now(), make()));
        }
    }

    /// The same, of something that belongs to a caller.
    pub(crate) fn publish_of(&self, caller: &Caller, make: impl FnOnce() -> EventKind) {
        if self.is_heard() {
            self.send(Event::new(jiff::Timestamp::now(), make()).of(caller));
        }
    }

    fn send(&self, event: Event) {
        // The last listener may have gone meanwhile; then nobody misses it.
        let _ = self.sender.send(Arc::new(event));
    }
}

/// A listener's end of the bus.
#[derive(Debug)]
pub struct Subscription {
    receiver: broadcast::Receiver<Arc<Event>>,
    listeners: Arc<AtomicUsize>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.listeners.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a listener gets.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// Something that happened.
    Event(Arc<Event>),
    /// The listener was too slow; so many events are gone.
    Missed(u64),
}

impl Subscription {
    /// Waits for the next event. `None` once the runtime is gone.
    pub async fn next(&mut self) -> Option<Delivery> {
        match self.receiver.recv().await {
            Ok(event) => Some(Delivery::Event(event)),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(Delivery::Missed(count)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
