//! The sessions of clients of the session era.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve::Caller;
use helve_mcp::server::{Outlet, Session};
use tokio::task::JoinHandle;

use crate::config::ServerConfig;
use crate::sse::Events;

/// Most streams of one session that a client can come back to.
const STREAMS_MAX: usize = 16;

/// The MCP sessions that are open, by id.
pub(crate) struct Sessions {
    open: Mutex<Open>,
    began: Instant,
    max: usize,
    per_principal_max: usize,
    idle: Duration,
    next: AtomicU64,
}

type Open = HashMap<Arc<str>, Arc<Entry>>;

/// Where another session can go.
enum Room {
    Free,
    /// In place of an idle one.
    InPlaceOf(Arc<str>),
    None,
}

/// A session, with whose it is and when it was last used.
pub(crate) struct Entry {
    pub(crate) session: Arc<Session>,
    caller: Caller,
    /// Milliseconds since the server began.
    used_at: AtomicU64,
    /// Which one it is, in the order in which they were opened.
    number: u64,
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
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self {
            open: Mutex::default(),
            began: Instant::now(),
            max: config.sessions_max,
            per_principal_max: config.own_sessions_max(),
            idle: config.session_idle,
            next: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        millis(self.began.elapsed())
    }

    /// Keeps a session, if need be in place of another that is not in use: of the same principal where
    /// they have too many, else of the principal that has the most. None where all are in use.
    pub(crate) fn add(&self, session: Arc<Session>, caller: &Caller) -> Option<Arc<Entry>> {
        let entry = Arc::new(Entry {
            caller: caller.clone(),
            used_at: AtomicU64::new(self.now()),
            number: self.next.fetch_add(1, Ordering::Relaxed),
            in_use: AtomicUsize::new(0),
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            general: Mutex::default(),
            session,
        });
        let mut open = self.lock();
        let dropped = match self.room(&open, caller) {
            Room::Free => None,
            Room::InPlaceOf(id) => open.remove(&id),
            Room::None => return None,
        };
        open.insert(Arc::clone(entry.session.id()), Arc::clone(&entry));
        drop(open);
        if let Some(dropped) = dropped {
            dropped.end();
        }
        Some(entry)
    }

    /// Whether another session of this caller would be kept.
    pub(crate) fn has_room(&self, caller: &Caller) -> bool {
        !matches!(self.room(&self.lock(), caller), Room::None)
    }

    fn room(&self, open: &Open, caller: &Caller) -> Room {
        let mut counts: HashMap<Option<&str>, usize> = HashMap::new();
        for entry in open.values() {
            *counts.entry(entry.caller.principal.as_deref()).or_default() += 1;
        }
        let principal = caller.principal.as_deref();
        let own = counts.get(&principal).copied().unwrap_or(0);
        let is_own_full = principal.is_some() && own >= self.per_principal_max;
        if !is_own_full && open.len() < self.max {
            return Room::Free;
        }
        let unused = open.values().filter(|entry| entry.in_use.load(Ordering::Acquire) == 0);
        let droppable = unused.filter(|entry| !is_own_full || entry.caller.principal.as_deref() == principal);
        let dropped = droppable.max_by_key(|entry| {
            let count = counts.get(&entry.caller.principal.as_deref()).copied().unwrap_or(0);
            (count, Reverse(entry.used_at.load(Ordering::Acquire)), Reverse(entry.number))
        });
        dropped.map_or(Room::None, |entry| Room::InPlaceOf(Arc::clone(entry.session.id())))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// The session with this id, if it is this caller's. Another's does not exist for them.
    pub(crate) fn find(&self, id: &str, caller: &Caller) -> Option<InUse> {
        let open = self.lock();
        let entry = open.get(id).filter(|entry| entry.caller.principal == caller.principal).cloned()?;
        // Under the lock, so that nobody finds it unused and drops it.
        entry.in_use.fetch_add(1, Ordering::AcqRel);
        drop(open);
        Some(InUse { entry, began: self.began })
    }

    /// Ends a session. False where there is none.
    pub(crate) fn remove(&self, id: &str, caller: &Caller) -> bool {
        let mut open = self.lock();
        if open.get(id).is_none_or(|entry| entry.caller.principal != caller.principal) {
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
        let idle = millis(self.idle);
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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
        self.entry.used_at.store(millis(self.began.elapsed()), Ordering::Release);
        self.entry.in_use.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Entry {
    /// On whose behalf a request of this caller runs, where their secret is for more or for less than the one that
    /// began the session: a session lends nobody what it was begun with.
    pub(crate) fn other_rights(&self, caller: &Arc<Caller>) -> Option<Arc<Caller>> {
        let session = self.session.caller().session.clone().filter(|_| caller.session.is_none());
        match (self.caller == **caller, session) {
            (true, _) => None,
            (false, None) => Some(Arc::clone(caller)),
            (false, Some(session)) => Some(Arc::new(Caller::clone(caller).session(session))),
        }
    }

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
