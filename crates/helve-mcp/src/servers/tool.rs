//! A tool of a server, as a tool of ours.

use std::sync::{Arc, Weak};

use helve::json::{JsonLimits, canonical, sha256_hex};
use helve::ports::{Client, Question};
use helve::{BoxFuture, Context, ErrorCode, Handler, Implementation, ToolError, boxed};
use serde_json::Value;
use serde_json::value::RawValue;

use super::owners::Behalf;
use super::result::{self, ToolResult};
use super::server::Server;
use crate::client::connection::{Ask, Connection};
use crate::client::headers::ParamHeaders;
use crate::client::link::LinkError;
use crate::era::{Era, meta};
use crate::message::{Fields, RpcError, raw};

/// What a result may be made of.
pub(crate) const RESULT: JsonLimits = JsonLimits { bytes: 64 << 20, values: 500_000, depth: 64 };

/// How often a call is made where that is safe: a link that broke may have hidden a lost session.
const TRIES_MAX: u32 = 3;

/// Where a tool of ours is in truth.
pub(crate) struct Remote {
    pub(super) server: Weak<Server>,
    /// Its server's name for it.
    pub(super) own: Arc<str>,
    pub(super) headers: ParamHeaders,
    /// Whether it runs only as a task.
    pub(super) takes_task: bool,
    /// Why it is not to be used.
    pub(super) blocked: Option<String>,
}

/// A tool of a server.
pub(super) struct RemoteTool {
    remote: Arc<Remote>,
    /// Whether doing it twice does no harm.
    repeatable: bool,
    fingerprint: String,
    /// The definition, as clients may have it. None where the tool is blocked.
    definition: Option<Arc<RawValue>>,
}

impl RemoteTool {
    pub(super) fn new(remote: Remote, repeatable: bool, definition: &Value, raw: &Arc<RawValue>) -> Self {
        let fingerprint = sha256_hex(canonical(definition).as_bytes());
        let definition = remote.blocked.is_none().then(|| Arc::clone(raw));
        Self { remote: Arc::new(remote), repeatable, fingerprint, definition }
    }
}

impl Handler for RemoteTool {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let (remote, repeatable) = (Arc::clone(&self.remote), self.repeatable);
        boxed(|| async move { remote.call(arguments, context, repeatable).await })
    }

    fn implementation(&self) -> Implementation {
        Implementation::Mcp
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn is_light(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn mcp_definition(&self) -> Option<Arc<RawValue>> {
        self.definition.clone()
    }

    fn attached_says_no_more(&self, attached: &RawValue, result: &Value) -> bool {
        result::says_no_more(attached, result, RESULT)
    }
}

impl Remote {
    async fn call(&self, arguments: Value, context: Context, repeatable: bool) -> Result<Value, ToolError> {
        if let Some(reason) = &self.blocked {
            return Err(ToolError::new(ErrorCode::PermissionDenied, reason));
        }
        let gone =
            || ToolError::new(ErrorCode::McpConnection, "its server is no longer configured").nothing_done();
        let server = self.server.upgrade().ok_or_else(gone)?;
        let _place = server.enter().await;
        let mut tries = 1;
        let ToolResult { content, value, .. } = loop {
            match self.try_once(&server, &arguments, &context).await {
                Ok(result) => break result,
                // It cannot have begun, or it does no harm to begin it twice: the server is connected
                // anew for it, and the caller does not notice.
                Err(failure)
                    if tries < TRIES_MAX
                        && is_worth_another(&failure, repeatable)
                        && !context.is_cancelled() =>
                {
                    tries += 1;
                }
                Err(failure) => {
                    return Err(failure.into_error(server.name(), server.principal_of(context.caller())));
                }
            }
        };
        context.attach(content);
        value
    }

    async fn try_once(
        &self,
        server: &Arc<Server>,
        arguments: &Value,
        context: &Context,
    ) -> Result<ToolResult, Failure> {
        let client = context.client();
        let behalf = Behalf { caller: context.caller(), client: client.map(|client| client.id()) };
        let connection = server.connection(behalf).await.map_err(Failure::Unconnected)?;
        let mut ask = ask_for(server, context, "tools/call", self.params(arguments, client));
        ask.headers = self.headers.for_arguments(arguments);
        let answer = self.ask(&connection, ask).await.map_err(|error| {
            // What it wants of a single caller is no matter of the account that all share.
            if server.principal_of(context.caller()).is_none() {
                server.refused(&error);
            }
            Failure::Link(error)
        })?;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                if let Some(client) = client {
                    put_what_was_missing(&error, &**client).await;
                }
                return Err(Failure::Refused(error));
            }
        };
        server.used();
        result::read(answer, server.name(), RESULT).map_err(Failure::Unfit)
    }

    async fn ask(
        &self,
        connection: &Arc<Connection>,
        mut ask: Ask,
    ) -> Result<Result<crate::message::Raw, RpcError>, LinkError> {
        if self.takes_task && connection.greeting().era == Era::Session {
            ask.params.set("task", raw(&serde_json::json!({ "ttl": ask.timeout_total.as_millis() as u64 })));
        }
        crate::client::tasks::ask(connection, ask).await
    }

    fn params(&self, arguments: &Value, client: Option<&Arc<dyn Client>>) -> Fields {
        let mut params = Fields::default();
        params.set("name", raw(&self.own));
        params.set("arguments", raw(arguments));
        if let Some(about) = client.and_then(|client| client.meta()).and_then(passed_on) {
            params.set("_meta", about.to_raw());
        }
        params
    }
}

