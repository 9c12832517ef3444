//! Who comes in, and with what: keys, cookies, and that nobody decides about their own call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use helve::identity::{Key, Purpose};
use helve::{Access, Caller, Registry, Runtime, RuntimeBuilder, Tool};
use helve_mcp::server::{McpServer, RuntimeBackend, ServerOptions};
use helve_server::records::Records;
use helve_server::{ApiOptions, Door, HttpOptions, HttpServer, ServerConfig, Tokens};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::harness::{ADA, BOB, Reply, Server, call, request, tool};

/// A server with the HTTP API, and a tool that counts how often it ran.
pub(crate) struct Api {
    pub(crate) server: Server,
    pub(crate) ran: Arc<AtomicUsize>,
}

pub(crate) async fn api() -> Api {
    api_with(ServerConfig::default()).await
}

pub(crate) async fn api_with(config: ServerConfig) -> Api {
    api_on(Runtime::builder(), config).await
}

/// The same on a runtime with something more.
pub(crate) async fn api_on(builder: RuntimeBuilder, config: ServerConfig) -> Api {
    api_of(builder, config, None).await
}

/// The same with a record of calls.
pub(crate) async fn api_of(
    builder: RuntimeBuilder,
    config: ServerConfig,
    records: Option<Arc<dyn Records>>,
) -> Api {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let deed = Tool::builder("deed")
        .description("Does something that stays.")
        .input_schema(json!({ "type": "object", "properties": { "n": { "type": "integer" } } }))
        .requires_approval()
        .handler(move |arguments: Value, _| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(json!({ "did": arguments["n"] })) }
        })
        .build()
        .unwrap();
    let registry = Registry::default();
    registry.register_many(helve::Layer::Project, [deed, tool("echo"), tool("secret/echo")]).unwrap();
    let runtime = builder.registry(registry.clone()).build();
    let mcp = McpServer::new(Arc::new(RuntimeBackend::new(runtime.clone())), ServerOptions::default());
    let bob = Caller::principal("bob").allow_only(["echo", "deed"]);
    let ada = Caller::principal("ada").roles(["admin"]);
    let tokens = Tokens::one(ADA, Arc::new(ada)).and(BOB, Arc::new(bob));
    let address = "127.0.0.1:0".parse().unwrap();
    let api = Some(ApiOptions { runtime: runtime.clone(), records });
    let options = HttpOptions { config, api, ..HttpOptions::new(mcp, Door::Tokens(tokens)) };
    let server = HttpServer::bind(address, options).await.unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    Api { server: Server { address, registry, runtime }, ran }
}

impl Api {
    /// A key, as `helve keys create` makes it.
    pub(crate) async fn key(&self, name: &str, purpose: Purpose) -> (Key, String) {
        self.key_with(name, purpose, |_| {}).await
    }

    pub(crate) async fn key_with(
        &self,
        name: &str,
        purpose: Purpose,
        change: impl FnOnce(&mut Key),
    ) -> (Key, String) {
        let (mut key, text) = Key::generate(name, purpose, "tester", Timestamp::now());
        change(&mut key);
        let made = self.server.runtime.keys().create_key(Box::new(key.clone()), Caller::local()).await;
        made.unwrap();
        (key, text.reveal().to_owned())
    }

    pub(crate) async fn ask(&self, line: &str, token: &str, body: Value) -> Reply {
        let bearer = format!("Bearer {token}");
        self.server.send(line, &[("authorization", &bearer)], &body.to_string()).await
    }

    pub(crate) async fn get(&self, path: &str, token: &str) -> Reply {
        let bearer = format!("Bearer {token}");
        self.server.send(&format!("GET {path}"), &[("authorization", &bearer)], "").await
    }

    pub(crate) fn ran(&self) -> usize {
        self.ran.load(Ordering::SeqCst)
    }

    /// A question about the deed, put by Bob; its id.
    pub(crate) async fn question(&self, n: i64) -> String {
        let reply = self.ask("POST /v1/calls", BOB, json!({ "tool": "deed", "arguments": { "n": n } })).await;
        assert_eq!(reply.status, 202, "{reply:?}");
        let id = reply.json()["approval_id"].as_str().unwrap().to_owned();
        assert_eq!(reply.headers["location"], format!("/v1/calls/{id}"));
        id
    }

    /// Signs in; the cookie and the token against forged requests.
    pub(crate) async fn sign_in(&self, code: &str) -> Reply {
        let body = json!({ "code": code }).to_string();
        self.server.send("POST /sign-in", &[("authorization", "-")], &body).await
    }
}

