//! One server: connected when it is needed, watched over, and told of when it changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use helve::{Registry, Tool, ToolName};
use jiff::Timestamp;
use tokio::sync::{Semaphore, SemaphorePermit, broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connect::{Way, connect};
use super::discover::{Found, LAYER, discover, register};
use super::in_process::{self, Service};
use super::lines::{Behalf, Failures, Line, Slot};
use super::offer::Offer;
use super::served::Piece;
use super::status::{ServerState, ServerStatus};
use super::updates::{Watched, listen_for_changes};
use super::{ServerEvent, ServerEventKind, Surroundings};
use crate::client::Answers;
use crate::client::connection::{Ask, Connection};
use crate::client::hub::Hub;
use crate::client::link::LinkError;
use crate::client::news::Change;
use crate::config::{ServerConfig, Start};
use crate::era::Era;
use crate::log::{Log, Source};
use crate::message::Fields;
use crate::pins::Pins;

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(30);
/// How long we wait after a first failure, and at most.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// How long a connection must have held to count as a good one.
pub(super) const STEADY: Duration = Duration::from_secs(30);
/// How long a server that is asked whether it is still there has to answer.
const HEALTH_MAX: Duration = Duration::from_secs(10);
/// How long changes are gathered before the lists are read again: a flood is read once.
const GATHER: Duration = Duration::from_millis(200);

/// What all servers have in common.
pub(super) struct Common {
    pub(super) registry: Registry,
    pub(super) surroundings: Surroundings,
    pub(super) events: broadcast::Sender<ServerEvent>,
}

/// One server.
pub(crate) struct Server {
    name: Arc<str>,
    config: ServerConfig,
    answers: Answers,
    other_namespaces: Vec<String>,
    registry: Registry,
    surroundings: Surroundings,
    events: broadcast::Sender<ServerEvent>,
    log: Arc<Log>,
    /// The connection that all share, and those of single callers and clients, by whose they are.
    pub(super) lines: Mutex<HashMap<Line, Arc<Slot>>>,
    way: Mutex<Option<Way>>,
    offer: ArcSwap<Offer>,
    registered: Mutex<Vec<ToolName>>,
    status: watch::Sender<Told>,
    restarts: AtomicU32,
    /// When it was last used, in milliseconds since it began.
    used_ms: AtomicU64,
    began: Instant,
    places: Semaphore,
    /// What it said when it last refused us for want of authorization.
    challenge: Mutex<Option<String>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// The value that it is, where it is one of this process.
    service: OnceLock<Service>,
    /// What reads its resources and its prompts, once somebody did.
    readers: [OnceLock<Tool>; Piece::ALL.len()],
    /// The resources whose changes somebody wants to hear of.
    pub(super) watched: watch::Sender<Watched>,
}

/// What is told of a server.
#[derive(Debug, Clone)]
struct Told {
    state: ServerState,
    reason: Option<String>,
    since: Timestamp,
    settled: bool,
    latency: Option<Duration>,
    greeting: Option<crate::client::Greeting>,
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
        let told = Told {
            state,
            reason: None,
            since: Timestamp::now(),
            settled: state == ServerState::Disabled,
            latency: None,
            greeting: None,
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
            lines: Mutex::default(),
            way: Mutex::default(),
            offer: ArcSwap::default(),
            registered: Mutex::default(),
            status: watch::Sender::new(told),
            restarts: AtomicU32::new(0),
            used_ms: AtomicU64::new(0),
            began: Instant::now(),
            challenge: Mutex::default(),
            tasks: Mutex::default(),
            service: OnceLock::new(),
            readers: Default::default(),
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
    pub(super) fn is_value(&self, service: Service) {
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

    /// What reads a piece of it, made once.
    pub(super) fn reader(
        &self,
        piece: Piece,
        make: impl FnOnce() -> Result<Tool, String>,
    ) -> Result<Tool, String> {
        let kept = &self.readers[piece as usize];
        match kept.get() {
            Some(tool) => Ok(tool.clone()),
            None => make().map(|tool| kept.get_or_init(|| tool).clone()),
        }
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
    pub(super) async fn settled(&self) {
        let mut status = self.status.subscribe();
        // Fails only when the server is gone.
        let _ = status.wait_for(|told| told.settled).await;
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

    /// The connection on somebody's behalf, made where there is none.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        behalf: Behalf<'_>,
    ) -> Result<Arc<Connection>, LinkError> {
        self.connection_over(&self.line(behalf)?).await
    }

    /// The connection that finds out what there is, and that all use who share one.
    async fn own_connection(self: &Arc<Self>) -> Result<Arc<Connection>, LinkError> {
        self.connection_over(&Line::default()).await
    }

    pub(super) async fn connection_over(self: &Arc<Self>, line: &Line) -> Result<Arc<Connection>, LinkError> {
        if !self.config.enabled {
            return Err(LinkError::unsent("it is disabled in the configuration"));
        }
        self.admit(line).await?;
        let slot = self.slot(line)?;
        slot.used_ms.store(self.now_ms(), Ordering::Relaxed);
        if let Some(connection) = slot.live() {
            return Ok(connection);
        }
        let mut failures = slot.turn.lock().await;
        if let Some(connection) = slot.live() {
            return Ok(connection);
        }
        if let (Some(error), Some(not_before)) = (&failures.last, failures.not_before)
            && Instant::now() < not_before
        {
            return Err(match error {
                LinkError::Unauthorized { .. } => error.clone(),
                other => LinkError::unsent(other.to_string()),
            });
        }
        self.connect(line, &slot, &mut failures).await
    }

    async fn connect(
        self: &Arc<Self>,
        line: &Line,
        slot: &Arc<Slot>,
        failures: &mut Failures,
    ) -> Result<Arc<Connection>, LinkError> {
        let hub = Hub::new(self.answers.identity(), self.answers.clone(), Arc::clone(&self.log));
        let known = *self.way.lock().unwrap_or_else(PoisonError::into_inner);
        let started = Instant::now();
        if failures.since.is_some() {
            self.restarts.fetch_add(1, Ordering::Relaxed);
        }
        // One that did not hold for long is no better than one that was never made.
        if failures.since.is_some_and(|since| since.elapsed() > STEADY) {
            failures.count = 0;
        }
        let made = match self.service.get() {
            Some(service) => {
                in_process::connect(service, hub, self.config.limits.message_bytes, CONNECT_MAX).await
            }
            None => {
                let who = line.who();
                connect(&self.name, who, &self.config, &self.surroundings, hub, known, CONNECT_MAX).await
            }
        };
        match made {
            Ok((connection, way)) => {
                *self.way.lock().unwrap_or_else(PoisonError::into_inner) = Some(way);
                let connection = Arc::new(connection);
                failures.last = None;
                failures.not_before = None;
                failures.since = Some(Instant::now());
                slot.put(&connection);
                self.used();
                // How it is to single callers says nothing of the server.
                if line.principal.is_none() {
                    self.tell(ServerState::Connected, None, |told| {
                        told.latency = Some(started.elapsed());
                        told.greeting = Some(connection.greeting().clone());
                    });
                }
                let attending =
                    Arc::clone(self).attend(line.clone(), Arc::downgrade(slot), Arc::clone(&connection));
                let task = tokio::spawn(attending);
                let mut tasks = self.tasks();
                tasks.retain(|task| !task.is_finished());
                tasks.push(task);
                Ok(connection)
            }
            // Whoever gets some is not to wait.
            Err(error @ LinkError::NoCredentials { .. }) => Err(error),
            Err(error) => {
                failures.add(&error);
                match &line.principal {
                    Some(principal) => self.log.add(Source::Helve, &format!("for `{principal}`: {error}")),
                    None => self.failed(&error),
                }
                Err(error)
            }
        }
    }

    fn failed(&self, error: &LinkError) {
        self.refused(error);
        let state = match error {
            LinkError::Unauthorized { .. } => ServerState::NeedsAuth,
            _ => ServerState::Failed,
        };
        let reason = match state {
            ServerState::NeedsAuth => format!("{error}; run `helve mcp login {}`", self.name),
            _ => error.to_string(),
        };
        self.log.add(Source::Helve, &reason);
        self.tell(state, Some(reason), |told| told.settled = true);
    }

    /// Keeps it connected, or stops it when nobody needs it, as the configuration says.
    async fn look_after(self: Arc<Self>) {
        loop {
            // The tools of one that starts on demand must be known once all the same.
            let idle = self.config.start == Start::OnDemand && self.status.borrow().greeting.is_some();
            if !idle {
                match self.own_connection().await {
                    Ok(connection) => connection.wait_closed().await,
                    Err(LinkError::Unauthorized { .. }) => self.wait_for_login().await,
                    Err(_) => {}
                }
            }
            let wait = {
                let slot = self.lines().get(&Line::default()).cloned();
                let not_before = match slot {
                    Some(slot) => slot.turn.lock().await.not_before,
                    None => None,
                };
                not_before.map_or_else(|| backoff(1), |at| at.saturating_duration_since(Instant::now()))
            };
            tokio::time::sleep(wait.max(Duration::from_millis(50))).await;
        }
    }

    /// Somebody may log in at any time; asking now and then notices.
    async fn wait_for_login(&self) {
        tokio::time::sleep(BACKOFF_MAX).await;
    }

    /// Looks after a connection until it is closed: reads what is offered, hears of changes, and
    /// sees that the server is still there.
    async fn attend(self: Arc<Self>, line: Line, slot: Weak<Slot>, connection: Arc<Connection>) {
        if line.client.is_none() {
            self.subscribe_again(&line, &connection).await;
        }
        if line.is_shared()
            && let Err(error @ LinkError::Unauthorized { .. }) = self.read_offer(&connection).await
        {
            // It greets everybody, but tells nothing to strangers.
            if let Some(slot) = slot.upgrade() {
                slot.turn.lock().await.add(&error);
                slot.forget(&connection);
            }
            self.failed(&error);
            connection.close().await;
            return;
        }
        let listening = listen_for_changes(&connection, &line, self.watched.subscribe());
        let watching = async {
            tokio::select! {
                () = connection.wait_closed() => {}
                () = self.hear(&line, &slot, &connection) => {}
                () = self.check_health(&connection) => {}
                () = self.stop_when_idle(&line, &slot, &connection) => {}
            }
        };
        tokio::select! {
            () = watching => {}
            () = listening => {}
        }
        let reason = connection.closed();
        if let Some(slot) = slot.upgrade() {
            slot.forget(&connection);
        }
        connection.close().await;
        if !line.is_shared() {
            self.clear_away(&line, &slot);
            return;
        }
        match reason {
            // We closed it, as nobody needs it.
            None => self.lost(&line, ServerState::Pending, "nobody uses it".to_owned()),
            Some(reason) => {
                self.log.add(Source::Helve, &reason);
                self.lost(&line, ServerState::Failed, reason);
            }
        }
    }

    async fn read_offer(self: &Arc<Self>, connection: &Arc<Connection>) -> Result<(), LinkError> {
        let discovered = discover(self, connection).await.map(|found| self.take_offer(found));
        match &discovered {
            Ok(()) => {}
            Err(error) => {
                let reason = format!("what it offers could not be read: {error}");
                self.log.add(Source::Helve, &reason);
                self.status.send_modify(|told| told.reason = Some(reason));
            }
        }
        // One that wants a login settles when its state says so.
        if !matches!(discovered, Err(LinkError::Unauthorized { .. })) {
            self.status.send_modify(|told| told.settled = true);
        }
        discovered
    }

    fn take_offer(&self, found: Found) {
        let Found { mut offer, tools } = found;
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        *registered = register(&self.registry, &registered, tools, &mut offer);
        for remark in &offer.remarks {
            tracing::warn!(server = &*self.name, "{remark}");
        }
        self.offer.store(Arc::new(offer));
        self.send(ServerEventKind::Offer);
    }

    /// Hears of changes and reads again what changed.
    async fn hear(self: &Arc<Self>, line: &Line, slot: &Weak<Slot>, connection: &Arc<Connection>) {
        loop {
            tokio::time::sleep(GATHER).await;
            let changes = connection.news().take().await;
            let lists = [Change::Tools, Change::Resources, Change::Prompts];
            let is_changed = lists.into_iter().any(|change| changes.has(change));
            if is_changed && line.is_shared() {
                // What went wrong stands in its status.
                let _ = self.read_offer(connection).await;
            }
            if let (true, Some(_), Some(slot)) = (is_changed, &line.principal, slot.upgrade()) {
                slot.forget_offer().await;
                self.send_of(&line.principal, ServerEventKind::Offer);
            }
            for uri in changes.updated {
                self.send_of(&line.principal, ServerEventKind::Updated(uri));
            }
        }
    }

    /// Returns when the server does not answer any more.
    async fn check_health(&self, connection: &Connection) {
        // The stateless era has no ping, and nothing that could hang between requests.
        if connection.greeting().era == Era::Stateless {
            return std::future::pending().await;
        }
        let every = Duration::from_secs(self.config.health_s);
        loop {
            tokio::time::sleep(every).await;
            if connection.open_questions() > 0 {
                continue;
            }
            let started = Instant::now();
            let ping = Ask::new("ping", Fields::default()).within(HEALTH_MAX.min(every));
            match connection.ask(ping).await {
                // A server that knows no ping has answered too.
                Ok(_) => {
                    let latency = started.elapsed();
                    self.status.send_modify(|told| told.latency = Some(latency));
                }
                Err(error) => {
                    self.log.add(Source::Helve, &format!("it does not answer to a ping: {error}"));
                    connection.close().await;
                    return;
                }
            }
        }
    }

    /// Returns when nobody has used it for as long as the configuration says.
    async fn stop_when_idle(&self, line: &Line, slot: &Weak<Slot>, connection: &Connection) {
        let idle_s = match line.principal {
            Some(_) => Some(self.config.caller_idle_s),
            None => self.config.idle_stop_s,
        };
        let Some(idle) = idle_s.map(Duration::from_secs) else {
            return std::future::pending().await;
        };
        loop {
            let used_ms = match (&line.principal, slot.upgrade()) {
                (Some(_), Some(slot)) => slot.used_ms.load(Ordering::Relaxed),
                (None, _) | (_, None) => self.used_ms.load(Ordering::Relaxed),
            };
            let used = self.began + Duration::from_millis(used_ms);
            let left = (used + idle).saturating_duration_since(Instant::now());
            if left.is_zero() && connection.open_questions() == 0 && !self.is_watched(&line.principal) {
                return;
            }
            tokio::time::sleep(left.max(Duration::from_millis(100))).await;
        }
    }

    /// Stops it for good: its tools are gone.
    pub(super) async fn stop(&self) {
        for task in self.tasks().drain(..) {
            task.abort();
        }
        let slots: Vec<_> = self.lines().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            if let Some(connection) = slot.take() {
                connection.close().await;
            }
        }
        let names = std::mem::take(&mut *self.registered.lock().unwrap_or_else(PoisonError::into_inner));
        self.registry.exchange(LAYER, &names, []);
        self.send(ServerEventKind::Offer);
    }

    /// Closes its connections; they are made anew at once, or by the next call.
    pub(super) async fn restart(self: &Arc<Self>) {
        self.status.send_modify(|told| told.settled = false);
        let slots: Vec<_> = self.lines().values().cloned().collect();
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
        }
    }

    /// Reads what it offers again.
    pub(super) async fn refresh(self: &Arc<Self>) {
        if let Ok(connection) = self.own_connection().await {
            // What went wrong stands in its status.
            let _ = self.read_offer(&connection).await;
        }
    }

    /// Says that its connection is gone, unless a call has made another meanwhile: that one has said, or
    /// is about to say, how it is.
    fn lost(&self, line: &Line, state: ServerState, reason: String) {
        let is_lost = self.status.send_if_modified(|told| {
            let is_lost = self.live(line).is_none();
            if is_lost {
                (told.state, told.reason, told.since) = (state, Some(reason), Timestamp::now());
            }
            is_lost
        });
        if is_lost {
            self.send(ServerEventKind::State(state));
        }
    }

    fn tell(&self, state: ServerState, reason: Option<String>, more: impl FnOnce(&mut Told)) {
        self.status.send_modify(|told| {
            if told.state != state {
                told.since = Timestamp::now();
            }
            told.state = state;
            told.reason = reason;
            more(told);
        });
        self.send(ServerEventKind::State(state));
    }

    fn send(&self, kind: ServerEventKind) {
        self.send_of(&None, kind);
    }

    fn send_of(&self, of: &Option<Arc<str>>, kind: ServerEventKind) {
        // Nobody may be listening.
        let _ = self.events.send(ServerEvent { server: Arc::clone(&self.name), of: of.clone(), kind });
    }

    pub(super) fn status(&self) -> ServerStatus {
        let told = self.status.borrow().clone();
        let offer = self.offer.load();
        let way = *self.way.lock().unwrap_or_else(PoisonError::into_inner);
        let greeting = told.greeting.as_ref();
        ServerStatus {
            name: self.name.to_string(),
            state: told.state,
            reason: told.reason,
            since: told.since,
            transport: way.map(|way| way.transport.as_str()),
            era: greeting.map(|greeting| greeting.era),
            protocol: greeting.map(|greeting| greeting.version.clone()),
            server: greeting.and_then(|greeting| identity(&greeting.server_info)),
            tools: offer.tools.len(),
            resources: offer.resources.len(),
            prompts: offer.prompts.len(),
            latency_ms: told.latency.map(|latency| (latency.as_secs_f64() * 100_000.0).round() / 100.0),
            restarts: self.restarts.load(Ordering::Relaxed),
            remarks: offer.remarks.clone(),
        }
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to wait after so many failures in a row: twice as long each time, and never the same.
pub(super) fn backoff(failures: u32) -> Duration {
    let doubled = BACKOFF_MIN.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(BACKOFF_MAX);
    doubled.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// A server's own name and version.
pub(super) fn identity(info: &serde_json::value::RawValue) -> Option<String> {
    let fields = Fields::read(Some(info)).ok()?;
    let name = fields.text("name")?;
    let shown = match fields.text("version") {
        Some(version) => format!("{name} {version}"),
        None => name,
    };
    Some(crate::text::one_line(&shown, 100))
}
