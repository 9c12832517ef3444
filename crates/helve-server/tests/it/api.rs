//! The HTTP API: every route guarded, every answer in its form, everybody with their own.

use std::time::Duration;

use helve::ApprovalQuery;
use helve::identity::Purpose;
use helve_server::ServerConfig;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::harness::{ADA, BOB};
use crate::identity::{Api, api, api_on, api_with};

/// Every route of the document, with something in the place of each parameter.
async fn routes(api: &Api) -> Vec<(String, bool)> {
    let document = api.get("/v1/openapi.json", ADA).await.json();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let path = path.replace("{id}", "apr_01ARZ3NDEKTSV4RRFFQ69G5FAV").replace("{name}", "echo");
            routes.push((format!("{} {path}", method.to_uppercase()), operation["security"] == json!([])));
        }
    }
    routes
}

#[tokio::test]
async fn no_route_is_open_to_strangers() {
    let api = api().await;
    let routes = routes(&api).await;
    assert!(routes.len() > 25, "{routes:?}");
    let body = json!({ "tool": "deed", "arguments": {} }).to_string();
    for (line, open) in &routes {
        let reply = api.server.send(line, &[("authorization", "-")], &body).await;
        assert_eq!(
            reply.status == 401 && reply.headers.contains_key("www-authenticate"),
            !open,
            "{line} {reply:?}"
        );
        let probe = line.contains("/healthz") || line.contains("/readyz");
        for headers in
            [[("host", "evil.example.com")], [("origin", "http://evil.example.com")], [("origin", "null")]]
        {
            let reply = api.server.send(line, &headers, &body).await;
            assert_eq!(reply.status == 403, !probe, "{line} {headers:?} {reply:?}");
            if !probe {
                assert_eq!(reply.headers["content-type"], "application/problem+json", "{line}");
            }
        }
        if !open {
            let query = format!("{line}?token={ADA}&access_token={ADA}");
            assert_eq!(api.server.send(&query, &[("authorization", "-")], &body).await.status, 401, "{line}");
        }
    }
    // What no route answers is not told to strangers either.
    assert_eq!(api.server.send("GET /v1/secret", &[("authorization", "-")], "").await.status, 401);
    assert_eq!(api.server.send("PUT /v1/calls", &[("authorization", "-")], &body).await.status, 401);
    assert_eq!(api.ran(), 0);
    assert!(api.server.runtime.approvals().list(ApprovalQuery::default()).await.unwrap().is_empty());
}

#[tokio::test]
async fn every_route_of_the_document_is_answered() {
    let api = api().await;
    for (line, _) in routes(&api).await.iter().filter(|(line, _)| !line.contains("/v1/events")) {
        let reply = api.ask(line, ADA, json!({})).await;
        let nowhere = reply.body.contains("there is nothing at") || reply.status == 405;
        assert!(!nowhere, "{line} {reply:?}");
    }
    for (line, status) in [("GET /v1/nothing", 404), ("PATCH /v1/calls", 405), ("POST /v1/tools", 405)] {
        let reply = api.ask(line, ADA, json!({})).await;
        assert_eq!(reply.status, status, "{line}");
        assert_eq!(reply.headers["content-type"], "application/problem+json");
        assert_eq!(reply.json()["status"], json!(status));
    }
}

