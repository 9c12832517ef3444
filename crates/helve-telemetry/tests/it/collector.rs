//! A collector on loopback, and how a span is looked at.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use helve::{Annotations, Runtime, RuntimeBuilder, Tool, ToolBuilder, ToolError};
use helve_net::{Client, NetPolicy};
use helve_telemetry::{Telemetry, TelemetryOptions};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Value, json};

/// Keeps what was posted, with its head.
#[derive(Clone, Default)]
pub(crate) struct Collector {
    posts: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
    /// What is answered, in this order, and 200 afterwards.
    answers: Arc<Mutex<Vec<StatusCode>>>,
}

impl Collector {
    /// Starts one that answers so first.
    pub(crate) async fn start(answers: &[StatusCode]) -> (Self, SocketAddr) {
        let collector = Self::default();
        collector.answers.lock().unwrap().extend(answers.iter().rev());
        let take = async |State(this): State<Self>, headers: HeaderMap, body: Bytes| {
            this.posts.lock().unwrap().push((headers, body));
            this.answers.lock().unwrap().pop().unwrap_or(StatusCode::OK)
        };
        let router = Router::new().route("/v1/traces", post(take)).with_state(collector.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        (collector, address)
    }

    pub(crate) fn posts(&self) -> Vec<(HeaderMap, Bytes)> {
        self.posts.lock().unwrap().clone()
    }

    /// Everything that came, as the official messages have it.
    pub(crate) fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        let posts = self.posts();
        posts.iter().map(|(_, body)| ExportTraceServiceRequest::decode(&**body).unwrap()).collect()
    }

    /// Every span that came, in order.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let resources = self.requests().into_iter().flat_map(|request| request.resource_spans);
        resources.flat_map(|one| one.scope_spans).flat_map(|one| one.spans).collect()
    }

    /// The spans of calls, without those of stages.
    pub(crate) fn calls(&self) -> Vec<Span> {
        self.spans().into_iter().filter(|span| text(span, "helve.stage").is_none()).collect()
    }

    /// Whether a text stands anywhere in what came.
    pub(crate) fn has_text(&self, text: &str) -> bool {
        let stands = |body: &[u8]| body.windows(text.len()).any(|window| window == text.as_bytes());
        self.posts().iter().any(|(_, body)| stands(body))
    }
}

/// A runtime with the tools `greet` (takes `name` and `password`), `fail` (repeats what it is given),
/// and those of `set`, which tells a collector.
pub(crate) fn runtime(
    telemetry: &Arc<Telemetry>,
    set: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder,
) -> Runtime {
    let greet = tool("greet").handler(async |arguments: Value, _| Ok(json!({ "hello": arguments["name"] })));
    let fail = tool("fail")
        .handler(async |arguments: Value, _| Err(ToolError::failed(format!("cannot greet {arguments}"))));
    let builder = Runtime::builder().tracer(telemetry.clone()).tool(greet).unwrap().tool(fail).unwrap();
    set(builder).build()
}

fn tool(name: &str) -> ToolBuilder {
    Tool::builder(name)
        .description("Greets.")
        .input_schema(json!({ "type": "object", "properties": {
            "name": { "type": "string" }, "password": { "type": "string" } } }))
        .annotations(Annotations::pure())
}

/// Tells the collector at this address.
pub(crate) fn telemetry(
    address: SocketAddr,
    set: impl FnOnce(TelemetryOptions) -> TelemetryOptions,
) -> Arc<Telemetry> {
    let options = set(TelemetryOptions::new(&format!("http://{address}")).unwrap());
    let mut policy = NetPolicy::default();
    policy.allow.extend(options.own_host());
    Arc::new(Telemetry::new(options, Client::new(policy).unwrap()))
}

/// Longest that a test waits for what must come.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// An attribute that is a text.
pub(crate) fn text(span: &Span, key: &str) -> Option<String> {
    match any(span, key)? {
        Any::StringValue(text) => Some(text),
        other => panic!("{key} is {other:?}"),
    }
}

/// An attribute that is a list of texts.
pub(crate) fn list(span: &Span, key: &str) -> Vec<String> {
    let Some(Any::ArrayValue(list)) = any(span, key) else { panic!("{key} is no list") };
    let texts = list.values.into_iter().map(|value| match value.value {
        Some(Any::StringValue(text)) => text,
        other => panic!("{other:?}"),
    });
    texts.collect()
}

fn any(span: &Span, key: &str) -> Option<Any> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.clone()?.value
}
