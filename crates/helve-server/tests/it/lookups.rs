//! A call looks its tool up once, and carries what it found.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use helve::{Caller, Context, Runtime, Tool};
use helve_mcp::config::Secrets;
use helve_mcp::gateway::Gateway;
use helve_mcp::message::raw;
use helve_mcp::server::{McpServer, ServerOptions};
use helve_mcp::servers::{Servers, Surroundings};
use helve_net::{Client, NetPolicy};
use helve_sandbox::Sandbox;
use helve_server::{Door, HttpOptions, HttpServer, Tokens};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::harness::{ADA, Server, call, meta, request};

/// Counts how often the registry is asked for one of the tools here.
#[derive(Clone, Default)]
struct LookUps(Arc<AtomicUsize>);

impl LookUps {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

impl Subscriber for LookUps {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "helve::registry"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Name(bool);
        impl Visit for Name {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                self.0 |= field.name() == "name" && format!("{value:?}").starts_with("sought");
            }
        }
        let mut name = Name(false);
        event.record(&mut name);
        if name.0 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Tools whose answers give every reason there is to ask for them again: one has hidden characters in what it promised,
/// the other speaks of an address.
fn tools() -> [Tool; 2] {
    let hidden = Tool::builder("sought/hidden")
        .description("Answers with characters that nobody sees.")
        .read_only()
        .output_schema(json!({ "type": "object", "required": ["text"] }))
        .handler(|_, _| async { Ok(json!({ "text": "a\u{202e}b" })) });
    let linked = Tool::builder("sought/linked").description("Speaks of an address.").read_only().handler(
        |_, context: Context| async move {
            let link = json!({ "type": "resource_link", "uri": "demo://one", "name": "one" });
            context.attach(raw(&json!({ "content": [link] })).into());
            Ok(Value::Null)
        },
    );
    [hidden.build().unwrap(), linked.build().unwrap()]
}

async fn serve() -> Server {
    let mut runtime = Runtime::builder();
    for tool in tools() {
        runtime = runtime.tool(tool).unwrap();
    }
    let runtime = runtime.build();
    let surroundings = Surroundings {
        sandbox: Sandbox::default(),
        net: Client::new(NetPolicy::default()).unwrap(),
        secrets: Secrets::process(),
        pins: None,
        sampler: None,
        tokens: None,
    };
    let servers = Servers::new(runtime.registry().clone(), surroundings);
    let mcp = McpServer::new(Arc::new(Gateway::new(runtime.clone(), servers)), ServerOptions::default());
    let door = Door::Tokens(Tokens::one(ADA, Arc::new(Caller::principal("ada"))));
    let address = "127.0.0.1:0".parse().unwrap();
    let server = HttpServer::bind(address, HttpOptions::new(mcp, door)).await.unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    Server { address, registry: runtime.registry().clone(), runtime }
}

// On one thread, so that the count is of these calls alone.
#[tokio::test]
async fn an_mcp_call_looks_its_tool_up_once() {
    let server = serve().await;
    let look_ups = LookUps::default();
    let _counting = tracing::subscriber::set_default(look_ups.clone());
    let session = server.session(ADA, json!({})).await;
    for tool in ["sought__hidden", "sought__linked", "sought/hidden"] {
        look_ups.take();
        let reply = server.post(&[("mcp-session-id", &session)], &call(1, tool, json!({}))).await;
        assert!(!reply.json()["result"]["isError"].as_bool().unwrap_or(false), "{reply:?}");
        assert_eq!(look_ups.take(), 1, "{tool}, in a session");

        let params = json!({ "name": tool, "arguments": {}, "_meta": meta(json!({})) });
        let headers =
            [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
        let reply = server.post(&headers, &request(1, "tools/call", params)).await;
        assert!(!reply.json()["result"]["isError"].as_bool().unwrap_or(false), "{reply:?}");
        assert_eq!(look_ups.take(), 1, "{tool}, stateless");
    }
}
