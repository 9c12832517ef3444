//! `/mcp/ws`: a WebSocket, each message a text frame.

mod meter;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use futures_util::{SinkExt, Stream, StreamExt};
use helve::Caller;
use helve_mcp::pings;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message as Frame, Role, WebSocketConfig};

use crate::connections::ConnectionSlot;
use crate::guard::{plain, sole};
use crate::mcp::{caller, full};
use crate::reading::{BodyError, Turn};
use crate::state::ServerState;
use crate::visitor::Pass;
use meter::Meter;

const PROTOCOL: &str = "mcp";
/// How much is read at once.
const READ_BYTES: usize = 16 << 10;
/// How long requests may still run once the client has gone.
const END_GRACE: Duration = Duration::from_millis(100);

/// Turns a connection into a WebSocket.
pub(crate) async fn open(State(server): State<Arc<ServerState>>, request: HttpRequest) -> Response<Body> {
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
    let Some(slot) = parts.extensions.remove::<ConnectionSlot>() else {
        return plain(StatusCode::BAD_REQUEST, "this connection cannot be upgraded");
    };
    let Some(seat) = server.seats.take(&caller) else { return full() };
    let Ok(accept) = HeaderValue::try_from(derive_accept_key(key.as_bytes())) else {
        return plain(StatusCode::BAD_REQUEST, "the WebSocket key is broken");
    };
    // The connection as HTTP knows it ends here, so what is counted and waited for goes with the WebSocket.
    slot.tasks.clone().spawn(async move {
        match upgrade.await {
            Ok(upgraded) => talk(&server, caller, pass, &slot, TokioIo::new(upgraded)).await,
            Err(error) => tracing::debug!(%error, "a WebSocket handshake broke off"),
        }
        drop((seat, slot));
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
    server: &ServerState,
    caller: Arc<Caller>,
    pass: Pass,
    slot: &ConnectionSlot,
    io: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin,
) {
    let bytes_max = server.config.body_bytes_max;
    let config = WebSocketConfig::default()
        .max_message_size(Some(bytes_max))
        .max_frame_size(Some(bytes_max))
        .read_buffer_size(READ_BYTES);
    let (io, meter) = meter::metered(io);
    let (io, mut pings) = pings::watch(io);
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let (mut sink, stream) = socket.split();
    let (link, mut waiting) = server.mcp.link(Arc::clone(&caller));
    let refused = {
        let write = async {
            loop {
                let frame = match tokio::time::timeout(server.config.keep_alive, waiting.next()).await {
                    Ok(Some(message)) => Frame::Text(message.into()),
                    Ok(None) => {
                        // Whether or not the client still hears it.
                        if slot.stopping.is_cancelled() {
                            let _ = sink.send(stopping()).await;
                        }
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
            let mut frames = Frames { server, caller: &caller, stream, meter, large: None };
            while let Some(frame) = frames.next().await? {
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
            Ok(())
        };
        tokio::pin!(write);
        tokio::select! {
            read = read => read.err(),
            () = &mut write => None,
            // A connection lasts, and its key may be taken back meanwhile.
            () = server.guard.ended(&pass) => None,
            () = slot.evicted() => None,
            () = slot.stopping.cancelled() => {
                // Nothing more is taken; what runs ends, and is answered.
                let ended = async { tokio::join!(link.end(server.config.stop_grace), write) };
                let _ = tokio::time::timeout(server.config.stop_grace, ended).await;
                return;
            }
        }
    };
    if let Some(error) = refused {
        let _ = tokio::time::timeout(END_GRACE, sink.send(closing(&error))).await;
    }
    link.end(END_GRACE).await;
}

/// What comes over a WebSocket.
struct Frames<'a, S> {
    server: &'a ServerState,
    caller: &'a Caller,
    stream: S,
    meter: Meter,
    /// The turn of a large message, and until when all of it must have come.
    large: Option<(Turn, Instant)>,
}

impl<S: Stream<Item = Result<Frame, Error>> + Unpin> Frames<'_, S> {
    /// The next frame; none where no more comes. A large message waits for its turn before more of it is
    /// read, as the body of a request does.
    async fn next(&mut self) -> Result<Option<Frame>, BodyError> {
        let frame = loop {
            let (stream, meter) = (&mut self.stream, &self.meter);
            let next = poll_fn(|context| match stream.poll_next_unpin(context) {
                Poll::Pending if meter.is_shut() => Poll::Ready(Next::IsLarge),
                next => next.map(Next::Frame),
            });
            let next = match &self.large {
                Some((_, until)) => {
                    tokio::time::timeout_at(*until, next).await.map_err(|_| BodyError::TooSlow)?
                }
                None => next.await,
            };
            match next {
                Next::Frame(frame) => break frame,
                Next::IsLarge => {
                    let turn = self.server.reading.calling(self.caller).await?;
                    self.large = Some((turn, Instant::now() + self.server.config.body_timeout));
                    self.meter.open();
                }
            }
        };
        let Some(Ok(frame)) = frame else { return Ok(None) };
        match &frame {
            Frame::Text(_) | Frame::Binary(_) => {
                self.meter.begin();
                self.large = None;
            }
            // They come in between, and let no message end.
            Frame::Ping(content) | Frame::Pong(content) => self.meter.leave_out(content),
            Frame::Frame(_) | Frame::Close(_) => {}
        }
        Ok(Some(frame))
    }
}

enum Next {
    Frame(Option<Result<Frame, Error>>),
    /// More has come of a message than everybody may have.
    IsLarge,
}

/// Says that the client should connect again.
fn stopping() -> Frame {
    let reason = "this Helve is stopping; connect again".into();
    Frame::Close(Some(CloseFrame { code: CloseCode::Restart, reason }))
}

/// Says why a message was not read.
fn closing(error: &BodyError) -> Frame {
    let code = match error {
        BodyError::Busy => CloseCode::Again,
        BodyError::TooLarge(_) => CloseCode::Size,
        BodyError::BrokeOff | BodyError::TooSlow => CloseCode::Policy,
    };
    Frame::Close(Some(CloseFrame { code, reason: error.to_string().into() }))
}
