//! Servers that do something odd, and what is said about it.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::Response;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use helve_mcp::config::{EraChoice, Secrets, ServerConfig, Setting};
use helve_mcp::servers::Surroundings;
use serde_json::{Value, json};

use crate::plain::{kill, plain, text};
use crate::setup::{Setup, surroundings};

/// A server whose list of tools goes on at `cursor`, and whose tool answers with far too much.
async fn odd(cursor: Value) -> ServerConfig {
    let answer = async move |Json(message): Json<Value>| {
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "odd", "version": "1" },
            }),
            Some("tools/list") => json!({ "nextCursor": cursor, "tools": [
                { "name": "do", "description": "Does it.", "inputSchema": { "type": "object" } },
            ] }),
            Some("tools/call") => {
                // Announced, and never sent.
                let endless = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
                let response = Response::builder()
                    .header("content-type", "application/json")
                    .header("content-length", 1_u64 << 40);
                return response.body(Body::from_stream(endless)).unwrap();
            }
            _ => json!({}),
        };
        Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
    };
    let app = Router::new().route("/mcp", post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    ServerConfig { era: EraChoice::Session, ..ServerConfig::remote(url) }
}

#[tokio::test]
async fn a_cursor_that_is_no_string_is_remarked_on() {
    for (cursor, is_odd) in [(json!(5), true), (json!({ "a": 1 }), true), (json!(null), false)] {
        let setup = Setup::with("it", odd(cursor.clone()).await).await;
        let status = setup.assert_connected("it");
        assert_eq!(status.tools, 1, "what was listed stays");
        let is_remarked = status.remarks.iter().any(|remark| remark.contains("`nextCursor` is no string"));
        assert_eq!(is_remarked, is_odd, "{cursor}: {:?}", status.remarks);
    }
}

#[tokio::test]
async fn an_announced_length_is_held_against_the_limit_that_counts() {
    let mut config = odd(Value::Null).await;
    config.limits.message_bytes = 70_000;
    let setup = Setup::with("it", config).await;
    let error = setup.call("it/do", json!({})).await.into_result().unwrap_err();
    assert!(error.to_string().contains("a message of more than 70000 bytes"), "{error}");
}

#[tokio::test]
async fn what_a_server_wrote_to_stderr_is_not_for_whoever_calls() {
    let env = BTreeMap::from([("API_KEY".to_owned(), Setting::from_env("KEY"))]);
    let surroundings = Surroundings { secrets: Secrets::fixed([("KEY", "k3y-of-ours")]), ..surroundings() };
    let setup = Setup::within(surroundings);
    setup.servers.set(BTreeMap::from([("it".to_owned(), ServerConfig { env, ..plain() })])).await;
    setup.servers.settled().await;
    let call = async |tool: &str, arguments| setup.call(tool, arguments).await;
    text(call("it/say", json!({ "words": "error: bad key k3y-of-ours for customer 17" })).await);
    let pid = setup.pid("it").await;
    let dying = async {
        setup.logged("it", "stuck begins", 1).await;
        kill(pid);
    };
    let (outcome, ()) = tokio::join!(call("it/stuck", json!({})), dying);
    let shown = serde_json::to_string(outcome.error().expect("it died")).unwrap();
    assert!(shown.contains("killed by signal 9") && !shown.contains("customer 17"), "{shown}");
    setup.logged("it", "its last words: error: bad key [secret] for customer 17", 1).await;
    let lines = setup.servers.log("it", 1_000).unwrap();
    assert!(lines.iter().all(|line| !line.text.contains("k3y-of-ours")), "{lines:?}");
}

#[tokio::test]
async fn a_program_that_crashes_is_said_to_in_words() {
    let program = ServerConfig::program("sh", ["-c", "kill -SEGV $$"]);
    let setup = Setup::with("it", ServerConfig { confined: false, ..program }).await;
    let reason = setup.status("it").reason.unwrap();
    assert!(reason.contains("the server was killed by signal 11 (SIGSEGV)"), "{reason}");
}
