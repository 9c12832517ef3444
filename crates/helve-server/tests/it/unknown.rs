//! A tool that is not there: whichever way somebody asks for it, the journal says who did.

use std::sync::Arc;

use helve::record::{EndStatus, Entry};
use helve::{ErrorCode, Runtime, VolatileLedger};
use helve_server::ServerConfig;
use serde_json::{Value, json};

use crate::harness::{BOB, call, meta};
use crate::identity::{Api, api_on};
use crate::websocket;

/// What was asked for, by whom, and why it did not run; since `from`.
fn recorded(journal: &VolatileLedger, from: usize) -> Vec<(String, Option<String>, Option<ErrorCode>)> {
    let entries = journal.entries().into_iter().skip(from);
    let ends = entries.filter_map(|entry| match entry {
        Entry::Finished(end) => Some(end),
        Entry::Started(_) | Entry::Step(_) => None,
    });
    let told = |end: Box<helve::record::Finished>| {
        assert_ne!(end.ending.status, EndStatus::Done);
        (end.facts.tool.to_string(), end.facts.caller.principal.clone(), end.ending.code)
    };
    ends.map(told).collect()
}

async fn over_the_older_transport(api: &Api, message: &Value) -> Value {
    let bearer = format!("Bearer {BOB}");
    let headers = [("authorization", bearer.as_str())];
    let mut open = api.server.open("GET /mcp/sse", &headers, "").await;
    open.until("sessionId=").await;
    let read = open.until("\n\n").await.to_owned();
    let path = read.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned();
    let line = format!("POST {path}");
    let hello = json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
    assert_eq!(api.server.send(&line, &headers, &hello.to_string()).await.status, 202);
    open.until("protocolVersion").await;
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(api.server.send(&line, &headers, &ready.to_string()).await.status, 202);
    assert_eq!(api.server.send(&line, &headers, &message.to_string()).await.status, 202);
    let told = open.until("\"error\"").await.to_owned();
    let last = told.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    serde_json::from_str(last).unwrap()
}

#[tokio::test]
async fn a_tool_that_is_not_there_leaves_a_record_whichever_way_it_is_asked_for() {
    let journal = Arc::new(VolatileLedger::default());
    let api = api_on(Runtime::builder().ledger(journal.clone()), ServerConfig::default()).await;
    let bearer = format!("Bearer {BOB}");
    let auth = ("authorization", bearer.as_str());
    let session = api.server.session(BOB, json!({})).await;
    let mut socket = websocket::open(&api.server, BOB).await.unwrap();
    websocket::greet(&mut socket).await;
    let mut stateless = call(1, "ecko", json!({}));
    stateless["params"]["_meta"] = meta(json!({}));
    for way in ["api", "session", "task", "stateless", "websocket", "older transport"] {
        let before = journal.entries().len();
        let answer = match way {
            "api" => api.ask("POST /v1/calls", BOB, json!({ "tool": "ecko" })).await.json(),
            "session" => {
                let headers = [auth, ("mcp-session-id", session.as_str())];
                api.server.post(&headers, &call(1, "ecko", json!({}))).await.json()
            }
            "task" => {
                let headers = [auth, ("mcp-session-id", session.as_str())];
                let mut body = call(2, "ecko", json!({}));
                body["params"]["task"] = json!({ "ttl": 60_000 });
                api.server.post(&headers, &body).await.json()
            }
            "stateless" => {
                let version = ("mcp-protocol-version", "2026-07-28");
                let headers = [auth, version, ("mcp-method", "tools/call"), ("mcp-name", "ecko")];
                api.server.post(&headers, &stateless).await.json()
            }
            "websocket" => websocket::ask(&mut socket, call(1, "ecko", json!({}))).await,
            _ => over_the_older_transport(&api, &call(1, "ecko", json!({}))).await,
        };
        let said = answer.to_string();
        assert!(said.contains("did you mean `echo`?"), "{way}: {said}");
        assert!(way == "api" || answer["error"]["code"] == -32602, "{way}: {said}");
        let expected = ("ecko".to_owned(), Some("bob".to_owned()), Some(ErrorCode::ToolNotFound));
        assert_eq!(recorded(&journal, before), [expected], "{way}: {said}");
    }
}

#[tokio::test]
async fn a_tool_that_is_not_for_the_caller_is_answered_as_one_that_is_not_there() {
    let api = api_on(Runtime::builder(), ServerConfig::default()).await;
    let session = api.server.session(BOB, json!({})).await;
    let bearer = format!("Bearer {BOB}");
    let headers = [("authorization", bearer.as_str()), ("mcp-session-id", session.as_str())];
    let ask = async |name: &str| {
        let answer = api.server.post(&headers, &call(1, name, json!({ "message": "hi" }))).await.json();
        answer["error"].to_string().replace(name, "NAME")
    };
    assert_eq!(ask("secret__echo").await, ask("secrex__echo").await, "one is there, for another");
    assert!(!ask("secret__ech").await.contains("secret__echo"), "and its name is not told");
}
