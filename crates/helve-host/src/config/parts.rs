//! What is wrong with a file. Tools, MCP servers, groups of hooks, and what has a name of the user's choice (a
//! resource, a check, an integration, a secret) stand for themselves: Helve sets a wrong one aside with its
//! mistake, and the rest of the file counts. It does the same with a table of an unknown name. Any other mistake
//! refuses the file: it could be in what makes the gate stricter.

use std::collections::BTreeMap;

use helve::json::escape_pointer;
use helve::{FieldError, Schema};
use serde_json::{Value, json};

use super::document::{Document, at};
use super::entry::TOOL_LISTS;
use super::pointer::dotted;
use super::{Origin, keys, overrides};
use crate::Remark;

/// Something wrong with a configuration file.
#[derive(Debug, Clone)]
pub struct Problem {
    pub origin: Origin,
    pub message: String,
}

impl Problem {
    pub(super) fn new(error: &FieldError, origin: Origin, schema: &Schema) -> Self {
        let key = dotted(&error.path);
        let message = match keys::unknown_key(&error.path, schema) {
            Some(unknown) => format!("`{key}` is not a key{unknown}"),
            None if error.path.is_empty() => error.message.clone(),
            None if error.expected == "array" && error.received.starts_with("object") => {
                format!("`{key}` is a list of tables: begin each with `[[{key}]]`, in two brackets")
            }
            None => format!("`{key}`: expected {}, received {}", in_toml(&error.expected), error.received),
        };
        Self { origin, message }
    }

    /// `file:line:column  what is wrong`.
    pub fn line(&self) -> String {
        format!("{}  {}", at(&self.origin), self.message)
    }
}

/// What is expected, without `null`: TOML has none, and a key that is left out says the same.
fn in_toml(expected: &str) -> String {
    let others: Vec<_> = expected.split(" or ").filter(|one| *one != "null").collect();
    if others.is_empty() { expected.to_owned() } else { others.join(" or ") }
}

/// What is wrong with the shape of a file.
#[derive(Default)]
pub(super) struct Wrong {
    /// What refuses it.
    pub(super) whole: Vec<Problem>,
    /// What is wrong with parts of it, by the pointer of the part.
    pub(super) parts: BTreeMap<String, Vec<Problem>>,
}

/// Everything wrong with the shape of one file, in its order.
pub fn problems_of(document: &Document, schema: &Schema) -> Vec<Problem> {
    let Wrong { whole, parts } = judge(document, schema);
    in_order(whole.into_iter().chain(parts.into_values().flatten()).collect())
}

/// The same, part by part.
pub(super) fn judge(document: &Document, schema: &Schema) -> Wrong {
    if schema.validate(&document.value).is_ok() {
        return Wrong::default();
    }
    let mut rest = document.value.clone();
    let parts = take_parts(&mut rest, schema);
    let errors_of = |value: &Value| schema.validate(value).err().unwrap_or_default();
    let found = |error: &FieldError| Problem::new(error, document.origin(&error.path), schema);
    let mut wrong = Wrong { whole: errors_of(&rest).iter().map(found).collect(), ..Wrong::default() };
    for part in parts {
        // Alone in its list it is the first.
        let problems = errors_of(&part.alone).into_iter().map(|mut error| {
            if let Some(below) = error.path.strip_prefix(&part.first) {
                error.path = format!("{}{below}", part.pointer);
            }
            found(&error)
        });
        let problems: Vec<_> = problems.collect();
        if !problems.is_empty() {
            wrong.parts.insert(part.pointer, in_order(problems));
        }
    }
    wrong
}

fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| match problem.origin {
        Origin::File { line, column, .. } => (line, column),
        Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => (0, 0),
    });
    problems
}

/// A part of a file.
struct Part {
    pointer: String,
    /// A file with nothing else in it.
    alone: Value,
    /// Its pointer there.
    first: String,
}

/// What holds parts by name.
const NAMED: [&str; 5] = ["/mcp/servers", "/resources", "/checks", "/integrations", "/web/secrets"];

/// Sections that only add something. Without one of the others the gate would be laxer, or less would be recorded.
const ADDING: [&str; 10] = [
    "tool",
    "openapi",
    "mcp",
    "web",
    "office",
    "telemetry",
    "integrations",
    "resources",
    "checks",
    "permissions",
];