pub(crate) fn cookie(reply: &Reply) -> String {
    reply.headers["set-cookie"].split(';').next().unwrap().to_owned()
}

/// What every path begins with on which that cookie counts.
pub(crate) fn place(reply: &Reply) -> String {
    reply.json()["place"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_key_calls_until_it_is_taken_back() {
    let api = api().await;
    let only_echo = |key: &mut Key| key.access = Access::Only(vec!["echo".to_owned()]);
    let (key, text) = api.key_with("ci", Purpose::Call, only_echo).await;
    let echo = || json!({ "tool": "echo", "arguments": { "message": "hi" } });
    let reply = api.ask("POST /v1/calls", &text, echo()).await;
    assert_eq!((reply.status, &reply.json()["result"]), (200, &json!("hi")), "{reply:?}");
    let names: Vec<_> = api.get("/v1/tools", &text).await.json()["tools"].as_array().unwrap().clone();
    assert_eq!(names.len(), 1, "it sees what it may use: {names:?}");
    let refused = api.ask("POST /v1/calls", &text, json!({ "tool": "deed" })).await;
    assert!(matches!(refused.status, 403 | 404), "{refused:?}");
    assert_eq!(api.get("/v1/tools/deed", &text).await.status, 404);
    for wrong in [&text[..text.len() - 1], &text.replace("helve_", "Helve_"), &format!("{text}0")] {
        assert_eq!(api.get("/v1/me", wrong).await.status, 401, "{wrong}");
    }
    let mut last = text.clone();
    last.replace_range(text.len() - 1.., if text.ends_with('0') { "1" } else { "0" });
    assert_eq!(api.get("/v1/me", &last).await.status, 401);
    assert_eq!(
        api.server.send(&format!("GET /v1/me?token={text}"), &[("authorization", "-")], "").await.status,
        401
    );
    api.server.runtime.keys().revoke_key(key.id, Caller::local(), Timestamp::now()).await.unwrap();
    within_a_second(async || api.ask("POST /v1/calls", &text, echo()).await.status == 401).await;
}

/// What is known of keys counts for half a second; a slow machine may take as long again to answer.
async fn within_a_second(is_so: impl AsyncFn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(2), "it is good still");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A session was begun with a key for everything: another key of the same principal has its own rights in it.
#[tokio::test]
async fn a_session_lends_nobody_the_rights_that_it_was_begun_with() {
    let api = api().await;
    let (_, wide) = api.key("ci", Purpose::Call).await;
    let only_echo = |key: &mut Key| key.access = Access::Only(vec!["echo".to_owned()]);
    let (_, narrow) = api.key_with("ci", Purpose::Call, only_echo).await;
    let secret_echo = call(1, "secret__echo", json!({ "message": "hi" }));
    for (begun_with, other, works) in [(&wide, &narrow, false), (&narrow, &wide, true)] {
        let session = api.server.session(begun_with, json!({})).await;
        let headers = [("authorization", &*format!("Bearer {other}")), ("mcp-session-id", &session)];
        let reply = api.server.post(&headers, &secret_echo).await;
        assert_eq!(reply.body.contains(r#""text":"hi""#), works, "{reply:?}");
        let listed = api.server.post(&headers, &request(2, "tools/list", json!({}))).await;
        assert_eq!(listed.body.contains("secret__echo"), works, "{listed:?}");
    }
}

/// What is known of keys counts for half a second, and a new one is good at once all the same.
#[tokio::test]
async fn a_key_is_good_as_soon_as_it_is_made() {
    let api = api().await;
    for name in ["a", "b", "c", "d"] {
        let (_, text) = api.key(name, Purpose::Call).await;
        assert_eq!(api.get("/v1/me", &text).await.status, 200, "{name}");
    }
}

#[tokio::test]
async fn a_key_ends_at_its_time() {
    let api = api().await;
    let soon = |key: &mut Key| key.expires_at = Some(Timestamp::now() + SignedDuration::from_millis(1_200));
    let (_, text) = api.key_with("ci", Purpose::Call, soon).await;
    assert_eq!(api.get("/v1/me", &text).await.status, 200);
    // Its end is a time of the system's clock.
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    assert_eq!(api.get("/v1/me", &text).await.status, 401);
}

#[tokio::test]
async fn a_deciding_key_decides_and_never_calls() {
    let api = api().await;
    let (_, decider) = api.key("grace", Purpose::Decide).await;
    let id = api.question(1).await;
    let shown = api.get(&format!("/v1/approvals/{id}"), &decider).await;
    assert_eq!(shown.json()["arguments"], json!({ "n": 1 }));
    for (line, body) in [
        ("POST /v1/calls".to_owned(), json!({ "tool": "echo", "arguments": { "message": "hi" } })),
        ("POST /mcp".to_owned(), call(1, "echo", json!({ "message": "hi" }))),
        ("POST /mcp".to_owned(), request(1, "initialize", json!({}))),
        (format!("DELETE /v1/approvals/{id}"), json!({})),
    ] {
        assert_eq!(api.ask(&line, &decider, body).await.status, 403, "{line}");
    }
    for path in ["/mcp", "/mcp/sse", "/mcp/ws"] {
        assert_eq!(api.get(path, &decider).await.status, 403, "{path}");
    }
    assert_eq!(api.get(&format!("/v1/calls/{id}"), &decider).await.status, 404);
    assert_eq!(api.ran(), 0);
    let approve = json!({ "decision": "approve", "reason": "fine" });
    let line = format!("POST /v1/approvals/{id}/decision");
    let decided = api.ask(&line, &decider, approve.clone()).await;
    assert_eq!((decided.status, &decided.json()["state"]), (200, &json!("approved")), "{decided:?}");
    assert_eq!(api.ask(&line, &decider, approve).await.status, 409, "the second person is told");
    let done = api.ask(&format!("POST /v1/calls/{id}/run"), BOB, json!({})).await;
    assert_eq!((done.status, &done.json()["result"]), (200, &json!({ "did": 1 })), "{done:?}");
    assert_eq!(api.get(&format!("/v1/calls/{id}"), BOB).await.status, 200);
    assert_eq!(api.ran(), 1, "however often it is asked for");
}

#[tokio::test]
async fn nobody_decides_about_their_own_call() {
    let api = api().await;
    let (_, same_name) = api.key("bob", Purpose::Decide).await;
    let (_, second_caller) = api.key("bobs-other", Purpose::Call).await;
    let id = api.question(2).await;
    let line = format!("POST /v1/approvals/{id}/decision");
    let approve = || json!({ "decision": "approve" });
    // The caller's own token, another caller's, one who administers, and a deciding key of the same name.
    for token in [BOB, ADA, &second_caller, &same_name] {
        let refused = api.ask(&line, token, approve()).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert_eq!(refused.headers["content-type"], "application/problem+json");
    }
    // A cookie for a caller's secret.
    for secret in [BOB, ADA, &second_caller] {
        let refused = api.sign_in(secret).await;
        assert_eq!(refused.status, 401);
        assert!(!refused.headers.contains_key("set-cookie"));
    }
    // A cookie for the deciding key of the same name.
    let signed_in = api.sign_in(&same_name).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    let (pair, csrf) = (cookie(&signed_in), signed_in.json()["csrf"].as_str().unwrap().to_owned());
    let headers = [("authorization", "-"), ("cookie", pair.as_str()), ("x-helve-csrf", csrf.as_str())];
    let own_line = format!("POST {}/v1/approvals/{id}/decision", place(&signed_in));
    assert_eq!(api.server.send(&own_line, &headers, &approve().to_string()).await.status, 403);
    // A call made with the deciding key, to be decided with it.
    let made =
        api.ask("POST /v1/calls", &same_name, json!({ "tool": "deed", "arguments": { "n": 2 } })).await;
    assert_eq!(made.status, 403);
    assert_eq!(api.get(&format!("/v1/calls/{id}"), BOB).await.status, 202, "still asked");
    assert_eq!(api.ran(), 0);
}

#[tokio::test]
async fn a_code_signs_in_once_and_its_cookie_cannot_be_borrowed() {
    let api = api().await;
    let (_, code) = api.key("ada (uid 1)", Purpose::SignIn).await;
    assert_eq!(api.get("/v1/me", &code).await.status, 401, "a code is no token");
    let evil = [("authorization", "-"), ("origin", "http://localhost:3000")];
    let body = json!({ "code": code }).to_string();
    assert_eq!(api.server.send("POST /sign-in", &evil, &body).await.status, 403, "a page of another");
    let signed_in = api.sign_in(&code).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    assert_eq!(api.sign_in(&code).await.status, 401, "good once");
    let set = &signed_in.headers["set-cookie"];
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    let (pair, csrf) = (cookie(&signed_in), signed_in.json()["csrf"].as_str().unwrap().to_owned());
    let place = place(&signed_in);
    assert!(set.ends_with(&format!("; Path={place}/")), "{set}");
    let id = api.question(3).await;
    let line = format!("POST {place}/v1/approvals/{id}/decision");
    let approve = json!({ "decision": "approve" }).to_string();
    let own = format!("http://{}", api.server.address);
    let base = [("authorization", "-"), ("cookie", pair.as_str())];
    for forged in [
        vec![],
        vec![("x-helve-csrf", "wrong")],
        vec![("x-helve-csrf", csrf.as_str()), ("origin", "http://localhost:3000")],
        vec![("x-helve-csrf", csrf.as_str()), ("sec-fetch-site", "cross-site")],
        vec![("x-helve-csrf", csrf.as_str()), ("sec-fetch-site", "same-site")],
    ] {
        let headers: Vec<_> = base.iter().copied().chain(forged).collect();
        let refused = api.server.send(&line, &headers, &approve).await;
        assert_eq!(refused.status, 403, "{headers:?} {refused:?}");
    }
    let form = [base[0], base[1], ("x-helve-csrf", &csrf), ("content-type", "text/plain")];
    assert_eq!(api.server.send(&line, &form, &approve).await.status, 415);
    for mcp in ["POST /mcp".to_owned(), format!("POST {place}/mcp")] {
        assert_eq!(api.server.send(&mcp, &base, "{}").await.status, 401, "no cookies for MCP");
    }
    let me = format!("GET {place}/v1/me");
    assert_eq!(api.server.send(&me, &base, "").await.json()["csrf"], json!(csrf));
    assert_eq!(api.get(&format!("/v1/calls/{id}"), BOB).await.status, 202);
    assert_eq!(api.ran(), 0);
    let own_page =
        [base[0], base[1], ("x-helve-csrf", &csrf), ("origin", &own), ("sec-fetch-site", "same-origin")];
    assert_eq!(api.server.send(&line, &own_page, &approve).await.status, 200);
    let out = api.server.send(&format!("POST {place}/sign-out"), &own_page, "").await;
    assert_eq!(out.status, 204);
    assert!(out.headers["set-cookie"].ends_with(&format!("; Path={place}/; Max-Age=0")), "{out:?}");
    assert_eq!(api.server.send(&me, &base, "").await.status, 401);
}

#[tokio::test]
async fn a_cookie_dies_with_its_key() {
    let api = api().await;
    let (key, text) = api.key("grace", Purpose::Decide).await;
    let signed_in = api.sign_in(&text).await;
    let (pair, line) = (cookie(&signed_in), format!("GET {}/v1/approvals", place(&signed_in)));
    let headers = [("authorization", "-"), ("cookie", pair.as_str())];
    assert_eq!(api.server.send(&line, &headers, "").await.status, 200);
    api.server.runtime.keys().revoke_key(key.id, Caller::local(), Timestamp::now()).await.unwrap();
    within_a_second(async || api.server.send(&line, &headers, "").await.status == 401).await;
}

#[tokio::test]
async fn a_session_is_ended_by_its_own_caller_or_an_admin() {
    let api = api().await;
    let echo = |token, session: &str| {
        let call = json!({ "tool": "echo", "session": session, "arguments": { "message": "hi" } });
        api.ask("POST /v1/calls", token, call)
    };
    let (_, decides) = api.key("dora", Purpose::Decide).await;
    for (token, path, expected) in [
        (BOB, "/v1/sessions/mine", 200),
        (BOB, "/v1/sessions/hers?principal=ada", 403),
        (decides.as_str(), "/v1/sessions/mine?principal=bob", 403),
        (ADA, "/v1/sessions/other?principal=bob", 200),
    ] {
        let reply = api.ask(&format!("DELETE {path}"), token, json!({})).await;
        assert_eq!(reply.status, expected, "{path}: {reply:?}");
    }
    for (token, session, runs) in [
        (BOB, "mine", false),
        (BOB, "other", false),
        (BOB, "third", true),
        (ADA, "mine", true),
        (ADA, "hers", true),
    ] {
        let reply = echo(token, session).await;
        assert_eq!(reply.status == 200, runs, "{session}: {reply:?}");
        if !runs {
            assert!(reply.body.contains("this session was ended"), "{reply:?}");
        }
    }
}
