//! The parts: a backend, Helve, and the least that a proxy made with rmcp can be.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use axum::serve::ListenerExt;
use helve::{Caller, Runtime};
use helve_mcp::config::{Secrets, ServerConfig as Upstream};
use helve_mcp::gateway::Gateway;
use helve_mcp::server::{McpServer, ServerOptions};
use helve_mcp::servers::{Servers, Surroundings};
use helve_net::{Client, NetPolicy};
use helve_sandbox::Sandbox;
use helve_server::{Door, HttpOptions, HttpServer};
use helve_store::{Store, StoreOptions};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig as Info, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{
    StreamableHttpClientTransport, StreamableHttpServerConfig, StreamableHttpService, TokioChildProcess,
};
use rmcp::{ErrorData, RoleClient, RoleServer, ServerHandler, ServiceExt};
use serde_json::json;

/// Plays one part until it is killed.
pub(crate) fn play(role: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        match role {
            "backend-http" => serve_rmcp(|| Echo).await,
            "backend-stdio" => {
                let service = Echo.serve(rmcp::transport::stdio_pipes()).await.unwrap();
                service.waiting().await.unwrap();
            }
            "copy" => copy(&std::env::var("MCP_BENCH_UPSTREAM").unwrap()).await,
            "proxy-http" => {
                let upstream = std::env::var("MCP_BENCH_UPSTREAM").unwrap();
                // For reqwest, which comes without its own provider.
                let _ = Client::new(NetPolicy::default()).unwrap();
                let client = ().serve(StreamableHttpClientTransport::from_uri(upstream)).await.unwrap();
                proxy(client).await;
            }
            "proxy-stdio" => {
                let client = ().serve(TokioChildProcess::new(backend_command()).unwrap()).await.unwrap();
                proxy(client).await;
            }
            "helve-http" => {
                let upstream = std::env::var("MCP_BENCH_UPSTREAM").unwrap();
                helve(vec![("backend".to_owned(), Upstream::remote(upstream))]).await;
            }
            "helve-stdio" => helve(vec![("backend".to_owned(), stdio_backend())]).await,
            "helve-many" => {
                let count: usize = std::env::var("MCP_BENCH_SERVERS").unwrap().parse().unwrap();
                helve((0..count).map(|n| (format!("backend{n}"), stdio_backend())).collect()).await;
            }
            other => panic!("no part `{other}`"),
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "a benchmark starts its parts")]
fn backend_command() -> tokio::process::Command {
    let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
    command.env("MCP_BENCH_ROLE", "backend-stdio");
    command
}

fn stdio_backend() -> Upstream {
    let mut config = Upstream::program(std::env::current_exe().unwrap(), [""; 0]);
    config.confined = false;
    config
        .env
        .insert("MCP_BENCH_ROLE".to_owned(), helve_mcp::config::Setting::Text("backend-stdio".to_owned()));
    config
}

fn ready(port: u16) {
    println!("READY {port}");
    std::io::stdout().flush().unwrap();
}

/// Helve as it is: the whole pipeline, a durable journal, and checks on both sides.
async fn helve(servers: Vec<(String, Upstream)>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("journal.db"), StoreOptions::default()).unwrap();
    let runtime = Runtime::builder().ledger(Arc::new(store)).build();
    let policy = NetPolicy { allow: vec!["127.0.0.1".parse().unwrap()], ..NetPolicy::default() };
    let surroundings = Surroundings {
        sandbox: Sandbox::default(),
        net: Client::new(policy).unwrap(),
        secrets: Secrets::process(),
        pins: None,
        sampler: None,
        tokens: None,
    };
    let upstream = Servers::new(runtime.registry().clone(), surroundings);
    let set = upstream.set(servers.into_iter().collect::<BTreeMap<_, _>>()).await;
    assert!(set.errors.is_empty(), "{set:?}");
    upstream.settled().await;
    let mcp = McpServer::new(Arc::new(Gateway::new(runtime, upstream)), ServerOptions::default());
    let door = Door::Open(Caller::local());
    let options = HttpOptions::new(mcp, door);
    let server = HttpServer::bind("127.0.0.1:0".parse().unwrap(), options).await.unwrap();
    ready(server.address().unwrap().port());
    server.run(std::future::pending()).await;
}

/// Passes bytes on in both directions and reads none of them: what it costs that there is a process between.
async fn copy(upstream: &str) {
    let upstream = upstream.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    ready(listener.local_addr().unwrap().port());
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let upstream = upstream.clone();
        tokio::spawn(async move {
            let mut server = tokio::net::TcpStream::connect(upstream).await.unwrap();
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

#[derive(Clone)]
struct Echo;

fn echo_tool() -> Tool {
    let schema = json!({ "type": "object", "properties": { "message": { "type": "string" } }, "required": ["message"] });
    let schema = schema.as_object().unwrap().clone();
    Tool::new("echo", "Gives the message back.", Arc::new(schema))
        .annotate(ToolAnnotations::new().read_only(true))
}

fn info() -> Info {
    Info::new(ServerCapabilities::builder().enable_tools().build())
}

impl ServerHandler for Echo {
    fn get_info(&self) -> Info {
        info()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![echo_tool()]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let message = request.arguments.as_ref().and_then(|arguments| arguments["message"].as_str());
        Ok(CallToolResult::success(vec![ContentBlock::text(message.unwrap_or_default())]).into())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "echo").then(echo_tool)
    }
}

/// Passes calls on, and does nothing else.
#[derive(Clone)]
struct Proxy(Arc<RunningService<RoleClient, ()>>);

impl ServerHandler for Proxy {
    fn get_info(&self) -> Info {
        info()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.list_tools(request).await.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        request.meta = None;
        let result = self.0.call_tool(request).await;
        result.map(Into::into).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

async fn proxy(client: RunningService<RoleClient, ()>) {
    let proxy = Proxy(Arc::new(client));
    serve_rmcp(move || proxy.clone()).await;
}

/// As rmcp is fastest: without sessions, with JSON answers, and without Nagle's algorithm.
async fn serve_rmcp<S: ServerHandler + Send + 'static>(make: impl Fn() -> S + Send + Sync + 'static) {
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = false;
    config.json_response = true;
    let service =
        StreamableHttpService::new(move || Ok(make()), Arc::new(LocalSessionManager::default()), config);
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    ready(listener.local_addr().unwrap().port());
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await.unwrap();
}
