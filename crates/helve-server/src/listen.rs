//! The listener: connections, their limits, and the routes.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::Response;
use axum::{Router, middleware, routing};
use futures_util::TryFutureExt as _;
use helve::Runtime;
use helve_mcp::server::McpServer;
use helve_mcp::servers::Servers;
use helve_net::{Repoll, Url};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::api::{self, Api};
use crate::config::ServerConfig;
use crate::connections::{ConnectionSlot, Connections};
use crate::guard::{self, Door, Guard};
use crate::jwt::Issuer;
use crate::keyring::Keyring;
use crate::mcp::App;
use crate::problem::{HasBegun, RETRY_AFTER_S};
use crate::reading::Reading;
use crate::records::Records;
use crate::seats::Seats;
use crate::sessions::Sessions;
use crate::{legacy, mcp, page, place, ws};

const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How long to wait when the system has no more connections to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server that has its address.
pub struct HttpServer {
    listener: TcpListener,
    app: App,
    page: Option<Url>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Everybody could use it.
    #[error("`{0}` can be reached from other machines; give a token file, or listen on 127.0.0.1")]
    Unguarded(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on `{0}`")]
    Address(SocketAddr, #[source] io::Error),
}

impl HttpServer {
    /// Takes the address. Beyond loopback that takes tokens.
    pub async fn bind(
        address: SocketAddr,
        mcp: McpServer,
        door: Door,
        config: ServerConfig,
    ) -> Result<Self, BindError> {
        let beyond_loopback = !address.ip().is_loopback();
        if beyond_loopback && matches!(door, Door::Open(_)) {
            return Err(BindError::Unguarded(address));
        }
        let listener =
            TcpListener::bind(address).await.map_err(|error| BindError::Address(address, error))?;
        let app = App {
            mcp,
            guard: Guard::new(door, &config.hosts, &config.origins, beyond_loopback),
            sessions: Sessions::new(&config),
            links: legacy::Links::default(),
            seats: Seats::new(config.sessions_max, config.own_sessions_max()),
            reading: Reading::default(),
            servers: None,
            api: None,
            closing: CancellationToken::new(),
            config,
        };
        Ok(Self { listener, app, page: None })
    }

    /// Lets who runs Helve look after these servers, under `/v1/mcp/servers`.
    #[must_use]
    pub fn with_servers(mut self, servers: Servers) -> Self {
        self.app.servers = Some(servers);
        self
    }

    /// Serves the HTTP API of this runtime, and lets in whoever has one of its keys.
    #[must_use]
    pub fn with_runtime(mut self, runtime: Runtime) -> Self {
        self.app.guard.keyring = Some(Keyring::new(runtime.clone()));
        self.app.api = Some(Api::new(runtime));
        self
    }

    /// Lets in whom this issuer vouches for.
    #[must_use]
    pub fn with_issuer(mut self, mut issuer: Issuer) -> Self {
        let mcp = self.own_url().and_then(|url| url.join("/mcp").ok());
        mcp.iter().for_each(|mcp| issuer.reached_at(mcp));
        self.app.guard.issuer = Some(issuer);
        self
    }

    /// Shows what is recorded of calls. Takes effect after [`HttpServer::with_runtime`].
    #[must_use]
    pub fn with_records(mut self, records: Arc<dyn Records>) -> Self {
        self.app.api = self.app.api.map(|api| api.with_records(records));
        self
    }

    /// How people reach the page on which they decide, where that is not the address listened on.
    #[must_use]
    pub fn with_page(mut self, page: Option<Url>) -> Self {
        self.page = page;
        self
    }

    /// Where people find the page: nowhere without a runtime to decide about. An address that stands for
    /// all of a machine's leads nobody anywhere.
    fn own_page(&self) -> Option<Url> {
        self.app.api.as_ref().and_then(|_| self.own_url())
    }

    fn own_url(&self) -> Option<Url> {
        let address = self.address().ok().filter(|address| !address.ip().is_unspecified())?;
        Url::parse(&format!("http://{address}")).ok()
    }

    /// The address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is done, then ends streams and closes each connection once it has its answer. Stop the
    /// [runtime](Runtime::stop) first: meanwhile this says that it is not ready, and answers as before.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        if let Some(page) = self.page.clone().or_else(|| self.own_page()) {
            self.app.mcp.set_page(page);
        }
        let Self { listener, app, page: _ } = self;
        let app = Arc::new(app);
        let service = TowerToHyperService::new(routes(Arc::clone(&app)));
        let connections = Connections::new(app.config.connections_max, app.closing.clone());
        let sweeper = tokio::spawn(sweep(Arc::clone(&app)));
        let counter = tokio::spawn(count(Arc::clone(&app)));
        let head_timeout = app.config.head_timeout;
        let asked_last = Arc::new(AtomicU64::new(0));
        let mut number = 0;
        let accept = async {
            loop {
                let (stream, peer) = match listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::debug!(%error, "a connection could not be taken");
                        connections.make_room();
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                };
                let slot = connections.enter(peer.ip());
                number += 1;
                let lone = LoneConnection {
                    number,
                    asked_last: Arc::clone(&asked_last),
                    is_alone: AtomicBool::new(true),
                };
                connections.tasks.spawn(serve(stream, service.clone(), head_timeout, slot, lone));
            }
        };
        tokio::select! {
            () = accept => {}
            () = stop => {}
        }
        sweeper.abort();
        counter.abort();
        connections.stopping.cancel();
        connections.tasks.close();
        // A client that does not read its answer is not waited for.
        let _ = tokio::time::timeout(app.config.stop_grace, connections.tasks.wait()).await;
    }
}

