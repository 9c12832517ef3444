//! `/v1/tools`: the tools that a caller may use.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use helve::formats::{Format, export_one};
use helve::{Filter, Registered, Runtime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::extract::{Guest, Id, Params, json};
use crate::mcp::App;
use crate::problem::Problem;
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

/// Some tools.
#[derive(Serialize, JsonSchema)]
pub(super) struct ToolPage {
    /// The tools, each as the format writes one.
    tools: Vec<Value>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
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

    fn write(&self, found: &Registered, runtime: &Runtime, visitor: &Visitor) -> Value {
        match self {
            Self::Helve => document(found, runtime, visitor),
            Self::Provider(format) => export_one(&found.tool, *format, &runtime.export_options()),
        }
    }
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Params(query): Params<ToolQuery>,
) -> Result<Response<Body>, Problem> {
    let runtime = &app.api()?.runtime;
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
    Ok(json(&ToolPage { tools, next_cursor }))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Id(name): Id<String>,
) -> Result<Response<Body>, Problem> {
    let runtime = &app.api()?.runtime;
    let found = runtime.registry().get(&name).filter(|one| may_see(runtime, &visitor, one));
    found.map(|one| json(&document(&one, runtime, &visitor))).ok_or_else(Problem::not_found)
}

/// A tool as it is in this runtime: whether a person is asked here, and what it lacks.
fn document(found: &Registered, runtime: &Runtime, visitor: &Visitor) -> Value {
    let mut document = serde_json::to_value(found).unwrap_or_default();
    document["requires_approval"] = found.tool.needs_approval(runtime.settings().ask_from).into();
    let lacks = lacks(runtime, visitor, found);
    if !lacks.is_empty() {
        document["lacks"] = lacks.into();
    }
    document
}

/// The integrations that a tool needs and that are not connected. A decider looks at all tools and calls none.
fn lacks(runtime: &Runtime, visitor: &Visitor, found: &Registered) -> Vec<String> {
    match visitor {
        Visitor::Caller(caller) => runtime.lacks(caller, &found.tool).map(str::to_owned).collect(),
        Visitor::Decider(_) => Vec::new(),
    }
}

/// Whether somebody may know of a tool: callers of what they may call, deciders of everything.
fn may_see(runtime: &Runtime, visitor: &Visitor, found: &Registered) -> bool {
    match visitor {
        Visitor::Caller(caller) => runtime.may_see(caller, &found.tool),
        Visitor::Decider(_) => true,
    }
}
