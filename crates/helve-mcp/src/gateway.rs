//! Serves what a runtime and the servers behind it have: tools, and through the same pipeline resources,
//! prompts, subscriptions and completions.

mod answer;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, BoxStream, StreamExt};
use helve::json::parse;
use helve::session::SessionKey;
use helve::{
    Access, ApprovalId, BoxFuture, Caller, Category, ErrorCode, Pending, PolicyResource, Runtime, Served,
    Stance, Tool, ToolError, boxed,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use self::answer::{answer_of, arguments_of, call_of, gone};
use crate::client::connection::Ask;
use crate::client::link::LinkError;
use crate::links::Links;
use crate::message::{Fields, RpcError, raw};
use crate::server::{
    Backend, Capabilities, Change, Definitions, FoundTool, Incoming, Kind, Reply, RuntimeBackend, ToolAnswer,
    ToolCall, Visitor, no_resource, renamed,
};
use crate::servers::owners::Behalf;
use crate::servers::{
    Offer, Piece, RESULT, Server, ServerEvent, ServerEventKind, Servers, Watching, Wish, served, to_watch,
};

/// How long a client's first list or call waits for servers that are still being connected.
const SETTLE_MAX: Duration = Duration::from_secs(15);
/// The longest instructions that are passed on.
const INSTRUCTIONS_BYTES_MAX: usize = 32 << 10;

/// A runtime and the servers behind it, served.
///
/// Names of tools and prompts carry their server's namespace; addresses of resources stay as they
/// are, so that links in results lead somewhere. Where two servers have the same address, the
/// first has it.
pub struct Gateway {
    tools: Arc<RuntimeBackend>,
    servers: Servers,
    links: Links,
    watched: Mutex<Watched>,
}

/// What each session watches, by its address: once for each time that it asked.
type Watched = HashMap<(Arc<str>, String), Vec<Watching>>;

impl Gateway {
    /// Serves `runtime`, and `servers` whose tools are in its registry.
    pub fn new(runtime: Runtime, servers: Servers) -> Self {
        let tools = Arc::new(RuntimeBackend::new(runtime));
        Self { tools, servers, links: Links::default(), watched: Mutex::default() }
    }

    /// The servers that anything of may be a visitor's business.
    fn reached_by(&self, visitor: &Visitor) -> Vec<Arc<Server>> {
        let settings = self.tools.runtime().settings();
        match visitor.caller.principal.is_none() && settings.require_authentication {
            true => Vec::new(),
            false => self.servers.all(),
        }
    }

    /// The servers that a caller may reach: one choke point for all that is not a tool.
    fn open_to(&self, visitor: &Visitor) -> Vec<Arc<Server>> {
        let mut servers = self.reached_by(visitor);
        if let Access::Only(entries) = &visitor.caller.access {
            servers.retain(|server| {
                let all = format!("{}/*", server.config().namespace(server.name()));
                entries.iter().any(|entry| *entry == all || entry == "*")
            });
        }
        servers
    }

    /// Whether a visitor may know of what a server offers. What would ask a person asks when it is read.
    fn shows(&self, visitor: &Visitor, piece: Piece, server: &Server, name: &str) -> bool {
        if server.config().tools.denies(piece.name()) {
            return false;
        }
        let resource = PolicyResource::Served { server: server.name(), name };
        self.tools.runtime().permits(&visitor.caller, piece.action(), resource).stance != Stance::Deny
    }

    /// The servers that are still coming and may bring a tool of this name for the visitor.
    fn coming_with(&self, tool: &str, visitor: &Visitor) -> Vec<Arc<Server>> {
        let may_bring = |server: &Arc<Server>| {
            let namespace = server.config().namespace(server.name());
            let rest = tool.strip_prefix(namespace);
            let has_name = rest.is_some_and(|rest| rest.starts_with("__") || rest.starts_with('/'));
            let may_use = match &visitor.caller.access {
                Access::Only(entries) => entries.iter().any(|entry| {
                    entry == "*" || entry.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('/'))
                }),
                Access::All => true,
            };
            namespace.is_empty() || (has_name && may_use)
        };
        let mut servers = self.reached_by(visitor);
        servers.retain(|server| server.is_coming() && may_bring(server));
        servers
    }

    /// Servers that are still coming and may bring what a tool calls: the parts of a composition, or anything where
    /// the tool runs code.
    fn coming_for(&self, tool: &Tool, visitor: &Visitor) -> Vec<Arc<Server>> {
        if tool.definition().category == Category::Code {
            let mut servers = self.servers.all();
            servers.retain(|server| server.is_coming());
            return servers;
        }
        let registry = self.tools.runtime().registry();
        let missing = tool.handler().parts().into_iter().filter(|part| !registry.has(part));
        missing.flat_map(|part| self.coming_with(&part, visitor)).collect()
    }

    /// Finds the tool of a call, once what it calls has come.
    async fn find_with_parts(&self, call: &mut ToolCall, visitor: &Visitor) {
        call.found = call.found.take().or_else(|| self.tools.find_tool(&call.name));
        let Some(found) = &call.found else { return };
        let coming = self.coming_for(&found.tool, visitor);
        if coming.is_empty() {
            return;
        }
        let all = join_all(coming.iter().map(|server| server.settled()));
        let _late = tokio::time::timeout(SETTLE_MAX, all).await;
        // Again, after a wait: a server that came may have replaced the tool or taken it away, and what it no longer
        // offers must not run.
        call.found = self.tools.find_tool(&call.name);
    }

    async fn settled(&self) {
        // Those that are slower are listed when they come, and clients are told.
        let _late = tokio::time::timeout(SETTLE_MAX, self.servers.settled()).await;
    }

    /// The servers that a caller may reach, and what each offers them besides tools. One that does not say
    /// so in time, or to which the caller cannot go, offers them nothing.
    async fn offers_to(&self, visitor: &Visitor) -> Vec<(Arc<Server>, Arc<Offer>)> {
        let ask = async |server: Arc<Server>| {
            let offer = server.offer_to(behalf(visitor));
            match tokio::time::timeout(SETTLE_MAX, offer).await {
                Ok(Ok(offer)) => Some((server, offer)),
                Ok(Err(error)) => {
                    tracing::debug!(server = server.name(), %error, "it offers this caller nothing");
                    None
                }
                Err(_) => None,
            }
        };
        join_all(self.open_to(visitor).into_iter().map(ask)).await.into_iter().flatten().collect()
    }

    async fn resources(&self, visitor: &Visitor, kind: Kind) -> Definitions {
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for (server, offer) in self.offers_to(visitor).await {
            let (items, key) = match kind {
                Kind::ResourceTemplates => (&offer.templates, "uriTemplate"),
                _ => (&offer.resources, "uri"),
            };
            for item in items {
                let place = Fields::read(Some(item)).ok().and_then(|fields| fields.text(key));
                // The first server with an address is the one that it is read from, so no other's is
                // listed either, also where this one's must not be known of.
                let Some(place) = place.filter(|place| seen.insert(place.clone())) else { continue };
                if self.shows(visitor, Piece::Resource, &server, &place) {
                    all.push(Arc::clone(item));
                }
            }
        }
        all.into()
    }

    async fn prompts(&self, visitor: &Visitor) -> Definitions {
        let mut all: Vec<Arc<RawValue>> = Vec::new();
        for (server, offer) in self.offers_to(visitor).await {
            for prompt in &offer.prompts {
                let own = Fields::read(Some(prompt)).ok().and_then(|fields| fields.text("name"));
                if let Some(own) = own.filter(|own| self.shows(visitor, Piece::Prompt, &server, own)) {
                    all.push(renamed(prompt, &with_namespace(&server, &own)).into());
                }
            }
        }
        all.into()
    }

    /// The server that has a prompt, and its own name for it, whether or not the visitor may have it.
    async fn prompt(&self, name: &str, visitor: &Visitor) -> Option<(Arc<Server>, String)> {
        match self.known_prompt(name, visitor).await {
            Some(found) => Some(found),
            None => {
                self.settled().await;
                self.known_prompt(name, visitor).await
            }
        }
    }

    async fn known_prompt(&self, name: &str, visitor: &Visitor) -> Option<(Arc<Server>, String)> {
        self.offers_to(visitor).await.into_iter().find_map(|(server, offer)| {
            let namespace = server.config().namespace(server.name());
            let own = match namespace {
                "" => name,
                namespace => name.strip_prefix(namespace)?.strip_prefix("__")?,
            };
            offer.has_prompt(own).then(|| (Arc::clone(&server), own.to_owned()))
        })
    }

    /// The server that has a resource: listed, by a template, or because a result of this session spoke of
    /// it. Whether the visitor may have it is another question.
    async fn resource(&self, uri: &str, visitor: &Visitor) -> Option<Arc<Server>> {
        match self.known_resource(uri, visitor).await {
            Some(server) => Some(server),
            None => {
                // Its server may still be coming.
                self.settled().await;
                self.known_resource(uri, visitor).await
            }
        }
    }

    async fn known_resource(&self, uri: &str, visitor: &Visitor) -> Option<Arc<Server>> {
        let servers = self.offers_to(visitor).await;
        let listed = servers.iter().find(|(_, offer)| offer.has_resource(uri));
        let fits = || servers.iter().find(|(_, offer)| offer.has_template(uri));
        let linked = || {
            let owner = self.links.server_of(&SessionKey::of(&visitor.caller), uri)?;
            servers.iter().find(|(server, _)| server.name() == &*owner)
        };
        // A server that spoke of an address knows it; a template may fit every address there is.
        Some(Arc::clone(&listed.or_else(linked).or_else(fits)?.0))
    }

    /// The server that has what is to be completed, and its own name for it.
    async fn completed_by(
        &self,
        piece: Piece,
        name: &str,
        visitor: &Visitor,
    ) -> Option<(Arc<Server>, String)> {
        if piece == Piece::Prompt {
            return self.prompt(name, visitor).await;
        }
        let mut offers = self.offers_to(visitor).await.into_iter();
        let server = match offers.find(|(_, offer)| offer.lists_template(name)) {
            Some((server, _)) => server,
            None => self.resource(name, visitor).await?,
        };
        Some((server, name.to_owned()))
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a visitor watches, once.
    fn take_watched(&self, uri: &str, visitor: &Visitor) -> Option<Watching> {
        let key = (Arc::clone(&visitor.session), uri.to_owned());
        let mut watched = self.watched();
        let of_uri = watched.get_mut(&key)?;
        let watching = of_uri.pop();
        if of_uri.is_empty() {
            watched.remove(&key);
        }
        watching
    }

    /// Remembers what a result spoke of, so that it can be read.
    fn remember_links(&self, tool: Option<&Tool>, answer: &ToolAnswer, caller: &Caller) {
        let (Some(tool), ToolAnswer::Done { result, .. }) = (tool, answer) else { return };
        if !result.get().contains("\"uri\"") {
            return;
        }
        let servers = self.servers.all();
        let owner = servers.iter().find(|server| server.offer().tools.contains_key(tool.name()));
        if let (Some(server), Ok(value)) = (owner, parse(result.get().as_bytes(), RESULT)) {
            let is_there = |name: &str| servers.iter().any(|server| server.name() == name);
            self.links.remember(SessionKey::of(caller), server.name(), &value, is_there);
        }
    }

    /// Does with a piece of a server what a caller wants. What the caller may not have is not there for it; the
    /// journal knows better.
    async fn use_piece(
        &self,
        server: &Arc<Server>,
        (piece, wish): (Piece, Wish),
        arguments: Value,
        incoming: Incoming,
        hidden: impl FnOnce() -> RpcError,
    ) -> Result<Arc<RawValue>, RpcError> {
        let served = served(server, piece, wish).map_err(unfit)?;
        self.through(server, (piece, served), arguments, incoming, hidden).await
    }

    /// The same, through the pipeline.
    async fn through(
        &self,
        server: &Server,
        (piece, served): (Piece, Served),
        arguments: Value,
        incoming: Incoming,
        hidden: impl FnOnce() -> RpcError,
    ) -> Result<Arc<RawValue>, RpcError> {
        let page = incoming.decided_at.clone();
        let call = call_of(served.tool.name().as_str(), arguments, incoming);
        if server.config().tools.denies(piece.name()) {
            let message = format!(
                "`{}` is denied in the configuration of MCP server `{}`",
                piece.name(),
                server.name()
            );
            self.tools.runtime().refuse(call, ToolError::new(ErrorCode::NotAuthorized, message)).await;
            return Err(hidden());
        }
        answer_of(self.tools.runtime().read(served, call).await, page.as_deref(), hidden)
    }

    /// Records that a caller asked for what is not there, or not for them.
    async fn refuse(&self, piece: Piece, arguments: Value, incoming: Incoming) {
        let asked = arguments.get(piece.named_by()).and_then(Value::as_str).unwrap_or_default();
        let message = format!("no server offers this caller `{}`", crate::text::one_line(asked, 200));
        let call = call_of(&format!("mcp/{}", piece.name()), arguments, incoming);
        self.tools.runtime().refuse(call, ToolError::new(ErrorCode::ToolNotFound, message)).await;
    }
}

fn unfit(reason: String) -> RpcError {
    RpcError::new(RpcError::INTERNAL, reason)
}

fn with_namespace(server: &Server, own: &str) -> String {
    match server.config().namespace(server.name()) {
        "" => own.to_owned(),
        namespace => format!("{namespace}__{own}"),
    }
}

fn behalf(visitor: &Visitor) -> Behalf<'_> {
    Behalf { caller: &visitor.caller, client: Some(&visitor.session) }
}

