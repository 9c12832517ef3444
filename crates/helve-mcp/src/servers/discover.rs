//! Reads what a server offers, and decides what of it is used.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use helve::BoxFuture;
use helve::json::JsonLimits;
use helve::name::Layer;
use helve::{Annotations, Category, Registry, Risk, Source, Tool, ToolName};
use serde_json::Value;
use serde_json::value::RawValue;

use super::offer::Offer;
use super::server::Server;
use super::tool::{Remote, RemoteTool};
use crate::client::connection::Connection;
use crate::client::headers::ParamHeaders;
use crate::client::link::LinkError;
use crate::client::pages::{Bounds, Listed, all};
use crate::counted::Counted;
use crate::message::{Raw, raw};
use crate::names::{Decision, ToolNames};
use crate::pins::{PinVerdict, command_digest};
use crate::text;

/// The layer that tools of servers are in: the project's, besides those of its configuration.
pub(crate) const LAYER: Layer = Layer::Project;

/// The longest description that is taken over whole.
const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;

/// What a tool's definition may be made of.
const DEFINITION: JsonLimits = JsonLimits { bytes: 256 << 10, values: 20_000, depth: 48 };

/// How long a list may take, all of its pages.
pub(crate) const LIST_MAX: Duration = Duration::from_secs(30);
/// How long what comes besides the tools is waited for, once these are known.
const BESIDE_MAX: Duration = Duration::from_secs(3);

/// What was read.
pub(crate) struct Discovery<'a> {
    pub(crate) offer: Offer,
    pub(crate) tools: Vec<Tool>,
    /// What comes besides the tools, where it did not come with them: they do not wait for it.
    pub(crate) late: Option<BoxFuture<'a, Offer>>,
}

/// Reads all that a server offers, each list in this time.
pub(crate) async fn discover<'a>(
    server: &'a Arc<Server>,
    connection: &'a Connection,
    time: Duration,
) -> Result<Discovery<'a>, LinkError> {
    server.learn_account().await;
    let tools = Box::pin(list(server, connection, time, "tools", "tools/list", "tools"));
    let beside: BoxFuture<'a, Offer> = Box::pin(resources_and_prompts(server, connection, time));
    let (tools, offer, late) = match select(tools, beside).await {
        Either::Right((offer, tools)) => (tools.await?, offer, None),
        Either::Left((tools, mut beside)) => {
            let tools = tools?;
            match tokio::time::timeout(BESIDE_MAX, &mut beside).await {
                Ok(offer) => (tools, offer, None),
                Err(_) => (tools, Offer::default(), Some(beside)),
            }
        }
    };
    let (offer, tools) = chosen(server, tools, offer).await?;
    Ok(Discovery { offer, tools, late })
}

async fn chosen(
    server: &Arc<Server>,
    tools: Listed,
    mut offer: Offer,
) -> Result<(Offer, Vec<Tool>), LinkError> {
    offer.remarks.extend(tools.cut);
    // Thousands of schemas take their time to compile, and nobody else is to wait for it.
    let choosing = Arc::clone(server);
    let chosen = tokio::task::spawn_blocking(move || {
        let tools = choose(&choosing, tools.items, &mut offer);
        (offer, tools)
    });
    chosen.await.map_err(|_| LinkError::Protocol("its tools cannot be read".to_owned()))
}

async fn list(
    server: &Server,
    connection: &Connection,
    time: Duration,
    capability: &str,
    method: &'static str,
    key: &'static str,
) -> Result<Listed, LinkError> {
    let limits = &server.config().limits;
    let bounds = Bounds { items: limits.items, pages: limits.pages, timeout: time, ..Bounds::default() };
    match connection.greeting().has(capability) {
        true => all(connection, method, key, bounds).await,
        false => Ok(Listed::default()),
    }
}

/// Reads what a server offers besides tools.
pub(crate) async fn resources_and_prompts(server: &Server, connection: &Connection, time: Duration) -> Offer {
    let list = |capability, method, key| list(server, connection, time, capability, method, key);
    let (resources, templates, prompts) = tokio::join!(
        list("resources", "resources/list", "resources"),
        list("resources", "resources/templates/list", "resourceTemplates"),
        list("prompts", "prompts/list", "prompts"),
    );
    let mut offer = Offer::default();
    // What comes besides the tools does not keep them from being used.
    let mut beside = |listed: Result<Listed, LinkError>| match listed {
        Ok(listed) => {
            offer.remarks.extend(listed.cut);
            listed.items.into_iter().filter_map(cleaned).collect()
        }
        Err(error) => {
            offer.remarks.push(error.to_string());
            Vec::new()
        }
    };
    let (resources, templates, prompts) = (beside(resources), beside(templates), beside(prompts));
    (offer.resources, offer.templates, offer.prompts) = (resources, templates, prompts);
    offer
}

