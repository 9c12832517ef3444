//! HTTP tools against a real server on loopback that says what arrived.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use helve::{CallId, Caller, Context, ContextParts, ErrorCode, Risk, Tool, ToolError, ToolName};
use helve_net::{Client, NetPolicy};
use helve_tools::http::{Backend, HttpToolConfig, Variables, http_tool_with};
use serde_json::{Value, json};

/// Serves `router` on a free port until the test ends.
pub(crate) async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// A client that may reach loopback, and one secret: `TOKEN`.
pub(crate) fn backend() -> Backend {
    let client = Client::new(NetPolicy::allowing(["127.0.0.1"]).unwrap()).unwrap();
    let variables = Variables::fixed([("TOKEN", "s3cret-value\n"), ("USER", "ada"), ("EMPTY", "")]);
    Backend { client: Arc::new(client), variables }
}

pub(crate) fn context() -> Context {
    context_parts().into()
}

fn context_parts() -> ContextParts {
    let deadline = Instant::now() + Duration::from_secs(10);
    ContextParts::new(
        CallId::new(jiff::Timestamp::now()),
        ToolName::new("t").unwrap(),
        Caller::local(),
        deadline,
    )
}

/// Says what arrived.
pub(crate) async fn echo(
    method: Method,
    uri: Uri,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header =
        |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    axum::Json(json!({
        "method": method.as_str(), "path": uri.path(), "query": query,
        "authorization": header("authorization"), "x-note": header("x-note"), "cookie": header("cookie"),
        "x-api-key": header("x-api-key"), "x-trace": header("x-trace"),
        "idempotency-key": header("idempotency-key"), "content-type": header("content-type"),
        "body": String::from_utf8_lossy(&body),
    }))
    .into_response()
}

fn config(address: SocketAddr, more: Value) -> HttpToolConfig {
    let mut config = json!({
        "name": "t", "description": "A test.", "url": format!("http://{address}/echo"),
        "input_schema": { "type": "object" },
    });
    for (key, value) in more.as_object().unwrap() {
        config[key] = match value.as_str() {
            Some(text) => text.replace("HOST", &address.to_string()).into(),
            None => value.clone(),
        };
    }
    serde_json::from_value(config).unwrap()
}

async fn tool(more: Value) -> Tool {
    let address = serve(Router::new().fallback(echo)).await;
    http_tool_with(config(address, more), backend()).unwrap()
}

pub(crate) async fn call_tool(tool: &Tool, arguments: Value) -> Result<Value, ToolError> {
    tool.handler().call(arguments, context()).await
}

/// Calls a tool and compares one thing that arrived.
async fn check(more: Value, arguments: Value, seen: &str, expected: Value) {
    let answer = call_tool(&tool(more.clone()).await, arguments.clone()).await;
    let answer = answer.unwrap_or_else(|error| panic!("{more} with {arguments}: {error}"));
    assert_eq!(answer[seen], expected, "{more} with {arguments}");
}

#[tokio::test]
async fn arguments_stay_inside_their_path_segment() {
    let url = json!({ "url": "http://HOST/a/{id}/b" });
    for (value, path) in [
        (json!("x"), "/a/x/b"),
        (json!(7), "/a/7/b"),
        (json!("x/y"), "/a/x%2Fy/b"),
        (json!("x?y#z"), "/a/x%3Fy%23z/b"),
        (json!("%2e%2ex"), "/a/%252e%252ex/b"),
        (json!("a b;c"), "/a/a%20b%3Bc/b"),
        (json!("ü"), "/a/%C3%BC/b"),
        (json!("..."), "/a/.../b"),
        (json!(["x", "y,z"]), "/a/x,y%2Cz/b"),
    ] {
        check(url.clone(), json!({ "id": value }), "path", json!(path)).await;
    }
    let tool = tool(json!({ "url": "http://HOST/a/{id}{end}/b" })).await;
    for (id, end) in [
        ("..", ""),
        ("%2E%2e", ""),
        (".", ""),
        (".", "."),
        ("", ""),
        ("../../admin", ""),
        ("..\\x", ""),
        ("x/./y", ""),
    ] {
        let error = call_tool(&tool, json!({ "id": id, "end": end })).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ValidationFailed, "{id}{end}: {error}");
    }
    let absent = call_tool(&tool, json!({ "id": "x" })).await.unwrap_err();
    assert_eq!(absent.field_errors()[0].path, "/end");
}

