//! Messages as texts on a WebSocket, subprotocol `mcp`.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream, StreamExt, unfold};
use futures_util::{FutureExt, SinkExt};
use helve::BoxFuture;
use helve_net::header::{
    AUTHORIZATION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION,
};
use helve_net::{HeaderMap, HeaderValue, Method, Request as HttpRequest};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message as Frame};

use super::duplex::{Duplex, Writer};
use super::http::{Endpoint, bearer};
use super::link::{LinkError, Receiver};
use crate::pings::{self, Pings, Watched};
use crate::text::one_line;

const SUBPROTOCOL: &str = "mcp";
/// How much of the reason for a close is shown.
const REASON_CHARS_MAX: usize = 120;

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
    if let Some(refusal) = endpoint.refusal(upgraded.status, &upgraded.headers) {
        return Err(refusal);
    }
    if text(SEC_WEBSOCKET_ACCEPT) != Some(derive_accept_key(key.as_bytes()).as_str()) {
        return Err(LinkError::Status { status, detail: Some("no WebSocket".to_owned()) });
    }
    check_offered(&upgraded.headers)?;
    let Some(connection) = upgraded.connection else {
        return Err(LinkError::Status { status, detail: Some("no WebSocket".to_owned()) });
    };
    Ok(start(connection, Role::Client, endpoint.bytes_max, receiver).await)
}

/// Refuses an answer that chooses what was not offered. One that chooses nothing will do.
fn check_offered(headers: &HeaderMap) -> Result<(), LinkError> {
    let unoffered = |what: &str, value: &HeaderValue| {
        let chosen = one_line(&String::from_utf8_lossy(value.as_bytes()), REASON_CHARS_MAX);
        LinkError::Protocol(format!("it chose the {what} `{chosen}`, which was not offered"))
    };
    let mut protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    if let Some(other) = protocols.find(|value| value.as_bytes().trim_ascii() != SUBPROTOCOL.as_bytes()) {
        return Err(unoffered("subprotocol", other));
    }
    let mut extensions = headers.get_all(SEC_WEBSOCKET_EXTENSIONS).iter();
    match extensions.find(|value| !value.as_bytes().trim_ascii().is_empty()) {
        Some(extension) => Err(unoffered("extension", extension)),
        None => Ok(()),
    }
}

async fn start(
    connection: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    role: Role,
    bytes_max: usize,
    receiver: Arc<dyn Receiver>,
) -> Duplex {
    let config = WebSocketConfig::default().max_message_size(Some(bytes_max)).max_frame_size(Some(bytes_max));
    let (connection, pings) = pings::watch(connection);
    let socket = WebSocketStream::from_raw_socket(connection, role, Some(config)).await;
    let (sink, stream) = socket.split();
    let frames = unfold(Some(Frames { stream, pings, bytes_max }), |frames| async move {
        let mut frames = frames?;
        match frames.next().await? {
            Ok(message) => Some((Ok(message), Some(frames))),
            Err(error) => Some((Err(error), None)),
        }
    });
    let closer = Box::new(|| -> BoxFuture<'static, ()> { Box::pin(async {}) });
    Duplex::start(frames.boxed(), Sender(sink), receiver, closer)
}

/// The reading half.
struct Frames<S> {
    stream: SplitStream<WebSocketStream<Watched<S>>>,
    pings: Pings,
    bytes_max: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Frames<S> {
    /// The next message. Nothing comes after an error.
    async fn next(&mut self) -> Option<Result<Bytes, LinkError>> {
        loop {
            return Some(match self.stream.next().await? {
                Ok(Frame::Text(text)) => Ok(Bytes::from(text)),
                Ok(Frame::Binary(bytes)) => Ok(bytes),
                Ok(Frame::Ping(_)) if !self.pings.take() => {
                    Err(LinkError::Protocol("it pings and does not read the answers".to_owned()))
                }
                Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_)) => continue,
                Ok(Frame::Close(close)) => {
                    // Our own close goes out before the next frame is looked for.
                    let _nothing = self.stream.next().now_or_never();
                    Err(closed_by(close.as_ref()))
                }
                Err(WsError::Capacity(_)) => Err(LinkError::TooLarge { limit: self.bytes_max }),
                Err(other) => Err(LinkError::closed(other.to_string())),
            });
        }
    }
}