fn cleaned(item: Raw) -> Option<Arc<RawValue>> {
    let mut value: Value = serde_json::from_str(item.get()).ok()?;
    value.is_object().then_some(())?;
    let findings = text::clean_json(&mut value, DEFINITION).ok()?;
    Some(Arc::from(if findings.is_empty() { item } else { raw(&value) }))
}

/// A tool that is used.
struct Chosen {
    /// Its server's name for it.
    own: String,
    name: ToolName,
    definition: Value,
    /// The same as text.
    item: Arc<RawValue>,
}

/// Makes tools of those definitions that can be used, and says what became of the others.
fn choose(server: &Arc<Server>, items: Vec<Raw>, offer: &mut Offer) -> Vec<Tool> {
    let config = server.config();
    let mut names = ToolNames::new(config.namespace(server.name()), server.other_namespaces());
    let mut chosen: Vec<Chosen> = Vec::new();
    for item in items {
        let parsed = helve::json::parse(item.get().as_bytes(), DEFINITION);
        let mut definition = match parsed {
            Ok(definition) => definition,
            Err(error) => {
                offer.remarks.push(format!("a tool was refused: {error}"));
                continue;
            }
        };
        let Some(own) = definition.get("name").and_then(Value::as_str).map(str::to_owned) else {
            offer.remarks.push("a tool was refused: it has no name".to_owned());
            continue;
        };
        if !config.tools.admits(&own) {
            continue;
        }
        let shown = text::one_line(&own, 64);
        let name = match names.decide(&own) {
            Decision::Accepted(name) => name,
            Decision::Renamed { name, reason } => {
                offer.remarks.push(format!("`{shown}` is called `{name}` here: {reason}"));
                name
            }
            Decision::Refused { reason } => {
                offer.remarks.push(format!("a tool was refused: {reason}"));
                continue;
            }
        };
        let item = match text::clean_json(&mut definition, DEFINITION) {
            Ok(findings) if findings.is_empty() => item,
            Ok(findings) => {
                let found = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                offer.remarks.push(format!("`{shown}`: taken out of its definition: {found}"));
                raw(&definition)
            }
            Err(error) => {
                offer.remarks.push(format!("`{shown}` was refused: {error}"));
                continue;
            }
        };
        chosen.push(Chosen { own, name, definition, item: Arc::from(item) });
    }
    let blocked = pinned(server, &chosen, offer);
    let mut tools = Vec::new();
    for chosen in chosen {
        let reason = blocked.get(&chosen.own).cloned();
        let is_usable = reason.is_none();
        match build(server, &chosen, reason) {
            Ok(tool) => {
                tools.push(tool);
                if is_usable {
                    offer.tools.insert(chosen.name, chosen.item);
                }
            }
            Err(reason) => {
                offer.remarks.push(format!("`{}` was refused: {reason}", text::one_line(&chosen.own, 64)));
            }
        }
    }
    tools
}

/// Which tools are not what they were, and what to say of them.
fn pinned(server: &Arc<Server>, chosen: &[Chosen], offer: &mut Offer) -> BTreeMap<String, String> {
    let Some(pins) = server.pins() else { return BTreeMap::new() };
    let definitions: Vec<Value> = chosen.iter().map(|chosen| chosen.definition.clone()).collect();
    let digest = command_digest(server.config());
    let name = server.name();
    let sightings = match pins.observe(name, &digest, &definitions, server.config().pin) {
        Ok(sightings) => sightings,
        Err(error) => {
            // What cannot be compared is not used.
            offer.remarks.push(format!("its tools are blocked: {error}"));
            return chosen.iter().map(|chosen| (chosen.own.clone(), error.to_string())).collect();
        }
    };
    let mut blocked = BTreeMap::new();
    for sighting in sightings.iter().filter(|sighting| !sighting.usable()) {
        let own = &sighting.tool;
        let reason = match sighting.verdict {
            PinVerdict::Changed { .. } => format!(
                "the definition of `{own}` has changed since it was accepted; look at it with `helve mcp diff {name}` and accept it with `helve mcp accept {name} {own}`"
            ),
            PinVerdict::New => format!(
                "`{own}` is new and waits to be accepted; look at it with `helve mcp diff {name}` and accept it with `helve mcp accept {name} {own}`"
            ),
            PinVerdict::Same | PinVerdict::Gone => continue,
        };
        offer.remarks.push(reason.clone());
        blocked.insert(own.clone(), reason);
    }
    blocked
}

