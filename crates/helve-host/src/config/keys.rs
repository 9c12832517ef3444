//! Every key there is, from the doc comments of the types.

use helve::Schema;
use serde::Serialize;
use serde_json::Value;

/// How far below a section keys are listed. Some types nest without end.
const DEPTH_MAX: usize = 1;

/// One key, documented.
#[derive(Debug, Clone, Serialize)]
pub struct Key {
    /// With `NAME` for a name of your choice and `[]` for an item of a list.
    pub key: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    pub required: bool,
    pub description: String,
}

/// One section: a table of the file, with its keys.
#[derive(Debug, Clone, Serialize)]
pub struct Section {
    /// As it stands in the file: `[execution]`, `[[tool.http]]`.
    pub header: String,
    pub description: String,
    pub keys: Vec<Key>,
}

/// Every section, in the order of the types.
pub fn sections() -> Vec<Section> {
    let schema = super::schema::compiled();
    let mut sections = Vec::new();
    for name in SECTIONS {
        let pointer = format!("/{}", name.replace('.', "/"));
        let item = format!("{pointer}/0");
        let named = format!("{pointer}/NAME");
        let (header, at, prefix) = if is(&schema, &pointer, "array") {
            (format!("[[{name}]]"), item, format!("{name}[]"))
        } else if !properties(&schema, &format!("{named}/0")).is_empty() {
            (format!("[[{name}.NAME]]"), format!("{named}/0"), format!("{name}.NAME[]"))
        } else if properties(&schema, &pointer).is_empty() {
            (format!("[{name}.NAME]"), named, format!("{name}.NAME"))
        } else {
            (format!("[{name}]"), pointer.clone(), (*name).to_owned())
        };
        let mut keys = Vec::new();
        collect(&schema, &at, &prefix, 0, &mut keys);
        let description = description(&schema, &pointer);
        // Names of your choice with values instead of tables.
        let header = if keys.is_empty() {
            keys.push(Key {
                kind: kind(&schema, &at),
                default: None,
                required: false,
                description: PERMISSION.to_owned(),
                key: prefix,
            });
            format!("[{name}]")
        } else {
            header
        };
        sections.push(Section { header, description, keys });
    }
    sections
}

/// What stands under `[permissions]`, where keys are names and have no comment of their own.
const PERMISSION: &str = "What a principal may do, as in `browser:automate`, with `*` for any text as in `browser:*`. \
                          Those of the principal `*` are everybody's.";

/// The tables of the file, in reading order; a test compares them with the types.
const SECTIONS: &[&str] = &[
    "execution",
    "registry",
    "limits",
    "breaker",
    "retry_budget",
    "repair",
    "journal",
    "store",
    "redact",
    "security",
    "policy",
    "rules",
    "labels",
    "identity.jwt",
    "approvals",
    "telemetry",
    "net",
    "sandbox",
    "code",
    "builtin",
    "files",
    "web.search",
    "web.scrape",
    "web.http",
    "web.secrets",
    "office",
    "hooks",
    "mcp.servers",
    "integrations",
    "resources",
    "checks",
    "permissions",
    "tool.http",
    "tool.program",
    "tool.sequence",
    "tool.parallel",
    "tool.conditional",
    "tool.map",
    "openapi",
];

fn collect(schema: &Schema, at: &str, prefix: &str, depth: usize, keys: &mut Vec<Key>) {
    for name in properties(schema, at) {
        let pointer = format!("{at}/{}", helve::json::escape_pointer(&name));
        let key = format!("{prefix}.{name}");
        keys.push(Key {
            kind: kind(schema, &pointer),
            default: first(schema, &pointer, "default").cloned().filter(|value| !is_empty(value)),
            required: is_required(schema, at, &name),
            description: description_of(schema, at, &name, &pointer),
            key: key.clone(),
        });
        if depth < DEPTH_MAX {
            collect(schema, &pointer, &key, depth + 1, keys);
            collect(schema, &format!("{pointer}/0"), &format!("{key}[]"), depth + 1, keys);
        }
    }
}

/// What a key does. Of one that makes an alternative, as `json`, `form` and `text` do in a body,
/// the alternative is documented; of one that tells alternatives apart, nothing.
fn description_of(schema: &Schema, at: &str, name: &str, pointer: &str) -> String {
    let own = description(schema, pointer);
    let nodes = schema.at(at);
    let forms: Vec<_> = nodes
        .iter()
        .filter(|node| node.get("properties").is_some_and(|fields| fields.get(name).is_some()))
        .collect();
    let tells_apart = forms.iter().any(|form| form["properties"][name].get("const").is_some());
    match forms.as_slice() {
        _ if tells_apart => "Which sort it is.".to_owned(),
        [form] if own.is_empty() => {
            one_line(form.get("description").and_then(Value::as_str).unwrap_or_default())
        }
        _ => own,
    }
}

