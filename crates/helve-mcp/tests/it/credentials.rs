//! Each caller with their own account at a server: proved by what the server received.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Response, StatusCode, header, request};
use futures_util::future::join_all;
use helve::{Call, Caller, ErrorCode, Outcome, ToolError};
use helve_mcp::config::{CallerConfig, Credentials, EraChoice, Secrets, ServerConfig, Setting};
use helve_mcp::gateway::Gateway;
use helve_mcp::oauth::{LoginOptions, TokenStore};
use helve_mcp::server::{Backend, Kind, Peer, Visitor};
use helve_mcp::servers::{Surroundings, caller_login, shared_login};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::clients::Client;
use crate::oauth::authority::{Authority, Ways};
use crate::oauth::browse;
use crate::person::Person;
use crate::plain::{eventually, plain, text};
use crate::setup::{Setup, surroundings};

/// What the server received: with which token, in whose session, what.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Received {
    token: String,
    method: String,
    arguments: Value,
}

/// A server that notes the token of every request, and lets a session be used only with the token that
/// it was begun with.
#[derive(Clone, Default)]
struct Upstream(Arc<Noted>);

#[derive(Default)]
struct Noted {
    received: Mutex<Vec<Received>>,
    sessions: Mutex<HashMap<String, String>>,
    begun: Mutex<usize>,
    crossed: Mutex<Vec<String>>,
}

impl Upstream {
    /// Serves callers with any token at all, and no others.
    async fn start(&self) -> String {
        let upstream = self.clone();
        let router = Router::new().fallback(move |request: Request| {
            let upstream = upstream.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = to_bytes(body, 1 << 20).await.unwrap();
                let bearer = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
                match bearer.and_then(|bearer| bearer.strip_prefix("Bearer ")) {
                    Some(token) => {
                        let token = token.to_owned();
                        upstream.answer(&token, &head, &String::from_utf8_lossy(&body))
                    }
                    None => {
                        upstream.note("", "nothing", Value::Null);
                        reply(401, None, String::new())
                    }
                }
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        format!("http://{address}/mcp")
    }

    fn note(&self, token: &str, method: &str, arguments: Value) {
        let received = Received { token: token.to_owned(), method: method.to_owned(), arguments };
        self.0.received.lock().unwrap().push(received);
    }

    fn answer(&self, token: &str, head: &request::Parts, body: &str) -> Response<Body> {
        let session = head.headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
        if let Some(owner) = session.and_then(|id| self.0.sessions.lock().unwrap().get(id).cloned())
            && owner != token
        {
            self.0.crossed.lock().unwrap().push(format!("the session of `{owner}` was used by `{token}`"));
        }
        match head.method.as_str() {
            "POST" => {}
            "DELETE" => {
                self.0.sessions.lock().unwrap().remove(session.unwrap_or_default());
                return reply(204, None, String::new());
            }
            _ => return reply(405, None, String::new()),
        }
        let message: Value = serde_json::from_str(body).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        self.note(token, method, message["params"]["arguments"].clone());
        let done =
            |result: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
        let said = |text: String| json!({ "content": [{ "type": "text", "text": text }] });
        match method {
            "initialize" => {
                let mut begun = self.0.begun.lock().unwrap();
                *begun += 1;
                let id = format!("session-{begun}");
                self.0.sessions.lock().unwrap().insert(id.clone(), token.to_owned());
                let greeting = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": { "tools": {}, "resources": {}, "prompts": {} },
                    "serverInfo": { "name": "upstream", "version": "1" },
                });
                reply(200, Some(id), done(greeting))
            }
            "tools/list" => {
                let tool = json!({ "name": "whoami", "description": "Who calls.", "inputSchema": { "type": "object" },
                    "annotations": { "readOnlyHint": true } });
                reply(200, None, done(json!({ "tools": [tool] })))
            }
            "tools/call" => reply(200, None, done(said(token.to_owned()))),
            "resources/list" => {
                let own = json!({ "uri": format!("note://{token}"), "name": token });
                reply(200, None, done(json!({ "resources": [own] })))
            }
            "resources/read" => {
                let uri = &message["params"]["uri"];
                let content = json!({ "uri": uri, "text": format!("read by {token}") });
                reply(200, None, done(json!({ "contents": [content] })))
            }
            "prompts/list" => {
                let own = json!({ "name": format!("of-{token}") });
                reply(200, None, done(json!({ "prompts": [own] })))
            }
            method if message["id"].is_null() => {
                assert!(method.starts_with("notifications/"), "{method}");
                reply(202, None, String::new())
            }
            _ => reply(200, None, done(json!({}))),
        }
    }

