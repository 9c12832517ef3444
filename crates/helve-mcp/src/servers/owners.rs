//! Over whose connection to a server something goes: one that all share, or a caller's or client's own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use helve::Caller;
use tokio::time::Instant;

use super::connect::Who;
use super::discover::{LIST_MAX, resources_and_prompts};
use super::login;
use super::offer::Offer;
use super::server::{Server, backoff};
use crate::client::connection::Connection;
use crate::client::link::LinkError;
use crate::config::Credentials;
use crate::server::is_once;

/// How often a connection that is to be closed is looked at, as long as something runs over it.
const LOOK: Duration = Duration::from_millis(100);

/// On whose behalf a server is asked something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behalf<'a> {
    /// Whose call it is.
    pub(crate) caller: &'a Caller,
    /// Over which of their clients, where that is known.
    pub(crate) client: Option<&'a str>,
}

/// One connection to a server among several: that which all share (the default), a caller's own, a
/// client's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionOwner {
    /// Whose account it is for, where each caller has their own.
    pub(crate) principal: Option<Arc<str>>,
    /// Which client has it to itself.
    pub(crate) client: Option<Arc<str>>,
}

impl ConnectionOwner {
    /// Whether it is the one that all share.
    pub(super) fn is_shared(&self) -> bool {
        self.principal.is_none() && self.client.is_none()
    }

    pub(super) fn who(&self) -> Who<'_> {
        self.principal.as_deref().map_or(Who::Helve, Who::Caller)
    }
}

/// A place for a connection.
#[derive(Default)]
pub(super) struct Slot {
    live: Mutex<Option<Arc<Connection>>>,
    /// One connects at a time; the others wait for it.
    pub(super) turn: tokio::sync::Mutex<Failures>,
    /// What is wanted of its server is said by one at a time, so that what was said last is what holds.
    pub(super) telling: tokio::sync::Mutex<()>,
    /// When it was last asked for, in milliseconds since the server began.
    pub(super) used_ms: AtomicU64,
    /// What the server offers a caller besides tools, and over which connection it said so.
    offer: tokio::sync::Mutex<Option<(Weak<Connection>, Arc<Offer>)>>,
}

/// What went wrong last.
#[derive(Default)]
pub(super) struct Failures {
    pub(super) count: u32,
    pub(super) not_before: Option<Instant>,
    pub(super) last: Option<LinkError>,
    pub(super) since: Option<Instant>,
}

impl Server {
    /// An owner's connection, if there is one and it holds.
    pub(super) fn live(&self, owner: &ConnectionOwner) -> Option<Arc<Connection>> {
        self.connections().get(owner).and_then(|slot| slot.live())
    }