fn build(server: &Arc<Server>, chosen: &Chosen, blocked: Option<String>) -> Result<Tool, String> {
    let Chosen { own, name, definition, item } = chosen;
    let config = server.config();
    let text = |field: &str| definition.get(field).and_then(Value::as_str);
    let input = definition.get("inputSchema").filter(|schema| schema.is_object());
    let input = input.ok_or("its inputSchema is missing or no object")?;
    let headers = ParamHeaders::of(input)?;
    let annotations: Annotations = definition
        .get("annotations")
        .map(|hints| annotations(hints, text("title")))
        .unwrap_or_else(|| Annotations { title: text("title").map(str::to_owned), ..Annotations::default() });
    let risk = risk(&annotations, definition.get("annotations"));
    let risk = config.tools.risk_of(own).map_or(risk, |least| risk.max(least));
    let said = |field| text(field).filter(|words| !words.trim().is_empty());
    let description = said("description").or(said("title")).unwrap_or("(its server does not describe it)");
    let end = description.floor_char_boundary(DESCRIPTION_BYTES_MAX);
    let takes_task = definition.pointer("/execution/taskSupport").and_then(Value::as_str) == Some("required");
    let remote =
        Remote { server: Arc::downgrade(server), own: own.as_str().into(), headers, takes_task, blocked };
    if let Some(reason) = remote.blocked.clone() {
        // Nothing that its server says of it now reaches a model: that may be what changed.
        // All that is left of it is this answer, which nobody needs to be asked to approve.
        let handler = RemoteTool::new(remote, false, definition, item);
        let tool = Tool::builder(name.as_str())
            .description(format!("Blocked: {reason}"))
            .input_schema(serde_json::json!({ "type": "object" }))
            .risk(Risk::Low)
            .read_only()
            .source(Source::Mcp)
            .shared_handler(Arc::new(handler));
        return tool.build().map_err(|error| error.to_string());
    }
    let repeatable = annotations.read_only || annotations.idempotent;
    let mut tool = Tool::builder(name.as_str())
        .description(&description[..end])
        .input_schema(input.clone())
        .category(Category::Custom)
        .risk(risk)
        .source(Source::Mcp)
        .annotations(annotations)
        .timeout(config.timeout_total())
        .shared_handler(Arc::new(RemoteTool::new(remote, repeatable, definition, item)));
    if let Some(output) = definition.get("outputSchema") {
        tool = tool.output_schema(output.clone());
    }
    tool = Counted::tool(server.name(), config, server.account(), definition).on(tool);
    if config.tools.asks(own) {
        tool = tool.requires_approval();
    }
    tool.build().map_err(|error| error.to_string())
}

fn annotations(hints: &Value, title: Option<&str>) -> Annotations {
    let unsaid = Annotations::default();
    let flag = |name: &str, unsaid| hints.get(name).and_then(Value::as_bool).unwrap_or(unsaid);
    Annotations {
        title: title.or_else(|| hints.get("title").and_then(Value::as_str)).map(str::to_owned),
        read_only: flag("readOnlyHint", unsaid.read_only),
        destructive: flag("destructiveHint", unsaid.destructive),
        idempotent: flag("idempotentHint", unsaid.idempotent),
        open_world: flag("openWorldHint", unsaid.open_world),
    }
}

/// The risk that a server admits to. One that says nothing is taken to change things.
fn risk(annotations: &Annotations, hints: Option<&Value>) -> Risk {
    let admits_destruction = hints.and_then(|hints| hints.get("destructiveHint")).and_then(Value::as_bool);
    match (annotations.read_only, admits_destruction) {
        (true, _) => Risk::Low,
        (_, Some(true)) => Risk::High,
        _ => Risk::Medium,
    }
}

/// Puts the tools that were found in place of those that were there.
pub(crate) fn register(
    registry: &Registry,
    before: &[ToolName],
    tools: Vec<Tool>,
    offer: &mut Offer,
) -> Vec<ToolName> {
    let mut names: Vec<ToolName> = tools.iter().map(|tool| tool.name().clone()).collect();
    for (name, error) in registry.exchange(LAYER, before, tools) {
        offer.remarks.push(format!("`{name}` was refused: {error}"));
        offer.tools.remove(&name);
        names.retain(|other| *other != name);
    }
    names
}