#[tokio::test]
async fn query_parameters_are_encoded_repeated_joined_or_left_out() {
    let repeat = json!({ "query": { "q": "{q}", "fixed": "a b" } });
    let comma = json!({ "query": { "q": { "value": "{q}", "style": "comma" } } });
    let deep = json!({ "query": { "q": { "value": "{q}", "style": "deep" } } });
    for (config, q, query) in [
        (&repeat, json!("x&y=z"), "fixed=a%20b&q=x%26y%3Dz"),
        (&repeat, json!(["x", "y"]), "fixed=a%20b&q=x&q=y"),
        (&repeat, Value::Null, "fixed=a%20b"),
        (&repeat, json!(true), "fixed=a%20b&q=true"),
        (&repeat, json!([]), "fixed=a%20b"),
        (&comma, json!(["x", "y,z"]), "q=x,y%2Cz"),
        (&deep, json!({ "a": 1, "b": [2, 3] }), "q%5Ba%5D=1&q%5Bb%5D%5B0%5D=2&q%5Bb%5D%5B1%5D=3"),
    ] {
        check(config.clone(), json!({ "q": q }), "query", json!(query)).await;
    }
    check(repeat, json!({}), "query", json!("fixed=a%20b")).await;
    check(comma, json!({}), "query", Value::Null).await;
    check(
        json!({ "url": "http://HOST/x?k=a%20b&q={q}" }),
        json!({ "q": "&" }),
        "query",
        json!("k=a%20b&q=%26"),
    )
    .await;
}

#[tokio::test]
async fn headers_take_text_and_refuse_line_breaks() {
    let note = json!({ "headers": { "X-Note": "n: {note}" } });
    check(note.clone(), json!({ "note": "hi" }), "x-note", json!("n: hi")).await;
    check(note.clone(), json!({}), "x-note", Value::Null).await;
    let tool = tool(note).await;
    for note in ["a\r\nX-Evil: 1", "a\nb", "a\u{0}b", "a\u{7f}"] {
        let error = call_tool(&tool, json!({ "note": note })).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ValidationFailed, "{note:?}");
    }
}

