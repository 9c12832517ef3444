//! What is served: a runtime, or whatever else has tools, resources and prompts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use helve::ports::Client;
use helve::trace::SpanContext;
use helve::{ApprovalId, BoxFuture, Caller, Pending, Tool};
use helve_net::Url;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::peer::Peer;
use crate::message::{RpcError, raw};

/// A list of definitions, each as the JSON that clients get.
pub type Definitions = Arc<[Arc<RawValue>]>;

/// An answer of a backend.
pub type Reply<T> = BoxFuture<'static, Result<T, RpcError>>;

/// What is served.
///
/// Definitions and results are raw JSON and reach the client unchanged. Names are such as MCP
/// clients accept. What a caller may not use, a backend neither lists nor runs.
pub trait Backend: Send + Sync + 'static {
    /// What it has.
    fn capabilities(&self, visitor: &Visitor) -> Capabilities;

    /// What a model should know before it uses anything here.
    fn instructions(&self, visitor: &Visitor) -> Option<String>;

    /// A session begins. What comes back is put behind the instructions.
    fn session_started(self: Arc<Self>, visitor: Visitor) -> BoxFuture<'static, Option<String>> {
        let _ = visitor;
        Box::pin(std::future::ready(None))
    }

    /// A session that had begun has ended.
    fn session_ended(&self, visitor: &Visitor) {
        let _ = visitor;
    }

    /// Everything of one kind, in an order that stays the same. The server cuts it into pages.
    fn list(self: Arc<Self>, kind: Kind, visitor: Visitor) -> Reply<Definitions>;

    /// Runs a tool.
    fn call_tool(self: Arc<Self>, call: ToolCall, incoming: Incoming) -> Reply<ToolAnswer>;

    /// The tool of this name. None where there is none: then [`Backend::call_tool`] is asked all the same, and says
    /// so.
    fn find_tool(&self, name: &str) -> Option<FoundTool>;

    /// Waits for a tool that is not there yet. None where it is not expected.
    fn expected(self: Arc<Self>, tool: &str, visitor: &Visitor) -> Option<BoxFuture<'static, ()>> {
        let _ = (tool, visitor);
        None
    }

    /// The input schema of a tool, where it has arguments that are to stand in headers too
    /// (`x-mcp-header`).
    fn header_schema(&self, tool: &str, visitor: &Visitor) -> Option<Arc<Value>> {
        let _ = (tool, visitor);
        None
    }

    /// Waits until a person has decided about a call that a person must approve first.
    fn decided(self: Arc<Self>, id: ApprovalId) -> Reply<()> {
        let _ = id;
        Box::pin(std::future::pending())
    }

    /// What becomes of such a call once a person has decided: it runs, or its caller is told why not.
    fn after_decision(
        self: Arc<Self>,
        pending: Pending,
        call: ToolCall,
        incoming: Incoming,
    ) -> Reply<ToolAnswer> {
        let _ = (call, incoming);
        Box::pin(async move { Ok(ToolAnswer::Pending(pending)) })
    }

    /// Reads a resource.
    fn read_resource(self: Arc<Self>, uri: String, incoming: Incoming) -> Reply<Arc<RawValue>> {
        let _ = incoming;
        Box::pin(async move { Err(no_resource(&uri)) })
    }

    /// Fills in a prompt.
    fn get_prompt(self: Arc<Self>, name: String, incoming: Incoming) -> Reply<Arc<RawValue>> {
        let _ = incoming;
        Box::pin(async move { Err(RpcError::invalid_params(format!("no prompt named `{name}`"))) })
    }

    /// Completes an argument.
    fn complete(self: Arc<Self>, incoming: Incoming) -> Reply<Arc<RawValue>> {
        let _ = incoming;
        Box::pin(async { Ok(raw(&json!({ "completion": { "values": [] } })).into()) })
    }

    /// Starts telling of changes to a resource. Several requests of one visitor may ask for the same one;
    /// [`Backend::unsubscribe`] takes back one of them.
    fn subscribe(self: Arc<Self>, uri: String, incoming: Incoming) -> Reply<()> {
        let _ = incoming;
        Box::pin(async move { Err(no_resource(&uri)) })
    }

    /// Stops telling of changes to a resource that this visitor has subscribed to.
    fn unsubscribe(self: Arc<Self>, uri: String, visitor: Visitor) -> Reply<()> {
        let _ = (uri, visitor);
        Box::pin(async { Ok(()) })
    }

    /// A client wants log messages from this level on.
    fn set_level(&self, level: &str, visitor: &Visitor) {
        let _ = (level, visitor);
    }

    /// Changes as they happen, to everything there is.
    fn changes(&self) -> BoxStream<'static, Change>;
}

