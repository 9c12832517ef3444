//! A server for any MCP client, whatever the transport.
//!
//! A [`Backend`] is what is served; [`McpServer`] serves it; a [`Session`] is one client of it.
//! Transports hand messages to a session and take back answers: [`McpServer::serve`] does so over
//! any pair of streams, such as standard input and output.
//!
//! ```
//! use helve::{Caller, Context, Runtime, Tool, ToolError};
//! use helve_mcp::server::McpServer;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! async fn add(input: Add, _context: Context) -> Result<f64, ToolError> {
//!     Ok(input.a + input.b)
//! }
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::builder().tool(Tool::function("add", "Adds two numbers.", add).read_only())?.build();
//! McpServer::from_runtime(runtime).serve_stdio(Caller::local()).await?;
//! # Ok(())
//! # }
//! ```

mod backend;
mod runtime;

mod link;
mod session;
mod stdio;
mod subscriptions;

mod dispatch;
mod listen;
mod tasks;
mod work;

mod answer;
mod approve;
mod asker;
mod big;
mod level;
mod outlet;
mod pages;
mod peer;
mod questions;
mod result;
mod seal;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use helve::{Caller, Registry, Runtime};
use helve_net::Url;
use serde_json::{Value, json};

pub use answer::RpcAnswer;
pub(crate) use approve::HowToApprove;
pub use backend::{
    Backend, Capabilities, Change, Definitions, FoundTool, Incoming, Kind, Reply, TaskSupport, ToolAnswer,
    ToolCall, Visitor, no_resource,
};
pub(crate) use dispatch::arguments;
pub use link::{Link, Waiting, refusal};
pub use outlet::{Nowhere, Outlet, Sent};
pub use peer::{Peer, TASKS_EXTENSION};
pub use questions::KEY as QUESTION_KEY;
pub use runtime::RuntimeBackend;
pub(crate) use runtime::renamed;
pub use seal::random_id;
pub use session::{Route, Session, era_of};

/// How a server behaves. The defaults are safe.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The server's name, as clients see it.
    pub name: String,
    /// The server's version, as clients see it.
    pub version: String,
    /// Most entries on one page of a list.
    pub page_items: usize,
    /// With more tools than this, clients get three tools to find the others with.
    pub list_max: usize,
    /// Most requests of one session at once.
    pub requests_max: usize,
    /// How long a client may take to answer a question.
    pub ask_timeout: Duration,
    /// Most requests that wait for their client to come back with an answer.
    pub waiting_max: usize,
    /// How long they wait.
    pub waiting_ttl: Duration,
    /// Most tasks that are kept at a time.
    pub tasks_max: usize,
    /// How long a task is kept where its client does not say.
    pub task_ttl: Duration,
    /// How long any task is kept.
    pub task_ttl_max: Duration,
    /// How long a call waits for a person to decide, once its client has shown them the page.
    pub approval_wait: Duration,
    /// In the stateless era, a call that takes longer than this becomes a task, where the client
    /// knows tasks.
    pub task_after: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            name: "helve".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            page_items: 250,
            list_max: 100,
            requests_max: 256,
            ask_timeout: Duration::from_secs(600),
            waiting_max: 1_000,
            waiting_ttl: Duration::from_secs(600),
            tasks_max: 1_000,
            task_ttl: Duration::from_secs(600),
            task_ttl_max: Duration::from_secs(3_600),
            approval_wait: Duration::from_secs(600),
            task_after: Duration::from_secs(2),
        }
    }
}

/// Serves a backend to MCP clients. Cheap to clone; clones are the same server.
#[derive(Clone)]
pub struct McpServer(Arc<Shared>);

/// What all sessions of a server share.
struct Shared {
    backend: Arc<dyn Backend>,
    options: ServerOptions,
    info: Arc<Value>,
    seal: seal::Seal,
    waiting: work::Waiting,
    tasks: tasks::Tasks,
    watch: watch::Watch,
    page: ArcSwapOption<Url>,
    /// How many sessions there were that nobody sees the id of.
    opened: AtomicU64,
}

impl McpServer {
    /// Serves a backend.
    pub fn new(backend: Arc<dyn Backend>, options: ServerOptions) -> Self {
        Self(Arc::new(Shared {
            info: Arc::new(json!({ "name": options.name, "version": options.version })),
            backend,
            options,
            seal: seal::Seal::random(),
            waiting: work::Waiting::default(),
            tasks: tasks::Tasks::default(),
            watch: watch::Watch::default(),
            page: ArcSwapOption::empty(),
            opened: AtomicU64::new(0),
        }))
    }

    /// Serves the tools of a runtime.
    pub fn from_runtime(runtime: Runtime) -> Self {
        Self::new(Arc::new(RuntimeBackend::new(runtime)), ServerOptions::default())
    }

    /// Serves the tools of a registry, with default settings and a journal in memory.
    pub fn from_registry(registry: Registry) -> Self {
        Self::from_runtime(Runtime::builder().registry(registry).build())
    }

    /// Says where people find the page on which they decide. From now on clients that can open pages are
    /// asked to, where a call needs an approval. Its address is all they get: nothing in it lets anybody
    /// in, so that the person who decides signs in there with their own secret.
    pub fn set_page(&self, page: Url) {
        self.0.page.store(Some(Arc::new(page)));
    }

    /// What is served.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.0.backend
    }

    /// Opens a session for a client that acts for `caller`. Unless the caller names a session of its
    /// own, what it remembers for a session it remembers for this one.
    pub fn open(&self, caller: Arc<Caller>) -> Arc<Session> {
        let id = random_id();
        let caller = match caller.session {
            Some(_) => caller,
            None => Arc::new(Caller::clone(&caller).session_of_connection(id.clone())),
        };
        Session::new(Arc::clone(&self.0), id.into(), caller)
    }

    /// Opens a session for one request of the stateless era.
    pub fn open_once(&self, caller: Arc<Caller>) -> Arc<Session> {
        // Nobody gets to see this id, so that it is enough that there is no other like it.
        let number = self.0.opened.fetch_add(1, Ordering::Relaxed);
        Session::new(Arc::clone(&self.0), format!("{ONCE}{number}").into(), caller)
    }
}

/// What the ids of sessions begin with that are one request long; no random id does.
const ONCE: &str = "once:";

/// Whether the session with this id is one request long, so that nothing can be kept for it.
pub(crate) fn is_once(session: &str) -> bool {
    session.starts_with(ONCE)
}
