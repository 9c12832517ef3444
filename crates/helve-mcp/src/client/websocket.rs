//! Messages as texts on a WebSocket, subprotocol `mcp`.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::stream::{SplitSink, StreamExt};
use futures_util::{SinkExt, TryStreamExt};
use helve::BoxFuture;
use helve_net::header::{
    AUTHORIZATION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    WWW_AUTHENTICATE,
};
use helve_net::{HeaderValue, Method, Request as HttpRequest};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message as Frame};

use super::duplex::{Duplex, Writer};
use super::http::{Endpoint, bearer};
use super::link::{LinkError, Receiver};

const SUBPROTOCOL: &str = "mcp";

/// Shakes hands and starts the link. The URL's scheme may be `ws` or `wss`.
pub(crate) async fn connect(
    endpoint: Endpoint,
    receiver: Arc<dyn Receiver>,
    deadline: Instant,
) -> Result<Duplex, LinkError> {
    let mut url = endpoint.url.clone();
    let scheme = match url.scheme() {
        "wss" | "https" => "https",
        _ => "http",
    };
    // A change between the special schemes cannot fail.
    url.set_scheme(scheme).map_err(|()| LinkError::unsent("this URL cannot be a WebSocket's"))?;
    let mut random = [0; 16];
    fastrand::fill(&mut random);
    let key = BASE64_STANDARD.encode(random);
    let mut request = HttpRequest::new(Method::GET, url);
    request.deadline = deadline.into_std();
    request.headers = endpoint.headers.clone();
    let header =
        |text: &str| HeaderValue::from_str(text).map_err(|_| LinkError::unsent("a header is no text"));
    request.headers.insert(SEC_WEBSOCKET_KEY, header(&key)?);
    request.headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    request.headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    if let Some(authorizer) = &endpoint.authorizer
        && let Some(token) = authorizer.bearer().await?
    {
        request.headers.insert(AUTHORIZATION, bearer(&token)?);
    }
    let upgraded = endpoint.client.upgrade(request, "websocket").await;
    let upgraded = upgraded.map_err(|error| LinkError::unsent(error.to_string()))?;
    let text = |name| upgraded.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let status = upgraded.status.as_u16();
    if matches!(status, 401 | 403) {
        return Err(LinkError::Unauthorized { status, challenge: text(WWW_AUTHENTICATE).map(str::to_owned) });
    }
    if text(SEC_WEBSOCKET_ACCEPT) != Some(derive_accept_key(key.as_bytes()).as_str()) {
        return Err(LinkError::Status { status, detail: Some("no WebSocket".to_owned()) });
    }
    let Some(connection) = upgraded.connection else {
        return Err(LinkError::Status { status, detail: Some("no WebSocket".to_owned()) });
    };
    Ok(start(connection, Role::Client, endpoint.bytes_max, receiver).await)
}

async fn start(
    connection: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    role: Role,
    bytes_max: usize,
    receiver: Arc<dyn Receiver>,
) -> Duplex {
    let config = WebSocketConfig::default().max_message_size(Some(bytes_max)).max_frame_size(Some(bytes_max));
    let socket = WebSocketStream::from_raw_socket(connection, role, Some(config)).await;
    let (sink, stream) = socket.split();
    let frames = stream
        .map_err(move |error| match error {
            WsError::Capacity(_) => LinkError::TooLarge { limit: bytes_max },
            other => LinkError::closed(other.to_string()),
        })
        .try_filter_map(|frame| async move {
            Ok(match frame {
                Frame::Text(text) => Some(Bytes::from(text)),
                Frame::Binary(bytes) => Some(bytes),
                Frame::Ping(_) | Frame::Pong(_) | Frame::Close(_) | Frame::Frame(_) => None,
            })
        });
    let closer = Box::new(|| -> BoxFuture<'static, ()> { Box::pin(async {}) });
    Duplex::start(frames.boxed(), Sender(sink), receiver, closer)
}

struct Sender<S>(SplitSink<WebSocketStream<S>, Frame>);

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Writer for Sender<S> {
    fn write(&mut self, messages: Vec<String>) -> BoxFuture<'_, Result<(), LinkError>> {
        Box::pin(async move {
            let closed = |error: WsError| LinkError::closed(error.to_string());
            for message in messages {
                self.0.feed(Frame::text(message)).await.map_err(closed)?;
            }
            self.0.flush().await.map_err(closed)
        })
    }
}
