//! What a server serves, and to whom.

use std::sync::Arc;

use helve::Runtime;
use helve_mcp::server::McpServer;
use helve_mcp::servers::Servers;
use helve_net::Url;

use crate::config::ServerConfig;
use crate::guard::Door;
use crate::jwt::Issuer;
use crate::records::Records;

/// What a server serves, and to whom: what it must have is given to [`new`](Self::new), and all else has a default.
///
/// ```
/// # use helve::{Caller, Runtime};
/// # use helve_mcp::server::McpServer;
/// # use helve_server::{ApiOptions, Door, HttpOptions};
/// let runtime = Runtime::builder().build();
/// let mcp = McpServer::from_runtime(runtime.clone());
/// let options = HttpOptions {
///     api: Some(ApiOptions::new(runtime)),
///     ..HttpOptions::new(mcp, Door::Open(Caller::local()))
/// };
/// ```
pub struct HttpOptions {
    /// What speaks MCP.
    pub mcp: McpServer,
    /// Who may come in.
    pub door: Door,
    /// How the server behaves.
    pub config: ServerConfig,
    /// The MCP servers behind it, which the operator looks after under `/v1/mcp/servers`.
    pub servers: Option<Servers>,
    /// The HTTP API and the page on which people decide. Every key of its runtime is let in.
    pub api: Option<ApiOptions>,
    /// Whom this issuer vouches for is let in, too.
    pub issuer: Option<Issuer>,
    /// How people reach the page on which they decide, where that is not the address listened on.
    pub page: Option<Url>,
}

/// What the HTTP API is about.
pub struct ApiOptions {
    /// Its tools, calls and approvals.
    pub runtime: Runtime,
    /// What is recorded of calls, where that can be shown.
    pub records: Option<Arc<dyn Records>>,
}

impl ApiOptions {
    /// An API that shows no record of calls.
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, records: None }
    }
}

impl HttpOptions {
    /// MCP alone, to whom the door lets in.
    pub fn new(mcp: McpServer, door: Door) -> Self {
        let config = ServerConfig::default();
        Self { mcp, door, config, servers: None, api: None, issuer: None, page: None }
    }
}
