//! What lasts longer than a request ends with the authority that opened it.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use helve::Caller;
use helve::identity::Purpose;
use jiff::Timestamp;
use serde_json::json;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::Message as Frame;

use crate::harness::request;
use crate::identity::{Api, api, cookie, place};

/// Longest that a test waits for what must come.
const LONG: Duration = Duration::from_secs(10);

async fn revoke(api: &Api, key: &helve::Key) {
    api.server.runtime.keys().revoke_key(key.id, Caller::local(), Timestamp::now()).await.unwrap().unwrap();
}

/// Opens a stream, does something once it is there, and waits for its end.
async fn ends_after(api: &Api, path: &str, headers: &[(&str, &str)], then: impl AsyncFnOnce()) {
    let mut open = api.server.open(&format!("GET {path}"), headers, "").await;
    open.until("retry: 2000").await;
    then().await;
    tokio::time::timeout(LONG, open.end()).await.unwrap_or_else(|_| panic!("{path} goes on"));
}

#[tokio::test]
async fn streams_end_when_their_key_is_taken_back() {
    let api = api().await;
    for purpose in [Purpose::Call, Purpose::Decide] {
        let (key, text) = api.key("ci", purpose).await;
        let bearer = format!("Bearer {text}");
        ends_after(&api, "/v1/events", &[("authorization", &bearer)], async || revoke(&api, &key).await)
            .await;
    }
}

#[tokio::test]
async fn streams_end_when_their_reader_signs_out() {
    let api = api().await;
    for path in ["/v1/events", "/changes"] {
        let (_, code) = api.key("ada", Purpose::SignIn).await;
        let signed_in = api.sign_in(&code).await;
        let (session, csrf) = (cookie(&signed_in), signed_in.json()["csrf"].as_str().unwrap().to_owned());
        let place = place(&signed_in);
        let headers = [("authorization", "-"), ("cookie", session.as_str())];
        ends_after(&api, &format!("{place}{path}"), &headers, async || {
            let headers = [headers[0], headers[1], ("x-helve-csrf", csrf.as_str())];
            let out = api.server.send(&format!("POST {place}/sign-out"), &headers, "").await;
            assert_eq!(out.status, 204, "{out:?}");
        })
        .await;
    }
}

#[tokio::test]
async fn the_pages_stream_ends_with_the_key_that_signed_in() {
    let api = api().await;
    let (key, text) = api.key("ada", Purpose::Decide).await;
    let signed_in = api.sign_in(&text).await;
    let (session, changes) = (cookie(&signed_in), format!("{}/changes", place(&signed_in)));
    let headers = [("authorization", "-"), ("cookie", session.as_str())];
    ends_after(&api, &changes, &headers, async || revoke(&api, &key).await).await;
}

#[tokio::test]
async fn a_silent_websocket_ends_when_its_key_is_taken_back() {
    let api = api().await;
    let (key, text) = api.key("ci", Purpose::Call).await;
    let mut handshake = api.server.url("/mcp/ws").replace("http://", "ws://").into_client_request().unwrap();
    let headers = handshake.headers_mut();
    headers.insert("authorization", format!("Bearer {text}").parse().unwrap());
    headers.insert("sec-websocket-protocol", "mcp".parse().unwrap());
    let stream = tokio::net::TcpStream::connect(api.server.address).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(handshake, stream).await.unwrap();
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    socket.send(Frame::text(request(0, "initialize", hello).to_string())).await.unwrap();
    assert!(socket.next().await.unwrap().unwrap().is_text());
    revoke(&api, &key).await;
    // Nothing more is said: it ends by itself.
    let ended = async { while let Some(Ok(_)) = socket.next().await {} };
    tokio::time::timeout(LONG, ended).await.expect("it goes on");
}
