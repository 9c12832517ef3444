//! Every answer that a test gets from the API, held against the OpenAPI document: its status, its media type,
//! and its body, in which nothing may stand that the document does not name.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex};

use helve::compose::{self, Step};
use helve::identity::Purpose;
use helve::{Layer, Runtime};
use helve_server::ServerConfig;
use helve_server::records::Records;
use helve_store::{Store, StoreOptions};
use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

use crate::harness::{ADA, Reply};
use crate::identity::api_of;
use crate::page::StoreRecords;

/// The document, with every object closed.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let mut document = helve_server::openapi();
    let mut parts = HashSet::new();
    find_parts(&document, &mut parts);
    for (name, schema) in document["components"]["schemas"].as_object_mut().unwrap() {
        let position = if parts.contains(name) { Position::Branch } else { Position::Whole };
        close(schema, position);
    }
    document
});

static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// Checks an answer to `METHOD /path`, where that is a route of the document.
pub(crate) fn check(line: &str, reply: &Reply) {
    let Some((method, path)) = line.split_once(' ') else { return };
    let path = without_place(path.split('?').next().unwrap_or(path));
    // A server may hang up on what is no HTTP, or on a stream that is cut.
    if reply.status == 0 || reply.status == 101 {
        return;
    }
    let Some(route) = route(path) else { return };
    let responses = format!("/paths/{}/{}/responses", escaped(route), method.to_lowercase());
    // Another method than the route has is a page's, or is refused before it gets anywhere.
    let Some(known) = DOCUMENT.pointer(&responses) else { return };
    let status = reply.status.to_string();
    let (key, response) = match known.get(&status) {
        Some(response) => (status.as_str(), response),
        None => ("default", &known["default"]),
    };
    assert!(key != "default" || reply.status >= 400, "{line} answers {status}, which nothing says");
    let Some(content) = response.get("content").and_then(Value::as_object) else {
        return assert_eq!(reply.body, "", "{line} {status}");
    };
    let media = reply.headers.get("content-type").map_or("", |media| media.split(';').next().unwrap_or(""));
    assert!(content.contains_key(media), "{line} {status} is `{media}`: {reply:?}");
    match media {
        "text/event-stream" => {
            check_events(&format!("{responses}/{key}"), &response["x-events"], &reply.body)
        }
        "text/plain" => {}
        _ => fits(&format!("{responses}/{key}/content/{}/schema", escaped(media)), &reply.json(), line),
    }
}

/// Checks the events of a stream, as far as they came whole.
pub(crate) fn check_events(at: &str, known: &Value, text: &str) {
    for event in text.split("\n\n") {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
        let (Some(name), Some(data)) = (field("event: "), field("data: ")) else { continue };
        let Ok(data) = serde_json::from_str(data) else { continue };
        assert!(known.get(name).is_some(), "no event is called `{name}`");
        fits(&format!("{at}/x-events/{name}/data"), &data, name);
    }
}

/// The events of `/v1/events`, as far as they came whole.
pub(crate) fn check_stream(text: &str) {
    let at = "/paths/~1v1~1events/get/responses/200";
    check_events(at, &DOCUMENT.pointer(at).unwrap()["x-events"], text);
}

fn fits(pointer: &str, value: &Value, what: &str) {
    let schema = DOCUMENT.pointer(pointer).unwrap();
    // By what it says: every problem is of one schema, wherever it comes from.
    let validator = Arc::clone(VALIDATORS.lock().unwrap().entry(schema.to_string()).or_insert_with(|| {
        let whole = json!({ "allOf": [schema], "components": DOCUMENT["components"] });
        Arc::new(jsonschema::options().with_draft(Draft::Draft202012).build(&whole).unwrap())
    }));
    let errors: Vec<_> = validator.iter_errors(value).map(|error| format!("{error:?}")).collect();
    let first: String = errors.join("\n").chars().take(2_000).collect();
    assert!(errors.is_empty(), "{what}: {value}\nis not as {pointer} says: {first}");
}

