//! An HTTP server that forgets its sessions, in each of the ways that servers say so.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use helve_mcp::config::{EraChoice, ServerConfig};
use serde_json::{Value, json};

use crate::plain::text;
use crate::setup::Setup;

#[derive(Default)]
struct Forgetful {
    sessions: Mutex<HashSet<String>>,
    greetings: Mutex<u32>,
    done: Mutex<u32>,
}

/// How a server says that it does not know a session.
#[derive(Clone, Copy, Debug)]
enum Says {
    NotFound,
    NotFoundInJson,
    BadRequest,
}

impl Says {
    fn response(self) -> Response {
        let error = |message: &str| {
            let error = json!({ "code": -32000, "message": message });
            Json(json!({ "jsonrpc": "2.0", "id": null, "error": error }))
        };
        match self {
            Self::NotFound => (StatusCode::NOT_FOUND, "Session not found").into_response(),
            Self::NotFoundInJson => (StatusCode::NOT_FOUND, error("Session not found")).into_response(),
            Self::BadRequest => {
                (StatusCode::BAD_REQUEST, error("Bad Request: No valid session ID provided")).into_response()
            }
        }
    }
}

impl Forgetful {
    fn answer(&self, says: Says, headers: &HeaderMap, message: &Value) -> Response {
        let session = headers.get("mcp-session-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
        let done = |result: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        if message["method"] == "initialize" {
            let mut greetings = self.greetings.lock().unwrap();
            *greetings += 1;
            let id = format!("session-{greetings}");
            self.sessions.lock().unwrap().insert(id.clone());
            let said = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "forgetful", "version": "1" },
            });
            return ([("mcp-session-id", id)], Json(done(said))).into_response();
        }
        if !self.sessions.lock().unwrap().contains(session) {
            return says.response();
        }
        match message["method"].as_str() {
            Some("tools/list") => Json(done(json!({ "tools": [
                { "name": "do", "description": "Does it.", "inputSchema": { "type": "object" } },
            ] })))
            .into_response(),
            Some("tools/call") => {
                *self.done.lock().unwrap() += 1;
                Json(done(json!({ "content": [{ "type": "text", "text": "done" }] }))).into_response()
            }
            _ => StatusCode::ACCEPTED.into_response(),
        }
    }
}

#[tokio::test]
async fn a_forgotten_session_is_begun_anew_and_the_call_done_once() {
    for says in [Says::NotFound, Says::NotFoundInJson, Says::BadRequest] {
        let server = Arc::new(Forgetful::default());
        let answering = Arc::clone(&server);
        let app = Router::new().route(
            "/mcp",
            post(async move |headers: HeaderMap, Json(message): Json<Value>| {
                answering.answer(says, &headers, &message)
            }),
        );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let setup =
            Setup::with("it", ServerConfig { era: EraChoice::Session, ..ServerConfig::remote(url) }).await;
        setup.assert_connected("it");
        for round in 1..=3 {
            server.sessions.lock().unwrap().clear();
            assert_eq!(text(setup.call("it/do", json!({})).await), "done", "{says:?}");
            assert_eq!(*server.done.lock().unwrap(), round, "{says:?}");
        }
        assert_eq!(setup.assert_connected("it").restarts, 3, "{says:?}");
    }
}
