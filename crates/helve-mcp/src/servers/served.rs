//! What a server has besides tools, as something that is read through the pipeline. Subscribing to
//! changes of it, and completing its arguments, tell the server an address or words as well. So they take
//! the same way under the same name: a decision about reading it holds for them too.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use helve::json::{JsonLimits, parse};
use helve::{
    Action, Asks, BoxFuture, Category, Context, ErrorCode, Handler, Implementation, Risk, Served, Source,
    Tool, ToolError,
};
use serde_json::{Map, Value, json};

use super::Servers;
use super::owners::Behalf;
use super::result::{self, bytes_of, cleaned};
use super::server::Server;
use super::tool::{RESULT, ask_for, passed_on};
use super::updates::Watching;
use crate::client::link::LinkError;
use crate::counted::Counted;
use crate::message::{Fields, Raw, RpcError, raw};
use crate::text;

/// What a server has besides tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    Resource,
    Prompt,
}

/// What a client wants of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To have it.
    Read,
    /// To have an argument of it completed.
    Complete,
}

/// What does with the pieces of a server what clients want, each made once.
#[derive(Default)]
pub(super) struct Readers {
    resource: OnceLock<Tool>,
    prompt: OnceLock<Tool>,
    completes_resource: OnceLock<Tool>,
    completes_prompt: OnceLock<Tool>,
}

impl Readers {
    fn of(&self, piece: Piece, wish: Wish) -> &OnceLock<Tool> {
        match (piece, wish) {
            (Piece::Resource, Wish::Read) => &self.resource,
            (Piece::Prompt, Wish::Read) => &self.prompt,
            (Piece::Resource, Wish::Complete) => &self.completes_resource,
            (Piece::Prompt, Wish::Complete) => &self.completes_prompt,
        }
    }
}

impl Piece {
    /// What stands behind the server's namespace in records, rules and hooks.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Resource => "resources.read",
            Self::Prompt => "prompts.get",
        }
    }

    /// How it is asked for.
    fn method(self) -> &'static str {
        match self {
            Self::Resource => "resources/read",
            Self::Prompt => "prompts/get",
        }
    }

    /// What it is called where it is completed.
    pub(crate) fn reference(self) -> &'static str {
        match self {
            Self::Resource => "ref/resource",
            Self::Prompt => "ref/prompt",
        }
    }

    /// Which parameter says which one.
    pub(crate) fn named_by(self) -> &'static str {
        match self {
            Self::Resource => "uri",
            Self::Prompt => "name",
        }
    }

    pub(crate) fn action(self) -> Action {
        match self {
            Self::Resource => Action::ReadResource,
            Self::Prompt => Action::GetPrompt,
        }
    }

    fn description(self, wish: Wish) -> &'static str {
        match (self, wish) {
            (Self::Resource, Wish::Read) => "Reads a resource of an MCP server.",
            (Self::Prompt, Wish::Read) => "Gets a prompt of an MCP server.",
            (Self::Resource | Self::Prompt, Wish::Complete) => "Has an MCP server complete an argument.",
        }
    }
}

/// A piece of a server, to be read. Whether the operator denies it is for the gateway to ask.
pub(crate) fn served(server: &Arc<Server>, piece: Piece, wish: Wish) -> Result<Served, String> {
    let kept = server.readers().of(piece, wish);
    let tool = match kept.get() {
        Some(tool) => tool.clone(),
        None => {
            let handler = Reader { server: Arc::downgrade(server), piece, wish };
            let made = tool(server, piece, piece.description(wish), Arc::new(handler))?;
            kept.get_or_init(|| made).clone()
        }
    };
    let asks = match wish {
        Wish::Read => Asks::Person,
        Wish::Complete => Asks::Nobody,
    };
    Ok(as_served(server, piece, tool, asks))
}

/// A resource of a server, to be heard of. Once the server was asked, what is watched lies in the slot.
pub(crate) fn to_watch(servers: &Servers, server: &Arc<Server>) -> Result<(Served, Slot), String> {
    let slot = Slot::default();
    let handler = Watcher { servers: servers.clone(), server: Arc::clone(server), slot: Arc::clone(&slot) };
    let description = "Asks an MCP server to tell of changes.";
    let tool = tool(server, Piece::Resource, description, Arc::new(handler))?;
    Ok((as_served(server, Piece::Resource, tool, Asks::Person), slot))
}

