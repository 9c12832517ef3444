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
use helve_net::{Repoll, Url};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};

use crate::api;
use crate::connections::{ConnectionSlot, Connections};
use crate::guard::{self, Door};
use crate::options::HttpOptions;
use crate::problem::{HasBegun, RETRY_AFTER_S};
use crate::state::ServerState;
use crate::{legacy, mcp, page, place, ws};

const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How long to wait when the system has no more connections to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server that has its address.
pub struct HttpServer {
    listener: TcpListener,
    state: ServerState,
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
    pub async fn bind(address: SocketAddr, options: HttpOptions) -> Result<Self, BindError> {
        let beyond_loopback = !address.ip().is_loopback();
        if beyond_loopback && matches!(options.door, Door::Open(_)) {
            return Err(BindError::Unguarded(address));
        }
        let listener =
            TcpListener::bind(address).await.map_err(|error| BindError::Address(address, error))?;
        let own = listener.local_addr().ok().filter(|address| !address.ip().is_unspecified());
        let own = own.and_then(|address| Url::parse(&format!("http://{address}")).ok());
        Ok(Self { listener, state: ServerState::new(options, beyond_loopback, own) })
    }

    /// The address that it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is done, then ends streams and closes each connection once it has its answer. Stop the
    /// [runtime](helve::Runtime::stop) first: meanwhile this says that it is not ready, and answers as before.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, state } = self;
        let server = Arc::new(state);
        let service = TowerToHyperService::new(routes(Arc::clone(&server)));
        let connections = Connections::new(server.config.connections_max, server.closing.clone());
        let sweeper = tokio::spawn(sweep(Arc::clone(&server)));
        let counter = tokio::spawn(count(Arc::clone(&server)));
        let head_timeout = server.config.head_timeout;
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
        let _ = tokio::time::timeout(server.config.stop_grace, connections.tasks.wait()).await;
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
    fn note_request(&self) {
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
        lone.note_request();
        slot.note_request();
        place::take_out(&mut request);
        request.extensions_mut().insert(slot.clone());
        service.call(request).map_ok(say_when_to_come_back).inspect_ok(|_| slot.note_answer())
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    // The reader of a body wakes its connection, which is in the same task. One that is alone has another turn at once.
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

/// What cannot be had just now can be had later, whichever part says so; but for a call that has begun.
fn say_when_to_come_back(mut response: Response) -> Response {
    let has_begun = response.extensions().get::<HasBegun>().is_some();
    if response.status() == StatusCode::SERVICE_UNAVAILABLE && !has_begun {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_S.into());
    }
    response
}

fn routes(server: Arc<ServerState>) -> Router {
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
        .layer(middleware::from_fn_with_state(Arc::clone(&server), guard::stand))
        .with_state(server)
}

async fn count(server: Arc<ServerState>) {
    if let Some(api) = &server.api {
        api.count().await;
    }
}

async fn sweep(server: Arc<ServerState>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        server.sessions.sweep();
        if let Some(keyring) = &server.guard.keyring {
            keyring.note_uses().await;
        }
    }
}
