//! One server: connected when it is needed, watched, and reported when it changes.

mod attend;
mod reach;
mod told;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use helve::{Registry, ToolName};
use jiff::Timestamp;
use tokio::sync::{Semaphore, SemaphorePermit, broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connect::Way;
use super::discover::LAYER;
use super::in_process::Service;
use super::login::shared_login;
use super::offer::Offer;
use super::owners::{ConnectionOwner, Slot};
use super::served::Readers;
use super::status::ServerState;
use super::updates::Watched;
use super::{ServerEvent, ServerEventKind, Surroundings};
use crate::client::Answers;
use crate::client::link::LinkError;
use crate::config::ServerConfig;
use crate::counted::Account;
use crate::log::Log;
use crate::oauth::OAuthError;
use crate::pins::Pins;
pub(super) use reach::{STEADY, backoff};
use told::ServerReport;
pub(super) use told::identity;

/// What all servers have in common.
pub(super) struct Common {
    pub(super) registry: Registry,
    pub(super) surroundings: Surroundings,
    pub(super) events: broadcast::Sender<ServerEvent>,
}

/// A server of the configuration, connected or not.
pub(crate) struct Server {
    name: Arc<str>,
    config: ServerConfig,
    answers: Answers,
    other_namespaces: Vec<String>,
    registry: Registry,
    surroundings: Surroundings,
    events: broadcast::Sender<ServerEvent>,
    pub(super) log: Arc<Log>,
    /// The connection that all share, and those of single callers and clients, by whose they are.
    pub(super) connections: Mutex<HashMap<ConnectionOwner, Arc<Slot>>>,
    way: Mutex<Option<Way>>,
    offer: ArcSwap<Offer>,
    registered: Mutex<Vec<ToolName>>,
    status: watch::Sender<ServerReport>,
    restarts: AtomicU32,
    /// When it was last used, in milliseconds since it began.
    used_ms: AtomicU64,
    began: Instant,
    places: Semaphore,
    /// Whether a person has logged in there.
    has_login: AtomicBool,
    /// What it said when it last refused us for want of authorization.
    challenge: Mutex<Option<String>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// It was stopped for good. A call that still runs must not bring it back.
    stopped: AtomicBool,
    /// The value that it is, where it is one of this process.
    service: OnceLock<Service>,
    /// What reads its resources and its prompts, once that was asked for.
    readers: Readers,
    /// The resources that have subscribers.
    pub(super) watched: watch::Sender<Watched>,
}

impl Server {
    pub(super) fn new(
        name: &str,
        config: ServerConfig,
        answers: Answers,
        namespaces: &[String],
        common: Common,
        log: Arc<Log>,
    ) -> Arc<Self> {
        let Common { registry, surroundings, events } = common;
        let own = config.namespace(name).to_owned();
        let state = if config.enabled { ServerState::Pending } else { ServerState::Disabled };
        let told = ServerReport {
            state,
            reason: None,
            since: Timestamp::now(),
            settled: state == ServerState::Disabled,
            latency: None,
            greeting: None,
            is_announced: false,
        };
        Arc::new(Self {
            name: name.into(),
            places: Semaphore::new(config.limits.calls),
            config,
            answers,
            other_namespaces: namespaces.iter().filter(|other| **other != own).cloned().collect(),
            registry,
            surroundings,
            events,
            log,
            connections: Mutex::default(),
            way: Mutex::default(),
            offer: ArcSwap::default(),
            registered: Mutex::default(),
            status: watch::Sender::new(told),
            restarts: AtomicU32::new(0),
            used_ms: AtomicU64::new(0),
            began: Instant::now(),
            has_login: AtomicBool::new(false),
            challenge: Mutex::default(),
            tasks: Mutex::default(),
            stopped: AtomicBool::new(false),
            service: OnceLock::new(),
            readers: Readers::default(),
            watched: watch::Sender::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.config
    }

    pub(super) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// Makes it a server of this process, before it is begun.
    pub(super) fn set_service(&self, service: Service) {
        let _again = self.service.set(service);
    }

    /// Whether it is a server of this process.
    pub(super) fn is_in_process(&self) -> bool {
        self.service.get().is_some()
    }

    /// Takes over what was wanted of the one before it.
    pub(super) fn inherit(&self, before: &Self) {
        self.watched.send_replace(before.watched.borrow().clone());
    }

    /// Where its tools are remembered. Those of this process are as trustworthy as the process.
    pub(super) fn pins(&self) -> Option<&Pins> {
        self.surroundings.pins.as_ref().filter(|_| !self.is_in_process())
    }

    /// What does with its pieces what clients want.
    pub(super) fn readers(&self) -> &Readers {
        &self.readers
    }

    pub(super) fn other_namespaces(&self) -> impl Iterator<Item = &str> {
        self.other_namespaces.iter().map(String::as_str)
    }

    /// What it offers, as far as is known.
    pub(crate) fn offer(&self) -> Arc<Offer> {
        self.offer.load_full()
    }

    /// What it said when we met, if we have.
    pub(crate) fn greeting(&self) -> Option<crate::client::Greeting> {
        self.status.borrow().greeting.clone()
    }

    /// Starts looking after it.
    pub(super) fn begin(self: &Arc<Self>) {
        if !self.config.enabled {
            return;
        }
        let task = tokio::spawn(Arc::clone(self).look_after());
        self.tasks().push(task);
    }

    /// Waits until it is connected and listed, or has failed, for the first time.
    pub(crate) async fn settled(&self) {
        let mut status = self.status.subscribe();
        // Fails only when the server is gone.
        let _ = status.wait_for(|told| told.settled).await;
    }

    /// Whether it is not yet known what becomes of it.
    pub(crate) fn is_coming(&self) -> bool {
        !self.status.borrow().settled
    }

    /// A place among the calls that it runs at a time.
    pub(super) async fn enter(&self) -> Option<SemaphorePermit<'_>> {
        self.places.acquire().await.ok()
    }

    /// It has answered something.
    pub(super) fn used(&self) {
        self.used_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether Helve acts in a person's account there, as far as is known.
    pub(super) fn account(&self) -> Account {
        match self.has_login.load(Ordering::Relaxed) {
            true => Account::LoggedIn,
            false => Account::Unknown,
        }
    }

    /// Finds out whether a person has logged in there. A login that cannot be read counts as one.
    pub(super) async fn learn_account(&self) {
        let has_login = match shared_login(&self.config, &self.surroundings).await {
            Ok(Some(login)) => {
                !matches!(login.bearer().await, Ok(None) | Err(OAuthError::LoginNeeded { .. }))
            }
            Ok(None) => false,
            Err(_) => true,
        };
        self.has_login.store(has_login, Ordering::Relaxed);
    }

    /// What it said when it last refused us for want of authorization.
    pub(super) fn challenge(&self) -> Option<String> {
        self.challenge.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers what it wants, if that is why it refused.
    pub(super) fn refused(&self, error: &LinkError) {
        if let LinkError::Unauthorized { challenge, .. } = error {
            self.challenge.lock().unwrap_or_else(PoisonError::into_inner).clone_from(challenge);
        }
    }

    /// Stops it for good: its tools are gone at once, and nothing connects it again, although calls that still
    /// run know it.
    pub(super) async fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        {
            let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
            self.registry.exchange(LAYER, &std::mem::take(&mut *registered), []);
        }
        self.registry.set_away(self.config.namespace(&self.name), None);
        self.send(ServerEventKind::Offer);
        // Nobody waits for it any more.
        let mut was_announced = false;
        self.status.send_modify(|told| {
            told.settled = true;
            was_announced = std::mem::take(&mut told.is_announced);
        });
        if was_announced {
            self.announce_end(Some("it was stopped".to_owned()));
        }
        for task in self.tasks().drain(..) {
            task.abort();
        }
        let slots: Vec<_> = self.connections().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            if let Some(connection) = slot.take() {
                connection.close().await;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Closes its connections; they are made anew at once, or by the next call.
    pub(super) async fn restart(self: &Arc<Self>) {
        if !self.config.enabled {
            return;
        }
        self.status.send_modify(|told| told.settled = false);
        let slots: Vec<_> = self.connections().values().cloned().collect();
        for slot in slots {
            let mut failures = slot.turn.lock().await;
            failures.not_before = None;
            drop(failures);
            if let Some(connection) = slot.take() {
                connection.close().await;
            }
        }
        if let Err(error) = self.own_connection().await {
            tracing::warn!(server = &*self.name, %error, "it could not be connected anew");
            // Whatever the reason was, nobody waits for it.
            self.status.send_modify(|told| told.settled = true);
        }
    }

    /// Reads what it offers again.
    pub(super) async fn refresh(self: &Arc<Self>) {
        if let Ok(connection) = self.own_connection().await {
            // What went wrong stands in its status.
            let _ = self.read_offer(&connection).await;
        }
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