fn as_served(server: &Server, piece: Piece, tool: Tool, asks: Asks) -> Served {
    let (action, named_by) = (piece.action(), piece.named_by());
    Served { tool, action, server: server.name().into(), named_by, asks }
}

/// What reads the pieces of a server. The operator's rules for the server's tools hold for it as well, so
/// that it brings into a session what they would bring; only `allow` is for tools alone.
fn tool(server: &Server, piece: Piece, description: &str, handler: Arc<dyn Handler>) -> Result<Tool, String> {
    let config = server.config();
    // Without a namespace its own name says whose it is.
    let namespace = Some(config.namespace(server.name())).filter(|namespace| !namespace.is_empty());
    let name = format!("{}/{}", namespace.unwrap_or(server.name()), piece.name());
    let schema = json!({
        "type": "object",
        "properties": { piece.named_by(): { "type": "string" } },
        "required": [piece.named_by()],
    });
    let mut tool = Tool::builder(&name)
        .description(description)
        .input_schema(schema)
        .category(Category::Custom)
        .risk(config.tools.risk_of(piece.name()).unwrap_or(Risk::Low))
        .source(Source::Mcp)
        .read_only()
        .timeout(config.timeout_total())
        .shared_handler(handler);
    tool = Counted::piece(server.name(), config, server.account(), piece.name()).on(tool);
    if config.tools.asks(piece.name()) {
        tool = tool.requires_approval();
    }
    tool.build().map_err(|error| error.to_string())
}

struct Reader {
    server: Weak<Server>,
    piece: Piece,
    wish: Wish,
}

impl Handler for Reader {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let (server, piece, wish) = (self.server.upgrade(), self.piece, self.wish);
        Box::pin(async move {
            let gone = || {
                ToolError::new(ErrorCode::McpConnection, "its server is no longer configured").nothing_done()
            };
            let server = server.ok_or_else(gone)?;
            match wish {
                Wish::Read => ask(&server, piece.method(), params(&arguments), &context).await,
                Wish::Complete if !server.greeting().is_some_and(|greeting| greeting.has("completions")) => {
                    Ok(json!({ "completion": { "values": [] } }))
                }
                Wish::Complete => {
                    let params = completion(piece, arguments);
                    ask(&server, "completion/complete", params, &context).await
                }
            }
        })
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
}

/// Where what is watched is put. The last holder decides whether it lives on: a call that was
/// taken back, or failed afterwards, leaves nothing watched.
pub(crate) type Slot = Arc<Mutex<Option<Watching>>>;

/// Asks a server to tell when a resource changes.
struct Watcher {
    servers: Servers,
    server: Arc<Server>,
    slot: Slot,
}

impl Handler for Watcher {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let (servers, server, slot) =
            (self.servers.clone(), Arc::clone(&self.server), Arc::clone(&self.slot));
        Box::pin(async move {
            let uri = arguments.get(Piece::Resource.named_by()).and_then(Value::as_str).unwrap_or_default();
            let lost = |error: LinkError| {
                error.into_tool_error(server.name(), server.principal_of(context.caller()))
            };
            let watching = servers.watch(&server, uri, context.caller()).await.map_err(lost)?;
            let watching = watching.map_err(|error| said_no(&server, error, &context))?;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(watching);
            Ok(json!({}))
        })
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
}

fn params(arguments: &Value) -> Fields {
    let mut params = Fields::default();
    for (name, value) in arguments.as_object().into_iter().flatten() {
        params.set(name, raw(value));
    }
    params
}

/// What is to be completed, as the protocol says it.
fn completion(piece: Piece, mut arguments: Value) -> Fields {
    let of = arguments.as_object_mut().and_then(|fields| fields.remove(piece.named_by()));
    let mut params = params(&arguments);
    params.set("ref", raw(&json!({ "type": piece.reference(), piece.named_by(): of })));
    params
}