fn closed_by(close: Option<&CloseFrame>) -> LinkError {
    let said = close.map(|close| {
        let reason = one_line(close.reason.trim(), REASON_CHARS_MAX);
        let colon = if reason.is_empty() { "" } else { ": " };
        format!(" ({}{colon}{reason})", u16::from(close.code))
    });
    LinkError::closed(format!("the server has closed the connection{}", said.unwrap_or_default()))
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

#[cfg(test)]
mod tests {
    use helve_net::{Client, NetPolicy, Url};
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::answers::Answers;
    use super::super::hub::{Hub, Identity};
    use super::super::link::Link;
    use super::*;
    use crate::log::Log;
    use crate::message::raw;

    fn receiver() -> Arc<dyn Receiver> {
        let identity = Identity { info: raw(&json!({})), capabilities: raw(&json!({})) };
        Hub::new(identity, Answers::default(), Arc::new(Log::default()))
    }

    fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
        [&[0x80 | opcode, u8::try_from(payload.len()).unwrap()], payload].concat()
    }

    #[tokio::test]
    async fn pings_of_a_server_that_never_reads_are_cut_off() {
        let (ours, mut theirs) = tokio::io::duplex(64 << 10);
        let link = start(ours, Role::Client, 1 << 20, receiver()).await;
        let pings = frame(9, &[b'p'; 125]).repeat(100);
        let mut sent = 0;
        while link.closed().is_none() && sent < 64 << 20 {
            tokio::select! {
                biased;
                () = link.wait_closed() => {}
                written = theirs.write_all(&pings) => {
                    written.unwrap();
                    sent += pings.len();
                }
            }
        }
        assert!(sent < 2 << 20, "it took {sent} bytes of pings");
        let why = link.closed().unwrap();
        assert!(why.contains("it pings and does not read the answers"), "{why}");
    }

    #[tokio::test]
    async fn pings_of_a_server_that_reads_are_all_answered() {
        let (ours, theirs) = tokio::io::duplex(1 << 10);
        let link = start(ours, Role::Client, 1 << 20, receiver()).await;
        let (mut reading, mut writing) = tokio::io::split(theirs);
        // A client's frames have a mask.
        let mut answers = vec![0; 5_000 * (2 + 4 + 125)];
        let pings = frame(9, &[b'p'; 125]).repeat(5_000);
        let (read, written) = tokio::join!(reading.read_exact(&mut answers), writing.write_all(&pings));
        read.unwrap();
        written.unwrap();
        assert_eq!(link.closed(), None);
    }

    #[tokio::test]
    async fn a_close_says_why_and_is_answered() {
        let reason = [&1008_u16.to_be_bytes()[..], "no\u{1b}[31m such\nkey".as_bytes()].concat();
        for (payload, wanted) in [
            (&reason[..], "the server has closed the connection (1008: "),
            (&1001_u16.to_be_bytes(), "the server has closed the connection (1001)"),
            (&[], "the server has closed the connection"),
        ] {
            let (ours, mut theirs) = tokio::io::duplex(1 << 10);
            let link = start(ours, Role::Client, 1 << 20, receiver()).await;
            theirs.write_all(&frame(8, payload)).await.unwrap();
            link.wait_closed().await;
            let why = link.closed().unwrap();
            assert!(why.starts_with(wanted) && !why.contains(['\u{1b}', '\n']), "{why:?}");
            assert_eq!(why.contains("key"), payload.len() > 2, "{why:?}");
            assert_eq!(theirs.read_u8().await.unwrap(), 0x88);
        }
    }

    /// What comes of a handshake that is answered with these headers besides the ones that must be.
    async fn shaken(headers: &str) -> Result<Duplex, LinkError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("ws://{}/", listener.local_addr().unwrap())).unwrap();
        let headers = headers.to_owned();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let (_, key) =
                head.lines().filter_map(|line| line.split_once(": ")).find(|(name, _)| is_key(name)).unwrap();
            let accept = derive_accept_key(key.as_bytes());
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n{headers}\r\n"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            // Open until the other side has seen enough.
            let _ = stream.read_u8().await;
        });
        connected(url).await
    }

    async fn connected(url: Url) -> Result<Duplex, LinkError> {
        let policy = NetPolicy { allow: vec!["127.0.0.1".parse().unwrap()], ..NetPolicy::default() };
        let client = Client::new(policy).unwrap();
        let endpoint = Endpoint {
            client,
            url,
            is_secret: false,
            headers: HeaderMap::new(),
            authorizer: None,
            bytes_max: 1 << 20,
        };
        connect(endpoint, receiver(), Instant::now() + std::time::Duration::from_secs(20)).await
    }

    #[tokio::test]
    async fn a_refusal_without_a_challenge_asks_for_no_authorization() {
        for (more, asks) in [("", false), ("WWW-Authenticate: Bearer\r\n", true)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = Url::parse(&format!("ws://{}/", listener.local_addr().unwrap())).unwrap();
            let answer = format!("HTTP/1.1 403 No\r\n{more}Content-Length: 0\r\n\r\n");
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                stream.write_all(answer.as_bytes()).await.unwrap();
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
            let refused = connected(url).await.err().unwrap();
            assert_eq!(matches!(refused, LinkError::Unauthorized { .. }), asks, "{refused}");
            assert!(refused.to_string().contains("403"), "{refused}");
        }
    }

    fn is_key(name: &str) -> bool {
        name.eq_ignore_ascii_case("sec-websocket-key")
    }

    #[tokio::test]
    async fn what_was_not_offered_is_not_taken() {
        for fine in ["", "Sec-WebSocket-Protocol: mcp\r\n"] {
            assert!(shaken(fine).await.is_ok(), "{fine}");
        }
        for (headers, wanted) in [
            ("Sec-WebSocket-Protocol: evil\r\n", "the subprotocol `evil`"),
            ("Sec-WebSocket-Protocol: mcp, evil\r\n", "the subprotocol `mcp, evil`"),
            ("Sec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Protocol: evil\r\n", "the subprotocol `evil`"),
            ("Sec-WebSocket-Extensions: permessage-deflate\r\n", "the extension `permessage-deflate`"),
        ] {
            let Err(error) = shaken(headers).await else { panic!("taken: {headers}") };
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }
}
