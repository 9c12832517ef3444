//! The names that rules and hooks may use for a tool.

use crate::definition::Source;
use crate::tool::Tool;

/// What Claude Code calls a tool that does the same as one of ours, and its fields that are called
/// otherwise.
#[derive(Debug)]
#[non_exhaustive]
pub struct Counterpart {
    /// The full name of our tool.
    pub tool: &'static str,
    /// Their names for it.
    pub names: &'static [&'static str],
    /// Our name of a field, and theirs.
    pub fields: &'static [(&'static str, &'static str)],
}

/// The tools that ship with Helve and have counterparts.
pub const COUNTERPARTS: &[Counterpart] = &[
    Counterpart { tool: "code-execute", names: &["Bash"], fields: &[("code", "command")] },
    Counterpart { tool: "file-read", names: &["Read"], fields: &[("path", "file_path")] },
    Counterpart { tool: "file-write", names: &["Write"], fields: &[("path", "file_path")] },
    Counterpart { tool: "file-edit", names: &["Edit", "MultiEdit"], fields: &[("path", "file_path")] },
    Counterpart { tool: "file-search", names: &["Grep"], fields: &[] },
    Counterpart { tool: "file-list", names: &["Glob", "LS"], fields: &[("glob", "pattern")] },
    Counterpart { tool: "web-scrape", names: &["WebFetch"], fields: &[] },
    Counterpart { tool: "http-get", names: &["WebFetch"], fields: &[] },
    Counterpart { tool: "http-request", names: &["WebFetch"], fields: &[] },
    Counterpart { tool: "web-search", names: &["WebSearch"], fields: &[] },
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
            let counterparts = COUNTERPARTS.iter().filter(|counterpart| counterpart.tool == name);
            counterparts
                .flat_map(|counterpart| counterpart.names)
                .for_each(|theirs| add((*theirs).to_owned()));
        }
        Source::Function | Source::Plugin => {}
    }
    names
}