    fn received(&self) -> Vec<Received> {
        self.0.received.lock().unwrap().clone()
    }

    /// The tokens that came with a method.
    fn tokens(&self, method: &str) -> BTreeSet<String> {
        let received = self.received();
        received.into_iter().filter(|one| one.method == method).map(|one| one.token).collect()
    }

    /// Whose sessions are open.
    fn open(&self) -> Vec<String> {
        let mut open: Vec<_> = self.0.sessions.lock().unwrap().values().cloned().collect();
        open.sort();
        open
    }

    fn assert_not_crossed(&self) {
        assert_eq!(*self.0.crossed.lock().unwrap(), Vec::<String>::new());
        for one in self.received().iter().filter(|one| one.method == "tools/call") {
            assert_eq!(one.token, format!("token-of-{}", one.arguments["as"].as_str().unwrap()));
        }
    }
}

fn reply(status: u16, session: Option<String>, body: String) -> Response<Body> {
    let mut response = Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(session) = session {
        response = response.header("mcp-session-id", session);
    }
    response.body(Body::from(body)).unwrap()
}

fn bearer(variable: &str) -> Setting {
    Setting::from_env(variable).with_prefix("Bearer ")
}

/// A server where Alice and Bob have a token each, and Helve one to look around with.
fn config(url: &str) -> ServerConfig {
    let caller = |variable: &str| CallerConfig {
        headers: BTreeMap::from([("Authorization".to_owned(), bearer(variable))]),
        ..CallerConfig::default()
    };
    ServerConfig {
        era: EraChoice::Session,
        credentials: Credentials::Caller,
        headers: BTreeMap::from([
            ("Authorization".to_owned(), bearer("HELVES")),
            ("X-Plain".to_owned(), "for all".into()),
        ]),
        callers: ["alice", "bob", "carol"].map(|name| (name.to_owned(), caller(&name.to_uppercase()))).into(),
        ..ServerConfig::remote(url)
    }
}

fn around() -> Surroundings {
    let secrets = Secrets::fixed([
        ("HELVES", "token-of-helve"),
        ("ALICE", "token-of-alice"),
        ("BOB", "token-of-bob"),
        ("CAROL", "token-of-carol"),
    ]);
    Surroundings { secrets, ..surroundings() }
}

async fn setup(config: ServerConfig, surroundings: Surroundings) -> Setup {
    let setup = Setup::within(surroundings);
    let set = setup.servers.set(BTreeMap::from([("up".to_owned(), config)])).await;
    assert!(set.errors.is_empty(), "{set:?}");
    setup.servers.settled().await;
    setup.assert_connected("up");
    setup
}

async fn whoami(setup: &Setup, principal: &str) -> Outcome {
    let call = Call::new("up/whoami", json!({ "as": principal })).by(Caller::principal(principal));
    setup.runtime.call(call).await
}

