//! Every route there is, by every way of not being anybody: nothing happens. What proves it is the tool
//! that did not run and the question that still stands, not the answer's status.

use helve::identity::{KeyState, Purpose};
use helve::{ApprovalQuery, Caller, Key};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::{ADA, BOB, call};
use crate::identity::{Api, api, cookie, place};

/// The routes that the OpenAPI document does not tell of, as the source writes them: a route that is added
/// is walked too.
const SOURCES: [&str; 2] = [include_str!("../../src/page/mod.rs"), include_str!("../../src/listen.rs")];

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

/// All that strangers could change.
#[derive(Debug, PartialEq)]
pub(crate) struct Standing {
    ran: usize,
    questions: Value,
    rules: Value,
    keys: Vec<(String, KeyState)>,
    sessions: String,
}

pub(crate) async fn standing(api: &Api) -> Standing {
    let runtime = &api.server.runtime;
    let questions = runtime.approvals().list(ApprovalQuery::default()).await.unwrap();
    let rules = runtime.approvals().rules(100).await.unwrap();
    let keys = runtime.keys().keys().await.unwrap();
    let now = Timestamp::now();
    let state = |key: &Key| (key.id.to_string(), key.state_at(now));
    let figures = api.get("/metrics", ADA).await.body;
    let sessions = figures.lines().filter(|line| line.contains("session") && !line.starts_with('#'));
    Standing {
        ran: api.ran(),
        questions: serde_json::to_value(questions).unwrap(),
        rules: serde_json::to_value(rules).unwrap(),
        keys: keys.iter().map(state).collect(),
        sessions: sessions.collect(),
    }
}

/// Every path, with real ids in the place of parameters.
pub(crate) async fn paths(api: &Api, question: &str, rule: &str) -> Vec<String> {
    let document = api.get("/v1/openapi.json", ADA).await.json();
    let told = document["paths"].as_object().unwrap().keys().cloned();
    let written = SOURCES.iter().flat_map(|source| source.split(".route(\"").skip(1));
    let written = written.map(|rest| rest.split('"').next().unwrap().to_owned());
    let mut paths: Vec<String> = told.chain(written).collect();
    assert!(paths.len() > 40 && paths.iter().any(|path| path == "/mcp/ws"), "{paths:?}");
    for path in &mut paths {
        let id = if path.contains("rules") { rule } else { question };
        *path = path.replace("{id}", id).replace("{name}", "deed").replace("{*name}", "deed");
    }
    paths.sort();
    paths.dedup();
    paths
}

/// The same but for its last character.
fn nearly(secret: &str) -> String {
    let (rest, last) = secret.split_at(secret.len() - 1);
    format!("{rest}{}", if last == "0" { "1" } else { "0" })
}

/// A body that would do something, if anybody in particular had sent it.
fn body(path: &str, code: &str) -> Value {
    match path {
        "/sign-in" | "/sign-in/form" => json!({ "code": nearly(code) }),
        path if path.starts_with("/mcp") => call(1, "deed", json!({ "n": 1 })),
        path if path.ends_with("/decision") => json!({ "decision": "approve" }),
        path if path.ends_with("/hooks") => json!({ "hook_event_name": "SessionEnd", "reason": "other" }),
        _ => json!({ "tool": "deed", "arguments": { "n": 1 } }),
    }
}

