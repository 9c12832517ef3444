//! Connections that say nothing: however many there are, a client with something to say gets in.

use std::time::Duration;

use helve::identity::Purpose;
use helve_server::ServerConfig;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{ADA, BOB, Reply, Server};
use crate::identity::{Api, api_with, cookie, place};
use crate::websocket;

/// Far fewer than by default, so that a test fills them many times over.
const CONNECTIONS_MAX: usize = 64;

fn small() -> ServerConfig {
    ServerConfig { connections_max: CONNECTIONS_MAX, ..ServerConfig::default() }
}

/// Connections whose heads never come to an end.
async fn half_open(server: &Server, count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for at in 0..count {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let begun: &[u8] = match at % 3 {
            0 => b"",
            1 => b"G",
            _ => b"POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ",
        };
        // One that has gone already is as good.
        let _ = stream.write_all(begun).await;
        streams.push(stream);
    }
    streams
}

/// Whether the server has closed it.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut [0; 64])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

async fn everything_works(api: &Api, signed_in: &Reply) {
    let echo = json!({ "tool": "echo", "arguments": { "message": "hi" } });
    let called = api.ask("POST /v1/calls", BOB, echo).await;
    assert_eq!((called.status, &called.json()["result"]), (200, &json!("hi")), "{called:?}");
    let headers = [("authorization", "-"), ("cookie", &*cookie(signed_in))];
    let page = api.server.send(&format!("GET {}/", place(signed_in)), &headers, "").await;
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(api.get("/healthz", BOB).await.status, 200);
    api.server.session(ADA, json!({})).await;
    websocket::greet(&mut websocket::open(&api.server, ADA).await.unwrap()).await;
}

#[tokio::test]
async fn half_open_connections_lock_nobody_out() {
    let api = api_with(small()).await;
    let (_, decider) = api.key("grace", Purpose::Decide).await;
    let signed_in = api.sign_in(&decider).await;
    let mut before = websocket::open(&api.server, BOB).await.unwrap();
    let mut crowd = half_open(&api.server, 5 * CONNECTIONS_MAX).await;
    everything_works(&api, &signed_in).await;
    websocket::greet(&mut before).await;
    // While more of them keep coming.
    let address = api.server.address;
    let more = tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            kept.push(TcpStream::connect(address).await);
            if kept.len() > 200 {
                kept.drain(..100);
            }
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..5 {
        everything_works(&api, &signed_in).await;
    }
    more.abort();
    let mut open = 0;
    for stream in &mut crowd {
        open += usize::from(!is_closed(stream).await);
    }
    assert!(open <= CONNECTIONS_MAX / 4, "{open} of the crowd are still there");
}

#[tokio::test]
async fn a_head_that_trickles_keeps_nobody_out_and_comes_to_an_end() {
    let config = ServerConfig { head_timeout: Duration::from_millis(500), ..small() };
    let api = api_with(config).await;
    let mut slow = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut stream = TcpStream::connect(api.server.address).await.unwrap();
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ").await;
        slow.push(stream);
    }
    let trickling = tokio::spawn(async move {
        while !slow.is_empty() {
            let mut left = Vec::new();
            for mut stream in slow {
                if stream.write_all(b"x").await.is_ok() && !is_closed(&mut stream).await {
                    left.push(stream);
                }
            }
            slow = left;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let echo = json!({ "tool": "echo", "arguments": { "message": "hi" } });
    assert_eq!(api.ask("POST /v1/calls", BOB, echo).await.status, 200);
    tokio::time::timeout(Duration::from_secs(20), trickling).await.expect("some are never cut off").unwrap();
}

#[tokio::test]
async fn requests_without_a_key_that_never_end_lock_nobody_out() {
    let api = api_with(small()).await;
    let (_, decider) = api.key("grace", Purpose::Decide).await;
    let signed_in = api.sign_in(&decider).await;
    // A sign-in is open to everybody, and its body takes its time.
    let mut slow = Vec::new();
    for _ in 0..3 * CONNECTIONS_MAX {
        let mut stream = TcpStream::connect(api.server.address).await.unwrap();
        let head = "POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        let _ = stream.write_all(format!("{head}Content-Length: 100\r\n\r\n{{").as_bytes()).await;
        slow.push(stream);
    }
    everything_works(&api, &signed_in).await;
}
