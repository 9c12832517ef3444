//! Clients that mean harm, or do it.

use helve::{Caller, Runtime};
use helve_mcp::server::{McpServer, ServerOptions};
use helve_server::{BindError, Door, HttpOptions, HttpServer, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{ADA, BOB, Open, Server, call, request, serve, serve_with};

fn initialize() -> Value {
    request(
        0,
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } }),
    )
}

#[tokio::test]
async fn no_route_is_open_to_strangers() {
    let server = serve().await;
    let body = initialize().to_string();
    let upgrade = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "mcp"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for line in [
        "POST /mcp",
        "GET /mcp",
        "DELETE /mcp",
        "GET /mcp/sse",
        "POST /mcp/sse/message?sessionId=x",
        "GET /mcp/ws",
    ] {
        for (headers, status) in [
            (vec![("authorization", "-")], 401),
            (vec![("authorization", "Bearer ada-0123456789abcdeF")], 401),
            (vec![("host", "evil.example.com")], 403),
            (vec![("origin", "http://evil.example.com")], 403),
            (vec![("origin", "null")], 403),
        ] {
            let mut headers = headers;
            if line.ends_with("/ws") {
                headers.extend(upgrade);
            }
            let reply = server.send(line, &headers, &body).await;
            assert_eq!(reply.status, status, "{line} {headers:?}: {reply:?}");
            assert_eq!(reply.headers.contains_key("www-authenticate"), status == 401);
            assert!(!reply.body.contains(ADA));
        }
    }
    assert_eq!(server.send("GET /healthz", &[("authorization", "-")], "").await.status, 200);
    assert_eq!(server.send("GET /other", &[], "").await.status, 404);
}

#[tokio::test]
async fn beyond_loopback_nothing_is_served_without_tokens() {
    let mcp = McpServer::from_runtime(Runtime::builder().build());
    let door = Door::Open(Caller::local());
    let bound = HttpServer::bind("0.0.0.0:0".parse().unwrap(), HttpOptions::new(mcp, door)).await;
    assert!(matches!(bound, Err(BindError::Unguarded(_))));
}

#[tokio::test]
async fn a_session_belongs_to_whoever_began_it() {
    let server = serve().await;
    let session = server.session(ADA, json!({})).await;
    let bob = format!("Bearer {BOB}");
    let stolen = [("mcp-session-id", session.as_str()), ("authorization", bob.as_str())];
    let body = call(1, "echo", json!({ "message": "hi" }));
    assert_eq!(server.post(&stolen, &body).await.status, 404);
    assert_eq!(server.send("GET /mcp", &stolen, "").await.status, 404);
    assert_eq!(server.send("DELETE /mcp", &stolen, "").await.status, 404);
    assert_eq!(server.post(&[("mcp-session-id", &session)], &body).await.status, 200);
    assert_eq!(server.send("DELETE /mcp", &[("mcp-session-id", &session)], "").await.status, 204);
    assert_eq!(server.post(&[("mcp-session-id", &session)], &body).await.status, 404);
    for id in ["", "x", "../../etc", &"a".repeat(5_000)] {
        assert_eq!(server.post(&[("mcp-session-id", id)], &body).await.status, 404, "{id}");
    }
    assert_eq!(server.post(&[], &body).await.status, 400);
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let server = serve().await;
    let session = server.session(ADA, json!({})).await;
    let header = ("mcp-session-id", session.as_str());
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
    ] {
        let reply = server.send("POST /mcp", &[header], body).await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!(code)), "{body}");
    }
    for params in [
        r#"{"name":"echo","name":"slow","arguments":{}}"#,
        r#"{"name":"echo","arguments":{"message":"a","message":"b"}}"#,
        r#"{"name":"echo","arguments":[]}"#,
        r#"{"name":7}"#,
        r#"{"name":""}"#,
        r#"["echo"]"#,
        r#"7"#,
        r#"{"name":"echo","arguments":{"message":"a"},"_meta":{"progressToken":1,"progressToken":2}}"#,
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let reply = server.send("POST /mcp", &[header], &body).await;
        assert_eq!(reply.json()["error"]["code"], -32602, "{params}: {reply:?}");
    }
    for media in ["text/plain", "application/x-www-form-urlencoded", "-"] {
        let reply = server.send("POST /mcp", &[header, ("content-type", media)], "{}").await;
        assert_eq!(reply.status, 415, "{media}");
    }
    assert_eq!(server.send("PUT /mcp", &[header], "").await.status, 405);
}