type Service = TowerToHyperService<Router>;

/// A connection among others.
struct LoneConnection {
    number: u64,
    /// The connection that the last request came on.
    asked_last: Arc<AtomicU64>,
    /// Whether its own last two requests came one after the other, and none of others between them.
    is_alone: AtomicBool,
}

impl LoneConnection {
    fn asks(&self) {
        let before = self.asked_last.swap(self.number, Ordering::Relaxed);
        self.is_alone.store(before == self.number, Ordering::Relaxed);
    }
}

async fn serve(
    stream: TcpStream,
    service: Service,
    head_timeout: Duration,
    slot: ConnectionSlot,
    lone: LoneConnection,
) {
    // Without it, answers in two parts wait for the client's acknowledgement, which takes 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection could not be set up");
        return;
    }
    let stopping = slot.stopping.clone();
    let service = service_fn(|mut request: Request<Incoming>| {
        lone.asks();
        slot.asks();
        place::take_out(&mut request);
        request.extensions_mut().insert(slot.clone());
        service.call(request).map_ok(say_when_to_come_back).inspect_ok(|_| slot.is_answered())
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    // Whoever reads a body wakes its connection, which is in the same task. One that is alone has another turn at once.
    // Among others it goes to the end of the queue: when its turn comes, its next request may be there already.
    let (repoll, is_alone) = (Repoll::default(), || lone.is_alone.load(Ordering::Relaxed));
    let ended = tokio::select! {
        ended = poll_fn(|cx| repoll.poll_while(cx, is_alone, |cx| connection.as_mut().poll(cx))) => ended,
        () = slot.evicted() => {
            tracing::debug!("a connection without a key made room for another");
            return;
        }
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection ended early");
    }
}

/// Whatever cannot be had just now can be had later, whoever says so; but for a call that has begun.
fn say_when_to_come_back(mut response: Response) -> Response {
    let has_begun = response.extensions().get::<HasBegun>().is_some();
    if response.status() == StatusCode::SERVICE_UNAVAILABLE && !has_begun {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_S.into());
    }
    response
}

fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/mcp", routing::post(mcp::post).get(mcp::get).delete(mcp::delete))
        .route("/mcp/sse", routing::get(legacy::open))
        .route("/mcp/sse/message", routing::post(legacy::post))
        .route("/mcp/ws", routing::get(ws::open))
        .merge(api::routes().router)
        .merge(page::routes())
        .route("/.well-known/{*path}", routing::get(mcp::metadata))
        .fallback(api::not_found)
        .method_not_allowed_fallback(api::wrong_method)
        // Last, so that it stands around everything above.
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::stand))
        .with_state(app)
}

async fn count(app: Arc<App>) {
    if let Some(api) = &app.api {
        api.count().await;
    }
}

async fn sweep(app: Arc<App>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        app.sessions.sweep();
        if let Some(keyring) = &app.guard.keyring {
            keyring.note_uses().await;
        }
    }
}
