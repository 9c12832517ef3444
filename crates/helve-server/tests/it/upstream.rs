//! A server behind us that writes down all it hears: what it never hears is the proof.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use helve::{Caller, Runtime};
use helve_mcp::config::{EraChoice, Secrets, ServerConfig as Upstream};
use helve_mcp::gateway::Gateway;
use helve_mcp::server::{McpServer, ServerOptions};
use helve_mcp::servers::{ServerState, Servers, Surroundings};
use helve_net::{Client, NetPolicy};
use helve_sandbox::Sandbox;
use helve_server::{ApiOptions, Door, HttpOptions, HttpServer, Tokens};
use serde_json::{Value, json};

use crate::harness::{ADA, BOB, Server, call, meta, request};

type Heard = Arc<Mutex<Vec<(HeaderMap, Value)>>>;

fn plain_say() -> Value {
    json!({ "name": "say", "description": "Says it again.",
        "inputSchema": { "type": "object", "properties": { "message": { "type": "string" } } },
        "annotations": { "readOnlyHint": true, "openWorldHint": false } })
}

/// Answers what it is asked, and keeps it.
async fn answer(
    State((heard, bait)): State<(Heard, Arc<str>)>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    heard.lock().unwrap().push((headers, message.clone()));
    let Some(id) = message.get("id").cloned() else { return StatusCode::ACCEPTED.into_response() };
    let params = &message["params"];
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "serverInfo": { "name": "recorder", "version": "1" },
            "capabilities": { "tools": {}, "resources": { "subscribe": true }, "prompts": {}, "completions": {} },
        }),
        "tools/list" => {
            let say = json!({ "name": "say", "description": format!("Says it again. See {bait}/description"),
                "icons": [{ "src": format!("{bait}/icon.png"), "mimeType": "image/png" }],
                "inputSchema": { "$schema": format!("{bait}/schema"), "$id": format!("{bait}/id"),
                    "type": "object", "properties": { "message": { "type": "string" } } },
                "annotations": { "readOnlyHint": true, "openWorldHint": false } });
            let lured = json!({ "name": "lured", "description": "Has its parameters elsewhere.",
                "inputSchema": { "type": "object", "properties": { "a": { "$ref": format!("{bait}/ref") } } } });
            let say = if bait.is_empty() { plain_say() } else { say };
            json!({ "tools": [say, lured] })
        }
        "resources/list" => json!({ "resources": [{ "uri": "note://one", "name": "one" }] }),
        "resources/templates/list" => {
            json!({ "resourceTemplates": [{ "uriTemplate": "note://{name}", "name": "n" }] })
        }
        "prompts/list" => json!({ "prompts": [{ "name": "ask", "arguments": [{ "name": "about" }] }] }),
        "tools/call" => {
            // The later ones overtake the earlier ones.
            let said = params["arguments"]["message"].as_str().unwrap_or_default().to_owned();
            let wait = said.bytes().map(u64::from).sum::<u64>() % 20;
            tokio::time::sleep(Duration::from_millis(wait)).await;
            let link = json!({ "type": "resource_link", "uri": format!("{bait}/link"), "name": "more",
                "icons": [{ "src": format!("{bait}/link.png") }] });
            let text = json!({ "type": "text", "text": said });
            json!({ "content": if bait.is_empty() { vec![text] } else { vec![text, link] } })
        }
        "resources/read" => {
            json!({ "contents": [{ "uri": params["uri"], "text": format!("see {bait}/text") }] })
        }
        "prompts/get" => {
            json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "a prompt" } }] })
        }
        "completion/complete" => json!({ "completion": { "values": ["a"] } }),
        _ => json!({}),
    };
    axum::Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
}

/// Ada may use all that the recorder has, Bob nothing of it.
async fn behind() -> (Server, Heard) {
    behind_with("").await
}