/// The route that a path belongs to. One without parameters wins.
fn route(path: &str) -> Option<&'static str> {
    let routes = DOCUMENT["paths"].as_object().unwrap();
    let fits = |route: &&String| {
        let (known, asked): (Vec<_>, Vec<_>) = (route.split('/').collect(), path.split('/').collect());
        // A tool's name may hold slashes.
        let is_long = route.as_str() == "/v1/tools/{name}" && asked.len() > known.len();
        (is_long || known.len() == asked.len())
            && known.iter().zip(&asked).all(|(known, asked)| known.starts_with('{') || known == asked)
    };
    routes.keys().filter(fits).min_by_key(|route| route.matches('{').count()).map(String::as_str)
}

/// A path without what a sign-in puts before it.
fn without_place(path: &str) -> &str {
    let Some(rest) = path.strip_prefix("/~") else { return path };
    rest.find('/').map_or("/", |end| &rest[end..])
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[derive(Clone, Copy, PartialEq)]
enum Position {
    Whole,
    /// One of several that together say what a value is.
    Branch,
}

/// The names of types that are a part of an object, next to other fields of it: `$ref` and `properties`.
fn find_parts(value: &Value, found: &mut HashSet<String>) {
    match value {
        Value::Object(fields) => {
            if let (Some(Value::String(place)), true) =
                (fields.get("$ref"), fields.contains_key("properties"))
            {
                found.extend(place.rsplit('/').next().map(str::to_owned));
            }
            fields.values().for_each(|value| find_parts(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| find_parts(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Lets an object have no fields but those that its schema names.
fn close(schema: &mut Value, position: Position) {
    let Value::Object(fields) = schema else { return };
    for key in ["properties", "patternProperties"] {
        if let Some(Value::Object(parts)) = fields.get_mut(key) {
            parts.values_mut().for_each(|part| close(part, Position::Whole));
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(part) = fields.get_mut(key) {
            close(part, Position::Whole);
        }
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(Value::Array(parts)) = fields.get_mut(key) {
            parts.iter_mut().for_each(|part| close(part, Position::Branch));
        }
    }
    if position == Position::Whole && names_fields(fields) && !fields.contains_key("additionalProperties") {
        fields.insert("unevaluatedProperties".to_owned(), false.into());
    }
}

fn names_fields(fields: &Map<String, Value>) -> bool {
    let branches = ["oneOf", "anyOf"].iter().filter_map(|key| fields.get(*key)?.as_array()).flatten();
    fields.contains_key("properties") || branches.into_iter().any(|branch| branch.get("properties").is_some())
}

#[test]
fn an_answer_that_the_document_does_not_describe_is_found() {
    let reply = |status: u16, media: &str, body: Value| Reply {
        status,
        headers: HashMap::from([("content-type".to_owned(), media.to_owned())]),
        body: body.to_string(),
    };
    let me = |more: Value| {
        let mut me = json!({ "name": "ada", "kind": "user", "roles": [], "purpose": "call" });
        me.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        reply(200, "application/json", me)
    };
    check("GET /v1/me", &me(json!({})));
    let is_found = |line: &str, reply: Reply| {
        assert!(std::panic::catch_unwind(|| check(line, &reply)).is_err(), "{line} {reply:?}");
    };
    is_found("GET /v1/me", me(json!({ "undocumented": 1 })));
    is_found("GET /v1/me", me(json!({ "roles": "admin" })));
    is_found("GET /v1/me", reply(200, "text/plain", json!("ada")));
    is_found("GET /v1/me", reply(204, "application/json", json!({})));
    is_found("GET /v1/me", reply(404, "application/json", json!({})));
    let event =
        json!({ "at": "2026-01-01T00:00:00Z", "type": "tools.executed", "payload": { "call_id": 1 } });
    let stream = Reply {
        body: format!("event: tools.executed\ndata: {event}\n\n"),
        ..reply(200, "text/event-stream", json!(0))
    };
    is_found("GET /v1/events", stream);
}

#[test]
fn no_answer_is_an_object_of_which_nothing_is_said() {
    // A provider's tool, a tool's own JSON and this document itself look as others say.
    let document = helve_server::openapi();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let schema = &response["content"]["application/json"]["schema"];
                let schema = if schema["type"] == "array" { &schema["items"] } else { schema };
                let says = schema["$ref"].is_string() || schema["properties"].is_object();
                let has_none = schema.is_null() || path == "/v1/openapi.json";
                assert!(says || has_none, "{method} {path} {status}: {schema}");
            }
        }
    }
}

#[test]
fn every_event_is_in_the_document_by_name_with_its_payload() {
    let document = helve_server::openapi();
    let events = document["paths"]["/v1/events"]["get"]["responses"]["200"]["x-events"].as_object().unwrap();
    let mut names: Vec<_> = events.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "audit.pruned",
            "audit.verified",
            "missed",
            "tools.executed",
            "tools.failed",
            "tools.mcp-connected",
            "tools.mcp-disconnected",
            "tools.notification",
            "tools.pending",
            "tools.progress",
            "tools.registered",
            "tools.replaced",
            "tools.unregistered",
        ]
    );
    for (name, event) in events.iter().filter(|(name, _)| *name != "missed") {
        let payload = &event["data"]["allOf"][1]["properties"]["payload"];
        assert!(payload["properties"].is_object() && event["summary"].is_string(), "{name}: {event}");
    }
}

/// What the journal writes is said again in the document; here it is held against it.
#[tokio::test]
async fn records_of_a_real_journal_are_as_the_document_says() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&folder.path().join("journal.db"), StoreOptions::default()).unwrap());
    let records: Arc<dyn Records> = Arc::new(StoreRecords(Arc::clone(&store)));
    let builder = Runtime::builder().ledger(Arc::clone(&store) as _);
    let api = api_of(builder, ServerConfig::default(), Some(records)).await;
    let (_, grace) = api.key("grace", Purpose::Decide).await;
    let steps =
        compose::sequence("trip").description("Goes.").step(Step::of("deed").arguments(json!({ "n": 1 })));
    let trip = steps.build(&api.server.registry).unwrap();
    api.server.registry.register(Layer::Project, trip).unwrap();
    let wrong = json!({ "tool": "echo", "arguments": { "message": { "a": 1 } }, "correlation_id": "c" });
    assert_eq!(api.ask("POST /v1/calls", ADA, wrong).await.status, 422);
    assert_eq!(api.ask("POST /v1/calls", ADA, json!({ "tool": "nothing" })).await.status, 404);
    let keyed = json!({ "tool": "echo", "arguments": { "message": "hi" }, "idempotency_key": "k" });
    for _ in 0..2 {
        assert_eq!(api.ask("POST /v1/calls", ADA, keyed.clone()).await.status, 200);
    }
    for (tool, decision) in [("deed", "approve"), ("deed", "deny"), ("trip", "approve")] {
        let body = json!({ "tool": tool, "arguments": {}, "session": decision });
        let asked = api.ask("POST /v1/calls", ADA, body).await.json();
        let id = asked["approval_id"].as_str().unwrap();
        assert_eq!(api.get(&format!("/v1/approvals/{id}"), ADA).await.status, 200);
        let line = format!("POST /v1/approvals/{id}/decision");
        assert_eq!(api.ask(&line, &grace, json!({ "decision": decision, "reason": "so" })).await.status, 200);
        api.ask(&format!("POST /v1/calls/{id}/run"), ADA, json!({})).await;
        assert!(api.get(&format!("/v1/calls/{id}"), ADA).await.status < 500);
    }
    let calls = api.get("/v1/audit?limit=100", ADA).await.json();
    let calls = calls.as_array().unwrap();
    assert!(calls.len() >= 8, "{calls:?}");
    for call in calls.iter().filter_map(|call| call["call_id"].as_str()) {
        for path in ["/v1/audit", "/v1/calls", "/v1/runs"] {
            assert_eq!(api.get(&format!("{path}/{call}"), ADA).await.status, 200);
        }
    }
    let runs = api.get("/v1/runs", ADA).await.json();
    assert!(runs.as_array().unwrap().iter().any(|run| run["tool"] == "trip"), "{runs}");
}
