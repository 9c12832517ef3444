//! Servers that are values of this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use helve::{Context, Runtime, Tool, ToolError};
use helve_mcp::config::ServerConfig;
use helve_mcp::pins::Pins;
use helve_mcp::server::McpServer;
use helve_mcp::servers::Surroundings;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::plain::{plain, text};
use crate::setup::{Setup, surroundings};

/// A server made with rmcp, with one tool that counts.
#[derive(Default)]
struct Counter(AtomicUsize);

impl ServerHandler for Counter {
    fn get_info(&self) -> rmcp::model::ServerConfig {
        rmcp::model::ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object" }).as_object().cloned().unwrap();
        let tool = rmcp::model::Tool::new("next", "The next number.", Arc::new(schema));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let next = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(CallToolResult::success(vec![ContentBlock::text(next.to_string())]).into())
    }
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn calculator() -> McpServer {
    let add = Tool::function("add", "Adds two numbers.", |input: Add, _context: Context| async move {
        Ok::<_, ToolError>(input.a + input.b)
    });
    McpServer::from_runtime(Runtime::builder().tool(add.read_only()).unwrap().build())
}

#[tokio::test]
async fn a_value_is_a_server_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let pins = Some(Pins::open(folder.path()));
    let setup = Setup::within(Surroundings { pins, ..surroundings() });
    setup.servers.add_in_process("counter", Counter::default()).unwrap();
    setup.servers.add_in_process("calculator", calculator()).unwrap();
    setup.servers.settled().await;
    for name in ["counter", "calculator"] {
        let status = setup.assert_connected(name);
        assert_eq!((status.transport, status.tools), (Some("in_process"), 1), "{status:?}");
    }
    assert_eq!(text(setup.call("counter/next", json!({})).await), "1");
    let added = setup.call("calculator/add", json!({ "a": 2, "b": 3 })).await;
    assert_eq!(added.into_result().unwrap(), json!({ "result": 5 }));

    // Connected anew it is still the same value.
    assert!(setup.servers.restart("counter").await);
    assert_eq!(text(setup.call("counter/next", json!({})).await), "2");

    let taken = setup.servers.add_in_process("counter", Counter::default());
    assert!(taken.unwrap_err().to_string().contains("counter"));
    let set = setup
        .servers
        .set(BTreeMap::from([("it".to_owned(), plain()), ("counter".to_owned(), plain())]))
        .await;
    assert_eq!(set.added, ["it"]);
    assert!(set.errors.contains_key("counter"), "{set:?}");
    let set = setup.servers.set(BTreeMap::<String, ServerConfig>::new()).await;
    assert_eq!(set.removed, ["it"]);
    assert_eq!(text(setup.call("counter/next", json!({})).await), "3", "it stays");

    setup.servers.close().await;
    assert!(!setup.runtime.registry().has("counter/next"));
}