/// The same, with an address all over what the recorder says.
async fn behind_with(bait: &str) -> (Server, Heard) {
    let heard = Heard::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = Router::new().route("/mcp", post(answer)).with_state((Arc::clone(&heard), Arc::from(bait)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let policy = NetPolicy { allow: vec!["127.0.0.1".parse().unwrap()], ..NetPolicy::default() };
    let surroundings = Surroundings {
        sandbox: Sandbox::default(),
        net: Client::new(policy).unwrap(),
        secrets: Secrets::process(),
        pins: None,
        sampler: None,
        tokens: None,
    };
    let runtime = Runtime::builder().build();
    let registry = runtime.registry().clone();
    let servers = Servers::new(registry.clone(), surroundings);
    let config = Upstream { era: EraChoice::Session, ..Upstream::remote(&url) };
    servers.set(BTreeMap::from([("rec".to_owned(), config)])).await;
    servers.settled().await;
    assert_eq!(servers.status()[0].state, ServerState::Connected, "{:#?}", servers.status());
    let mcp = McpServer::new(Arc::new(Gateway::new(runtime.clone(), servers)), ServerOptions::default());
    let bob = Caller::principal("bob").allow_only(["other/*"]);
    let tokens = Tokens::one(ADA, Arc::new(Caller::principal("ada"))).and(BOB, Arc::new(bob));
    let api = Some(ApiOptions::new(runtime.clone()));
    let options = HttpOptions { api, ..HttpOptions::new(mcp, Door::Tokens(tokens)) };
    let server = HttpServer::bind("127.0.0.1:0".parse().unwrap(), options).await.unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    heard.lock().unwrap().clear();
    (Server { address, registry, runtime }, heard)
}

/// What was asked for on somebody's behalf.
fn asked(heard: &Heard) -> Vec<String> {
    let kept = heard.lock().unwrap();
    let methods = kept.iter().filter_map(|(_, message)| message["method"].as_str());
    let own = ["initialize", "notifications/initialized", "ping"];
    methods.filter(|method| !own.contains(method) && !method.ends_with("/list")).map(str::to_owned).collect()
}

/// A text as one frame of a client.
fn frame(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap().to_be_bytes();
    // A mask of zeros masks nothing.
    [&[0x81, 0x80 | 126], length.as_slice(), &[0; 4], text.as_bytes()].concat()
}

const STATELESS: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

/// Asks for everything there is, by every route. What comes back does not count.
async fn ask_by_every_route(server: &Server, token: &str) {
    let bearer = format!("Bearer {token}");
    let auth = ("authorization", bearer.as_str());
    let wanted = [
        ("tools/call", "rec__say", json!({ "name": "rec__say", "arguments": { "message": "hi" } })),
        ("tools/call", "rec/say", json!({ "name": "rec/say", "arguments": { "message": "hi" } })),
        (
            "tools/call",
            "call_tool",
            json!({ "name": "call_tool", "arguments": { "name": "rec__say", "arguments": {} } }),
        ),
        ("resources/read", "note://one", json!({ "uri": "note://one" })),
        ("resources/read", "note://two", json!({ "uri": "note://two" })),
        ("resources/subscribe", "note://one", json!({ "uri": "note://one" })),
        ("prompts/get", "rec__ask", json!({ "name": "rec__ask", "arguments": { "about": "x" } })),
        (
            "completion/complete",
            "",
            json!({ "ref": { "type": "ref/prompt", "name": "rec__ask" },
            "argument": { "name": "about", "value": "x" } }),
        ),
        (
            "completion/complete",
            "",
            json!({ "ref": { "type": "ref/resource", "uri": "note://{name}" },
            "argument": { "name": "name", "value": "x" } }),
        ),
    ];
    for tool in ["rec/say", "rec__say"] {
        let body = json!({ "tool": tool, "arguments": { "message": "hi" } }).to_string();
        server.send("POST /v1/calls", &[auth], &body).await;
    }
    let session = server.session(token, json!({})).await;
    let hello = json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let mut legacy = server.open("GET /mcp/sse", &[auth], "").await;
    let told = legacy.until("\n\n").await;
    let place = told.split("data: ").nth(1).and_then(|rest| rest.lines().next()).unwrap().trim().to_owned();
    let line = format!("POST {place}");
    server.send(&line, &[auth], &request(0, "initialize", hello.clone()).to_string()).await;
    legacy.until("protocolVersion").await;
    let upgrade = [
        auth,
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "mcp"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let mut socket = server.open("GET /mcp/ws", &upgrade, "").await;
    socket.until("\r\n\r\n").await;
    socket.write(&frame(&request(0, "initialize", hello).to_string())).await;
    socket.until("protocolVersion").await;
    for (number, (method, name, params)) in wanted.into_iter().enumerate() {
        let id = i64::try_from(number).unwrap() + 100;
        let body = request(id, method, params.clone()).to_string();
        server.send("POST /mcp", &[auth, ("mcp-session-id", &session)], &body).await;
        server.send(&line, &[auth], &body).await;
        legacy.until(&format!("\"id\":{id}")).await;
        socket.write(&frame(&body)).await;
        socket.until(&format!("\"id\":{id}")).await;
        let mut params = params;
        params["_meta"] = meta(json!({}));
        let body = request(id, method, params).to_string();
        server.send("POST /mcp", &[auth, STATELESS, ("mcp-method", method), ("mcp-name", name)], &body).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_use_a_server_reaches_it_by_no_route() {
    let (server, heard) = behind().await;
    ask_by_every_route(&server, BOB).await;
    assert_eq!(asked(&heard), [""; 0], "Bob may use nothing of it");
    // The same routes lead there for somebody who may.
    ask_by_every_route(&server, ADA).await;
    let count = |method: &str| asked(&heard).iter().filter(|asked| *asked == method).count();
    assert!(count("tools/call") >= 8, "{:?}", asked(&heard));
    for method in ["resources/read", "prompts/get", "completion/complete"] {
        assert!(count(method) >= 4, "{method} {:?}", asked(&heard));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_never_sees_the_callers_secrets_and_answers_reach_who_asked() {
    let (server, heard) = behind().await;
    // Somebody else who may use everything.
    let server = Arc::new(server);
    let session = server.session(ADA, json!({})).await;
    let calls = (0..200).map(|number| {
        let (server, session) = (Arc::clone(&server), session.clone());
        tokio::spawn(async move {
            let said = format!("message {number}");
            let cookie = ("cookie", "helve_session=0123; other=secret-cookie");
            let reply = match number % 2 {
                0 => {
                    let body = json!({ "tool": "rec/say", "arguments": { "message": said } }).to_string();
                    server.send("POST /v1/calls", &[cookie], &body).await
                }
                _ => {
                    let body = call(number, "rec__say", json!({ "message": said }));
                    server.post(&[("mcp-session-id", &session), cookie], &body).await
                }
            };
            assert!(reply.body.contains(&format!("\"{said}\"")), "{said}: {reply:?}");
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let kept = heard.lock().unwrap();
    assert_eq!(kept.iter().filter(|(_, message)| message["method"] == "tools/call").count(), 200);
    for (headers, message) in kept.iter() {
        assert!(!headers.contains_key("authorization") && !headers.contains_key("cookie"), "{headers:?}");
        let all = format!("{headers:?}{message}");
        assert!(!all.contains(ADA) && !all.contains("secret-cookie") && !all.contains(&session), "{all}");
    }
}

/// Icons, schemas, references, links: a server's words are shown, and never followed.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_server_names_is_fetched() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bait = format!("http://{}", listener.local_addr().unwrap());
    let taken = tokio::spawn(async move { listener.accept().await });
    // The guarded client may reach it: a fetch would get through.
    let (server, heard) = behind_with(&bait).await;
    ask_by_every_route(&server, ADA).await;
    server.send("GET /v1/tools?format=openai", &[], "").await;
    server.send("GET /v1/tools/rec/say", &[], "").await;
    let listed = server.send("GET /v1/tools", &[], "").await.body;
    assert!(asked(&heard).contains(&"tools/call".to_owned()));
    assert!(listed.contains("rec") && !listed.contains("lured"), "{listed}");
    assert!(!taken.is_finished(), "something was fetched");
    taken.abort();
}