/// Asks the server something, and answers what it said.
async fn ask(
    server: &Arc<Server>,
    method: &'static str,
    mut params: Fields,
    context: &Context,
) -> Result<Value, ToolError> {
    let _place = server.enter().await;
    let client = context.client();
    if let Some(about) = client.and_then(|client| client.meta()).and_then(passed_on) {
        params.set("_meta", about.to_raw());
    }
    let lost = |error: LinkError| error.into_tool_error(server.name(), server.principal_of(context.caller()));
    let behalf = Behalf { caller: context.caller(), client: client.map(|client| client.id()) };
    let connection = server.connection(behalf).await.map_err(lost)?;
    let ask = ask_for(server, context, method, params);
    let answer = connection.ask(ask).await.map_err(|error| {
        // What it wants of a single caller is no matter of the account that all share.
        if server.principal_of(context.caller()).is_none() {
            server.refused(&error);
        }
        lost(error)
    })?;
    server.used();
    match answer {
        Ok(answer) => {
            let unfit = |reason: String| {
                let message = format!("MCP server `{}` answered no result: {reason}", server.name());
                ToolError::new(ErrorCode::OutputInvalid, message)
            };
            let (answer, _) = cleaned(answer, RESULT).map_err(unfit)?;
            let value = described(&answer, RESULT).map_err(unfit)?;
            context.attach(Arc::from(answer));
            Ok(value)
        }
        Err(error) => Err(said_no(server, error, context)),
    }
}

/// A server's refusal, in its own words for clients.
fn said_no(server: &Server, error: RpcError, context: &Context) -> ToolError {
    let error = cleaned_error(error);
    context.attach(Arc::from(raw(&error)));
    ToolError::failed(result::refused(&error, server.name()).message())
}

/// An answer as it is recorded and as hooks see it: what is no text is described by its size.
fn described(answer: &Raw, limits: JsonLimits) -> Result<Value, String> {
    let mut value = parse(answer.get().as_bytes(), limits).map_err(|error| error.to_string())?;
    if !value.is_object() {
        return Err("it is no object".to_owned());
    }
    let contents = value.get_mut("contents").and_then(Value::as_array_mut);
    contents.into_iter().flatten().filter_map(Value::as_object_mut).for_each(measure);
    let messages = value.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        if let Some(content) = message.get_mut("content").and_then(Value::as_object_mut) {
            measure(content);
            content.get_mut("resource").and_then(Value::as_object_mut).into_iter().for_each(measure);
        }
    }
    Ok(value)
}

fn measure(content: &mut Map<String, Value>) {
    for field in ["blob", "data"] {
        if let Some(Value::String(base64)) = content.get_mut(field) {
            *base64 = format!("[{} bytes]", bytes_of(base64));
        }
    }
}

/// A server's refusal without what only misleads.
fn cleaned_error(error: RpcError) -> RpcError {
    let message = text::clean(&error.message).text.into_owned();
    let data = error.data.and_then(|data| cleaned(data, RESULT).ok()).map(|(data, _)| data);
    RpcError { code: error.code, message, data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_recorded_by_its_size() {
        let answer = json!({
            "contents": [{ "uri": "a:b", "blob": "AAAA" }, { "uri": "c:d", "text": "words" }],
            "messages": [
                { "role": "user", "content": { "type": "image", "data": "AAAAAAAA" } },
                { "role": "user", "content": { "type": "resource", "resource": { "uri": "e:f", "blob": "AAAA" } } },
                { "role": "user", "content": "odd" },
            ],
            "_meta": { "data": "AAAA" },
        });
        let value = described(&raw(&answer), RESULT).unwrap();
        assert_eq!(value["contents"][0]["blob"], "[3 bytes]");
        assert_eq!(value["contents"][1]["text"], "words");
        assert_eq!(value["messages"][0]["content"]["data"], "[6 bytes]");
        assert_eq!(value["messages"][1]["content"]["resource"]["blob"], "[3 bytes]");
        assert_eq!(value["_meta"]["data"], "AAAA");
        assert!(described(&raw(&json!([1])), RESULT).is_err());
    }

    #[test]
    fn refusals_are_cleaned_as_results_are() {
        let error = RpcError::new(-32002, "no\u{202e} such").with_data(&json!({ "uri": "a\u{200b}b" }));
        let error = cleaned_error(error);
        assert_eq!((error.code, &*error.message), (-32002, "no such"));
        assert_eq!(error.data.unwrap().get(), r#"{"uri":"ab"}"#);
    }
}