#[tokio::test]
async fn whoever_is_nobody_changes_nothing_by_any_route() {
    let api = api().await;
    let (_, decider) = api.key("grace", Purpose::Decide).await;
    let (_, code) = api.key("ada (uid 1)", Purpose::SignIn).await;
    let (mut gone, revoked) = api.key("gone", Purpose::Call).await;
    gone = api
        .server
        .runtime
        .keys()
        .revoke_key(gone.id, Caller::local(), Timestamp::now())
        .await
        .unwrap()
        .unwrap();
    assert!(gone.revoked_at.is_some());
    // What was found out about a key a moment ago still counts.
    let is_refused = async {
        while api.get("/v1/tools", &revoked).await.status != 401 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), is_refused).await.unwrap();
    // One question stands; another was answered for the whole session, and so made a rule.
    let question = api.question(1).await;
    let other = api.question(2).await;
    let always = json!({ "decision": "approve", "remember": {} });
    let line = format!("POST /v1/approvals/{other}/decision");
    assert_eq!(api.ask(&line, &decider, always).await.status, 200);
    let rule = api.server.runtime.approvals().rules(10).await.unwrap()[0].id.to_string();
    let signed_in = api.sign_in(&decider).await;
    let (place, csrf) = (place(&signed_in), signed_in.json()["csrf"].as_str().unwrap().to_owned());
    let signed_in = cookie(&signed_in);
    let before = standing(&api).await;

    let wrong_key = format!("Bearer {}", nearly(&decider));
    let none = "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEiLCJleHAiOjk5OTk5OTk5OTl9.";
    let (as_token, as_revoked) = (format!("Bearer {code}"), format!("Bearer {revoked}"));
    let basic = format!("Basic {ADA}");
    let nobody: [Vec<(&str, &str)>; 8] = [
        vec![("authorization", "-")],
        vec![("authorization", "Bearer ")],
        vec![("authorization", &basic)],
        vec![("authorization", &wrong_key)],
        vec![("authorization", none)],
        vec![("authorization", &as_token)],
        vec![("authorization", &as_revoked)],
        vec![("authorization", "-"), ("cookie", "helve_session=0000")],
    ];
    for path in paths(&api, &question, &rule).await {
        let sent = body(&path, &code).to_string();
        for method in METHODS {
            for headers in &nobody {
                api.server.open(&format!("{method} {path}"), headers, &sent).await.ended().await;
            }
            // Somebody's cookie, in the hands of a page that does not know the token, or of a server that does
            // not know its place; and the place without the cookie.
            if method != "GET" && method != "HEAD" {
                for media in ["application/json", "application/x-www-form-urlencoded"] {
                    for (place, cookie, csrf) in
                        [(&*place, &*signed_in, "-"), ("", &*signed_in, &*csrf), (&*place, "-", &*csrf)]
                    {
                        let forged = [
                            ("authorization", "-"),
                            ("cookie", cookie),
                            ("x-helve-csrf", csrf),
                            ("content-type", media),
                        ];
                        let line = format!("{method} {place}{path}");
                        api.server.open(&line, &forged, &sent).await.ended().await;
                    }
                }
            }
        }
    }
    assert_eq!(standing(&api).await, before);
    // The same question is decided and runs once a caller that may has come: it could have been.
    let line = format!("POST /v1/approvals/{question}/decision");
    assert_eq!(api.ask(&line, &decider, json!({ "decision": "approve" })).await.status, 200);
    let line = format!("POST /v1/calls/{question}/run");
    assert_eq!(api.ask(&line, BOB, json!({})).await.status, 200);
    assert_eq!(api.ran(), before.ran + 1);
}

#[tokio::test]
async fn no_way_of_writing_a_path_leads_around_the_guard() {
    let api = api().await;
    let sent = json!({ "tool": "echo", "arguments": { "message": "around" } }).to_string();
    for path in [
        "//v1/calls",
        "/v1//calls",
        "/v1/calls/",
        "/V1/calls",
        "/v1/calls?x=/healthz",
        "/v1/calls#/healthz",
        "/%76%31/calls",
        "/v1%2fcalls",
        "/healthz/../v1/calls",
        "/sign-in/../v1/calls",
        "/sign-in;/../v1/calls",
        "/assets/page.js/../../v1/calls",
        "/assets/..%2f..%2fv1/calls",
        "/./v1/calls",
        "/~0000000000000000000000000000000000000000000000000000000000000000/v1/calls",
        "/~0000000000000000000000000000000000000000000000000000000000000000//healthz/../v1/calls",
        "/~0000000000000000000000000000000000000000000000000000000000000000",
        "\\v1\\calls",
        "http://localhost/v1/calls",
        "http://localhost/healthz/../v1/calls",
        "*",
    ] {
        for method in ["POST", "GET"] {
            let reply = api.server.send(&format!("{method} {path}"), &[("authorization", "-")], &sent).await;
            assert!(!reply.body.contains("around"), "{method} {path} {reply:?}");
            assert!(reply.status >= 400 || (300..400).contains(&reply.status), "{method} {path} {reply:?}");
        }
    }
    // Headers that proxies and frameworks sometimes obey.
    for header in [
        ("x-http-method-override", "GET"),
        ("x-original-url", "/healthz"),
        ("x-rewrite-url", "/healthz"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-user", "ada"),
        ("x-helve-principal", "ada"),
        ("forwarded", "for=127.0.0.1;host=localhost"),
    ] {
        let reply = api.server.send("POST /v1/calls", &[("authorization", "-"), header], &sent).await;
        assert_eq!(reply.status, 401, "{header:?} {reply:?}");
    }
}
