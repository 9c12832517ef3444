//! Nothing is lost on the way through: what a client sees of a server directly, and through Helve.

use std::collections::BTreeMap;
use std::sync::Arc;

use helve::{Caller, Runtime};
use helve_mcp::config::{Secrets, ServerConfig as Upstream};
use helve_mcp::gateway::Gateway;
use helve_mcp::server::{McpServer, ServerOptions};
use helve_mcp::servers::{ServerState, Servers, Surroundings};
use helve_net::{Client, NetPolicy};
use helve_sandbox::Sandbox;
use helve_server::{Door, HttpOptions, HttpServer};
use helve_testkit::peers::Peer;
use serde_json::{Value, json};

use crate::raw::RawClient;

/// Serves these servers through Helve. The address, and the servers.
pub(crate) async fn gateway(servers: &[(&str, Upstream)], options: ServerOptions) -> (String, Servers) {
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
    let upstream = Servers::new(runtime.registry().clone(), surroundings);
    let configs = servers.iter().map(|(name, config)| ((*name).to_owned(), config.clone()));
    let set = upstream.set(configs.collect::<BTreeMap<_, _>>()).await;
    assert!(set.errors.is_empty(), "{set:?}");
    upstream.settled().await;
    for status in upstream.status() {
        assert_eq!(status.state, ServerState::Connected, "{status:#?}");
    }
    let mcp = McpServer::new(Arc::new(Gateway::new(runtime, upstream.clone())), options);
    let address = "127.0.0.1:0".parse().unwrap();
    let options = HttpOptions::new(mcp, Door::Open(Caller::local()));
    let server = HttpServer::bind(address, options).await.unwrap();
    let url = format!("http://{}/mcp", server.address().unwrap());
    tokio::spawn(server.run(std::future::pending()));
    (url, upstream)
}

fn by_name(mut list: Vec<Value>) -> Vec<Value> {
    list.sort_by_key(|item| item["name"].as_str().or(item["uri"].as_str()).unwrap_or_default().to_owned());
    list
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_sees_server_everything_as_it_is() {
    let everything = Peer::everything("streamableHttp");
    let direct_url = everything.url("/mcp");
    let config = Upstream { namespace: Some(String::new()), sampling: true, ..Upstream::remote(&direct_url) };
    let (through_url, _servers) = gateway(&[("everything", config)], ServerOptions::default()).await;
    let able = json!({
        "roots": { "listChanged": true }, "sampling": { "tools": {} }, "elicitation": { "form": {}, "url": {} },
    });
    let direct = RawClient::connect(&direct_url, able.clone()).await;
    let through = RawClient::connect(&through_url, able).await;

    let mut greetings = [&direct, &through].map(|client| client.greeting.clone());
    for greeting in &mut greetings {
        // We are another server, and say so.
        greeting.as_object_mut().unwrap().remove("serverInfo");
    }
    assert_eq!(greetings[1], greetings[0]);

    for (method, key) in [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        let (wanted, seen) = (direct.list(method, key).await, through.list(method, key).await);
        assert!(!wanted.is_empty(), "{method}");
        assert_eq!(by_name(seen), by_name(wanted), "{method}");
    }

    for (method, params) in [
        ("tools/call", json!({ "name": "echo", "arguments": { "message": "hi" } })),
        (
            "tools/call",
            json!({ "name": "echo", "arguments": { "message": "hi" }, "_meta": { "example.com/x": 1 } }),
        ),
        ("tools/call", json!({ "name": "get-sum", "arguments": { "a": 1, "b": 2.5 } })),
        ("tools/call", json!({ "name": "get-tiny-image", "arguments": {} })),
        (
            "tools/call",
            json!({ "name": "get-annotated-message", "arguments": { "messageType": "error", "includeImage": true } }),
        ),
        ("tools/call", json!({ "name": "get-structured-content", "arguments": { "location": "New York" } })),
        ("tools/call", json!({ "name": "get-resource-links", "arguments": { "count": 3 } })),
        (
            "tools/call",
            json!({ "name": "get-resource-reference", "arguments": { "resourceType": "Text", "resourceId": 1 } }),
        ),
        ("resources/read", json!({ "uri": "demo://resource/static/document/architecture.md" })),
        ("prompts/get", json!({ "name": "simple-prompt" })),
        ("prompts/get", json!({ "name": "args-prompt", "arguments": { "city": "Ulm" } })),
        (
            "completion/complete",
            json!({
                "ref": { "type": "ref/prompt", "name": "completable-prompt" },
                "argument": { "name": "department", "value": "E" },
            }),
        ),
        ("resources/subscribe", json!({ "uri": "demo://resource/static/document/architecture.md" })),
        ("resources/unsubscribe", json!({ "uri": "demo://resource/static/document/architecture.md" })),
        ("logging/setLevel", json!({ "level": "error" })),
        ("ping", json!({})),
    ] {
        let wanted = direct.ask(method, params.clone()).await.answer;
        let seen = through.ask(method, params.clone()).await.answer;
        assert_eq!(timeless(seen), timeless(wanted), "{method} {params}");
    }

    let long = json!({
        "name": "trigger-long-running-operation", "arguments": { "duration": 1, "steps": 4 },
        "_meta": { "progressToken": "p-1" },
    });
    let (wanted, seen) =
        (direct.ask("tools/call", long.clone()).await, through.ask("tools/call", long).await);
    assert_eq!(seen.answer, wanted.answer);
    assert_eq!(progress(&seen.others), progress(&wanted.others));
    assert_eq!(progress(&seen.others).len(), 4);
}

/// Without what differs between two calls of the same.
fn timeless(answer: Value) -> Value {
    let text = answer.to_string();
    let mut out = String::new();
    let mut rest = text.as_str();
    // Times of day, as in "10:11:12 AM".
    while let Some(at) = rest.find(" at ") {
        out.push_str(&rest[..at + 4]);
        rest = rest[at + 4..].trim_start_matches(|c: char| c.is_ascii_digit() || ": APM".contains(c));
    }
    out.push_str(rest);
    serde_json::from_str(&out).unwrap_or(answer)
}

fn progress(messages: &[Value]) -> Vec<&Value> {
    messages.iter().filter(|m| m["method"] == "notifications/progress").map(|m| &m["params"]).collect()
}
