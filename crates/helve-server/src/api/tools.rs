//! `/v1/tools`: the tools that a caller may use.

use std::sync::Arc;

use axum::extract::State;
use helve::formats::{Format, export_one};
use helve::{Filter, Registered, Runtime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::extract::{Guest, Id, Json, Params};
use crate::problem::Problem;
use crate::state::ServerState;
use crate::visitor::Visitor;

/// Most tools on one page.
const PAGE_MAX: usize = 1_000;
const PAGE: usize = 200;
/// How many hits of a search are looked at.
const SEARCH_MAX: usize = 1_000;

/// Which tools, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolQuery {
    /// `helve`, `anthropic`, `openai` (or `openai-responses`), `openai-chat`, `gemini`, `mcp` or `llm`.
    #[schemars(extend("enum" = [
        "helve", "anthropic", "openai", "openai-responses", "openai-chat", "gemini", "mcp", "llm", null,
    ]))]
    format: Option<String>,
    /// `true`: also tools that need an integration which is not connected. `lacks` says which.
    #[serde(default)]
    unavailable: bool,
    /// Words that tell what is wanted: the best come first.
    query: Option<String>,
    /// Only tools in this namespace, or below it.
    namespace: Option<String>,
    /// Most tools to return; at most 1,000.
    limit: Option<usize>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// A page of the list of tools.
#[derive(Serialize, JsonSchema)]
pub(super) struct ToolPage {
    /// The tools, each as the format writes one.
    tools: Vec<ToolEntry>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A tool as one of the formats writes it.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum ToolEntry {
    /// `helve`: everything that is known of it.
    Helve(Box<ToolDocument>),
    /// As a model provider wants it in a request.
    Provider(#[schemars(with = "Map<String, Value>")] Value),
}

/// Everything that is known of a tool, as it is in this runtime.
#[derive(Serialize, JsonSchema)]
pub(super) struct ToolDocument {
    #[serde(flatten)]
    #[schemars(with = "Registered")]
    registered: Map<String, Value>,
    /// The integrations that it needs and that are not connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lacks: Vec<String>,
}

/// How tools are written.
enum Form {
    Helve,
    Provider(Format),
}

impl Form {
    fn parse(text: Option<&str>) -> Result<Self, Problem> {
        match text {
            None | Some("helve") => Ok(Self::Helve),
            Some("openai-responses") => Ok(Self::Provider(Format::OpenAi)),
            Some(other) => other
                .parse()
                .map(Self::Provider)
                .map_err(|error: helve::formats::UnknownFormat| Problem::bad(format!("{error}; or `helve`"))),
        }
    }

    fn write(&self, found: &Registered, runtime: &Runtime, visitor: &Visitor) -> ToolEntry {
        match self {
            Self::Helve => ToolEntry::Helve(Box::new(document(found, runtime, visitor))),
            Self::Provider(format) => {
                ToolEntry::Provider(export_one(&found.tool, *format, &runtime.export_options()))
            }
        }
    }
}

pub(super) async fn list(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Params(query): Params<ToolQuery>,
) -> Result<Json<ToolPage>, Problem> {
    let runtime = &server.api()?.runtime;
    let registry = runtime.registry();
    let form = Form::parse(query.format.as_deref())?;
    let limit = query.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let filter = Filter { namespace: query.namespace, ..Filter::default() };
    let mut found: Vec<Registered> = match query.query.as_deref().filter(|words| !words.trim().is_empty()) {
        None => registry.list(&filter),
        Some(words) => {
            let fitting = registry.list(&filter);
            let is_fitting = |one: &Registered| fitting.iter().any(|other| other.name() == one.name());
            let hits = registry.search(words, SEARCH_MAX).into_iter().map(|hit| hit.registered);
            hits.filter(|one| filter.namespace.is_none() || is_fitting(one)).collect()
        }
    };
    found.retain(|one| {
        may_see(runtime, &visitor, one) && (query.unavailable || lacks(runtime, &visitor, one).is_empty())
    });
    let from = match &query.cursor {
        None => 0,
        // Behind the tool that the page before ended with, wherever that stands by now.
        Some(last) => {
            found.iter().position(|one| one.name().as_str() == last).map_or(found.len(), |at| at + 1)
        }
    };
    let page: Vec<_> = found.iter().skip(from).take(limit).collect();
    let more = from + page.len() < found.len();
    let next_cursor = page.last().filter(|_| more).map(|one| one.name().to_string());
    let tools = page.into_iter().map(|one| form.write(one, runtime, &visitor)).collect();
    Ok(Json(ToolPage { tools, next_cursor }))
}

pub(super) async fn show(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Id(name): Id<String>,
) -> Result<Json<ToolDocument>, Problem> {
    let runtime = &server.api()?.runtime;
    let found = runtime.registry().get(&name).filter(|one| may_see(runtime, &visitor, one));
    found.map(|one| Json(document(&one, runtime, &visitor))).ok_or_else(Problem::not_found)
}

/// A tool as it is in this runtime: whether a person is asked here, and what it lacks.
fn document(found: &Registered, runtime: &Runtime, visitor: &Visitor) -> ToolDocument {
    let mut registered = match serde_json::to_value(found) {
        Ok(Value::Object(registered)) => registered,
        Ok(_) | Err(_) => Map::new(),
    };
    let asks = found.tool.needs_approval(runtime.settings().ask_from);
    registered.insert("requires_approval".to_owned(), asks.into());
    ToolDocument { registered, lacks: lacks(runtime, visitor, found) }
}

/// The integrations that a tool needs and that are not connected. A decider looks at all tools and calls none.
fn lacks(runtime: &Runtime, visitor: &Visitor, found: &Registered) -> Vec<String> {
    match visitor {
        Visitor::Caller(caller) => runtime.lacks(caller, &found.tool).map(str::to_owned).collect(),
        Visitor::Decider(_) => Vec::new(),
    }
}

/// Whether a client may know of a tool: callers of what they may call, deciders of everything.
fn may_see(runtime: &Runtime, visitor: &Visitor, found: &Registered) -> bool {
    match visitor {
        Visitor::Caller(caller) => runtime.may_see(caller, &found.tool),
        Visitor::Decider(_) => true,
    }
}
