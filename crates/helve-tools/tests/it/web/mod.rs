//! The web tools against real servers on loopback, and a real browser.

mod browser;
mod fetch;
mod labels;
mod scrape;
mod search;
mod searx;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use helve::{Category, Example, Facet, Risk, Source, Tool};
use helve_net::{Client, NetPolicy};
use helve_tools::http::Variables;
use helve_tools::web::client::LazyClient;
use helve_tools::{WebBackend, WebConfig, web_tools};
use serde_json::Value;

use crate::http::serve;

/// A client that may reach loopback, and a few variables.
fn backend() -> WebBackend {
    let client = Client::new(NetPolicy::allowing(["127.0.0.1", "localhost"]).unwrap()).unwrap();
    WebBackend {
        variables: Variables::fixed([
            ("TAVILY_API_KEY", "tvly-s3cret"),
            ("OTHER_KEY", "s3cret-v@lue\n"),
            ("EMPTY", ""),
        ]),
        ..WebBackend::new(LazyClient::from(client))
    }
}

/// Tools from a configuration in which `HOST` stands for the server.
fn tools(config: &str, server: SocketAddr, backend: &WebBackend) -> Vec<Tool> {
    let config: WebConfig = toml::from_str(&config.replace("HOST", &server.to_string())).unwrap();
    web_tools(&config, backend).unwrap()
}

fn named(tools: Vec<Tool>, name: &str) -> Tool {
    tools.into_iter().find(|tool| tool.name().as_str() == name).unwrap()
}

/// A request as a server saw it.
#[derive(Debug, Clone)]
struct Seen {
    method: String,
    uri: String,
    headers: HeaderMap,
    body: String,
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// A server that answers as `answer` says, and a list of what it was asked.
async fn server<F>(answer: F) -> (SocketAddr, Arc<Mutex<Vec<Seen>>>)
where
    F: Fn(&Seen) -> Response + Clone + Send + Sync + 'static,
{
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let router = Router::new().fallback(move |method: Method, uri: Uri, headers: HeaderMap, body: String| {
        let one = Seen { method: method.to_string(), uri: uri.to_string(), headers, body };
        let response = answer(&one);
        log.lock().unwrap().push(one);
        async move { response }
    });
    (serve(router).await, seen)
}

fn html(text: impl Into<String>) -> Response {
    ([("content-type", "text/html; charset=utf-8")], text.into()).into_response()
}

fn not_found() -> Response {
    StatusCode::NOT_FOUND.into_response()
}

#[test]
fn there_are_four_and_their_risk_is_what_they_may_do() {
    let tools = web_tools(&WebConfig::default(), &backend()).unwrap();
    let brief: Vec<_> = tools.iter().map(|tool| (tool.name().as_str(), tool.definition().risk)).collect();
    let expected = [
        ("web-search", Risk::Low),
        ("web-scrape", Risk::Low),
        ("http-get", Risk::Low),
        ("http-request", Risk::High),
    ];
    assert_eq!(brief, expected);
    for tool in &tools {
        let definition = tool.definition();
        assert_eq!(definition.source, Source::Builtin);
        assert!(matches!(definition.category, Category::Search | Category::Http));
        assert_eq!(definition.annotations.read_only, definition.risk == Risk::Low);
        assert!(definition.annotations.open_world);
        assert!(definition.examples.len() >= 2 && definition.output_schema.is_some());
        assert_eq!(tool.warnings(), [], "{}", tool.name());
        for example in &definition.examples {
            let Example::Arguments { arguments, .. } = example else {
                panic!("an example without arguments")
            };
            tool.input().validate(arguments).unwrap();
        }
        insta::assert_json_snapshot!(tool.name().as_str(), definition);
    }
    assert_eq!(named(tools, "web-scrape").definition().aliases, ["web:scrape"]);
}

#[test]
fn what_a_tool_can_come_by_follows_from_what_the_operator_opened() {
    let closed = WebBackend::new(LazyClient::new(NetPolicy::default()));
    let bound = "[secrets]\nA = { env = 'A', hosts = ['a.example'] }";
    let address = "127.0.0.1:9".parse().unwrap();
    let private = |config: &str, backend: &WebBackend, name: &str| {
        let facets = named(tools(config, address, backend), name).definition().facets.clone().unwrap();
        assert!(facets.contains(&Facet::ReadsUntrusted) && facets.contains(&Facet::Egress));
        assert_eq!(facets.contains(&Facet::Mutates), name == "http-request");
        facets.contains(&Facet::ReadsPrivate)
    };
    for (name, with_network, with_secret) in [
        ("web-search", false, false),
        ("web-scrape", true, false),
        ("http-get", true, true),
        ("http-request", true, true),
    ] {
        assert!(!private("", &closed, name));
        assert_eq!(private("", &backend(), name), with_network, "{name}");
        assert_eq!(private(bound, &closed, name), with_secret, "{name}");
    }
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no text at {pointer} in {value}"))
}