/// Tells a server from which level on a client wants log messages.
async fn tell_level(server: &Arc<Server>, level: &str, visitor: &Visitor) -> Result<(), RpcError> {
    let mut params = Fields::default();
    params.set("level", raw(&level));
    let gone = |error: LinkError| gone(server, &error, &visitor.caller);
    let connection = server.connection(behalf(visitor)).await.map_err(gone)?;
    let ask = Ask::new("logging/setLevel", params).within(server.config().timeout());
    connection.ask(ask).await.map_err(gone)?.map(drop)
}

impl Backend for Gateway {
    fn session_started(self: Arc<Self>, visitor: Visitor) -> BoxFuture<'static, Option<String>> {
        Arc::clone(&self.tools).session_started(visitor)
    }

    fn session_ended(&self, visitor: &Visitor) {
        self.tools.session_ended(visitor);
        for server in self.servers.all() {
            server.client_gone(&visitor.session);
        }
    }

    fn capabilities(&self, visitor: &Visitor) -> Capabilities {
        let mut has = self.tools.capabilities(visitor);
        for server in self.open_to(visitor).iter().filter(|server| server.config().enabled) {
            match server.greeting() {
                Some(greeting) => {
                    has.resources |= greeting.has("resources");
                    has.subscribe |= greeting.has_flag("resources", "subscribe");
                    has.prompts |= greeting.has("prompts");
                    has.completions |= greeting.has("completions");
                }
                // It may have them when it comes.
                None => (has.resources, has.prompts) = (true, true),
            }
        }
        has
    }

    fn instructions(&self, visitor: &Visitor) -> Option<String> {
        let said = |server: &Arc<Server>| {
            let words = server.greeting()?.instructions?;
            Some((server.name().to_owned(), crate::text::clean(&words).text.into_owned()))
        };
        let mut said: Vec<_> = self.open_to(visitor).iter().filter_map(said).collect();
        let mut text = match said.len() {
            0 => return None,
            1 => said.pop()?.1,
            _ => said.iter().map(|(name, words)| format!("# {name}\n\n{words}\n\n")).collect(),
        };
        text.truncate(text.floor_char_boundary(INSTRUCTIONS_BYTES_MAX));
        Some(text)
    }

    fn list(self: Arc<Self>, kind: Kind, visitor: Visitor) -> Reply<Definitions> {
        Box::pin(async move {
            self.settled().await;
            Ok(match kind {
                Kind::Tools => self.tools.definitions(&visitor),
                Kind::Resources | Kind::ResourceTemplates => self.resources(&visitor, kind).await,
                Kind::Prompts => self.prompts(&visitor).await,
            })
        })
    }

    fn call_tool(self: Arc<Self>, mut call: ToolCall, incoming: Incoming) -> Reply<ToolAnswer> {
        boxed(|| async move {
            let caller = Arc::clone(&incoming.visitor.caller);
            self.find_with_parts(&mut call, &incoming.visitor).await;
            let tool = call.found.as_ref().map(|found| found.tool.clone());
            let answer = Arc::clone(&self.tools).call_tool(call, incoming).await?;
            self.remember_links(tool.as_ref(), &answer, &caller);
            Ok(answer)
        })
    }

    fn decided(self: Arc<Self>, id: ApprovalId) -> Reply<()> {
        Arc::clone(&self.tools).decided(id)
    }

    fn after_decision(
        self: Arc<Self>,
        pending: Pending,
        call: ToolCall,
        incoming: Incoming,
    ) -> Reply<ToolAnswer> {
        Box::pin(async move {
            let (name, caller) = (call.name.clone(), Arc::clone(&incoming.visitor.caller));
            let answer = Arc::clone(&self.tools).after_decision(pending, call, incoming).await?;
            let found = self.tools.find_tool(&name);
            self.remember_links(found.as_ref().map(|found| &found.tool), &answer, &caller);
            Ok(answer)
        })
    }

    fn find_tool(&self, name: &str) -> Option<FoundTool> {
        self.tools.find_tool(name)
    }

    fn expected(self: Arc<Self>, tool: &str, visitor: &Visitor) -> Option<BoxFuture<'static, ()>> {
        let coming = self.coming_with(tool, visitor);
        if coming.is_empty() {
            return None;
        }
        Some(Box::pin(async move {
            let all = join_all(coming.iter().map(|server| server.settled()));
            let _late = tokio::time::timeout(SETTLE_MAX, all).await;
        }))
    }

    fn header_schema(&self, tool: &str, visitor: &Visitor) -> Option<Arc<Value>> {
        self.tools.header_schema(tool, visitor)
    }

    fn read_resource(self: Arc<Self>, uri: String, incoming: Incoming) -> Reply<Arc<RawValue>> {
        Box::pin(async move {
            let arguments = arguments_of(&incoming.params)?;
            let Some(server) = self.resource(&uri, &incoming.visitor).await else {
                self.refuse(Piece::Resource, arguments, incoming).await;
                return Err(no_resource(&uri));
            };
            let wish = (Piece::Resource, Wish::Read);
            self.use_piece(&server, wish, arguments, incoming, || no_resource(&uri)).await
        })
    }

    fn get_prompt(self: Arc<Self>, name: String, incoming: Incoming) -> Reply<Arc<RawValue>> {
        Box::pin(async move {
            let none = || RpcError::invalid_params(format!("no prompt named `{name}`"));
            let mut arguments = arguments_of(&incoming.params)?;
            let Some((server, own)) = self.prompt(&name, &incoming.visitor).await else {
                self.refuse(Piece::Prompt, arguments, incoming).await;
                return Err(none());
            };
            arguments["name"] = own.into();
            self.use_piece(&server, (Piece::Prompt, Wish::Read), arguments, incoming, none).await
        })
    }

    fn complete(self: Arc<Self>, incoming: Incoming) -> Reply<Arc<RawValue>> {
        Box::pin(async move {
            let none = || RpcError::invalid_params("there is nothing by that name to complete");
            let mut arguments = arguments_of(&incoming.params)?;
            let of = arguments.as_object_mut().and_then(|fields| fields.remove("ref")).unwrap_or_default();
            let is_prompt = of.get("type").and_then(Value::as_str) == Some(Piece::Prompt.reference());
            let piece = if is_prompt { Piece::Prompt } else { Piece::Resource };
            let name = of.get(piece.named_by()).and_then(Value::as_str).ok_or_else(none)?;
            let Some((server, own)) = self.completed_by(piece, name, &incoming.visitor).await else {
                return Err(none());
            };
            arguments[piece.named_by()] = own.into();
            self.use_piece(&server, (piece, Wish::Complete), arguments, incoming, none).await
        })
    }

    fn subscribe(self: Arc<Self>, uri: String, incoming: Incoming) -> Reply<()> {
        Box::pin(async move {
            let visitor = incoming.visitor.clone();
            let arguments = json!({ "uri": uri, "subscribe": true });
            let Some(server) = self.resource(&uri, &visitor).await else {
                self.refuse(Piece::Resource, arguments, incoming).await;
                return Err(no_resource(&uri));
            };
            // Dropped where anything fails from here on, and with it what the server was asked for.
            let (served, slot) = to_watch(&self.servers, &server).map_err(unfit)?;
            let served = (Piece::Resource, served);
            self.through(&server, served, arguments, incoming, || no_resource(&uri)).await?;
            let watching = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            self.watched().entry((visitor.session, uri)).or_default().extend(watching);
            Ok(())
        })
    }

    fn unsubscribe(self: Arc<Self>, uri: String, visitor: Visitor) -> Reply<()> {
        Box::pin(async move {
            // Whatever it may have by now: that it no longer wants to hear of it is no news to that server,
            // and to no other one.
            let Some(watching) = self.take_watched(&uri, &visitor) else { return Ok(()) };
            let Some(server) = watching.server() else { return Ok(()) };
            watching.end().await.map_err(|error| gone(&server, &error, &visitor.caller))?
        })
    }

    fn set_level(&self, level: &str, visitor: &Visitor) {
        for server in self.open_to(visitor) {
            if !server.greeting().is_some_and(|greeting| greeting.has("logging")) {
                continue;
            }
            let (level, visitor) = (level.to_owned(), visitor.clone());
            tokio::spawn(async move {
                if let Err(error) = tell_level(&server, &level, &visitor).await {
                    tracing::debug!(server = server.name(), %error, "the log level was not passed on");
                }
            });
        }
    }

    fn changes(&self) -> BoxStream<'static, Change> {
        let state = (self.servers.subscribe(), VecDeque::new(), self.servers.clone());
        let of_servers = stream::unfold(state, |(mut events, mut waiting, servers)| async move {
            loop {
                if let Some(change) = waiting.pop_front() {
                    return Some((change, (events, waiting, servers)));
                }
                let whose = |of: &Option<Arc<str>>, change| match of {
                    Some(principal) => Change::Of(Arc::clone(principal), Box::new(change)),
                    None => change,
                };
                match events.recv().await {
                    Ok(ServerEvent { kind: ServerEventKind::Offer, of, .. }) => {
                        waiting.extend([Change::Resources, Change::Prompts].map(|change| whose(&of, change)));
                    }
                    Err(RecvError::Lagged(_)) => waiting.push_back(Change::Anything),
                    Ok(ServerEvent { kind: ServerEventKind::Updated(uri), of, .. }) => {
                        waiting.push_back(whose(&of, Change::Resource(uri.into())));
                    }
                    Ok(ServerEvent { kind: ServerEventKind::State(_), .. }) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        });
        stream::select(self.tools.changes(), of_servers.boxed()).boxed()
    }
}
