//! The MCP servers behind what is served.

use std::sync::Arc;

use helve::Runtime;
use helve_host::config::Loaded;
use helve_host::wire::mcp;
use helve_mcp::gateway::Gateway;
use helve_mcp::server::{McpServer, ServerOptions};
use helve_mcp::servers::Servers;

use crate::app::App;
use crate::ui::escape;

/// The MCP servers behind what is served.
pub(super) struct Upstream {
    pub(super) servers: Servers,
}

impl Upstream {
    /// Starts those that may be started, and says which may not. Nobody waits for a connection.
    pub(super) async fn start(loaded: &Loaded, runtime: &Runtime, app: &mut App<'_>) -> anyhow::Result<Self> {
        let (servers, unusable) = mcp::start(loaded, runtime).await?;
        for (name, reason) in unusable {
            app.ui.note(format!("note: MCP server `{name}`: {}", escape::one_line(&reason, 300)))?;
        }
        Ok(Self { servers })
    }

    /// What is served: the runtime's tools, and all else that the servers have.
    pub(super) fn served(&self, runtime: Runtime) -> McpServer {
        let gateway = Gateway::new(runtime, self.servers.clone());
        McpServer::new(Arc::new(gateway), ServerOptions::default())
    }
}