/// An error with all that its caller gets of it.
fn shown(error: &ToolError) -> String {
    serde_json::to_string(error).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_callers_at_one_server_never_cross() {
    let upstream = Upstream::default();
    let setup = setup(config(&upstream.start().await), around()).await;
    let calls = (0..60).map(|n| {
        let principal = if n % 2 == 0 { "alice" } else { "bob" };
        let setup = &setup;
        async move { (principal, text(whoami(setup, principal).await)) }
    });
    for (principal, said) in join_all(calls).await {
        assert_eq!(said, format!("token-of-{principal}"));
    }
    upstream.assert_not_crossed();
    let own = BTreeSet::from(["token-of-alice".to_owned(), "token-of-bob".to_owned()]);
    assert_eq!(upstream.tokens("tools/call"), own, "what Helve looks around with calls nothing");
    assert_eq!(upstream.tokens("tools/list"), BTreeSet::from(["token-of-helve".to_owned()]));
    assert_eq!(upstream.open(), ["token-of-alice", "token-of-bob", "token-of-helve"], "one session each");
}

#[tokio::test]
async fn who_has_no_credentials_is_told_what_to_do_and_nothing_is_sent() {
    let upstream = Upstream::default();
    let setup = setup(config(&upstream.start().await), around()).await;
    let before = upstream.received();
    let error = whoami(&setup, "mallory").await.into_result().unwrap_err();
    assert_eq!(error.code(), ErrorCode::IntegrationMissing, "{error}");
    assert!(error.to_string().contains("`mallory` has no credentials"), "{error}");
    let advice = shown(&error);
    assert!(advice.contains("helve mcp login up --as mallory"), "{advice}");
    // One whose name is that of the account that all share does not get it.
    for name in ["helve", "nobody", "caller:alice"] {
        assert!(whoami(&setup, name).await.into_result().is_err(), "{name}");
    }
    let anonymous = Call::new("up/whoami", json!({})).by(Caller::anonymous());
    let error = setup.runtime.call(anonymous).await.into_result().unwrap_err();
    assert_eq!(error.code(), ErrorCode::IntegrationMissing, "{error}");
    assert_eq!(upstream.received(), before, "nothing was sent for any of them");
    assert!(!shown(&error).contains("token-of"), "{error}");
}

#[tokio::test]
async fn a_credential_that_is_refused_is_one_callers_matter() {
    let authority = Authority::start(Ways::default()).await;
    let upstream = Upstream::default();
    let behind = upstream.clone();
    authority.ways().behind = Some(Arc::new(move |token, head, body| behind.answer(token, head, body)));
    let folder = tempfile::tempdir().unwrap();
    let tokens = Some(TokenStore::open(folder.path()).unwrap());
    let surroundings = Surroundings { tokens, ..surroundings() };
    let config = ServerConfig {
        era: EraChoice::Session,
        credentials: Credentials::Caller,
        ..ServerConfig::remote(authority.server().as_str())
    };
    // Each logs in by themselves, as `helve mcp login --as` lets them.
    let mut owners = HashMap::new();
    for principal in ["", "alice", "bob"] {
        let session = match principal {
            "" => shared_login(&config, &surroundings).await,
            principal => caller_login(&config, &surroundings, principal).await,
        };
        let session = session.unwrap().unwrap();
        session.login(LoginOptions::default(), browse).await.unwrap();
        let token = session.bearer().await.unwrap().unwrap().expose_secret().to_owned();
        owners.insert(token, principal);
    }
    assert_eq!(owners.len(), 3, "each has a token of their own");
    let setup = setup(config, surroundings).await;
    let calls = (0..20).map(|n| {
        let (setup, principal) = (&setup, if n % 2 == 0 { "alice" } else { "bob" });
        async move { (principal, text(whoami(setup, principal).await)) }
    });
    for (principal, token) in join_all(calls).await {
        assert_eq!(owners[&token], principal);
    }
    for one in upstream.received().iter().filter(|one| one.method == "tools/call") {
        assert_eq!(owners[&one.token], one.arguments["as"].as_str().unwrap());
    }
    assert_eq!(*upstream.0.crossed.lock().unwrap(), Vec::<String>::new());
    let error = whoami(&setup, "carol").await.into_result().unwrap_err();
    assert_eq!(error.code(), ErrorCode::IntegrationMissing, "{error}");
    // Bob's token is taken back, and cannot be renewed: only Bob is told.
    authority.ways().refuses_refresh = Some((400, "invalid_grant"));
    let bobs = owners.iter().find(|(_, owner)| **owner == "bob").unwrap().0;
    authority.seen().valid.remove(bobs);
    let error = whoami(&setup, "bob").await.into_result().unwrap_err();
    assert!(shown(&error).contains("helve mcp login up --as bob"), "{}", shown(&error));
    assert_eq!(owners[&text(whoami(&setup, "alice").await)], "alice");
    setup.assert_connected("up");
}

#[tokio::test]
async fn everybody_lists_and_reads_their_own() {
    let upstream = Upstream::default();
    let setup = setup(config(&upstream.start().await), around()).await;
    let gateway = Arc::new(Gateway::new(setup.runtime.clone(), setup.servers.clone()));
    let visitor = |name: &str| Visitor {
        caller: Arc::new(Caller::principal(name)),
        session: name.into(),
        peer: Arc::new(Peer::unknown()),
    };
    for (name, resource, prompt) in [
        ("alice", Some("note://token-of-alice"), Some("up__of-token-of-alice")),
        ("bob", Some("note://token-of-bob"), Some("up__of-token-of-bob")),
        ("mallory", None, None),
    ] {
        let list = async |kind| {
            let listed = Arc::clone(&gateway).list(kind, visitor(name)).await.unwrap();
            let values = listed.iter().map(|item| serde_json::from_str::<Value>(item.get()).unwrap());
            values.collect::<Vec<_>>()
        };
        let uris: Vec<_> = list(Kind::Resources).await;
        let uris: Vec<_> = uris.iter().map(|item| item["uri"].as_str().unwrap()).collect();
        assert_eq!(uris, Vec::from_iter(resource), "{name}");
        let names: Vec<_> = list(Kind::Prompts).await;
        let names: Vec<_> = names.iter().map(|item| item["name"].as_str().unwrap()).collect();
        assert_eq!(names, Vec::from_iter(prompt), "{name}");
        assert_eq!(list(Kind::Tools).await.len(), 1, "tools are the same for all");
    }
    // What is Alice's is not there for Bob.
    let bobs = crate::person::incoming(visitor("bob"));
    let subscribed = Arc::clone(&gateway).subscribe("note://token-of-alice".to_owned(), bobs).await;
    assert!(subscribed.is_err());
    let (alice, bob) = (Client::connect(&setup, "alice").await, Client::connect(&setup, "bob").await);
    let (mut alice, mut bob) = (alice, bob);
    let read = |uri: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": uri } });
    let answer = alice.ask(read("note://token-of-alice")).await;
    assert_eq!(answer["result"]["contents"][0]["text"], "read by token-of-alice", "{answer}");
    let answer = bob.ask(read("note://token-of-alice")).await;
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
    assert!(!upstream.tokens("resources/read").contains("token-of-bob"));
    upstream.assert_not_crossed();
}

#[tokio::test]
async fn callers_make_room_for_others_and_idle_ones_are_closed() {
    let upstream = Upstream::default();
    let mut config = config(&upstream.start().await);
    config.limits.callers = 2;
    let setup = setup(config.clone(), around()).await;
    for principal in ["alice", "bob", "carol", "alice"] {
        // So that it is clear who was idle for longest.
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(text(whoami(&setup, principal).await), format!("token-of-{principal}"));
    }
    eventually("two callers are left", async || {
        upstream.open() == ["token-of-alice", "token-of-carol", "token-of-helve"]
    })
    .await;
    upstream.assert_not_crossed();
    // After a while nobody is left but Helve itself.
    config.caller_idle_s = 1;
    let set = setup.servers.set(BTreeMap::from([("up".to_owned(), config)])).await;
    assert!(set.errors.is_empty(), "{set:?}");
    setup.servers.settled().await;
    assert_eq!(text(whoami(&setup, "alice").await), "token-of-alice");
    eventually("idle ones are closed", async || upstream.open() == ["token-of-helve"]).await;
    assert_eq!(text(whoami(&setup, "alice").await), "token-of-alice", "and come back");
}

/// A server that is a program, which each caller has a process of, with their own environment.
fn program() -> ServerConfig {
    let caller = |name: &str| {
        let env = BTreeMap::from([("WHO".to_owned(), Setting::from_env(name.to_uppercase()))]);
        (name.to_owned(), CallerConfig { env, ..CallerConfig::default() })
    };
    ServerConfig {
        era: EraChoice::Session,
        credentials: Credentials::Caller,
        env: BTreeMap::from([
            ("SHARED_SECRET".to_owned(), Setting::from_env("HELVES")),
            ("PLAIN".to_owned(), "for all".into()),
        ]),
        callers: [caller("alice"), caller("bob")].into(),
        ..plain()
    }
}

#[tokio::test]
async fn a_program_runs_once_for_each_caller_with_what_is_theirs() {
    let setup = setup(program(), around()).await;
    let env = async |principal: &str| {
        let call = Call::new("up/env", json!({})).by(Caller::principal(principal));
        setup.runtime.call(call).await.into_result()
    };
    for principal in ["alice", "bob"] {
        let env = env(principal).await.unwrap();
        assert_eq!(env["WHO"], format!("token-of-{principal}"));
        assert_eq!(env["PLAIN"], "for all");
        assert_eq!(env.get("SHARED_SECRET"), None, "what is Helve's own is not shown to callers");
    }
    let error = env("carol").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::IntegrationMissing, "{error}");
}