#[tokio::test]
async fn bodies_keep_types_and_leave_out_what_is_absent() {
    let post = |body: Value| json!({ "method": "POST", "url": "http://HOST/{id}", "body": body });
    let arguments = json!({ "id": 7, "list": [1, "b"], "name": "ada" });
    for (body, expected) in [
        (json!("arguments"), r#"{"id":7,"list":[1,"b"],"name":"ada"}"#),
        (json!("rest"), r#"{"list":[1,"b"],"name":"ada"}"#),
        (
            json!({ "json": { "n": "{id}", "l": "{list}", "t": "hi {name}", "x": "{absent}", "y": [true, "{absent}"] } }),
            r#"{"n":7,"l":[1,"b"],"t":"hi ada","y":[true]}"#,
        ),
        (json!({ "form": { "a": "{name}", "b": "{list}", "c": "{absent}" } }), "a=ada&b=1&b=b"),
        (json!({ "text": "hello {name}" }), "hello ada"),
    ] {
        check(post(body), arguments.clone(), "body", json!(expected)).await;
    }
    check(post(json!("rest")), arguments.clone(), "content-type", json!("application/json")).await;
    let form = post(json!({ "form": { "a": "x" } }));
    check(form, arguments, "content-type", json!("application/x-www-form-urlencoded")).await;
}

#[tokio::test]
async fn a_secret_is_sent_and_never_comes_back() {
    let more =
        json!({ "headers": { "Authorization": "Bearer ${env:TOKEN}" }, "query": { "key": "${env:TOKEN}" } });
    let address = serve(Router::new().route("/echo", any(echo)).route(
        "/fail",
        any(|headers: HeaderMap| async move {
            (StatusCode::BAD_REQUEST, format!("bad {:?}", headers["authorization"].to_str()))
        }),
    ))
    .await;
    let good = http_tool_with(config(address, more.clone()), backend()).unwrap();
    let answer = call_tool(&good, json!({})).await.unwrap();
    assert_eq!(answer["authorization"], "Bearer [redacted]");
    assert_eq!(answer["query"], "key=[redacted]");
    let mut failing = config(address, more);
    failing.url = format!("http://{address}/fail");
    let error = call_tool(&http_tool_with(failing, backend()).unwrap(), json!({})).await.unwrap_err();
    assert!(error.message().contains("bad Ok(\"Bearer [redacted]\")"), "{error}");
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
}

#[tokio::test]
async fn a_missing_variable_is_named() {
    for name in ["NOBODY_SET_ME", "EMPTY"] {
        let tool = tool(json!({ "headers": { "X-Api-Key": format!("${{env:{name}}}") } })).await;
        let error = call_tool(&tool, json!({})).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::IntegrationMissing);
        assert!(error.message().contains(name), "{error}");
    }
}

#[tokio::test]
async fn a_variable_may_hold_the_base_url_and_is_then_no_secret() {
    let address = serve(Router::new().fallback(echo)).await;
    let base = format!("http://{address}/api/");
    let backend = Backend { variables: Variables::fixed([("BASE", base.as_str())]), ..backend() };
    let config = config(address, json!({ "url": "${env:BASE}/items/{id}" }));
    let answer = call_tool(&http_tool_with(config, backend).unwrap(), json!({ "id": "7" })).await.unwrap();
    assert_eq!(answer["path"], "/api/items/7");
}

#[tokio::test]
async fn statuses_become_errors_that_say_whose_move_it_is() {
    let answer =
        |Path(status): Path<u16>| async move { (StatusCode::from_u16(status).unwrap(), "the reason") };
    let address = serve(Router::new().route("/{status}", any(answer))).await;
    let tool = http_tool_with(config(address, json!({ "url": "http://HOST/{status}" })), backend()).unwrap();
    for (status, code, retryable) in [
        (400, ErrorCode::ExecutionFailed, false),
        (401, ErrorCode::IntegrationMissing, false),
        (403, ErrorCode::NotAuthorized, false),
        (404, ErrorCode::ExecutionFailed, false),
        (408, ErrorCode::Timeout, true),
        (409, ErrorCode::ExecutionFailed, false),
        (422, ErrorCode::ExecutionFailed, false),
        (423, ErrorCode::Lock, true),
        (429, ErrorCode::RateLimit, true),
        (500, ErrorCode::ServerError, true),
        (503, ErrorCode::ServerError, true),
        (504, ErrorCode::Timeout, true),
    ] {
        let error = call_tool(&tool, json!({ "status": status })).await.unwrap_err();
        assert_eq!((error.code(), error.is_retryable()), (code, retryable), "{status}");
        assert!(error.message().contains("the reason"), "{error}");
    }
}

#[tokio::test]
async fn retry_after_is_read_as_seconds_and_as_a_date() {
    let in_an_hour = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&in_an_hour).unwrap();
    let dated = any(move || async move { (StatusCode::TOO_MANY_REQUESTS, [("retry-after", date)]) });
    let seconds = any(|| async { (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")]) });
    let github = any(|| async { (StatusCode::FORBIDDEN, [("x-ratelimit-remaining", "0")]) });
    let router = Router::new().route("/date", dated).route("/seconds", seconds).route("/github", github);
    let address = serve(router).await;
    let tool = http_tool_with(config(address, json!({ "url": "http://HOST/{path}" })), backend()).unwrap();
    let error = async |path: &str| call_tool(&tool, json!({ "path": path })).await.unwrap_err();
    assert_eq!(error("seconds").await.retry_after_hint(), Some(Duration::from_secs(7)));
    let wait = error("date").await.retry_after_hint().unwrap();
    assert!(wait > Duration::from_secs(3_500) && wait <= Duration::from_secs(3_600), "{wait:?}");
    assert_eq!(error("github").await.code(), ErrorCode::RateLimit);
}

#[tokio::test]
async fn network_failures_are_told_apart() {
    let at = |url: &str| {
        let config = json!({ "name": "t", "description": "A test.", "url": url });
        http_tool_with(serde_json::from_value(config).unwrap(), backend()).unwrap()
    };
    for (url, code, retryable) in [
        ("http://127.0.0.1:1/", ErrorCode::Network, true),
        ("http://10.0.0.1/", ErrorCode::PermissionDenied, false),
        ("http://no-such-host.invalid/", ErrorCode::Network, true),
    ] {
        let error = call_tool(&at(url), json!({})).await.unwrap_err();
        assert_eq!((error.code(), error.is_retryable()), (code, retryable), "{url}: {error}");
    }
    let slow = any(|| async { tokio::time::sleep(Duration::from_secs(60)).await });
    let address = serve(Router::new().route("/", slow)).await;
    let soon = Context::new(
        CallId::new(jiff::Timestamp::now()),
        ToolName::new("t").unwrap(),
        Caller::local(),
        Instant::now() + Duration::from_millis(50),
    );
    let error = at(&format!("http://{address}/")).handler().call(json!({}), soon).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
}

#[tokio::test]
async fn responses_are_picked_mapped_and_bounded() {
    let data = json!({ "data": { "items": [{ "id": 1, "user": { "login": "ada" } }, { "id": 2 }] } });
    let json_data = data.clone();
    let router = Router::new()
        .route("/json", any(move || async move { axum::Json(json_data) }))
        .route("/text", any(|| async { "plain" }))
        .route("/broken", any(|| async { ([("content-type", "application/json")], "{") }))
        .route("/binary", any(|| async { ([("content-type", "image/png")], vec![0xff, 0xfe]) }))
        .route("/empty", any(|| async { StatusCode::NO_CONTENT }))
        .route("/large", any(|| async { "x".repeat(2_000) }));
    let address = serve(router).await;
    let result = async |path: &str, response: Value| {
        let more = json!({ "url": format!("http://HOST/{path}"), "response": response });
        let tool = http_tool_with(config(address, more), backend()).unwrap();
        call_tool(&tool, json!({})).await.map_err(|error| error.message().to_owned())
    };
    let fields = json!({ "pick": "/data/items", "fields": { "number": "/id", "by": "/user/login" } });
    let mapped = json!([{ "number": 1, "by": "ada" }, { "number": 2, "by": null }]);
    assert_eq!(result("json", json!({})).await, Ok(data));
    assert_eq!(result("json", json!({ "pick": "/data/items/1/id" })).await, Ok(json!(2)));
    assert_eq!(result("json", fields).await, Ok(mapped));
    assert!(result("json", json!({ "pick": "/nope" })).await.unwrap_err().contains("nothing at `/nope`"));
    assert_eq!(result("text", json!({})).await, Ok(json!("plain")));
    assert_eq!(result("empty", json!({})).await, Ok(Value::Null));
    assert!(result("broken", json!({})).await.unwrap_err().contains("not valid JSON"));
    assert_eq!(result("broken", json!({ "format": "text" })).await, Ok(json!("{")));
    assert!(result("binary", json!({})).await.unwrap_err().contains("image/png"));
    assert!(result("large", json!({ "bytes_max": 1_999 })).await.unwrap_err().contains("larger than 1999"));
}

#[tokio::test]
async fn an_answer_is_read_as_strictly_as_a_programs() {
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    for (body, why) in [
        (r#"{"to": "a", "to": "b"}"#.to_owned(), "the key `to` stands twice at line 1 column"),
        (deep, "nested deeper than 64 levels"),
        ("{\"id\": oops}".to_owned(), "at line 1 column 8; it begins: {\"id\": oops}"),
    ] {
        let reply = move || async move { ([("content-type", "application/json")], body) };
        let address = serve(Router::new().route("/", any(reply))).await;
        let tool = http_tool_with(config(address, json!({ "url": "http://HOST/" })), backend()).unwrap();
        let error = call_tool(&tool, json!({})).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutputInvalid);
        assert!(error.message().contains(why), "{error}");
    }
}

#[tokio::test]
async fn the_idempotency_key_goes_with_changes_alone() {
    for (method, expected) in [("POST", json!("order-17")), ("GET", Value::Null)] {
        let tool = tool(json!({ "method": method })).await;
        let key = Some("order-17".into());
        let context = ContextParts { idempotency_key: key, ..context_parts() }.into();
        let answer = tool.handler().call(json!({}), context).await.unwrap();
        assert_eq!(answer["idempotency-key"], expected, "{method}");
    }
}

#[tokio::test]
async fn the_method_decides_what_is_not_said() {
    for (method, read_only, destructive, idempotent, risk) in [
        ("GET", true, false, true, Risk::Low),
        ("HEAD", true, false, true, Risk::Low),
        ("POST", false, false, false, Risk::Medium),
        ("PATCH", false, false, false, Risk::Medium),
        ("PUT", false, false, true, Risk::Medium),
        ("DELETE", false, true, true, Risk::High),
    ] {
        let tool = tool(json!({ "method": method })).await;
        let definition = tool.definition();
        let found = &definition.annotations;
        assert_eq!(
            (found.read_only, found.destructive, found.idempotent, definition.risk),
            (read_only, destructive, idempotent, risk),
            "{method}"
        );
    }
    let told = tool(json!({ "method": "POST", "annotations": { "read_only": true }, "risk": "low" })).await;
    assert!(told.definition().annotations.read_only);
    assert_eq!(told.definition().risk, Risk::Low);
}

#[test]
fn unsound_configurations_are_refused_with_a_hint() {
    let text = |name: &str| json!({ "name": name, "type": "string", "description": "d", "required": true });
    let optional = json!({ "name": "o", "type": "string", "description": "d" });
    for (more, place, hint) in [
        (json!({ "url": "https://{host}/x" }), "url", "may not choose the host"),
        (json!({ "url": "https://x.{a}.example/x" }), "url", "may not choose the host"),
        (json!({ "url": "ftp://x.example/" }), "url", "must start with `https://`"),
        (json!({ "url": "https://u:p@x.example/" }), "url", "without a user name"),
        (json!({ "url": "https://x.example/#a" }), "url", "never sent"),
        (json!({ "url": "https://x.example/../a" }), "url", "do not belong"),
        (json!({ "url": "https://x.example/{" }), "url", "never closed"),
        (json!({ "url": "https://x.example/{b}", "parameters": [text("a")] }), "parameters", "`{b}` is used"),
        (json!({ "url": "https://x.example/{o}", "parameters": [optional] }), "url", "make it required"),
        (json!({ "headers": { "Authorization": "Bearer abc" } }), "headers/Authorization", "${env:NAME}"),
        (json!({ "query": { "api_key": "abc" } }), "query/api_key", "${env:NAME}"),
        (json!({ "url": "https://x.example/?token=abc" }), "url", "${env:NAME}"),
        (json!({ "body": { "json": { "password": "abc" } } }), "body/json/password", "${env:NAME}"),
        (json!({ "headers": { "Host": "evil" } }), "headers/Host", "sets this header itself"),
        (json!({ "headers": { "a b": "x" } }), "headers/a b", "not the name of a header"),
        (json!({ "response": { "pick": "items" } }), "response/pick", "starts with `/`"),
    ] {
        let mut config = json!({ "name": "t", "description": "A test.", "url": "https://x.example/" });
        for (key, value) in more.as_object().unwrap() {
            config[key] = value.clone();
        }
        let error = http_tool_with(serde_json::from_value(config).unwrap(), backend()).unwrap_err();
        let found = error.problems.iter().any(|p| p.at == place && p.message.contains(hint));
        assert!(found, "{more}: {error}");
    }
}

#[test]
fn a_misspelt_key_is_refused() {
    for more in [json!({ "metod": "GET" }), json!({ "response": { "pik": "/a" } })] {
        let mut config = json!({ "name": "t", "description": "A test.", "url": "https://x.example/" });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert!(serde_json::from_value::<HttpToolConfig>(config).is_err(), "{more}");
    }
}

#[test]
fn every_key_is_documented() {
    for schema in [
        schemars::schema_for!(HttpToolConfig),
        schemars::schema_for!(helve_tools::openapi::OpenApiConfig),
        schemars::schema_for!(NetPolicy),
    ] {
        let schema = serde_json::to_value(schema).unwrap();
        for (key, property) in schema["properties"].as_object().unwrap() {
            assert!(property.get("description").is_some(), "{key} of {}", schema["title"]);
        }
    }
}

#[test]
fn a_configuration_file_reads_as_documented() {
    #[derive(serde::Deserialize)]
    struct File {
        net: NetPolicy,
        http: Vec<HttpToolConfig>,
        openapi: Vec<helve_tools::openapi::OpenApiConfig>,
    }
    let file: File = toml::from_str(include_str!("../fixtures/tools.toml")).unwrap();
    assert_eq!(file.net.allow.len(), 3);
    assert_eq!(file.openapi[0].include.len(), 2);
    for config in file.http {
        http_tool_with(config, backend()).unwrap();
    }
}
