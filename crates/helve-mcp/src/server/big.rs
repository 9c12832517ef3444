//! Registries with more tools than a model should read: three tools that find, describe and call
//! the others.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::backend::{Definitions, Kind, ToolCall, Visitor};
use super::dispatch::arguments;
use super::session::Session;
use crate::message::{Raw, RpcError, raw};

const SEARCH: &str = "search_tools";
const DESCRIBE: &str = "describe_tool";
const CALL: &str = "call_tool";

const HITS_DEFAULT: usize = 10;
const HITS_MAX: usize = 50;
/// Most groups that a client can ask for.
const GROUPS_MAX: usize = 64;

/// What the list shows instead of everything: the three tools, and the groups asked for.
pub(super) fn shortened(entries: &Definitions, groups: &[String]) -> Definitions {
    let prefixes: Vec<String> =
        groups.iter().take(GROUPS_MAX).map(|group| format!("{}__", group.replace('/', "__"))).collect();
    let wanted = |entry: &&Arc<RawValue>| {
        let name = name_of(entry);
        prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
    };
    let own = definitions(entries.len());
    own.into_iter().chain(entries.iter().filter(wanted).cloned()).collect()
}

/// What became of a call to one of the three.
pub(super) enum Unpacked {
    /// It is answered.
    Answer(Arc<RawValue>),
    /// The call is now one to another tool.
    Call,
}

/// Answers a call to one of the three, or makes it a call to the tool that it names. None where it
/// is none of them, or where all tools are listed.
pub(super) async fn unpack(
    session: &Arc<Session>,
    visitor: &Visitor,
    call: &mut ToolCall,
) -> Result<Option<Unpacked>, RpcError> {
    if ![SEARCH, DESCRIBE, CALL].contains(&call.name.as_str()) {
        return Ok(None);
    }
    let backend = &session.shared.backend;
    let entries = Arc::clone(backend).list(Kind::Tools, visitor.clone()).await?;
    if entries.len() <= session.shared.options.list_max {
        return Ok(None);
    }
    let text = |field: &str| call.arguments[field].as_str().unwrap_or_default().to_owned();
    match call.name.as_str() {
        SEARCH => {
            let limit = call.arguments["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok());
            let found = search(&entries, &text("query"), limit.unwrap_or(HITS_DEFAULT).min(HITS_MAX));
            Ok(Some(Unpacked::Answer(found)))
        }
        DESCRIBE => {
            let name = text("name");
            let Some(entry) = entries.iter().find(|entry| name_of(entry) == name) else {
                return Ok(Some(Unpacked::Answer(failure(&no_such(&name)))));
            };
            let answer = json!({ "content": [{ "type": "text", "text": entry.get() }], "isError": false });
            Ok(Some(Unpacked::Answer(raw(&answer).into())))
        }
        _ => {
            let name = text("name");
            if !entries.iter().any(|entry| name_of(entry) == name) {
                return Ok(Some(Unpacked::Answer(failure(&no_such(&name)))));
            }
            let inner = match call.arguments.get_mut("arguments").map(Value::take) {
                None | Some(Value::Null) => arguments(None)?,
                Some(inner) => inner,
            };
            *call = ToolCall { found: backend.find_tool(&name), name, arguments: inner };
            Ok(Some(Unpacked::Call))
        }
    }
}

fn no_such(name: &str) -> String {
    let name: String = name.chars().take(128).collect();
    format!("no tool named `{name}`; find one with `{SEARCH}`")
}

fn failure(message: &str) -> Arc<RawValue> {
    raw(&json!({ "content": [{ "type": "text", "text": message }], "isError": true })).into()
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    name: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    description: std::borrow::Cow<'a, str>,
}

fn name_of(entry: &RawValue) -> String {
    serde_json::from_str::<Head<'_>>(entry.get()).map(|head| head.name.into_owned()).unwrap_or_default()
}

/// The tools with most of the words in name and description; the name counts for more.
fn search(entries: &Definitions, query: &str, limit: usize) -> Arc<RawValue> {
    let words: Vec<String> = query.split_whitespace().take(16).map(str::to_lowercase).collect();
    let mut hits: Vec<(usize, String, String)> = entries
        .iter()
        .filter_map(|entry| serde_json::from_str::<Head<'_>>(entry.get()).ok())
        .filter_map(|head| {
            let (name, description) = (head.name.to_lowercase(), head.description.to_lowercase());
            let score: usize = words
                .iter()
                .map(|word| usize::from(name.contains(word)) * 3 + usize::from(description.contains(word)))
                .sum();
            (score > 0 || words.is_empty())
                .then(|| (score, head.name.into_owned(), head.description.chars().take(300).collect()))
        })
        .collect();
    hits.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let found: Vec<Value> = hits
        .into_iter()
        .take(limit)
        .map(|(_, name, description)| json!({ "name": name, "description": description }))
        .collect();
    let text = if found.is_empty() {
        "No tool fits; try other words.".to_owned()
    } else {
        Value::from(found.clone()).to_string()
    };
    raw(&json!({
        "content": [{ "type": "text", "text": text }],
        "structuredContent": { "tools": found },
        "isError": false,
    }))
    .into()
}

fn definitions(count: usize) -> Vec<Arc<RawValue>> {
    let read_only = json!({ "readOnlyHint": true, "openWorldHint": false });
    let entries: [Raw; 3] = [
        raw(&json!({
            "name": SEARCH,
            "description": format!(
                "Finds tools by words. There are {count} tools here, too many to list; search, look at one with `{DESCRIBE}`, then run it with `{CALL}`."
            ),
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": { "type": "string", "description": "What the tool should do." },
                    "limit": { "type": "integer", "minimum": 1, "maximum": HITS_MAX, "default": HITS_DEFAULT },
                },
                "required": ["query"],
            },
            "annotations": read_only,
        })),
        raw(&json!({
            "name": DESCRIBE,
            "description": "Shows what a tool does and which arguments it takes.",
            "inputSchema": {
                "type": "object",
                "properties": { "name": { "type": "string", "description": "The tool's name." } },
                "required": ["name"],
            },
            "annotations": read_only,
        })),
        raw(&json!({
            "name": CALL,
            "description": "Runs a tool, as if it had been called by its name.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "name": { "type": "string", "description": "The tool's name." },
                    "arguments": { "type": "object", "description": "Its arguments." },
                },
                "required": ["name"],
            },
        })),
    ];
    entries.into_iter().map(Arc::from).collect()
}
