//! One look at a server that is not as it should be: what is said about it.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use helve_mcp::config::{EraChoice, Secrets, ServerConfig};
use helve_mcp::servers::{Probe, Report, Stage, Surroundings};
use serde_json::{Value, json};

use crate::plain::{eventually, text};
use crate::setup::{Setup, surroundings};

/// What a server answers to a message instead of what it should, and after how long.
type Instead = fn(&Value) -> Option<(Duration, Value)>;

const NOW: Duration = Duration::ZERO;
const NEVER: Duration = Duration::from_secs(3_600);
const STEP: Duration = Duration::from_secs(5);

/// What a good server with one tool answers, in either era.
fn result(message: &Value) -> Value {
    let capabilities = json!({ "tools": {}, "resources": {}, "prompts": {} });
    let info = json!({ "name": "odd", "version": "1" });
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info })
        }
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "serverInfo": info,
        }),
        "tools/list" => json!({ "tools": [
            { "name": "do", "description": "Does it.", "inputSchema": { "type": "object" } },
        ] }),
        "resources/list" => json!({ "resources": [{ "uri": "x:a", "name": "a" }] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "prompts/list" => json!({ "prompts": [] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": "done" }] }),
        _ => json!({}),
    }
}

async fn answer(message: Value, instead: Instead) -> Response {
    if message.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let (after, result) = instead(&message).unwrap_or_else(|| (NOW, result(&message)));
    tokio::time::sleep(after).await;
    Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
}

/// A server over HTTP.
async fn odd(era: EraChoice, instead: Instead) -> ServerConfig {
    let handler = async move |method: Method, body: Bytes| match method {
        Method::POST => answer(serde_json::from_slice(&body).unwrap(), instead).await,
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    let url = serve(Router::new().fallback(handler)).await;
    ServerConfig { era, ..ServerConfig::remote(url) }
}

async fn serve(app: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

/// A server that is a line of shell.
fn shell(script: &str) -> ServerConfig {
    ServerConfig { confined: false, ..ServerConfig::program("sh", ["-c", script]) }
}

async fn look(config: ServerConfig, step: Duration, call: Option<&str>) -> Report {
    let call = call.map(|tool| (tool.to_owned(), json!({})));
    Probe { step, total: step * 3, call, ..Probe::default() }.look(config, surroundings()).await
}

fn error(report: &Report) -> (&'static str, &str) {
    let error = report.error.as_ref().unwrap_or_else(|| panic!("it worked: {report:#?}"));
    (error.code, &error.message)
}

fn hangs(method: &str, message: &Value) -> Option<(Duration, Value)> {
    (message["method"] == method).then_some((NEVER, Value::Null))
}

#[tokio::test]
async fn a_list_beside_the_tools_that_hangs_costs_nobody_the_tools() {
    let config = odd(EraChoice::Session, |message| hangs("resources/list", message)).await;
    let report = look(config.clone(), STEP, Some("do")).await;
    assert!(report.ok && report.tools.len() == 1 && report.call.is_some(), "{report:#?}");
    let wanted = "the server did not answer within 5.0 s (`resources/list`)";
    assert_eq!(report.remarks, [wanted], "{report:#?}");
    let setup = Setup::with("it", config).await;
    assert_eq!(text(setup.call("it/do", json!({})).await), "done");
}

#[tokio::test]
async fn a_list_that_comes_late_is_taken_all_the_same() {
    let late: Instead =
        |message| (message["method"] == "resources/list").then(|| (Duration::from_secs(5), result(message)));
    let config = odd(EraChoice::Session, late).await;
    let report = look(config.clone(), Duration::from_secs(20), None).await;
    assert_eq!((report.ok, report.resources, report.remarks.len()), (true, 1, 0), "{report:#?}");
    let setup = Setup::with("it", config).await;
    eventually("the resource is there", async || {
        setup.servers.offer("it").is_some_and(|offer| offer.resources.len() == 1 && offer.tools.len() == 1)
    })
    .await;
}

#[tokio::test]
async fn a_list_of_tools_that_hangs_is_named() {
    let config = odd(EraChoice::Session, |message| hangs("tools/list", message)).await;
    let report = look(config, Duration::from_secs(1), None).await;
    assert_eq!(report.stage, Stage::List);
    assert_eq!(error(&report), ("timeout", "the server did not answer within 1.0 s (`tools/list`)"));
}

#[tokio::test]
async fn why_what_a_server_writes_is_no_message_is_shown() {
    for (written, wanted) in [
        (r#"\357\273\277{"jsonrpc":"2.0","id":1,"result":{}}"#, "it begins with a byte order mark"),
        (r#"{"jsonrpc":"2.0","id":"1","result":{}}"#, "`id` \"1\", a text, where all questions have numbers"),
        (r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#, "`id` must be a text or a whole number"),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, "an answer has the `id` of its question"),
        (r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#, "a batch; send one message at a time"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"E","message":""}}"#, "expected a whole number"),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":""}}"#,
            "an answer has `result` or `error`, not both",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":"\377"}"#, "not valid UTF-8"),
        (r"\033[31mlistening on port 1", "listening on port 1"),
    ] {
        let report =
            look(shell(&format!("read line; printf '{written}\\n'; sleep 60")), Duration::from_secs(1), None)
                .await;
        let [remark] = &report.remarks[..] else { panic!("{written}: {report:#?}") };
        assert!(remark.contains(wanted) && !remark.contains('\u{1b}'), "{written}: {remark}");
    }
}

#[tokio::test]
async fn a_redirect_that_would_change_a_message_is_named_and_not_followed() {
    for status in [301, 302, 303] {
        let handler = async move |url: Uri, body: Bytes| match url.path() {
            "/mcp" => {
                let to = [(header::LOCATION, "/mcp/?key=k")];
                (StatusCode::from_u16(status).unwrap(), to).into_response()
            }
            _ => panic!("it was followed: {body:?}"),
        };
        let config = ServerConfig::remote(serve(Router::new().fallback(handler)).await);
        let report = look(config.clone(), STEP, None).await;
        let wanted = format!("it redirects to `{}/?…`; use that address", config.url.unwrap());
        assert_eq!(error(&report), ("mcp_connection", &*wanted));
    }
}

#[tokio::test]
async fn a_redirect_shows_nothing_of_a_secret_in_the_address() {
    let handler = async |url: Uri| (StatusCode::FOUND, [(header::LOCATION, format!("{}/", url.path()))]);
    let url = serve(Router::new().fallback(handler)).await;
    let secrets = Secrets::fixed([("API_KEY", "k3y-of-ours")]);
    let config = ServerConfig::remote(format!("{url}/${{env:API_KEY}}"));
    let probe = Probe { step: STEP, ..Probe::default() };
    let report = probe.look(config, Surroundings { secrets, ..surroundings() }).await;
    let (_, message) = error(&report);
    assert!(message.contains("/…`; use that address") && !message.contains("k3y"), "{message}");
}

#[tokio::test]
async fn a_redirect_that_keeps_a_message_as_it_is_is_followed_within_its_origin() {
    let handler = async |url: Uri, method: Method, body: Bytes| match url.path() {
        "/mcp" => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/mcp/")]).into_response(),
        _ if method != Method::POST => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        _ => answer(serde_json::from_slice(&body).unwrap(), |_| None).await,
    };
    let url = serve(Router::new().fallback(handler)).await;
    let report = look(ServerConfig::remote(&url), STEP, Some("do")).await;
    assert!(report.ok, "{report:#?}");
    let away = async move || (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, url.clone())]);
    let away = serve(Router::new().fallback(away)).await;
    let report = look(ServerConfig::remote(away), STEP, None).await;
    assert!(error(&report).1.contains("it would send a change to another origin"), "{report:#?}");
}

#[tokio::test]
async fn as_many_tools_are_looked_at_as_is_configured() {
    let many: Instead = |message| {
        let tool = |n: usize| json!({ "name": format!("t{n}"), "inputSchema": { "type": "object" } });
        let tools: Vec<Value> = (0..20).map(tool).collect();
        (message["method"] == "tools/list").then(|| (NOW, json!({ "tools": tools })))
    };
    let config = odd(EraChoice::Session, many).await;
    for (tools_max, wanted) in [(5, 5), (100, 20)] {
        let probe = Probe { step: STEP, tools_max, ..Probe::default() };
        let report = probe.look(config.clone(), surroundings()).await;
        assert_eq!(report.tools.len(), wanted, "{:?}", report.remarks);
    }
}

#[tokio::test]
async fn what_was_taken_out_of_a_result_is_remarked_on() {
    let hidden: Instead = |message| {
        let part = json!({ "type": "text", "text": "a\u{1b}[31mb\u{202e}c" });
        (message["method"] == "tools/call").then(|| (NOW, json!({ "content": [part] })))
    };
    let report = look(odd(EraChoice::Session, hidden).await, STEP, Some("do")).await;
    assert_eq!(report.call.unwrap().result.unwrap(), json!("abc"));
    let [escape, direction] = &report.remarks[..] else { panic!("{:?}", report.remarks) };
    assert!(escape.starts_with("in the result of the call, 1 terminal escape sequence"), "{escape}");
    assert!(direction.contains("1 direction control character"), "{direction}");
}

#[tokio::test]
async fn a_server_that_asks_back_too_much_is_not_said_to_have_refused() {
    let asks: Instead = |message| {
        let ask = |n: usize| (format!("q{n}"), json!({ "method": "roots/list", "params": {} }));
        let requests: serde_json::Map<_, _> = (0..300).map(ask).collect();
        let said = json!({ "resultType": "input_required", "inputRequests": requests });
        (message["method"] == "tools/call").then_some((NOW, said))
    };
    let report = look(odd(EraChoice::Stateless, asks).await, STEP, Some("do")).await;
    let (code, message) = error(&report);
    assert_eq!(code, "execution_failed", "{message}");
    assert!(message.contains("what it asks back cannot be read: more than 256 fields"), "{message}");
}

#[tokio::test]
async fn a_server_that_is_silent_too_long_is_late_over_http_too() {
    for era in [EraChoice::Session, EraChoice::Stateless] {
        let config = odd(era, |message| hangs("tools/call", message)).await;
        let report = look(config, Duration::from_secs(1), Some("do")).await;
        assert_eq!(error(&report), ("timeout", "the server did not answer within 1.0 s"), "{era:?}");
    }
    let silent = odd(EraChoice::Auto, |_| Some((NEVER, Value::Null))).await;
    let report = look(silent, Duration::from_secs(1), None).await;
    let (code, message) = error(&report);
    assert_eq!((report.stage, code), (Stage::Connect, "timeout"), "{message}");
    assert!(message.ends_with("(`initialize`)"), "{message}");
}

#[tokio::test]
async fn a_version_of_the_other_era_is_not_said_to_be_unknown() {
    let wrong: Instead = |message| {
        let said = json!({ "protocolVersion": "2026-07-28", "capabilities": {} });
        (message["method"] == "initialize").then_some((NOW, said))
    };
    let report = look(odd(EraChoice::Session, wrong).await, STEP, None).await;
    let wanted = "it answers `initialize` with version `2026-07-28`, which does not know that method";
    assert!(error(&report).1.ends_with(wanted), "{report:#?}");
}

#[tokio::test]
async fn no_type_of_ours_is_named_to_whoever_looks() {
    let wrong: Instead = |message| {
        (message["method"] == "initialize").then_some((NOW, json!({ "protocolVersion": { "a": 1 } })))
    };
    let report = look(odd(EraChoice::Session, wrong).await, STEP, None).await;
    let (_, message) = error(&report);
    assert!(message.contains("invalid type: object, expected a string"), "{message}");
}
