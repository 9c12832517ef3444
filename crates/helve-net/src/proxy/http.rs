//! HTTP/1.1: `CONNECT host:port` becomes a tunnel, `GET http://host/…` is passed on.
//!
//! A request that is passed on is written anew, from its parts, for its own connection, and
//! then both connections end: nothing that stood behind it can be taken for a second request.

use std::convert::Infallible;
use std::io;
use std::sync::Mutex;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::TcpStream;
use url::{Position, Url};

use super::Proxy;
use super::meter::Metered;
use super::route::{connect, is_refusal};
use crate::error::NetError;
use crate::target::Target;

/// What hyper needs at least.
const HEAD_BYTES_MIN: usize = 8 << 10;

/// Meant for one connection alone, besides what `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

type ProxyResponse = Response<Either<Incoming, Full<Bytes>>>;

/// A client that waits for its tunnel, and where that leads.
type Tunnel = Mutex<Option<(OnUpgrade, TcpStream)>>;

pub(super) async fn serve<S>(proxy: &Proxy, stream: Metered<S>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let tunnel = Tunnel::default();
    let service = service_fn(|request| async {
        let answered = Box::pin(answer(proxy, request, &tunnel)).await;
        Ok::<_, Infallible>(answered.unwrap_or_else(Refusal::answer))
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(proxy.limits.idle)
        .max_buf_size(proxy.limits.head_bytes.max(HEAD_BYTES_MIN))
        .max_header_size(proxy.limits.head_bytes)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await
        .map_err(io::Error::other)?;
    let waiting = tunnel.into_inner().map_err(|_| io::Error::other("a panic while answering"))?;
    let Some((client, mut upstream)) = waiting else { return Ok(()) };
    let mut client = TokioIo::new(client.await.map_err(io::Error::other)?);
    copy_bidirectional(&mut client, &mut upstream).await.map(drop)
}

async fn answer(
    proxy: &Proxy,
    request: Request<Incoming>,
    tunnel: &Tunnel,
) -> Result<ProxyResponse, Refusal> {
    if request.method() == Method::CONNECT {
        open_tunnel(proxy, request, tunnel).await
    } else {
        pass_on(proxy, request).await
    }
}

async fn open_tunnel(
    proxy: &Proxy,
    mut request: Request<Incoming>,
    tunnel: &Tunnel,
) -> Result<ProxyResponse, Refusal> {
    let authority = request.uri().authority().map(hyper::http::uri::Authority::as_str);
    let target = authority.and_then(Target::of_authority).ok_or(Refusal::bad("write CONNECT host:port"))?;
    let headers = request.headers();
    if headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING) {
        return Err(Refusal::bad("CONNECT has no content"));
    }
    check_host(headers, &target, target.port)?;
    let upstream = connect(proxy, &target).await?;
    let waiting = (hyper::upgrade::on(&mut request), upstream);
    tunnel.lock().map_err(|_| Refusal::bad("a panic while answering"))?.replace(waiting);
    Ok(Response::new(Either::Right(Full::default())))
}

async fn pass_on(proxy: &Proxy, request: Request<Incoming>) -> Result<ProxyResponse, Refusal> {
    if request.uri().scheme_str() != Some("http") {
        let reason =
            "this is a proxy: write GET http://host/path, and CONNECT host:port for anything but http";
        return Err(Refusal::bad(reason));
    }
    let url = Url::parse(&request.uri().to_string()).map_err(|_| Refusal::bad("that is not a URL"))?;
    let target = Target::of(&url)?;
    if !request.headers().contains_key(header::HOST) && request.version() != Version::HTTP_10 {
        return Err(Refusal::bad("there must be a Host header"));
    }
    check_host(request.headers(), &target, 80)?;
    let upstream = connect(proxy, &target).await?;
    exchange(upstream, request, &url)
        .await
        .map_err(|error| NetError::Broken { host: target.to_string(), source: error.into() }.into())
}

/// One request and its response, on their own connection.
async fn exchange(
    upstream: TcpStream,
    request: Request<Incoming>,
    url: &Url,
) -> Result<ProxyResponse, hyper::Error> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(upstream)).await?;
    // It ends with its one exchange, or when this side of it is dropped.
    tokio::spawn(connection);
    let mut response = sender.send_request(rewritten(request, url)).await?;
    strip(response.headers_mut());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        *response.status_mut() = StatusCode::BAD_GATEWAY;
    }
    response.headers_mut().insert(header::CONNECTION, CLOSE);
    Ok(response.map(Either::Left))
}

const CLOSE: HeaderValue = HeaderValue::from_static("close");

fn rewritten(request: Request<Incoming>, url: &Url) -> Request<Incoming> {
    let (mut parts, body) = request.into_parts();
    strip(&mut parts.headers);
    // Its answer is ours to give.
    parts.headers.remove(header::EXPECT);
    parts.headers.insert(header::CONNECTION, CLOSE);
    // A parsed URL is made of characters that both of these allow.
    if let Ok(host) = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]) {
        parts.headers.insert(header::HOST, host);
    }
    parts.uri = Uri::try_from(&url[Position::BeforePath..Position::AfterQuery]).unwrap_or_default();
    parts.version = Version::HTTP_11;
    Request::from_parts(parts, body)
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<_> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse::<HeaderName>().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// A `Host` that is not the target could be served by another site on the same server.
fn check_host(headers: &HeaderMap, target: &Target, port: u16) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        let none = !headers.contains_key(header::HOST);
        return if none { Ok(()) } else { Err(Refusal::bad("there is more than one Host header")) };
    };
    let host = host.to_str().ok().filter(|host| !host.contains(['/', '\\', '@', '?', '#']));
    let named = host.and_then(|host| Target::of_authority(host).or_else(|| Target::of_host(host, port)));
    if named.as_ref() == Some(target) {
        Ok(())
    } else {
        Err(Refusal::bad("the Host header names another host"))
    }
}

/// Why a request is not served.
struct Refusal {
    status: StatusCode,
    reason: String,
}

impl Refusal {
    fn bad(reason: &str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, reason: reason.to_owned() }
    }

    fn answer(self) -> ProxyResponse {
        let Self { status, reason } = self;
        let mut response = Response::new(Either::Right(Full::from(format!("{reason}\n"))));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(header::CONNECTION, CLOSE);
        response
    }
}

impl From<NetError> for Refusal {
    fn from(error: NetError) -> Self {
        let status = match &error {
            error if is_refusal(error) => StatusCode::FORBIDDEN,
            NetError::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self { status, reason: error.to_string() }
    }
}
