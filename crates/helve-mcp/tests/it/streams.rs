//! Streams of an HTTP server that break, and what is done about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use helve_mcp::config::{EraChoice, ServerConfig};
use serde_json::{Value, json};

use crate::plain::{eventually, text};
use crate::setup::Setup;

/// What becomes of the stream that answers a call, when its client comes back to it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Back {
    /// The server knows nothing of it any more.
    Forgotten,
    /// It breaks again and again, with something new each time, and the answer comes at last.
    Breaks(usize),
}

/// A server whose streams all break.
struct Breaking {
    back: Back,
    calls: AtomicUsize,
    resumed: AtomicUsize,
    news: AtomicUsize,
}

/// One event of a stream that ends after it.
fn stream(id: Option<usize>, data: &Value) -> Response {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let data = if data.is_null() { String::new() } else { data.to_string() };
    let event = format!("retry: 0\n{id}data: {data}\n\n");
    ([(header::CONTENT_TYPE, "text/event-stream")], event).into_response()
}

impl Breaking {
    async fn start(back: Back) -> (Arc<Self>, ServerConfig) {
        let [calls, resumed, news] = std::array::from_fn(|_| AtomicUsize::new(0));
        let server = Arc::new(Self { back, calls, resumed, news });
        let answering = Arc::clone(&server);
        let app = Router::new().fallback(async move |request: Request| answering.answer(request).await);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (server, ServerConfig { era: EraChoice::Session, ..ServerConfig::remote(url) })
    }

    async fn answer(&self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        let last = head.headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<usize>().ok());
        if head.method == "GET" {
            return self.resume(last);
        }
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let id = &message["id"];
        let done = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
        match message["method"].as_str() {
            Some("initialize") => {
                let said = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": { "tools": { "listChanged": true } },
                    "serverInfo": { "name": "breaking", "version": "1" },
                });
                ([("mcp-session-id", "one")], Json(done(said))).into_response()
            }
            Some("tools/list") => {
                let tool = |name: String| json!({ "name": name, "inputSchema": { "type": "object" } });
                let news = self.news.load(Ordering::SeqCst);
                Json(done(json!({ "tools": [tool("do".to_owned()), tool(format!("new-{news}"))] })))
                    .into_response()
            }
            Some("tools/call") => {
                self.calls.fetch_add(1, Ordering::SeqCst);
                // The id of the question is the first id of its stream.
                stream(Some(id.as_u64().unwrap() as usize * 100), &Value::Null)
            }
            _ => StatusCode::ACCEPTED.into_response(),
        }
    }

    fn resume(&self, last: Option<usize>) -> Response {
        let Some(last) = last else {
            self.news.fetch_add(1, Ordering::SeqCst);
            let news = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            return stream(None, &news);
        };
        self.resumed.fetch_add(1, Ordering::SeqCst);
        match self.back {
            Back::Forgotten => StatusCode::NOT_FOUND.into_response(),
            Back::Breaks(times) if last % 100 < times => stream(Some(last + 1), &Value::Null),
            Back::Breaks(_) => {
                let result = json!({ "content": [{ "type": "text", "text": "done" }] });
                stream(None, &json!({ "jsonrpc": "2.0", "id": last / 100, "result": result }))
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_was_taken_is_not_made_again_because_its_stream_is_lost() {
    let (server, config) = Breaking::start(Back::Forgotten).await;
    let setup = Setup::with("it", config).await;
    let error = setup.call("it/do", json!({})).await.into_result().unwrap_err();
    assert!(error.to_string().contains("ended the session"), "{error}");
    assert_eq!(server.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_stream_of_a_call_may_break_as_often_as_it_brings_something() {
    let (server, config) = Breaking::start(Back::Breaks(20)).await;
    let setup = Setup::with("it", config).await;
    assert_eq!(text(setup.call("it/do", json!({})).await), "done");
    assert_eq!(server.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn no_server_has_us_come_back_to_a_stream_as_fast_as_we_can() {
    let (server, mut config) = Breaking::start(Back::Breaks(usize::MAX)).await;
    config.timeout_s = 1;
    let setup = Setup::with("it", config).await;
    let error = setup.call("it/do", json!({})).await.into_result().unwrap_err();
    assert!(error.to_string().contains("did not answer within"), "{error}");
    let resumed = server.resumed.load(Ordering::SeqCst);
    assert!((2..=25).contains(&resumed), "it was resumed {resumed} times in a second");
}

#[tokio::test]
async fn a_stream_of_news_without_ids_is_opened_as_often_as_it_brings_something() {
    let (_server, config) = Breaking::start(Back::Forgotten).await;
    let setup = Setup::with("it", config).await;
    let registry = setup.runtime.registry();
    eventually("the twelfth news is heard", async || {
        (12..50).any(|at| registry.has(&format!("it/new-{at}")))
    })
    .await;
}
