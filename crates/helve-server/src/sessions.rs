//! The sessions of clients of the session era.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve::Caller;
use helve_mcp::server::{Outlet, Session};
use tokio::task::JoinHandle;

use crate::sse::Events;

/// Most streams of one session that a client can come back to.
const STREAMS_MAX: usize = 16;

/// All sessions.
pub(crate) struct Sessions {
    open: Mutex<HashMap<Arc<str>, Arc<Entry>>>,
    began: Instant,
    max: usize,
    idle: Duration,
}

/// One session.
pub(crate) struct Entry {
    pub(crate) session: Arc<Session>,
    principal: Option<String>,
    /// Seconds since the server began.
    used_at: AtomicU64,
    in_use: AtomicUsize,
    streams: Mutex<BTreeMap<u64, Arc<Events>>>,
    next_stream: AtomicU64,
    general: Mutex<Option<General>>,
}

/// The stream for messages that belong to no request.
struct General {
    events: Arc<Events>,
    watcher: JoinHandle<()>,
}

impl Drop for General {
    fn drop(&mut self) {
        self.watcher.abort();
        self.events.finish(None);
    }
}

impl Sessions {
    pub(crate) fn new(max: usize, idle: Duration) -> Self {
        Self { open: Mutex::default(), began: Instant::now(), max, idle }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Entry>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// Keeps a session. None where there are too many.
    pub(crate) fn add(&self, session: Arc<Session>, caller: &Caller) -> Option<Arc<Entry>> {
        let entry = Arc::new(Entry {
            principal: caller.principal.clone(),
            used_at: AtomicU64::new(self.now()),
            in_use: AtomicUsize::new(0),
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            general: Mutex::default(),
            session,
        });
        if self.lock().len() >= self.max {
            self.sweep();
        }
        let mut open = self.lock();
        if open.len() >= self.max {
            return None;
        }
        open.insert(Arc::clone(entry.session.id()), Arc::clone(&entry));
        Some(entry)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is no room for another session.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().len() >= self.max && {
            self.sweep();
            self.lock().len() >= self.max
        }
    }

    /// The session with this id, if it is this caller's. Another's does not exist for them.
    pub(crate) fn find(&self, id: &str, caller: &Caller) -> Option<InUse> {
        let entry = self.lock().get(id).filter(|entry| entry.principal == caller.principal).cloned()?;
        entry.in_use.fetch_add(1, Ordering::AcqRel);
        Some(InUse { entry, began: self.began })
    }

    /// Ends a session. False where there is none.
    pub(crate) fn remove(&self, id: &str, caller: &Caller) -> bool {
        let mut open = self.lock();
        if open.get(id).is_none_or(|entry| entry.principal != caller.principal) {
            return false;
        }
        let removed = open.remove(id);
        drop(open);
        if let Some(entry) = removed {
            entry.end();
        }
        true
    }

    /// Ends sessions that nobody has used for long.
    pub(crate) fn sweep(&self) {
        let now = self.now();
        let idle = self.idle.as_secs();
        let mut gone = Vec::new();
        self.lock().retain(|_, entry| {
            let is_idle = now.saturating_sub(entry.used_at.load(Ordering::Acquire)) > idle;
            let is_gone = is_idle && entry.in_use.load(Ordering::Acquire) == 0;
            if is_gone {
                gone.push(Arc::clone(entry));
            }
            !is_gone
        });
        gone.iter().for_each(|entry| entry.end());
    }
}

/// A session while a request uses it.
pub(crate) struct InUse {
    entry: Arc<Entry>,
    began: Instant,
}

impl std::ops::Deref for InUse {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.entry.used_at.store(self.began.elapsed().as_secs(), Ordering::Release);
        self.entry.in_use.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Entry {
    /// A stream for one request. Nobody can come back to it before it is [kept](Self::keep).
    pub(crate) fn stream(&self) -> (u64, Arc<Events>) {
        let number = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let is_primed = self.session.peer().is_some_and(|peer| peer.version == "2025-11-25");
        (number, Events::new(Some(number), is_primed))
    }

    /// Keeps a stream, so that its client can come back to it.
    pub(crate) fn keep(&self, number: u64, events: &Arc<Events>) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.insert(number, Arc::clone(events));
        while streams.len() > STREAMS_MAX {
            let oldest_ended =
                streams.iter().find(|(_, events)| events.is_closed()).map(|(number, _)| *number);
            let oldest = oldest_ended.or_else(|| streams.keys().next().copied());
            if let Some(number) = oldest {
                streams.remove(&number);
            }
        }
    }

    /// Opens the stream for messages that belong to no request. The one before it ends.
    pub(crate) fn open_general(&self) -> Arc<Events> {
        let (number, events) = self.stream();
        self.keep(number, &events);
        events.prime();
        let outlet: Arc<dyn Outlet> = Arc::clone(&events) as _;
        self.session.set_general(Arc::clone(&outlet));
        let session = Arc::clone(&self.session);
        let watcher = tokio::spawn(async move { session.watch(outlet).await });
        let general = General { events: Arc::clone(&events), watcher };
        let former = self.general.lock().unwrap_or_else(PoisonError::into_inner).replace(general);
        drop(former);
        events
    }

    /// The stream that an event's id names, and the event's number.
    pub(crate) fn come_back(&self, event_id: &str) -> Option<(Arc<Events>, u64)> {
        let (stream, number) = event_id.split_once('-')?;
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        Some((Arc::clone(streams.get(&stream.parse().ok()?)?), number.parse().ok()?))
    }

    fn end(&self) {
        self.session.close();
        let general = self.general.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(general);
        for events in self.streams.lock().unwrap_or_else(PoisonError::into_inner).values() {
            events.finish(None);
        }
    }
}