/// A question to a server that a running call puts: with its client, for its time, taken back with it.
pub(super) fn ask_for(server: &Server, context: &Context, method: &'static str, params: Fields) -> Ask {
    let (config, reporting) = (server.config(), context.clone());
    Ask {
        client: context.client().cloned(),
        progress: Some(Arc::new(move |progress| reporting.report(progress))),
        timeout: config.timeout(),
        timeout_total: context.time_left().min(config.timeout_total()),
        cancellation: Some(context.cancellation().clone()),
        ..Ask::new(method, params)
    }
}

/// What a client sent along that is for the server: all but what was said to us.
pub(crate) fn passed_on(about: &RawValue) -> Option<Fields> {
    let mut about = Fields::read(Some(about)).ok()?;
    for own in ["progressToken", meta::VERSION, meta::CLIENT, meta::CAPABILITIES, meta::LOG_LEVEL] {
        about.remove(own);
    }
    (!about.is_empty()).then_some(about)
}

/// A server that wants more of its client than the one who called can do says what. Asking that
/// client for it lets its own edge say the same.
async fn put_what_was_missing(error: &RpcError, client: &dyn Client) {
    if error.code != RpcError::MISSING_CAPABILITY {
        return;
    }
    let data = error.data.as_deref().and_then(|data| serde_json::from_str::<Value>(data.get()).ok());
    let wanted = data.as_ref().and_then(|data| data.get("requiredCapabilities"));
    let names = [
        ("/elicitation/url", Question::VisitPage),
        ("/elicitation", Question::FillForm),
        ("/sampling", Question::Sample),
        ("/roots", Question::ListRoots),
    ];
    let question =
        names.into_iter().find(|(name, _)| wanted.is_some_and(|wanted| wanted.pointer(name).is_some()));
    if let Some((_, question)) = question.filter(|(_, question)| !client.can(*question)) {
        // It cannot answer; that is what is to be known.
        let _unsupported = client.ask(question, crate::message::empty()).await;
    }
}

/// Why a call gave no result.
pub(super) enum Failure {
    /// There was no connection to ask over.
    Unconnected(LinkError),
    Link(LinkError),
    Refused(RpcError),
    Unfit(ToolError),
}

impl Failure {
    pub(super) fn into_error(self, server: &str, principal: Option<&str>) -> ToolError {
        match self {
            Self::Unconnected(error) => error.into_tool_error(server, principal).nothing_done(),
            Self::Link(error) => error.into_tool_error(server, principal),
            Self::Refused(error) => result::refused(&error, server),
            Self::Unfit(error) => error,
        }
    }
}

fn is_worth_another(failure: &Failure, repeatable: bool) -> bool {
    match failure {
        Failure::Link(LinkError::Unauthorized { .. } | LinkError::NoCredentials { .. })
        | Failure::Unconnected(LinkError::Unauthorized { .. } | LinkError::NoCredentials { .. }) => false,
        Failure::Link(error @ (LinkError::Closed { .. } | LinkError::SessionGone))
        | Failure::Unconnected(error @ (LinkError::Closed { .. } | LinkError::SessionGone)) => {
            error.is_unsent() || repeatable
        }
        Failure::Link(_) | Failure::Unconnected(_) | Failure::Refused(_) | Failure::Unfit(_) => false,
    }
}