#[tokio::test]
async fn large_bodies_and_many_sessions_are_refused() {
    let config = ServerConfig { body_bytes_max: 10_000, sessions_max: 4, ..ServerConfig::default() };
    let server = serve_with(ServerOptions::default(), config).await;
    let session = server.session(ADA, json!({})).await;
    let header = ("mcp-session-id", session.as_str());
    let huge = call(1, "echo", json!({ "message": "x".repeat(20_000) }));
    assert_eq!(server.post(&[header], &huge).await.status, 413);
    let chunked = [header, ("transfer-encoding", "chunked"), ("content-length", "-")];
    let chunk = format!("4e20\r\n{}\r\n0\r\n\r\n", "x".repeat(20_000));
    assert_eq!(server.send("POST /mcp", &chunked, &chunk).await.status, 413);
    let mut streams = vec![listening(&server, ADA, &session).await];
    for token in [ADA, BOB, BOB] {
        let other = server.session(token, json!({})).await;
        streams.push(listening(&server, token, &other).await);
    }
    assert_eq!(server.post(&[], &initialize()).await.status, 503);
    assert_eq!(server.send("DELETE /mcp", &[header], "").await.status, 204);
    server.session(ADA, json!({})).await;
}

/// The general stream of a session, which is in use as long as it is open.
async fn listening(server: &Server, token: &str, session: &str) -> Open {
    let bearer = format!("Bearer {token}");
    let headers = [("mcp-session-id", session), ("authorization", bearer.as_str())];
    let mut open = server.open("GET /mcp", &headers, "").await;
    open.until("200 OK").await;
    open
}

async fn is_known(server: &Server, token: &str, session: &str) -> bool {
    let bearer = format!("Bearer {token}");
    let headers = [("mcp-session-id", session), ("authorization", bearer.as_str())];
    let status = server.post(&headers, &request(1, "ping", json!({}))).await.status;
    assert!(matches!(status, 200 | 404), "{status}");
    status == 200
}

#[tokio::test]
async fn whoever_opens_many_sessions_loses_their_own() {
    let config = ServerConfig { sessions_max: 10, sessions_per_principal_max: 5, ..ServerConfig::default() };
    let server = serve_with(ServerOptions::default(), config).await;
    let bobs = server.session(BOB, json!({})).await;
    let watched = server.session(ADA, json!({})).await;
    let _stream = listening(&server, ADA, &watched).await;
    let used = server.session(ADA, json!({})).await;
    let mut adas = Vec::new();
    for _ in 0..20 {
        adas.push(server.session(ADA, json!({})).await);
        // A clock that ticks in between: what was used last is not what was opened last.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        assert!(is_known(&server, ADA, &used).await);
    }
    for (number, session) in adas.iter().enumerate() {
        assert_eq!(is_known(&server, ADA, session).await, number >= 17, "{number}");
    }
    assert!(is_known(&server, ADA, &watched).await);
    assert!(is_known(&server, BOB, &bobs).await);
}

#[tokio::test]
async fn nobody_has_more_than_half_of_the_sessions() {
    // The limit for each principal is far more than there are in all.
    let config = ServerConfig { sessions_max: 8, ..ServerConfig::default() };
    let server = serve_with(ServerOptions::default(), config).await;
    let bobs = server.session(BOB, json!({})).await;
    let mut adas = Vec::new();
    for _ in 0..20 {
        adas.push(server.session(ADA, json!({})).await);
    }
    let more = [server.session(BOB, json!({})).await, server.session(BOB, json!({})).await];
    for session in more.iter().chain([&bobs]) {
        assert!(is_known(&server, BOB, session).await);
    }
    for (number, session) in adas.iter().enumerate() {
        assert_eq!(is_known(&server, ADA, session).await, number >= 16, "{number}");
    }
}

#[tokio::test]
async fn one_principal_cannot_have_all_streams_of_the_older_transport() {
    let config = ServerConfig { sessions_max: 8, sessions_per_principal_max: 2, ..ServerConfig::default() };
    let server = serve_with(ServerOptions::default(), config).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut open = server.open("GET /mcp/sse", &[], "").await;
        open.until("sessionId=").await;
        streams.push(open);
    }
    assert_eq!(server.send("GET /mcp/sse", &[], "").await.status, 503);
    let bob = format!("Bearer {BOB}");
    server.open("GET /mcp/sse", &[("authorization", &bob)], "").await.until("sessionId=").await;
}

#[tokio::test]
async fn pings_of_a_client_that_never_reads_are_cut_off() {
    const FAR_TOO_MUCH: usize = 128 << 20;
    let server = serve().await;
    let upgrade = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "mcp"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let mut open = server.open("GET /mcp/ws", &upgrade, "").await;
    open.until("\r\n\r\n").await;
    // Masked with zeros, so that it is sent as it is.
    let ping = [&[0x89, 0x80 | 125, 0, 0, 0, 0][..], &[b'p'; 125]].concat();
    let pings = ping.repeat(500);
    let mut sent = 0;
    while sent < FAR_TOO_MUCH && open.try_write(&pings).await {
        sent += pings.len();
    }
    // What the system holds for both sides is some MB.
    assert!(sent < 32 << 20, "it took {sent} bytes of pings");
    server.session(ADA, json!({})).await;
}