    /// Who a caller is here: an unnamed caller where all share one account.
    pub(crate) fn principal_of<'a>(&self, caller: &'a Caller) -> Option<&'a str> {
        caller.principal.as_deref().filter(|_| self.config().credentials == Credentials::Caller)
    }

    /// Whose connection something goes over. INVARIANT: where each caller has their own account, nothing
    /// of a caller's goes over a connection that is not theirs.
    pub(super) fn owner_of(&self, behalf: Behalf<'_>) -> Result<ConnectionOwner, LinkError> {
        let principal = self.principal_of(behalf.caller);
        if principal.is_none() && self.config().credentials == Credentials::Caller {
            return Err(LinkError::NoCredentials { principal: None });
        }
        let client = match behalf.client.filter(|_| !self.config().shared) {
            // A request that comes by itself is no client that could keep anything. All of one caller's have
            // a connection together, and those of an unnamed caller the shared one.
            Some(client) if is_once(client) => {
                let named = behalf.caller.principal.as_deref().filter(|_| principal.is_none());
                named.map(|name| format!("caller:{name}").into())
            }
            client => client.map(Arc::from),
        };
        Ok(ConnectionOwner { principal: principal.map(Arc::from), client })
    }

    /// What the server offers a caller besides tools, which are the same for all.
    pub(crate) async fn offer_to(self: &Arc<Self>, behalf: Behalf<'_>) -> Result<Arc<Offer>, LinkError> {
        if self.config().credentials == Credentials::Shared {
            return Ok(self.offer());
        }
        let owner = self.owner_of(behalf)?;
        let connection = self.connection_over(&owner).await?;
        let slot = self.slot(&owner)?;
        let mut kept = slot.offer.lock().await;
        if let Some((over, offer)) = &*kept
            && over.as_ptr() == Arc::as_ptr(&connection)
        {
            return Ok(Arc::clone(offer));
        }
        let offer = Arc::new(resources_and_prompts(self, &connection, LIST_MAX).await);
        *kept = Some((Arc::downgrade(&connection), Arc::clone(&offer)));
        Ok(offer)
    }

    /// Refuses a caller who is new and has no credentials, before anybody has to make room for them.
    pub(super) async fn admit(&self, owner: &ConnectionOwner) -> Result<(), LinkError> {
        if owner.principal.is_none() || self.connections().contains_key(owner) {
            return Ok(());
        }
        login::check_credentials(owner.who(), self.config(), self.surroundings()).await
    }

    /// The place of an owner's connection. A caller or client that is new makes room where too many are there.
    pub(super) fn slot(&self, owner: &ConnectionOwner) -> Result<Arc<Slot>, LinkError> {
        let mut connections = self.connections();
        if let Some(slot) = connections.get(owner) {
            return Ok(Arc::clone(slot));
        }
        if !owner.is_shared() {
            self.make_room(&mut connections)?;
        }
        Ok(Arc::clone(connections.entry(owner.clone()).or_default()))
    }

    /// Gives up the connection of the caller or client that was idle for longest, where there are too many.
    fn make_room(&self, connections: &mut HashMap<ConnectionOwner, Arc<Slot>>) -> Result<(), LinkError> {
        let own = connections.iter().filter(|(owner, _)| !owner.is_shared());
        if own.clone().count() < self.config().limits.callers {
            return Ok(());
        }
        // One with a holder is about to be used.
        let is_idle = |owner: &ConnectionOwner, slot: &Arc<Slot>| {
            let is_busy = slot.live().is_some_and(|connection| connection.open_questions() > 0);
            Arc::strong_count(slot) == 1 && !is_busy && !self.is_watched(owner)
        };
        let idle = own.filter(|(owner, slot)| is_idle(owner, slot));
        let oldest = idle.min_by_key(|(_, slot)| slot.used_ms.load(Ordering::Relaxed));
        let Some(oldest) = oldest.map(|(owner, _)| owner.clone()) else {
            return Err(LinkError::unsent(format!(
                "{} callers use it at the moment, and no more may; try again in a while",
                self.config().limits.callers
            )));
        };
        if let Some(connection) = connections.remove(&oldest).and_then(|slot| slot.take()) {
            tokio::spawn(async move { connection.close().await });
        }
        Ok(())
    }

    /// Closes the connections of a client that is gone, each once nothing runs over it any more.
    pub(crate) fn client_gone(self: &Arc<Self>, client: &str) {
        // Without a runtime the process ends, and every connection with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        for (owner, slot) in
            self.connections().iter().filter(|(owner, _)| owner.client.as_deref() == Some(client))
        {
            let (server, owner, slot) = (Arc::clone(self), owner.clone(), Arc::downgrade(slot));
            runtime.spawn(async move {
                let Some(connection) = slot.upgrade().and_then(|slot| slot.live()) else {
                    server.clear_away(&owner, &slot);
                    return;
                };
                while connection.open_questions() > 0 && connection.closed().is_none() {
                    tokio::time::sleep(LOOK).await;
                }
                // Its keeper clears it away.
                connection.close().await;
            });
        }
    }

    /// Forgets the place of a connection that has ended, unless it is another's by now.
    pub(super) fn clear_away(&self, owner: &ConnectionOwner, slot: &Weak<Slot>) {
        let mut connections = self.connections();
        let is_its = |held: &Arc<Slot>| Arc::as_ptr(held) == slot.as_ptr() && held.live().is_none();
        // Who holds it is about to connect anew.
        if connections.get(owner).is_some_and(|held| is_its(held) && Arc::strong_count(held) == 1) {
            connections.remove(owner);
        }
    }

    pub(super) fn connections(&self) -> MutexGuard<'_, HashMap<ConnectionOwner, Arc<Slot>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failures {
    /// One more; the next attempt waits longer.
    pub(super) fn add(&mut self, error: &LinkError) {
        self.count = self.count.saturating_add(1);
        self.not_before = Some(Instant::now() + backoff(self.count));
        self.last = Some(error.clone());
    }
}

impl Slot {
    /// The connection, if it holds.
    pub(super) fn live(&self) -> Option<Arc<Connection>> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.as_ref().filter(|connection| connection.closed().is_none()).cloned()
    }

    pub(super) fn take(&self) -> Option<Arc<Connection>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives up a connection, unless there is another already.
    pub(super) fn forget(&self, connection: &Arc<Connection>) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.as_ref().is_some_and(|held| Arc::ptr_eq(held, connection)) {
            *live = None;
        }
    }

    /// Puts a connection there.
    pub(super) fn put(&self, connection: &Arc<Connection>) {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(connection));
    }

    /// What was offered over it does not count any more.
    pub(super) async fn forget_offer(&self) {
        *self.offer.lock().await = None;
    }
}
