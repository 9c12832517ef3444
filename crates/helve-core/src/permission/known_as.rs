//! The names that rules and hooks may use for a tool.

use crate::definition::Source;
use crate::tool::Tool;

/// What Claude Code calls the tools that ship with Helve.
const CLAUDE_NAMES: [(&str, &str); 10] = [
    ("Bash", "code-execute"),
    ("Read", "file-read"),
    ("Write", "file-write"),
    ("Edit", "file-edit"),
    ("MultiEdit", "file-edit"),
    ("Grep", "file-search"),
    ("Glob", "file-list"),
    ("LS", "file-list"),
    ("WebFetch", "web-scrape"),
    ("WebSearch", "web-search"),
];

/// Every name by which a rule or a hook may mean this tool: its own, that of providers, its aliases,
/// `mcp__server__tool` where a server offers it, and what Claude Code calls it.
///
/// ```
/// use helve_core::permission::known_as;
/// # use helve_core::{Context, Tool, ToolError};
/// # use serde_json::Value;
/// let tool = Tool::builder("mail/send").description("Sends.").handler(
///     async |arguments: Value, _: Context| Ok::<_, ToolError>(arguments)).build().unwrap();
/// assert!(known_as(&tool).contains(&"mail__send".into()));
/// ```
pub fn known_as(tool: &Tool) -> Vec<String> {
    let definition = tool.definition();
    let name = definition.name.as_str();
    let mut names = vec![name.to_owned()];
    let mut add = |other: String| {
        if !names.contains(&other) {
            names.push(other);
        }
    };
    add(tool.provider_name().to_owned());
    definition.aliases.iter().for_each(|alias| add(alias.clone()));
    match definition.source {
        Source::Mcp => {
            if let Some((server, tool)) = name.split_once('/') {
                add(format!("mcp__{server}__{tool}"));
            }
        }
        Source::Builtin => {
            for (theirs, ours) in CLAUDE_NAMES {
                if ours == name {
                    add(theirs.to_owned());
                }
            }
        }
        Source::Function | Source::Plugin => {}
    }
    names
}
