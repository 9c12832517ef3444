//! What is wrong with a file. Tools, MCP servers and groups of hooks stand for themselves: a wrong one is
//! set aside with what is wrong, and the rest of the file counts. Whatever else is wrong refuses the file.

use std::collections::BTreeMap;

use helve::json::escape_pointer;
use helve::{FieldError, Schema};
use serde_json::{Value, json};

use super::document::{Document, at};
use super::entry::TOOL_LISTS;
use super::pointer::dotted;
use super::{Origin, keys, overrides};

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
            Some(hint) => format!("`{key}` is not a key{hint}"),
            None if error.path.is_empty() => error.message.clone(),
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
    let parts = take_parts(&mut rest);
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

/// Takes the parts out of a file.
fn take_parts(file: &mut Value) -> Vec<Part> {
    let mut lists: Vec<_> = TOOL_LISTS.iter().map(|(list, _)| (*list).to_owned()).collect();
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
    if let Some(servers) = file.pointer_mut("/mcp/servers").and_then(Value::as_object_mut) {
        parts.extend(std::mem::take(servers).into_iter().map(|(name, server)| {
            let pointer = server_pointer(&name);
            Part { alone: alone(&pointer, server), first: pointer.clone(), pointer }
        }));
    }
    parts
}

fn alone(pointer: &str, value: Value) -> Value {
    let mut file = json!({});
    overrides::put(&mut file, pointer, value);
    file
}

/// Whether a pointer leads to a part, or into it.
pub(super) fn is_below(pointer: &str, part: &str) -> bool {
    pointer.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where an MCP server of this name stands in a file.
pub(super) fn server_pointer(name: &str) -> String {
    format!("/mcp/servers/{}", escape_pointer(name))
}
