//! One client's session, whatever the transport.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use helve::Caller;
use helve::trace::SpanContext;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::answer::RpcAnswer;
use super::asker::Pending;
use super::backend::{Change, FoundTool, Visitor};
use super::level::Level;
use super::outlet::{Nowhere, Outlet, deliver};
use super::peer::{Meta, Params, Peer};
use super::subscriptions::Subscriptions;
use super::{Shared, dispatch, listen, watch};
use crate::era::Era;
use crate::message::{Id, Notification, Request, Response, RpcError, empty, read};

/// How long a request that was taken back may still take to end by itself.
const WITHDRAWN_GRACE: Duration = Duration::from_secs(2);

/// One client's session: one for each connection, and for each request of the stateless era that
/// comes over HTTP.
pub struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) id: Arc<str>,
    pub(super) caller: Arc<Caller>,
    peer: OnceLock<Arc<Peer>>,
    level: AtomicU8,
    ended: AtomicBool,
    running: Mutex<HashMap<Id, CancellationToken>>,
    pub(super) pending: Arc<Pending>,
    pub(super) subscriptions: Subscriptions,
    general: Mutex<Arc<dyn Outlet>>,
}

/// What a transport knows of a request besides its text.
pub struct Route {
    /// Where messages go that belong to this request.
    pub outlet: Arc<dyn Outlet>,
    /// The era that the transport read from a header, where there was one.
    pub era: Option<Era>,
    /// Namespaces whose tools the client wants listed in spite of their number.
    pub groups: Vec<String>,
    /// The span of the caller, where the transport was told. What the request itself says of it
    /// goes before.
    pub trace_parent: Option<SpanContext>,
    /// On whose behalf, where the transport checks a secret with each request and this one's may do more or
    /// less than that which began the session. Left out: the caller that began it.
    pub caller: Option<Arc<Caller>>,
    /// The tool that the request calls, where the transport has looked it up just now.
    pub found: Option<FoundTool>,
}

impl Route {
    /// A route over a connection that says nothing of its own.
    pub fn over(outlet: Arc<dyn Outlet>) -> Self {
        Self { outlet, era: None, groups: Vec::new(), trace_parent: None, caller: None, found: None }
    }
}

/// A request that was read as far as every method needs it.
pub(super) struct ParsedRequest<'a> {
    pub(super) method: &'a str,
    pub(super) raw: &'a Arc<RawValue>,
    pub(super) params: Params<'a>,
    pub(super) meta: Meta<'a>,
    pub(super) peer: Arc<Peer>,
    /// On whose behalf.
    pub(super) caller: Arc<Caller>,
    pub(super) outlet: Arc<dyn Outlet>,
    pub(super) groups: Vec<String>,
    pub(super) found: Option<FoundTool>,
    pub(super) trace_parent: Option<SpanContext>,
    pub(super) id: &'a Id,
    pub(super) cancellation: CancellationToken,
}