#[tokio::test]
async fn a_real_validator_accepts_the_document() {
    let api = api().await;
    let document = api.get("/v1/openapi.json", ADA).await.json();
    assert_eq!(document["openapi"], "3.1.0");
    // Every schema is one: the meta-schema of 2020-12 says so.
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(helve::Schema::compile(schema.clone()).is_ok() || refers(schema), "{name}: {schema}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, document.to_string()).unwrap();
    // Where the validator is not installed, the structure is all that is checked.
    if let Some(said) = validated(&file) {
        assert_eq!(said, Ok(()));
    }
}

#[tokio::test]
async fn every_problem_is_as_the_document_says() {
    let api = api_with(ServerConfig { body_bytes_max: 10_000, ..ServerConfig::default() }).await;
    let id = api.question(7).await;
    let (_, grace) = api.key("grace", Purpose::Decide).await;
    let decision = format!("POST /v1/approvals/{id}/decision");
    let deny = json!({ "decision": "deny" }).to_string();
    assert_eq!(api.ask(&decision, &grace, json!({ "decision": "deny" })).await.status, 200);
    let long = format!("GET /v1/tools?{}", "a".repeat(9_000));
    let large = " ".repeat(20_000);
    let grace = format!("Bearer {grace}");
    let (own, nobody, decider) = (("accept", "*/*"), ("authorization", "-"), ("authorization", &*grace));
    for (status, line, header, body) in [
        (400, "POST /v1/calls", own, "{"),
        (401, "GET /v1/me", nobody, ""),
        (403, &decision, own, &deny),
        (403, "GET /v1/me", ("host", "evil.example.com"), ""),
        (404, "GET /v1/nothing", own, ""),
        (404, "POST /v1/calls", own, r#"{"tool":"eco"}"#),
        (405, "PATCH /v1/calls", own, ""),
        (409, &decision, decider, &deny),
        (413, "POST /v1/calls", own, &large),
        (414, &long, own, ""),
        (415, "POST /v1/calls", ("content-type", "text/plain"), "{}"),
        (422, "POST /v1/calls", own, r#"{"tool":"echo","arguments":{"message":{"a":1}}}"#),
        (422, "POST /v1/calls", own, r#"{"tool":"echo","arguments":{}}"#),
    ] {
        let reply = api.server.send(line, &[header], body).await;
        assert_eq!(reply.status, status, "{line} {reply:?}");
        let said = reply.json();
        assert_eq!(
            (&said["type"], &said["status"]),
            (&json!("about:blank"), &json!(status)),
            "{line} {reply:?}"
        );
    }
}

/// Whether a schema leads out of itself, which a schema by itself cannot.
fn refers(schema: &Value) -> bool {
    schema.to_string().contains("\"$ref\"")
}

/// What `openapi-spec-validator` says of a document; none where Python has none.
#[expect(clippy::disallowed_methods, reason = "a test asks a validator that others wrote")]
fn validated(file: &std::path::Path) -> Option<Result<(), String>> {
    let run = |args: &[&str]| std::process::Command::new("python3").args(args).output().ok();
    let found = run(&["-c", "import openapi_spec_validator"]);
    found.filter(|found| found.status.success())?;
    let checked = run(&["-m", "openapi_spec_validator", file.to_str()?])?;
    let said = || String::from_utf8_lossy(&checked.stdout).into_owned();
    Some(if checked.status.success() { Ok(()) } else { Err(said()) })
}

#[tokio::test]
async fn what_is_no_plain_request_is_refused_before_anything_runs() {
    let config = ServerConfig { body_bytes_max: 10_000, ..ServerConfig::default() };
    let api = api_with(config).await;
    let deep = format!(r#"{{"tool":"echo","arguments":{}1{}}}"#, r#"{"a":"#.repeat(80), "}".repeat(80));
    let large = json!({ "tool": "echo", "arguments": { "message": "a".repeat(20_000) } }).to_string();
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("[]", 400),
        ("7", 400),
        (r#"["echo",{"message":"a"},null,null,null,null,null,null,null,null,null,null]"#, 400),
        (r#"{"tool":"echo"} x"#, 400),
        (r#"{"tool":"echo","tool":"deed"}"#, 400),
        (r#"{"tool":"echo","arguments":{"message":"a","message":"b"}}"#, 400),
        (r#"{"tool":"echo","arguments":[]}"#, 400),
        (r#"{"tool":"echo","caller":{"principal":"ada"}}"#, 400),
        (r#"{"tool":"echo","arguments":{"message":18446744073709551616}}"#, 400),
        (r#"{"tool":"echo","session":""}"#, 400),
        (&deep, 400),
        (&large, 413),
        (r#"{"arguments":{}}"#, 400),
        (r#"{"tool":"nothing"}"#, 404),
        (r#"{"tool":"echo","arguments":{"message":{"a":1}}}"#, 422),
    ] {
        let reply = api.server.send("POST /v1/calls", &[], body).await;
        assert_eq!(reply.status, status, "{} {reply:?}", &body[..body.len().min(80)]);
        assert_eq!(reply.headers["content-type"], "application/problem+json");
        let problem = reply.json();
        for field in ["type", "title", "status", "detail"] {
            assert!(!problem[field].is_null(), "{field} {problem}");
        }
    }
    // Whatever it is read as.
    for line in ["POST /v1/calls", "POST /v1/hooks"] {
        let reply = api.server.send(line, &[], "[1]").await;
        assert_eq!(reply.json()["detail"], "the body must be a JSON object", "{line} {reply:?}");
    }
    for media in ["text/plain", "application/x-www-form-urlencoded", "-"] {
        let reply = api.server.send("POST /v1/calls", &[("content-type", media)], r#"{"tool":"deed"}"#).await;
        assert_eq!(reply.status, 415, "{media}");
    }
    assert_eq!(api.get("/v1/approvals?state=nonsense", ADA).await.status, 400);
    assert_eq!(api.get("/v1/approvals?token=x", ADA).await.status, 400);
    assert_eq!(api.ran(), 0);
}

#[tokio::test]
async fn an_error_says_what_it_is_and_where_it_happened() {
    let api = api().await;
    let reply = api.ask("POST /v1/calls", ADA, json!({ "tool": "ecko", "arguments": {} })).await;
    let problem = reply.json();
    assert_eq!((reply.status, &problem["code"]), (404, &json!("tool_not_found")));
    assert!(problem["instance"].as_str().unwrap().starts_with("call_"), "{problem}");
    let reply = api.ask("POST /v1/calls", ADA, json!({ "tool": "echo", "arguments": {} })).await;
    let problem = reply.json();
    assert_eq!((reply.status, &problem["code"]), (422, &json!("validation_failed")));
    assert!(!problem["field_errors"].as_array().unwrap().is_empty(), "{problem}");
    // What would have been right is right.
    let corrected = json!({ "tool": "echo", "arguments": problem["example"] });
    assert!(problem["example"].is_object(), "{problem}");
    assert_eq!(api.ask("POST /v1/calls", ADA, corrected).await.status, 200, "{problem}");
}

#[tokio::test]
async fn another_ones_things_look_as_if_they_did_not_exist() {
    let api = api().await;
    let (_, carol) = api.key("carol", Purpose::Call).await;
    let id = api.question(1).await;
    let unknown = "apr_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for (method, suffix) in [("GET", ""), ("DELETE", "")] {
        let line = |id: &str| format!("{method} /v1/approvals/{id}{suffix}");
        let foreign = api.ask(&line(&id), &carol, json!({})).await;
        let missing = api.ask(&line(unknown), &carol, json!({})).await;
        assert_eq!((foreign.status, &foreign.body), (404, &missing.body), "{method}");
    }
    let foreign = api.get(&format!("/v1/calls/{id}"), &carol).await;
    let missing = api.get(&format!("/v1/calls/{unknown}"), &carol).await;
    assert_eq!((foreign.status, &foreign.body), (404, &missing.body));
    assert_eq!(api.get("/v1/approvals?principal=bob", &carol).await.json(), json!([]));
    // Who asked, and who may inspect, see it.
    assert_eq!(api.get(&format!("/v1/approvals/{id}"), BOB).await.status, 200);
    assert_eq!(api.get("/v1/approvals?state=pending", BOB).await.json().as_array().unwrap().len(), 1);
    assert_eq!(api.get(&format!("/v1/approvals/{id}"), ADA).await.status, 200);
    // An administrator is not the one who asked: they cannot fetch, and so run, the call.
    assert_eq!(api.get(&format!("/v1/calls/{id}"), ADA).await.status, 404);
    assert_eq!(
        api.ask(&format!("DELETE /v1/approvals/{id}"), BOB, json!({})).await.json()["state"],
        "withdrawn"
    );
    assert_eq!(api.ran(), 0);
}

#[tokio::test]
async fn tools_come_in_every_form_and_in_pages() {
    let api = api().await;
    let names = |reply: &Value| -> Vec<String> {
        let tools = reply["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let all = api.get("/v1/tools", ADA).await.json();
    assert_eq!(names(&all), ["deed", "echo", "secret/echo"]);
    assert_eq!(names(&api.get("/v1/tools", BOB).await.json()), ["deed", "echo"]);
    assert_eq!(api.get("/v1/tools/secret/echo", BOB).await.status, 404);
    assert_eq!(api.get("/v1/tools/secret/echo", ADA).await.json()["name"], "secret/echo");
    let first = api.get("/v1/tools?limit=2", ADA).await.json();
    assert_eq!(first["next_cursor"], "echo");
    let rest = api.get("/v1/tools?limit=2&cursor=echo", ADA).await.json();
    assert_eq!((names(&rest), &rest["next_cursor"]), (vec!["secret/echo".to_owned()], &Value::Null));
    assert_eq!(names(&api.get("/v1/tools?namespace=secret", ADA).await.json()), ["secret/echo"]);
    assert!(names(&api.get("/v1/tools?query=message", ADA).await.json()).contains(&"echo".to_owned()));
    for (format, pointer) in [
        ("anthropic", "/input_schema"),
        ("openai", "/parameters"),
        ("openai-responses", "/parameters"),
        ("openai-chat", "/function/parameters"),
        ("mcp", "/inputSchema"),
    ] {
        let tools = api.get(&format!("/v1/tools?format={format}"), ADA).await.json();
        assert!(tools["tools"][0].pointer(pointer).is_some(), "{format} {tools}");
    }
    assert_eq!(api.get("/v1/tools?format=gemini", ADA).await.status, 200);
    assert_eq!(api.get("/v1/tools?format=klingon", ADA).await.status, 400);
}

#[tokio::test]
async fn edits_are_validated_and_the_like_is_remembered_for_the_session() {
    let api = api().await;
    let (_, decider) = api.key("grace", Purpose::Decide).await;
    let deed = |n: i64| json!({ "tool": "deed", "arguments": { "n": n }, "session": "s1" });
    let asked = api.ask("POST /v1/calls", BOB, deed(1)).await.json();
    let id = asked["approval_id"].as_str().unwrap();
    let line = format!("POST /v1/approvals/{id}/decision");
    let wrong = api.ask(&line, &decider, json!({ "decision": "approve", "edited": { "n": "many" } })).await;
    assert_eq!((wrong.status, &wrong.json()["code"]), (422, &json!("validation_failed")), "{wrong:?}");
    for wrong in [
        json!({ "decision": "maybe" }),
        json!({ "decision": "deny", "edited": {} }),
        json!({ "decision": "approve", "by": "ada" }),
        json!({}),
    ] {
        assert_eq!(api.ask(&line, &decider, wrong.clone()).await.status, 400, "{wrong}");
    }
    let edited = json!({ "decision": "approve", "edited": { "n": 5 } });
    assert_eq!(api.ask(&line, &decider, edited).await.status, 200);
    let done = api.ask(&format!("POST /v1/calls/{id}/run"), BOB, json!({})).await.json();
    assert_eq!(done["result"], json!({ "did": 5 }), "what a person wrote is what runs");
    let asked = api.ask("POST /v1/calls", BOB, deed(2)).await.json();
    let line = format!("POST /v1/approvals/{}/decision", asked["approval_id"].as_str().unwrap());
    let always = json!({ "decision": "approve", "remember": { "same": [] } });
    assert_eq!(api.ask(&line, &decider, always).await.status, 200);
    assert_eq!(api.ask("POST /v1/calls", BOB, deed(9)).await.status, 200, "the like is not asked again");
    let rules = api.get("/v1/rules", BOB).await.json();
    let rule = rules[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(api.ask(&format!("DELETE /v1/rules/{rule}"), BOB, json!({})).await.status, 403);
    assert_eq!(api.ask(&format!("DELETE /v1/rules/{rule}"), &decider, json!({})).await.status, 200);
    assert_eq!(api.ask("POST /v1/calls", BOB, deed(10)).await.status, 202);
    assert_eq!(api.ran(), 2);
}

#[tokio::test]
async fn a_waiting_caller_gets_the_result_as_soon_as_it_is_decided() {
    let api = api().await;
    let (_, decider) = api.key("grace", Purpose::Decide).await;
    let call = json!({ "tool": "deed", "arguments": { "n": 4 }, "wait_ms": 20_000 });
    let decide = async {
        loop {
            let pending = api.get("/v1/approvals?state=pending", &decider).await.json();
            if let Some(id) = pending[0]["id"].as_str() {
                let line = format!("POST /v1/approvals/{id}/decision");
                break api.ask(&line, &decider, json!({ "decision": "approve" })).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (called, decided) = tokio::join!(api.ask("POST /v1/calls", BOB, call), decide);
    assert_eq!((called.status, decided.status), (200, 200), "{called:?}");
    assert_eq!(called.json()["result"], json!({ "did": 4 }));
}

#[tokio::test]
async fn events_are_told_to_whom_they_concern() {
    let api = api().await;
    let (_, carol) = api.key("carol", Purpose::Call).await;
    let open = async |token: &str| {
        let bearer = format!("Bearer {token}");
        let mut open = api.server.open("GET /v1/events", &[("authorization", &bearer)], "").await;
        open.until("retry:").await;
        open
    };
    let (mut everything, mut own) = (open(ADA).await, open(&carol).await);
    let echo = |message: &str| json!({ "tool": "echo", "arguments": { "message": message } });
    assert_eq!(api.ask("POST /v1/calls", BOB, echo("bob's")).await.status, 200);
    let carols = api.ask("POST /v1/calls", &carol, echo("carol's")).await.json();
    let id = carols["call_id"].as_str().unwrap();
    assert!(own.until(id).await.matches("tools.executed").count() >= 1);
    assert_eq!(own.read.matches("event: tools.executed").count(), 1, "only her own: {}", own.read);
    everything.until(id).await;
    assert_eq!(everything.read.matches("event: tools.executed").count(), 2, "{}", everything.read);
    for stream in [&own, &everything] {
        crate::document::check_stream(stream.read.split_once("\r\n\r\n").map_or("", |(_, body)| body));
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_key() {
    let config = ServerConfig { keep_alive: Duration::from_millis(200), ..ServerConfig::default() };
    let api = api_with(config).await;
    let (key, text) = api.key("carol", Purpose::Call).await;
    let bearer = format!("Bearer {text}");
    let headers = [("authorization", bearer.as_str())];
    let mut stream = api.server.open("GET /v1/events", &headers, "").await;
    stream.until(": alive").await;
    api.server
        .runtime
        .keys()
        .revoke_key(key.id, helve::Caller::local(), jiff::Timestamp::now())
        .await
        .unwrap();
    tokio::time::timeout(Duration::from_secs(10), stream.end()).await.expect("it goes on without its key");
}

#[tokio::test]
async fn figures_are_counted_and_not_for_everybody() {
    let api = api().await;
    let echo = json!({ "tool": "echo", "arguments": { "message": "hi" } });
    api.ask("POST /v1/calls", BOB, echo).await;
    api.ask("POST /v1/calls", BOB, json!({ "tool": "no\"such\ntool" })).await;
    api.question(1).await;
    assert_eq!(api.get("/metrics", BOB).await.status, 403);
    let mut text = String::new();
    for _ in 0..100 {
        text = api.get("/metrics", ADA).await.body;
        if text.contains("status=\"pending\"") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for line in [
        "helve_calls_total{tool=\"echo\",status=\"done\"} 1",
        "helve_calls_total{tool=\"\",status=\"tool_not_found\"} 1",
        "helve_calls_total{tool=\"deed\",status=\"pending\"} 1",
        "helve_call_duration_seconds_bucket{tool=\"echo\",le=\"+Inf\"} 1",
        "helve_call_duration_seconds_count{tool=\"echo\"} 1",
        "helve_call_duration_seconds_count{tool=\"\"} 1",
        "helve_approvals_pending 1",
        "helve_breakers_open 0",
        "helve_journal_up 1",
        "helve_tools 3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn it_says_whether_it_is_there_and_can_work() {
    let api = api().await;
    for path in ["/healthz", "/readyz"] {
        let reply = api
            .server
            .send(&format!("GET {path}"), &[("authorization", "-"), ("host", "10.0.0.7")], "")
            .await;
        assert_eq!(reply.status, 200, "{path}");
    }
    let me = api.get("/v1/me", BOB).await.json();
    assert_eq!((&me["name"], &me["purpose"]), (&json!("bob"), &json!("call")));
    assert_eq!(api.get("/v1/mcp/servers", BOB).await.status, 403);
    assert_eq!(api.get("/v1/audit", BOB).await.status, 501, "no journal is kept here");
}

/// Takes no more than it can, which is nothing.
struct Overrun;

impl helve::ports::Tracer for Overrun {
    fn samples(&self, _: [u8; 16]) -> bool {
        true
    }

    fn wants_content(&self) -> bool {
        false
    }

    fn ended(&self, _: Box<helve::trace::TracedCall>) {}

    fn dropped(&self) -> u64 {
        7
    }

    fn flush(&self) -> helve::BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test]
async fn traces_that_were_dropped_are_counted_where_somebody_traces() {
    let figures = |api: Api| async move { api.get("/metrics", ADA).await.body };
    assert!(!figures(api().await).await.contains("helve_traces_dropped_total"));
    let traced = helve::Runtime::builder().tracer(std::sync::Arc::new(Overrun));
    let text = figures(api_on(traced, helve_server::ServerConfig::default()).await).await;
    assert!(
        text.contains("# TYPE helve_traces_dropped_total counter\nhelve_traces_dropped_total 7\n"),
        "{text}"
    );
}

#[tokio::test]
async fn tools_that_lack_an_integration_are_left_out_and_listed_on_request() {
    let api = api().await;
    let lacking = helve::Tool::builder("mail")
        .description("Needs an account.")
        .risk(helve::Risk::High)
        .integration("mail")
        .handler(|_, _| async { Ok(json!(1)) });
    api.server.registry.register(helve::Layer::Project, lacking.build().unwrap()).unwrap();
    let names = |page: Value| -> Vec<String> {
        let tools = page["tools"].as_array().cloned().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    for format in ["helve", "anthropic", "llm", "mcp"] {
        let shown = names(api.get(&format!("/v1/tools?format={format}"), ADA).await.json());
        let all = names(api.get(&format!("/v1/tools?format={format}&unavailable=true"), ADA).await.json());
        assert!(!shown.contains(&"mail".to_owned()) && all.contains(&"mail".to_owned()), "{format}");
    }
    let one = api.get("/v1/tools/mail", ADA).await.json();
    assert_eq!((&one["lacks"], &one["requires_approval"]), (&json!(["mail"]), &json!(true)));
    assert_eq!(api.get("/v1/tools/echo", ADA).await.json()["requires_approval"], false);
}

#[tokio::test]
async fn costs_are_added_up_for_whoever_may_see_them() {
    let api = api().await;
    let paid = helve::Tool::builder("paid")
        .description("Costs something.")
        .read_only()
        .cost("0.004 USD".parse().unwrap())
        .handler(|_, _| async { Ok(json!(1)) });
    api.server.registry.register(helve::Layer::Project, paid.build().unwrap()).unwrap();
    for session in ["s", "s", "t"] {
        let call = json!({ "tool": "paid", "session": session });
        let outcome = api.ask("POST /v1/calls", ADA, call).await.json();
        assert_eq!(outcome["cost"], json!({ "micros": 4_000, "unit": "USD" }));
    }
    let costs = async |query: &str, who: &str| {
        api.get(&format!("/v1/costs{query}"), who).await.json()["costs"].clone()
    };
    let all = costs("", ADA).await;
    assert_eq!(
        all,
        json!([{ "tool": "paid", "calls": 3, "micros": 12_000, "amount": "0.012", "unit": "USD" }])
    );
    let by_session = costs("?by=session", ADA).await;
    assert_eq!((&by_session[0]["session"], &by_session[0]["amount"]), (&json!("s"), &json!("0.008")));
    assert_eq!(costs("?by=caller", ADA).await[0]["caller"], "ada");
    for nothing in ["?tool=mail*", "?session=x", "?principal=bob", "?since=2100-01-01T00:00:00Z"] {
        assert_eq!(costs(nothing, ADA).await, json!([]), "{nothing}");
    }
    assert_eq!(costs("?principal=ada", BOB).await, json!([]), "others' are not told");
    let day = |days: i64| Timestamp::now() - SignedDuration::from_hours(24 * days);
    assert_eq!(costs(&format!("?since={}", day(365)), ADA).await, all);
    let too_far = format!("?since={}", day(367));
    for wrong in ["?by=colour", "?since=yesterday", "?odd=1", "?since=1970-01-01T00:00:00Z", &too_far] {
        assert_eq!(api.get(&format!("/v1/costs{wrong}"), ADA).await.status, 400, "{wrong}");
    }
}