/// What other tools call a key of ours, and which it is.
const ELSEWHERE_CALLED: [(&str, &str); 8] = [
    ("base_url", "server"),
    ("baseUrl", "server"),
    ("servers", "server"),
    ("host", "server"),
    ("spec", "document"),
    ("schema", "document"),
    ("file", "document"),
    ("path", "document"),
];

/// A key that there is not.
pub(super) struct Unknown {
    /// What was probably meant.
    pub(super) meant: Option<String>,
    /// What there is in its place.
    known: Vec<String>,
}

impl std::fmt::Display for Unknown {
    /// As a hint after the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.meant {
            Some(meant) => write!(f, "; did you mean `{meant}`?"),
            None => write!(f, "; known here: {}", self.known.join(", ")),
        }
    }
}

/// If the last step of `pointer` is no key of the object around it: what was meant.
pub(super) fn unknown_key(pointer: &str, schema: &Schema) -> Option<Unknown> {
    let (parent, key) = pointer.rsplit_once('/')?;
    let known = properties(schema, parent);
    if known.is_empty() || known.iter().any(|name| name == key) {
        return None;
    }
    let called =
        ELSEWHERE_CALLED.iter().find(|(other, own)| *other == key && known.iter().any(|one| one == own));
    let nearest = || crate::suggest::nearest(key, known.iter().map(String::as_str)).map(str::to_owned);
    let here = called.map(|(_, own)| (*own).to_owned()).or_else(nearest);
    let elsewhere = || {
        let all = sections().into_iter().flat_map(|section| section.keys).map(|key| key.key);
        all.filter(|path| !path.contains("[]")).find(|path| path.rsplit('.').next() == Some(key))
    };
    let meant = here.or_else(elsewhere);
    Some(Unknown { meant, known })
}

fn properties(schema: &Schema, pointer: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for node in schema.at(pointer) {
        for name in node.get("properties").and_then(Value::as_object).into_iter().flat_map(|map| map.keys()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}

/// Whether an object needs a key in each of its forms.
fn is_required(schema: &Schema, pointer: &str, name: &str) -> bool {
    let forms: Vec<_> =
        schema.at(pointer).into_iter().filter(|node| node.get("properties").is_some()).collect();
    let needs = |form: &&Value| {
        form.get("required")
            .and_then(Value::as_array)
            .is_some_and(|names| names.iter().any(|one| one == name))
    };
    !forms.is_empty() && forms.iter().all(needs)
}

fn first<'s>(schema: &'s Schema, pointer: &str, keyword: &str) -> Option<&'s Value> {
    schema.at(pointer).into_iter().find_map(|node| node.get(keyword))
}

fn description(schema: &Schema, pointer: &str) -> String {
    one_line(first(schema, pointer, "description").and_then(Value::as_str).unwrap_or_default())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is(schema: &Schema, pointer: &str, name: &str) -> bool {
    schema.at(pointer).into_iter().any(|node| node.get("type").is_some_and(|kind| kind == name))
}

/// The types that a value may have, or the words it may be.
fn kind(schema: &Schema, pointer: &str) -> String {
    let mut kinds: Vec<String> = Vec::new();
    let mut add = |text: String| {
        if text != "null" && !kinds.contains(&text) {
            kinds.push(text);
        }
    };
    for node in schema.at(pointer) {
        if let Some(word) = node.get("const") {
            add(word.to_string());
            continue;
        }
        if let Some(words) = node.get("enum").and_then(Value::as_array) {
            words.iter().for_each(|word| add(word.to_string()));
            continue;
        }
        match node.get("type") {
            Some(Value::String(name)) => add(plain(name)),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).for_each(|name| add(plain(name)))
            }
            _ => {}
        }
    }
    if kinds.iter().any(|kind| kind.starts_with('"')) {
        kinds.retain(|kind| kind != "text");
    }
    if kinds.is_empty() { "any".to_owned() } else { kinds.join(" or ") }
}

fn plain(name: &str) -> String {
    match name {
        "string" => "text",
        "object" => "table",
        "array" => "list",
        other => other,
    }
    .to_owned()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_the_types_is_a_section_and_every_key_is_documented() {
        let schema = crate::config::schema::compiled();
        let mut tables: Vec<String> = properties(&schema, "")
            .into_iter()
            .flat_map(|name| match name.as_str() {
                "tool" | "web" | "mcp" | "identity" => {
                    let parts = properties(&schema, &format!("/{name}"));
                    parts.iter().map(|part| format!("{name}.{part}")).collect()
                }
                _ => vec![name],
            })
            .collect();
        let mut listed: Vec<_> = SECTIONS.iter().map(|name| (*name).to_owned()).collect();
        tables.sort();
        listed.sort();
        assert_eq!(tables, listed);
        for section in sections() {
            assert!(!section.description.is_empty(), "{} has no description", section.header);
            for key in section.keys {
                assert!(!key.description.is_empty(), "{} has no description", key.key);
            }
        }
    }
}