/// Takes the parts out of a file.
fn take_parts(file: &mut Value, schema: &Schema) -> Vec<Part> {
    let mut lists = tool_lists(file);
    let events = file.get("hooks").and_then(Value::as_object).into_iter().flat_map(|hooks| hooks.keys());
    lists.extend(events.map(|event| format!("/hooks/{}", escape_pointer(event))));
    let mut parts = Vec::new();
    for list in lists {
        let Some(items) = file.pointer_mut(&list).and_then(Value::as_array_mut) else { continue };
        parts.extend(std::mem::take(items).into_iter().enumerate().map(|(index, item)| Part {
            pointer: format!("{list}/{index}"),
            alone: alone(&list, json!([item])),
            first: format!("{list}/0"),
        }));
    }
    let mut whole = |pointer: String, value: Value| {
        parts.push(Part { alone: alone(&pointer, value), first: pointer.clone(), pointer });
    };
    // A list that is written as a table is one broken tool.
    for list in tool_lists(file) {
        if let Some(table) = take_if(file, &list, |value| !value.is_array()) {
            whole(list, table);
        }
    }
    for holder in NAMED {
        let Some(named) = file.pointer_mut(holder).and_then(Value::as_object_mut) else { continue };
        for (name, one) in std::mem::take(named) {
            whole(format!("{holder}/{}", escape_pointer(&name)), one);
        }
    }
    // What is left of a sort of tool that there is not: nothing.
    for list in tool_lists(file).iter().filter(|list| TOOL_LISTS.iter().all(|(known, _)| known != *list)) {
        take_if(file, list, |_| true);
    }
    for pointer in unlike_any(file, schema) {
        if let Some(value) = take_if(file, &pointer, |_| true) {
            whole(pointer, value);
        }
    }
    parts
}

/// The lists of tools in a file, also those of a sort that there is not.
pub(super) fn tool_lists(file: &Value) -> Vec<String> {
    let mut lists: Vec<_> = TOOL_LISTS.iter().map(|(list, _)| (*list).to_owned()).collect();
    let sorts = file.get("tool").and_then(Value::as_object).into_iter().flat_map(|tool| tool.keys());
    let unknown = sorts.map(|sort| format!("/tool/{}", escape_pointer(sort)));
    lists
        .extend(unknown.filter(|list| TOOL_LISTS.iter().all(|(known, _)| known != list)).collect::<Vec<_>>());
    lists
}

/// Longest name of a table that is only left out.
const TABLE_NAME_BYTES_MAX: usize = 100;

/// The tables of a file whose names are like nothing that makes Helve stricter.
fn unlike_any(file: &Value, schema: &Schema) -> Vec<String> {
    let is_table = |value: &Value| match value {
        Value::Object(_) => true,
        Value::Array(items) => items.iter().all(Value::is_object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    let fields = file.as_object().into_iter().flatten();
    let is_named = |name: &str| name.len() <= TABLE_NAME_BYTES_MAX;
    let names = fields.filter(|(name, value)| is_named(name) && is_table(value)).map(|(name, _)| name);
    let is_unlike = |pointer: &String| match keys::unknown_key(pointer, schema) {
        Some(keys::Unknown { meant: Some(meant), .. }) => ADDING.contains(&meant.as_str()),
        Some(keys::Unknown { meant: None, .. }) => true,
        None => false,
    };
    names.map(|name| format!("/{}", escape_pointer(name))).filter(is_unlike).collect()
}

/// Takes a value out of a file, where it is there and of this sort.
fn take_if(file: &mut Value, pointer: &str, is_wanted: impl Fn(&Value) -> bool) -> Option<Value> {
    let (parent, key) = pointer.rsplit_once('/')?;
    let fields = file.pointer_mut(parent)?.as_object_mut()?;
    let key = key.replace("~1", "/").replace("~0", "~");
    if fields.get(&key).is_some_and(is_wanted) { fields.remove(&key) } else { None }
}

fn alone(pointer: &str, value: Value) -> Value {
    let mut file = json!({});
    overrides::put(&mut file, pointer, value);
    file
}

/// That parts do not count which nobody else speaks of: tools, hooks and servers have places of their own.
pub(super) fn set_aside(wrong: &BTreeMap<String, Vec<Problem>>) -> impl Iterator<Item = Remark> {
    let is_told_elsewhere = |pointer: &str| {
        super::entry::is_tool_list(pointer)
            || ["/hooks", "/mcp/servers"].iter().any(|at| is_below(pointer, at))
    };
    wrong.iter().filter(move |(pointer, _)| !is_told_elsewhere(pointer)).map(|(pointer, problems)| Remark {
        found: format!(
            "`{}` is left out, because it is wrong: {}",
            dotted(pointer),
            problems.iter().map(Problem::line).collect::<Vec<_>>().join("; ")
        ),
        fix: "the rest counts; `helve config keys` lists every key".to_owned(),
    })
}

/// Whether a pointer leads to a part, or into it.
pub(super) fn is_below(pointer: &str, part: &str) -> bool {
    pointer.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where an MCP server of this name stands in a file.
pub(super) fn server_pointer(name: &str) -> String {
    format!("/mcp/servers/{}", escape_pointer(name))
}
