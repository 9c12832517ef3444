//! WebSockets: how many there may be, and how they end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use helve::Tool;
use helve_mcp::server::ServerOptions;
use helve_server::ServerConfig;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame as FrameOf;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::harness::{ADA, BOB, Server, call, request, serve_until, serve_with};

/// Longest that a test waits for what must come.
const LONG: Duration = Duration::from_secs(20);

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// A WebSocket, or how the handshake was refused.
pub(crate) async fn open(server: &Server, token: &str) -> Result<Socket, (u16, String)> {
    let mut handshake = server.url("/mcp/ws").replace("http://", "ws://").into_client_request().unwrap();
    let headers = handshake.headers_mut();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    headers.insert("sec-websocket-protocol", "mcp".parse().unwrap());
    let stream = TcpStream::connect(server.address).await.unwrap();
    match tokio_tungstenite::client_async(handshake, stream).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(refused)) => {
            let body = refused.body().clone().unwrap_or_default();
            Err((refused.status().as_u16(), String::from_utf8(body).unwrap()))
        }
        Err(other) => panic!("{other}"),
    }
}

async fn say(socket: &mut Socket, message: Value) {
    socket.send(Frame::text(message.to_string())).await.unwrap();
}

/// The next message. None: the server has closed.
async fn next(socket: &mut Socket) -> Option<Value> {
    loop {
        match tokio::time::timeout(LONG, socket.next()).await.expect("nothing comes")? {
            Ok(Frame::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
            Ok(Frame::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

pub(crate) async fn greet(socket: &mut Socket) {
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    say(socket, request(0, "initialize", hello)).await;
    assert_eq!(next(socket).await.unwrap()["id"], 0);
    say(socket, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
}

/// Says something, and waits for what comes next.
pub(crate) async fn ask(socket: &mut Socket, message: Value) -> Value {
    say(socket, message).await;
    next(socket).await.unwrap()
}

/// Until there is room: a place is free a moment after its connection has ended.
async fn open_soon(server: &Server, token: &str) -> Socket {
    let opened = async {
        loop {
            match open(server, token).await {
                Ok(socket) => return socket,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(LONG, opened).await.expect("there is no room")
}

#[tokio::test]
async fn one_principal_has_so_many_and_one_that_ends_makes_room() {
    let config = ServerConfig { sessions_max: 6, sessions_per_principal_max: 2, ..ServerConfig::default() };
    let server = serve_with(ServerOptions::default(), config).await;
    let mut first = open(&server, ADA).await.unwrap();
    let mut adas = vec![open(&server, ADA).await.unwrap()];
    let (status, said) = open(&server, ADA).await.expect_err("it is one too many");
    assert!(status == 503 && said.contains("too many sessions; end one, or try later"), "{status} {said}");
    // The older transport lasts as long, and is counted with them.
    let full = server.send("GET /mcp/sse", &[], "").await;
    assert_eq!((full.status, &*full.headers["retry-after"]), (503, "5"), "{full:?}");
    let mut bobs = open(&server, BOB).await.unwrap();
    greet(&mut bobs).await;
    first.close(None).await.unwrap();
    adas.push(open_soon(&server, ADA).await);
    // A client that just goes away gives its place back as well.
    drop(adas.pop());
    adas.push(open_soon(&server, ADA).await);
    for socket in &mut adas {
        greet(socket).await;
    }
}

#[tokio::test]
async fn a_websocket_is_one_of_the_connections_that_there_may_be() {
    // Four for strangers, two for who decides, and ten for callers: five for each.
    let config = ServerConfig { connections_max: 16, ..ServerConfig::default() };
    let server = serve_with(ServerOptions::default(), config).await;
    let mut adas = Vec::new();
    for _ in 0..20 {
        let mut socket = open(&server, ADA).await.unwrap();
        greet(&mut socket).await;
        adas.push(socket);
    }
    let mut bobs = open(&server, BOB).await.expect("somebody else has room");
    greet(&mut bobs).await;
    // Beyond her share, the oldest had to go; what is left of it is no more than there may be.
    let ended = |socket| async move {
        let mut socket: Socket = socket;
        tokio::time::timeout(Duration::from_millis(500), socket.next()).await.is_ok()
    };
    let ended = futures_util::future::join_all(adas.into_iter().map(ended)).await;
    let left = ended.iter().filter(|ended| !**ended).count();
    assert!((5..=9).contains(&left) && ended[..5].iter().all(|ended| !ended), "{ended:?}");
}

#[tokio::test]
async fn a_server_that_stops_lets_a_call_on_a_websocket_end_and_answers_it() {
    let (stop, go, begun) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let stopped = Arc::clone(&stop);
    let config = ServerConfig { stop_grace: LONG, ..ServerConfig::default() };
    let (server, running) =
        serve_until(async move { stopped.notified().await }, ServerOptions::default(), config).await;
    let held = {
        let (go, begun) = (Arc::clone(&go), Arc::clone(&begun));
        Tool::builder("held").description("Waits.").input_schema(json!({ "type": "object" })).handler(
            move |_, _| {
                let (go, begun) = (Arc::clone(&go), Arc::clone(&begun));
                async move {
                    begun.notify_one();
                    go.acquire().await.unwrap().forget();
                    Ok(json!("ended well"))
                }
            },
        )
    };
    server.registry.register(helve::Layer::Project, held.build().unwrap()).unwrap();
    let mut socket = open(&server, ADA).await.unwrap();
    let mut idle = open(&server, BOB).await.unwrap();
    greet(&mut socket).await;
    greet(&mut idle).await;
    say(&mut socket, call(7, "held", json!({}))).await;
    begun.notified().await;
    stop.notify_one();
    // One on which nothing runs is closed at once, and by then the server stops.
    while next(&mut idle).await.is_some() {}
    assert!(!running.is_finished());
    // Nothing more is taken.
    let _ = socket.send(Frame::text(call(8, "echo", json!({ "message": "late" })).to_string())).await;
    go.add_permits(1);
    let mut answers = Vec::new();
    while let Some(message) = next(&mut socket).await {
        answers.extend(message.get("id").is_some().then_some(message));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(
        (&answers[0]["id"], &answers[0]["result"]["content"][0]["text"]),
        (&json!(7), &json!("ended well"))
    );
    tokio::time::timeout(LONG, running).await.expect("it goes on").unwrap();
}

/// The first frame of a message, which takes as many bytes as everybody may have without a turn, and
/// none more: what nobody reads would break the connection off.
async fn unfinished(socket: &mut Socket) {
    let frame = FrameOf::message(vec![b' '; (64 << 10) - 8], OpCode::Data(Data::Text), false);
    socket.send(Frame::Frame(frame)).await.unwrap();
}

/// How the server closes.
async fn closed(socket: &mut Socket) -> (u16, String) {
    let closed = async {
        loop {
            match socket.next().await {
                Some(Ok(Frame::Close(Some(why)))) => return (why.code.into(), why.reason.to_string()),
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(LONG, closed).await.expect("it is not closed")
}

#[tokio::test]
async fn large_messages_take_turns_with_large_bodies() {
    let server = serve_with(ServerOptions::default(), ServerConfig::default()).await;
    let mut open_ones = Vec::new();
    for _ in 0..16 {
        let mut socket = open(&server, ADA).await.unwrap();
        unfinished(&mut socket).await;
        open_ones.push(socket);
    }
    let large = |id: i64| call(id, "echo", json!({ "message": "x".repeat(3 << 20) }));
    // One more of hers is told to come back, and so is a body.
    let mut more = open(&server, ADA).await.unwrap();
    unfinished(&mut more).await;
    let (code, reason) = closed(&mut more).await;
    assert!(code == 1013 && reason.contains("send this again in a moment"), "{code} {reason}");
    let body = format!("{}{}", " ".repeat(100_000), call(1, "echo", json!({})));
    assert_eq!(server.send("POST /mcp", &[], &body).await.status, 503);
    // What is small needs no turn, nor do small messages that are much together, nor pings.
    let mut small = open(&server, ADA).await.unwrap();
    greet(&mut small).await;
    for id in 0..4 {
        for _ in 0..600 {
            small.send(Frame::Ping(vec![0; 100].into())).await.unwrap();
        }
        say(&mut small, call(id, "echo", json!({ "message": "x".repeat(40_000) }))).await;
        assert_eq!(next(&mut small).await.unwrap()["id"], id);
    }
    // Others are not touched, and a connection that ends makes room.
    let mut bobs = open(&server, BOB).await.unwrap();
    greet(&mut bobs).await;
    say(&mut bobs, large(7)).await;
    assert_eq!(next(&mut bobs).await.unwrap()["id"], 7);
    drop(open_ones.pop());
    say(&mut small, large(8)).await;
    assert_eq!(next(&mut small).await.unwrap()["id"], 8);
    say(&mut small, large(9)).await;
    assert_eq!(next(&mut small).await.unwrap()["id"], 9, "its turn was given back");
}

#[tokio::test]
async fn pings_do_not_hide_how_large_a_message_is_and_it_must_end() {
    let config = ServerConfig { body_timeout: Duration::from_millis(200), ..ServerConfig::default() };
    let server = serve_with(ServerOptions::default(), config).await;
    let mut socket = open(&server, ADA).await.unwrap();
    for n in 0..4 {
        let data = OpCode::Data(if n == 0 { Data::Text } else { Data::Continue });
        socket.send(Frame::Frame(FrameOf::message(vec![b' '; 30_000], data, false))).await.unwrap();
        socket.send(Frame::Ping(vec![0; 100].into())).await.unwrap();
    }
    let (code, reason) = closed(&mut socket).await;
    assert!(code == 1008 && reason.contains("too slowly"), "{code} {reason}");
    // What needs no turn may take its time: twice what a message may. A clock that is turned would turn for the sockets too.
    let mut idle = open(&server, ADA).await.unwrap();
    greet(&mut idle).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    say(&mut idle, call(1, "echo", json!({ "message": "hi" }))).await;
    assert_eq!(next(&mut idle).await.unwrap()["id"], 1);
}
