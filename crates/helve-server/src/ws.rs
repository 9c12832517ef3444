//! `/mcp/ws`: a WebSocket, each message a text frame.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use futures_util::{SinkExt, StreamExt};
use helve::Caller;
use helve_mcp::pings;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message as Frame, Role, WebSocketConfig};

use crate::guard::{plain, sole};
use crate::listen::Line;
use crate::mcp::{App, caller, full};
use crate::visitor::Pass;

const PROTOCOL: &str = "mcp";
/// How long requests may still run once the client has gone.
const END_GRACE: Duration = Duration::from_millis(100);

/// Turns a connection into a WebSocket.
pub(crate) async fn open(State(app): State<Arc<App>>, request: HttpRequest) -> Response<Body> {
    let (mut parts, _) = request.into_parts();
    let caller = match caller(&parts) {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let pass = parts.extensions.remove().unwrap_or(Pass::Lasting);
    let Some(key) = key_of(&parts.headers) else {
        return plain(
            StatusCode::BAD_REQUEST,
            "a WebSocket handshake with the subprotocol `mcp` is expected here",
        );
    };
    let Some(upgrade) = parts.extensions.remove::<hyper::upgrade::OnUpgrade>() else {
        return plain(StatusCode::BAD_REQUEST, "this connection cannot be upgraded");
    };
    let Some(line) = parts.extensions.remove::<Line>() else {
        return plain(StatusCode::BAD_REQUEST, "this connection cannot be upgraded");
    };
    let Some(seat) = app.seats.take(&caller) else { return full() };
    let Ok(accept) = HeaderValue::try_from(derive_accept_key(key.as_bytes())) else {
        return plain(StatusCode::BAD_REQUEST, "the WebSocket key is broken");
    };
    // The connection as HTTP knows it ends here, so what is counted and waited for goes with the WebSocket.
    line.tasks.clone().spawn(async move {
        match upgrade.await {
            Ok(upgraded) => talk(&app, caller, pass, &line, TokioIo::new(upgraded)).await,
            Err(error) => tracing::debug!(%error, "a WebSocket handshake broke off"),
        }
        drop((seat, line));
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    response
}

/// The key of a handshake that we take.
fn key_of(headers: &HeaderMap) -> Option<&str> {
    let says = |name: header::HeaderName, word: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let is_handshake = says(header::CONNECTION, "upgrade")
        && says(header::UPGRADE, "websocket")
        && says(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        && sole(headers, header::SEC_WEBSOCKET_VERSION) == Some("13");
    is_handshake.then(|| sole(headers, header::SEC_WEBSOCKET_KEY))?
}

async fn talk(
    app: &App,
    caller: Arc<Caller>,
    pass: Pass,
    line: &Line,
    io: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin,
) {
    let bytes_max = app.config.body_bytes_max;
    let config = WebSocketConfig::default().max_message_size(Some(bytes_max)).max_frame_size(Some(bytes_max));
    let (io, mut pings) = pings::watch(io);
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let (mut sink, mut stream) = socket.split();
    let (link, mut waiting) = app.mcp.link(caller);
    let write = async {
        loop {
            let frame = match tokio::time::timeout(app.config.keep_alive, waiting.next()).await {
                Ok(Some(message)) => Frame::Text(message.into()),
                Ok(None) => {
                    // Whether or not the client still hears it.
                    let _ = sink.close().await;
                    break;
                }
                Err(_) => Frame::Ping(bytes::Bytes::new()),
            };
            if sink.send(frame).await.is_err() {
                break;
            }
        }
    };
    let read = async {
        while let Some(Ok(frame)) = stream.next().await {
            let goes_on = match frame {
                Frame::Text(text) => link.take(text.as_bytes()).await,
                Frame::Binary(bytes) => link.take(&bytes).await,
                Frame::Ping(_) => pings.take(),
                Frame::Pong(_) | Frame::Frame(_) => true,
                Frame::Close(_) => false,
            };
            if !goes_on {
                break;
            }
        }
    };
    tokio::pin!(write);
    let is_stopping = tokio::select! {
        () = read => false,
        () = &mut write => false,
        // A connection lasts, and its key may be taken back meanwhile.
        () = app.guard.ended(&pass) => false,
        () = line.stopping.cancelled() => true,
    };
    if is_stopping {
        // Nothing more is taken; what runs ends, and is answered.
        let ended = async { tokio::join!(link.end(app.config.stop_grace), write) };
        let _ = tokio::time::timeout(app.config.stop_grace, ended).await;
    } else {
        link.end(END_GRACE).await;
    }
}