#[tokio::test]
async fn a_flood_of_requests_leaves_others_alone() {
    let options = ServerOptions { requests_max: 4, ..ServerOptions::default() };
    let server = serve_with(options, ServerConfig::default()).await;
    let flooded = server.session(ADA, json!({})).await;
    let header = ("mcp-session-id", flooded.as_str());
    let mut hanging = Vec::new();
    for id in 0..4 {
        let mut body = call(id, "hang", json!({}));
        body["params"]["_meta"] = json!({ "progressToken": id });
        let mut open = server.open("POST /mcp", &[header], &body.to_string()).await;
        open.until("notifications/progress").await;
        hanging.push(open);
    }
    let refused = server.post(&[header], &call(9, "echo", json!({ "message": "hi" }))).await.json();
    assert_eq!(refused["error"]["code"], -32000);
    let other = server.session(BOB, json!({})).await;
    let bob = format!("Bearer {BOB}");
    let reply = server
        .post(
            &[("mcp-session-id", &other), ("authorization", &bob)],
            &call(9, "echo", json!({ "message": "hi" })),
        )
        .await;
    assert_eq!(reply.json()["result"]["content"][0]["text"], "hi");
}

async fn id_again(server: &Server, session: &str) -> Value {
    let header = ("mcp-session-id", session);
    let mut body = call(1, "hang", json!({}));
    body["params"]["_meta"] = json!({ "progressToken": 1 });
    let mut open = server.open("POST /mcp", &[header], &body.to_string()).await;
    open.until("notifications/progress").await;
    server.post(&[header], &call(1, "echo", json!({ "message": "hi" }))).await.json()
}

#[tokio::test]
async fn an_id_that_is_in_use_is_refused() {
    let server = serve().await;
    let session = server.session(ADA, json!({})).await;
    assert_eq!(id_again(&server, &session).await["error"]["code"], -32600);
}

#[tokio::test]
async fn answers_that_nobody_asked_for_do_nothing() {
    let server = serve().await;
    let session = server.session(ADA, json!({})).await;
    let header = ("mcp-session-id", session.as_str());
    for body in [
        json!({ "jsonrpc": "2.0", "id": 0, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": "x", "error": { "code": 1, "message": "no" } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 99 } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": 7 }),
        json!({ "jsonrpc": "2.0", "method": "notifications/whatever" }),
    ] {
        assert_eq!(server.post(&[header], &body).await.status, 202, "{body}");
    }
    assert_eq!(server.post(&[header], &request(1, "ping", json!({}))).await.json()["result"], json!({}));
}

#[tokio::test]
async fn the_older_transport_belongs_to_whoever_opened_it() {
    let server = serve().await;
    let mut open = server.open("GET /mcp/sse", &[], "").await;
    let read = open.until("sessionId=").await.to_owned();
    let read = if read.ends_with("\n\n") { read } else { open.until("\n\n").await.to_owned() };
    let path = read.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned();
    let body = initialize().to_string();
    let line = format!("POST {path}");
    let bob = format!("Bearer {BOB}");
    assert_eq!(server.send(&line, &[("authorization", &bob)], &body).await.status, 404);
    assert_eq!(server.send(&line, &[("content-type", "text/plain")], &body).await.status, 415);
    assert_eq!(server.send(&line, &[], &body).await.status, 202);
    open.until("protocolVersion").await;
    drop(open);
    // The session ends with its stream.
    for _ in 0..200 {
        if server.send(&line, &[], &body).await.status == 404 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the session outlives its stream");
}

#[tokio::test]
async fn a_handshake_without_the_subprotocol_is_refused() {
    let server = serve().await;
    let handshake = |protocol: &'static str, version: &'static str| {
        [
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", version),
            ("sec-websocket-protocol", protocol),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ]
    };
    for (protocol, version) in [("-", "13"), ("graphql-ws", "13"), ("mcp", "12")] {
        assert_eq!(server.send("GET /mcp/ws", &handshake(protocol, version), "").await.status, 400);
    }
    assert_eq!(server.send("GET /mcp/ws", &[], "").await.status, 400);
    let mut open = server.open("GET /mcp/ws", &handshake("mcp", "13"), "").await;
    let head = open.until("\r\n\r\n").await.to_lowercase();
    assert!(head.contains("101") && head.contains("s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
}

#[tokio::test]
async fn a_head_that_never_ends_is_cut_off() {
    let config =
        ServerConfig { head_timeout: std::time::Duration::from_millis(100), ..ServerConfig::default() };
    let server = serve_with(ServerOptions::default(), config).await;
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: ").await.unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection is still open");
}