#[tokio::test]
async fn who_is_at_work_is_not_put_out_by_others() {
    let mut config = program();
    config.limits.callers = 1;
    let setup = setup(config, around()).await;
    let pid = async |principal: &str| {
        let call = Call::new("up/pid", json!({})).by(Caller::principal(principal));
        setup.runtime.call(call).await.into_result()
    };
    let first = pid("alice").await.unwrap();
    // Who has no credentials does not make anybody leave.
    pid("mallory").await.unwrap_err();
    assert_eq!(pid("alice").await.unwrap(), first, "the same process as before");
    let taken_back = tokio_util::sync::CancellationToken::new();
    let stuck = Call::new("up/stuck", json!({})).by(Caller::principal("alice"));
    let stuck = setup.runtime.call(stuck.cancellation(taken_back.clone()));
    let others = async {
        setup.logged("up", "stuck begins", 1).await;
        let error = pid("bob").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::McpConnection, "{error}");
        assert!(error.to_string().contains("1 callers use it at the moment"), "{error}");
        taken_back.cancel();
    };
    tokio::join!(stuck, others);
    eventually("there is room for Bob", async || pid("bob").await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_and_news_reach_whose_they_are() {
    let setup = setup(program(), around()).await;
    let ask = |principal: &'static str| {
        let setup = &setup;
        async move {
            let person = Person::named(principal);
            let call = Call::new("up/ask", json!({})).by(Caller::principal(principal));
            let said = text(setup.runtime.call(call.client(Arc::clone(&person) as _)).await);
            assert!(said.contains(principal), "{principal}: {said}");
            assert_eq!(person.asked().len(), 1, "{principal}");
        }
    };
    join_all(["alice", "bob"].map(ask)).await;
    // Both want to hear of a resource of the same name; it changes at Alice's.
    let mut alice = Client::connect(&setup, "alice").await;
    let mut bob = Client::connect(&setup, "bob").await;
    let about = |method: &str, uri: &str| {
        let params = match method {
            "tools/call" => json!({ "name": "up__touch", "arguments": { "uri": uri } }),
            _ => json!({ "uri": uri }),
        };
        json!({ "jsonrpc": "2.0", "id": format!("{method} {uri}"), "method": method, "params": params })
    };
    for uri in ["plain://a", "plain://b"] {
        for client in [&mut alice, &mut bob] {
            assert_eq!(client.ask(about("resources/subscribe", uri)).await["result"], json!({}));
        }
    }
    alice.ask(about("tools/call", "plain://a")).await;
    alice.told_of("plain://a").await;
    // Bob hears of the next one, which is his; had he heard of Alice's, it would be his second.
    bob.ask(about("tools/call", "plain://a")).await;
    bob.told_of("plain://a").await;
    // News come in the order in which they were made: what comes last comes after all that could have
    // gone astray.
    for client in [&mut alice, &mut bob] {
        client.ask(about("tools/call", "plain://b")).await;
        client.told_of("plain://b").await;
    }
    for (name, client) in [("alice", &mut alice), ("bob", &mut bob)] {
        for uri in ["plain://a", "plain://b"] {
            let updates = client.heard.iter().filter(|heard| heard["params"]["uri"] == uri);
            assert_eq!(updates.count(), 1, "{name} {uri}: {:?}", client.heard);
        }
    }
}
