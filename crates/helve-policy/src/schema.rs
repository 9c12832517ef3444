//! The Cedar schema of a set of tools: what policies are checked against.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use helve_core::Tool;

use crate::arguments::{Field, Shape, shape_of};
use crate::entities::CALL;

/// What holds whatever tools there are.
const BASE: &str = r#"// Who asks. A caller without a name is User::"" and anonymous.
entity Role;
entity User, Agent, Service in [Role] = {
  roles: Set<String>,
  anonymous: Bool,
  agent?: String,
};

// What is asked about.
entity Namespace in [Namespace];
entity Tool in [Namespace] = {
  risk: String,        // low, medium, high, critical
  risk_level: Long,    // 0, 1, 2, 3
  category: String,
  source: String,      // builtin, mcp, function, plugin
  namespace: String,   // "" where there is none
  read_only: Bool,
  destructive: Bool,
  idempotent: Bool,
  open_world: Bool,
  facets: Set<String>, // reads_untrusted, reads_private, egress, mutates
};
entity Served = { server: String, name: String };
entity Runtime;

// What is known of every request.
type Circumstances = {
  approved: Bool,      // a person said yes to this very call
  labels: Set<String>, // untrusted, private, secret
  channel: String,     // rust, cli, stdio, http
  now: Long,           // seconds since 1970
  session?: String,
};

action list appliesTo {
  principal: [User, Agent, Service], resource: [Tool], context: Circumstances
};
action read_resource, get_prompt appliesTo {
  principal: [User, Agent, Service], resource: [Served], context: Circumstances
};
action approve, inspect appliesTo {
  principal: [User, Agent, Service], resource: [Runtime, Tool], context: Circumstances
};
action administer appliesTo {
  principal: [User, Agent, Service], resource: [Runtime], context: Circumstances
};

// Every call of a tool is in this one: action in Action::"call"
action call;
"#;

/// The Cedar schema of a set of tools, to read or to give to other tools for Cedar.
///
/// ```
/// let text = helve_policy::schema(&[]);
/// assert!(text.contains("entity Tool in [Namespace]"));
/// ```
pub fn schema(tools: &[Tool]) -> String {
    let shapes: BTreeMap<_, _> = tools.iter().map(|tool| (tool.name().as_str(), shape_of(tool))).collect();
    let mut text = BASE.to_owned();
    for (name, shape) in &shapes {
        text.push('\n');
        add_call(&mut text, name, shape);
    }
    text
}

/// A name that no tool has, for calls of tools that have none of the arguments that are looked at.
pub(crate) const ANY_TOOL: &str = "*";

/// The schema that policies are checked against: calls of these tools, and of any other.
pub(crate) fn for_checking<'t>(tools: impl IntoIterator<Item = &'t Tool>) -> String {
    let mut text = BASE.to_owned();
    add_call(&mut text, ANY_TOOL, &BTreeMap::new());
    for tool in tools {
        add_call(&mut text, tool.name().as_str(), &shape_of(tool));
    }
    text
}

/// The action of calling a tool that is not here yet. Nothing is known of its arguments.
pub(crate) fn add_unknown(text: &mut String, name: &str) {
    add_call(text, name, &BTreeMap::new());
}

/// The action of calling a tool that is not here, in name only: Cedar checks nothing that happens in it.
pub(crate) fn add_absent(text: &mut String, name: &str) {
    if name != ANY_TOOL {
        let _ = writeln!(text, "action {} in [call];", quoted(&format!("{CALL}{name}")));
    }
}

fn add_call(text: &mut String, name: &str, fields: &BTreeMap<String, Field>) {
    let _ = write!(
        text,
        "action {} in [call] appliesTo {{\n  principal: [User, Agent, Service], resource: [Tool],\n  context: {{\n    \
         approved: Bool, labels: Set<String>, channel: String, now: Long, session?: String,\n    arguments: ",
        quoted(&format!("{CALL}{name}"))
    );
    add_record(text, fields, 4);
    text.push_str(",\n  }\n};\n");
}

fn add_record(text: &mut String, fields: &BTreeMap<String, Field>, indent: usize) {
    let seen: Vec<_> = fields.iter().filter(|(_, field)| field.shape != Shape::Hidden).collect();
    if seen.is_empty() {
        text.push_str("{}");
        return;
    }
    text.push_str("{\n");
    for (key, field) in seen {
        let _ = write!(text, "{:indent$}  {}{}: ", "", key_of(key), if field.required { "" } else { "?" });
        add_shape(text, &field.shape, indent + 2);
        text.push_str(",\n");
    }
    let _ = write!(text, "{:indent$}}}", "");
}

fn add_shape(text: &mut String, shape: &Shape, indent: usize) {
    match shape {
        Shape::Text => text.push_str("String"),
        Shape::Long => text.push_str("Long"),
        Shape::Bool => text.push_str("Bool"),
        Shape::Set(items) => {
            text.push_str("Set<");
            add_shape(text, items, indent);
            text.push('>');
        }
        Shape::Record(fields) => add_record(text, fields, indent),
        Shape::Hidden => {
            unreachable!("a record leaves hidden fields out, and a set with hidden items is hidden")
        }
    }
}

/// A key of a record: bare where that reads well.
fn key_of(key: &str) -> String {
    const WORDS: &[&str] = &["true", "false", "if", "then", "else", "in", "is", "like", "has", "__cedar"];
    let plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain && !WORDS.contains(&key) { key.to_owned() } else { quoted(key) }
}

pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}