impl ParsedRequest<'_> {
    /// Who asks, in this session.
    pub(super) fn visitor(&self, session: &Session) -> Visitor {
        let (caller, peer) = (Arc::clone(&self.caller), Arc::clone(&self.peer));
        Visitor { caller, session: Arc::clone(&session.id), peer }
    }
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, id: Arc<str>, caller: Arc<Caller>) -> Arc<Self> {
        Arc::new(Self {
            shared,
            id,
            caller,
            peer: OnceLock::new(),
            level: AtomicU8::new(0),
            ended: AtomicBool::new(false),
            running: Mutex::default(),
            pending: Arc::default(),
            subscriptions: Subscriptions::default(),
            general: Mutex::new(Arc::new(Nowhere)),
        })
    }

    /// Its id: 128 random bits where clients get to see it.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// On whose behalf.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// What its client said of itself in `initialize`.
    pub fn peer(&self) -> Option<&Arc<Peer>> {
        self.peer.get()
    }

    /// Sets where messages go that belong to no request.
    pub fn set_general(&self, outlet: Arc<dyn Outlet>) {
        *self.general.lock().unwrap_or_else(PoisonError::into_inner) = outlet;
    }

    pub(super) fn general(&self) -> Arc<dyn Outlet> {
        Arc::clone(&self.general.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers a request. Dropped, the request is taken back.
    pub async fn request(self: &Arc<Self>, request: Request, route: Route) -> RpcAnswer {
        let Request { id, method, params } = request;
        let raw: Arc<RawValue> = params.unwrap_or_else(empty).into();
        let mut era = route.era.unwrap_or(Era::Session);
        let cancellation = CancellationToken::new();
        let result = match self.enter(&id, &cancellation) {
            Ok(_running) => self.answer(&id, &method, &raw, route, &mut era, &cancellation).await,
            Err(error) => Err(error),
        };
        let is_withdrawn = cancellation.is_cancelled();
        RpcAnswer { is_withdrawn, ..RpcAnswer::new(id, era, result) }
    }

    async fn answer(
        self: &Arc<Self>,
        id: &Id,
        method: &str,
        raw: &Arc<RawValue>,
        route: Route,
        era: &mut Era,
        cancellation: &CancellationToken,
    ) -> Result<Arc<RawValue>, RpcError> {
        let params: Params<'_> = read(Some(raw))?;
        let meta: Meta<'_> = read(params.meta)?;
        if meta.version.is_some() {
            *era = Era::Stateless;
        }
        let peer = match (*era, &meta.version) {
            (Era::Stateless, Some(version)) => {
                Arc::new(Peer::of_request(version, meta.capabilities, meta.client)?)
            }
            (Era::Stateless, None) => {
                return Err(RpcError::invalid_params(
                    "`params._meta` lacks `io.modelcontextprotocol/protocolVersion`",
                ));
            }
            (Era::Session, _) if method == "initialize" => self.initialize(&params)?,
            (Era::Session, _) => match self.peer.get() {
                Some(peer) => Arc::clone(peer),
                None if method == "ping" => return Ok(super::answer::nothing()),
                None => return Err(RpcError::new(RpcError::INVALID_REQUEST, "`initialize` must come first")),
            },
        };
        let trace_parent = meta.trace_parent().or(route.trace_parent);
        let asked = ParsedRequest {
            method,
            raw,
            params,
            meta,
            peer,
            caller: route.caller.unwrap_or_else(|| Arc::clone(&self.caller)),
            outlet: route.outlet,
            groups: route.groups,
            found: route.found,
            trace_parent,
            id,
            cancellation: cancellation.clone(),
        };
        let withdrawn = async {
            cancellation.cancelled().await;
            tokio::time::sleep(WITHDRAWN_GRACE).await;
        };
        tokio::select! {
            biased;
            result = dispatch::dispatch(self, asked) => result,
            () = withdrawn => Err(RpcError::new(RpcError::INTERNAL, "the request was taken back")),
        }
    }

    fn initialize(&self, params: &Params<'_>) -> Result<Arc<Peer>, RpcError> {
        let Some(version) = &params.protocol_version else {
            return Err(RpcError::invalid_params("`protocolVersion` is missing"));
        };
        let peer = Arc::new(Peer::of_session(version, params.capabilities, params.client_info)?);
        match self.peer.set(Arc::clone(&peer)) {
            Ok(()) => Ok(peer),
            Err(_) => Err(RpcError::new(RpcError::INVALID_REQUEST, "this session was initialized already")),
        }
    }

    /// Notes that a request runs, so that it can be taken back, until the guard is dropped.
    fn enter<'a>(&'a self, id: &'a Id, cancellation: &CancellationToken) -> Result<Running<'a>, RpcError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.len() >= self.shared.options.requests_max {
            return Err(RpcError::new(-32000, "too many requests at once; wait for some to end"));
        }
        if running.contains_key(id) {
            return Err(RpcError::new(RpcError::INVALID_REQUEST, "a request with this id still runs"));
        }
        running.insert(id.clone(), cancellation.clone());
        Ok(Running { session: self, id })
    }

    /// Takes a notification. One that we do not know is passed over.
    pub fn notification(&self, notification: &Notification) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: Id,
        }
        if notification.method == "notifications/cancelled"
            && let Ok(cancelled) = read::<Cancelled>(notification.params.as_deref())
        {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(token) = running.get(&cancelled.request_id) {
                token.cancel();
            }
        }
    }

    /// Takes the answer to a question of ours.
    pub fn response(&self, response: Response) {
        if let Some(id) = response.id {
            self.pending.answer(&id, response.result);
        }
    }

    /// Takes back everything that runs, and watches nothing any more.
    pub fn close(&self) {
        for token in self.running.lock().unwrap_or_else(PoisonError::into_inner).values() {
            token.cancel();
        }
        let watched = self.subscriptions.take();
        if let Some(peer) = self.peer.get() {
            if !self.ended.swap(true, Ordering::AcqRel) {
                self.shared.backend.session_ended(&self.own_visitor(peer));
            }
            drop(listen::Watched {
                session: self.own_visitor(peer),
                backend: Arc::clone(&self.shared.backend),
                watched: watched.into_iter().collect(),
            });
        }
    }

    /// Tells the client of changes, in the way of the session era, until it is gone. What happens while it reads
    /// too slowly it hears of later.
    pub async fn watch(self: &Arc<Self>, outlet: Arc<dyn Outlet>) {
        let mut changes = self.shared.watch.subscribe(&self.shared.backend);
        while let Some(change) = changes.next(|| self.subscriptions.all()).await {
            if self.peer.get().is_none() {
                continue;
            }
            let Some(change) = change.heard_by(&self.caller) else { continue };
            let is_wanted = match change {
                Change::Tools | Change::Resources | Change::Prompts => true,
                Change::Resource(uri) => self.subscriptions.contains(uri),
                // Told apart before it comes here.
                Change::Anything | Change::Of(..) => false,
            };
            if is_wanted && !deliver(&*outlet, watch::notification(change, None)).await {
                break;
            }
        }
    }

    /// The caller that began it. A request's own is [`Asked::visitor`].
    fn own_visitor(&self, peer: &Arc<Peer>) -> Visitor {
        Visitor { caller: Arc::clone(&self.caller), session: Arc::clone(&self.id), peer: Arc::clone(peer) }
    }

    pub(super) fn level(&self) -> Level {
        Level::of(self.level.load(Ordering::Relaxed))
    }

    pub(super) fn set_level(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }
}

struct Running<'a> {
    session: &'a Session,
    id: &'a Id,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.session.running.lock().unwrap_or_else(PoisonError::into_inner).remove(self.id);
    }
}

/// The era that a request is written in, where no header says so.
pub fn era_of(request: &Request) -> Era {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    let head = read::<Head<'_>>(request.params.as_deref());
    let version = head.ok().and_then(|head| read::<Meta<'_>>(head.meta).ok()?.version.map(|_| ()));
    if version.is_some() { Era::Stateless } else { Era::Session }
}