/// Who sends a request, as far as the transport knows.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// On whose behalf.
    pub caller: Arc<Caller>,
    /// Which session; a request of the stateless era has one of its own.
    pub session: Arc<str>,
    /// What its client said of itself.
    pub peer: Arc<Peer>,
}

/// One request to a backend, besides what it asks for.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// All of its parameters, as they came.
    pub params: Arc<RawValue>,
    /// Who sends the request.
    pub visitor: Visitor,
    /// The way back to them while the request runs.
    pub client: Arc<dyn Client>,
    /// Takes the request back.
    pub cancellation: CancellationToken,
    /// How long its client waits for a person to approve it: not at all, unless it is a task or can
    /// become one.
    pub patience: Duration,
    /// The page on which people decide, where this client can be asked to open it. Then a call that needs
    /// an approval is pending at once, and the server does the waiting.
    pub page: Option<Arc<Url>>,
    /// The page on which people decide, where there is one: its address is told in words to clients that cannot
    /// be asked to open it.
    pub decided_at: Option<Arc<Url>>,
    /// The span of the caller, where their trace goes on here.
    pub trace_parent: Option<SpanContext>,
}

/// Which tool is called, and with what.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The tool, as the client knows it.
    pub name: String,
    /// The arguments, each key once.
    pub arguments: Value,
    /// What the name leads to. None where nobody has looked just now: then [`Backend::call_tool`] does.
    pub found: Option<FoundTool>,
}

/// A tool, looked up for one call.
///
/// A call carries it to the end, so that its name is looked up once and every step speaks of the same tool. After a
/// wait for a server or a person it is looked up again: meanwhile the tool may have been replaced, or taken away
/// because its server changed it.
#[derive(Clone)]
pub struct FoundTool {
    /// The tool as it is registered.
    pub tool: Tool,
    /// Whether it can run as a task.
    pub task_support: TaskSupport,
}

impl FoundTool {
    /// Whether a look-up of this name would have found it.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.tool.name().as_str() == name
            || self.tool.provider_name() == name
            || self.tool.definition().aliases.iter().any(|alias| alias == name)
    }
}

impl std::fmt::Debug for FoundTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FoundTool").field("name", self.tool.name()).finish_non_exhaustive()
    }
}

/// How a call ended.
#[derive(Debug, Clone)]
pub enum ToolAnswer {
    /// With a result.
    Done {
        /// An MCP tool result.
        result: Arc<RawValue>,
        /// Whether it says that the tool failed.
        is_error: bool,
    },
    /// Not yet: a person must decide first.
    Pending(Pending),
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The tools of all sources.
    Tools,
    /// The resources of servers behind.
    Resources,
    /// The templates of resources of servers behind.
    ResourceTemplates,
    /// The prompts of servers behind.
    Prompts,
}

impl Kind {
    /// The field of a list's result that holds the entries.
    pub fn field(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }
}

/// Whether a tool can run as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskSupport {
    /// It never runs as a task.
    Forbidden,
    /// Where the client wants it.
    Optional,
    /// It always runs as a task.
    Required,
}

/// What a backend has.
#[derive(Debug, Clone, Default)]
pub struct Capabilities {
    /// It lists and calls tools.
    pub tools: bool,
    /// It lists and reads resources.
    pub resources: bool,
    /// Resources that tell of changes.
    pub subscribe: bool,
    /// It lists and fills prompts.
    pub prompts: bool,
    /// Completions of arguments.
    pub completions: bool,
    /// It passes log messages on.
    pub logging: bool,
    /// Tools that run as tasks.
    pub tasks: bool,
    /// What else there is to declare, such as `experimental`.
    pub extra: Map<String, Value>,
}

/// A list or a resource that is no longer as it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of resources.
    Resources,
    /// The list of prompts.
    Prompts,
    /// What a resource holds.
    Resource(Arc<str>),
    /// Nobody knows what: changes came faster than they could be told.
    Anything,
    /// Something that concerns this principal alone.
    Of(Arc<str>, Box<Change>),
}

impl Change {
    /// The change itself, if this caller is to hear of it.
    pub(super) fn heard_by(&self, caller: &Caller) -> Option<&Self> {
        match self {
            Self::Of(principal, change) if caller.principal.as_deref() == Some(&**principal) => {
                change.heard_by(caller)
            }
            Self::Of(..) => None,
            Self::Tools | Self::Resources | Self::Prompts | Self::Resource(_) | Self::Anything => Some(self),
        }
    }
}

/// There is no such resource. The session says it in the way of the client's era.
pub fn no_resource(uri: &str) -> RpcError {
    RpcError::new(RpcError::RESOURCE_NOT_FOUND, "Resource not found").with_data(&json!({ "uri": uri }))
}
