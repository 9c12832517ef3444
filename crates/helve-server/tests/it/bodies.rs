//! Bodies that never end, that break off, that are many: they are their sender's trouble alone.

use std::time::Duration;

use helve::identity::Purpose;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{ADA, Open, Reply, call};
use crate::identity::{Api, api};

/// More than anybody may have read without a turn.
const LARGE: usize = 100_000;
/// How many large bodies are read at once in all, and of one principal.
const ALL: usize = 64;
const OWN: usize = 16;

/// Begins a body of which `sent` bytes come, and the rest never.
async fn unfinished(api: &Api, token: &str, sent: usize) -> Open {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-length", "1000000")];
    api.server.open("POST /v1/calls", &headers, &" ".repeat(sent)).await
}

/// An echo, with so many spaces that it is a large body.
async fn large(api: &Api, token: &str) -> Reply {
    let echo = json!({ "tool": "echo", "arguments": { "message": "hi" } });
    let bearer = format!("Bearer {token}");
    let body = format!("{}{echo}", " ".repeat(LARGE));
    api.server.send("POST /v1/calls", &[("authorization", &bearer)], &body).await
}

/// Sends large bodies until one is refused: it takes the server a moment to read those before it.
async fn until_busy(api: &Api, token: &str) -> Reply {
    for _ in 0..200 {
        let reply = large(api, token).await;
        if reply.status == 503 {
            return reply;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never busy");
}

#[tokio::test]
async fn unfinished_bodies_of_one_caller_stop_nobody() {
    let api = api().await;
    let id = api.question(7).await;
    let (_, mallory) = api.key("mallory", Purpose::Call).await;
    let (_, grace) = api.key("grace", Purpose::Decide).await;
    let mut open = Vec::new();
    for n in 0..ALL + 10 {
        open.push(unfinished(&api, &mallory, if n < ALL { 10 } else { LARGE }).await);
    }
    for _ in 0..OWN {
        open.push(unfinished(&api, &mallory, LARGE).await);
    }
    let busy = until_busy(&api, &mallory).await;
    assert_eq!(busy.headers["retry-after"], "5", "{busy:?}");
    assert_eq!(busy.headers["content-type"], "application/problem+json");
    let reply = large(&api, ADA).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    api.server.session(ADA, json!({})).await;
    let denied =
        api.ask(&format!("POST /v1/approvals/{id}/decision"), &grace, json!({ "decision": "deny" })).await;
    assert_eq!(denied.status, 200, "{denied:?}");
}

#[tokio::test]
async fn callers_together_cannot_keep_anybody_from_deciding() {
    let api = api().await;
    let id = api.question(7).await;
    let (_, grace) = api.key("grace", Purpose::Decide).await;
    let mut open = Vec::new();
    for n in 0..ALL / OWN {
        let (_, key) = api.key(&format!("mallory{n}"), Purpose::Call).await;
        for _ in 0..OWN {
            open.push(unfinished(&api, &key, LARGE).await);
        }
    }
    until_busy(&api, ADA).await;
    let spaces = " ".repeat(LARGE);
    let mcp = api.server.send("POST /mcp", &[], &format!("{spaces}{}", call(1, "echo", json!({})))).await;
    assert_eq!((mcp.status, &*mcp.headers["retry-after"]), (503, "5"), "{mcp:?}");
    // What is small needs no turn.
    let echo = json!({ "tool": "echo", "arguments": { "message": "hi" } });
    assert_eq!(api.ask("POST /v1/calls", ADA, echo).await.status, 200);
    let bearer = format!("Bearer {grace}");
    let deny = format!("{spaces}{}", json!({ "decision": "deny" }));
    let line = format!("POST /v1/approvals/{id}/decision");
    let denied = api.server.send(&line, &[("authorization", &bearer)], &deny).await;
    assert_eq!(denied.status, 200, "{denied:?}");
    // A client that goes away makes room.
    open.drain(..OWN);
    assert_eq!(large(&api, ADA).await.status, 200);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_bad_request() {
    let api = api().await;
    let chunked = [("transfer-encoding", "chunked"), ("content-length", "-")];
    for path in ["/v1/calls", "/mcp"] {
        let reply = api.server.send(&format!("POST {path}"), &chunked, "ZZ\r\n").await;
        assert_eq!(reply.status, 400, "{path} {reply:?}");
        let mut stream = TcpStream::connect(api.server.address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {ADA}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
            api.server.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("broke off"), "{path} {answer}");
    }
}
