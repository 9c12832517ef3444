//! Everyday rules and modes: what the operator, the user and sessions allow, ask and deny.
//!
//! They come from places: the user's settings, the project's, this machine's, the command line, a
//! session. Deny and ask rules count wherever they stand; a rule that allows only takes back what
//! the tool's risk would ask. A policy, a label or a hook that asks is not overruled by it.

mod ask_program;
mod places;

use std::sync::Arc;

use helve_core::gate::{Stance, Vote, VoteSource};
use helve_core::permission::{Destination, PermissionMode, PermissionSet, PermissionUpdate};
use helve_core::{BoxFuture, Category, Facet, Tool};
use serde_json::Value;

pub use ask_program::{CanUseTool, PermissionQuestion};
pub(crate) use places::Permissions;

/// Keeps changed permissions where they belong: in files that outlive the process.
pub trait PermissionKeeper: Send + Sync + 'static {
    /// Makes a change in the settings of a user, a project or this machine, and says how they are
    /// now. Fails with words for the asker.
    fn keep(&self, update: &PermissionUpdate) -> BoxFuture<'_, Result<PermissionSet, String>>;
}

/// What rules and mode say to a call.
pub(crate) struct PermissionVotes {
    /// The strictest that a deny or ask rule, or the mode, says.
    pub(crate) objection: Option<Vote>,
    /// What takes back the asking for the tool's risk.
    pub(crate) waiver: Option<Vote>,
    /// Whether nobody may be asked.
    pub(crate) never_ask: bool,
}

impl PermissionVotes {
    /// Nobody has said anything.
    pub(crate) const NOTHING: Self = Self { objection: None, waiver: None, never_ask: false };
}

/// What the permissions of these places say to a call, the widest place first.
fn votes<'p>(
    places: impl Iterator<Item = (Destination, &'p PermissionSet)> + Clone,
    tool: &Tool,
    known_as: &[String],
    arguments: &Value,
) -> PermissionVotes {
    let rule = |stance: Stance| {
        places.clone().find_map(|(place, set)| {
            let fits = |rule: &&_| {
                let rule: &helve_core::permission::PermissionRule = rule;
                rule.names(known_as) && rule.fits(stance, tool, arguments)
            };
            let rule = set.rules(stance).iter().find(fits)?;
            let by = format!("rule {stance} {rule}");
            Some(
                Vote::named(VoteSource::Rule, by, stance)
                    .because(format!("a rule of the {} says so", place_words(place))),
            )
        })
    };
    let mode = places.clone().filter_map(|(_, set)| set.mode).last().unwrap_or_default();
    let by_mode = |stance| Vote::named(VoteSource::Mode, format!("mode {}", mode.as_str()), stance);
    let plan = (mode == PermissionMode::Plan && tool.definition().changes_world() && !tool.is_composed())
        .then(|| by_mode(Stance::Deny).because("in the mode `plan` nothing runs that may change the world"));
    let objection = rule(Stance::Deny).or(plan).or_else(|| rule(Stance::Ask));
    let waiver = match mode {
        PermissionMode::BypassPermissions => Some(by_mode(Stance::Allow)),
        PermissionMode::AcceptEdits if is_edit(places.clone(), tool, arguments) => {
            Some(by_mode(Stance::Allow))
        }
        PermissionMode::AcceptEdits
        | PermissionMode::Default
        | PermissionMode::Plan
        | PermissionMode::DontAsk
        | PermissionMode::Auto => rule(Stance::Allow),
    };
    PermissionVotes { objection, waiver, never_ask: mode == PermissionMode::DontAsk }
}

/// Whether a call changes a file in one of the folders, or wherever the tool may where none is named.
fn is_edit<'p>(
    mut places: impl Iterator<Item = (Destination, &'p PermissionSet)> + Clone,
    tool: &Tool,
    arguments: &Value,
) -> bool {
    let definition = tool.definition();
    if definition.category != Category::File || !definition.has_facet(Facet::Mutates) {
        return false;
    }
    let folders = || places.clone().flat_map(|(_, set)| &set.directories);
    if folders().next().is_none() {
        return true;
    }
    let path = arguments.get("path").or_else(|| arguments.get("file_path")).and_then(Value::as_str);
    let Some(path) = path.filter(|path| !path.split('/').any(|segment| segment == "..")) else {
        return false;
    };
    places.any(|(_, set)| set.directories.iter().any(|folder| is_within(path, folder)))
}

/// Whether a path without `..` leads into a folder, both from `/` or both from where the tools start.
fn is_within(path: &str, folder: &str) -> bool {
    fn steps(path: &str) -> impl Iterator<Item = &str> {
        path.split('/').filter(|step| !step.is_empty() && *step != ".")
    }
    let mut path_steps = steps(path);
    path.starts_with('/') == folder.starts_with('/')
        && steps(folder).all(|step| path_steps.next() == Some(step))
}

fn place_words(place: Destination) -> &'static str {
    match place {
        Destination::UserSettings => "user",
        Destination::ProjectSettings => "project",
        Destination::LocalSettings => "project on this machine",
        Destination::CliArg => "command line",
        Destination::Session => "session",
    }
}

/// A rule that would let the like of a call run, for the person who may be offered it. There is none for what is
/// asked each time.
pub(crate) fn suggestions(tool: &Tool, asks_each_time: bool) -> Vec<PermissionUpdate> {
    if asks_each_time {
        return Vec::new();
    }
    let rule = helve_core::permission::RuleValue { tool_name: tool.name().to_string(), rule_content: None };
    vec![PermissionUpdate::AddRules {
        rules: vec![rule],
        behavior: Stance::Allow,
        destination: Destination::Session,
    }]
}

/// What permissions a runtime starts with.
#[derive(Default, Clone)]
pub struct PermissionOptions {
    /// Those of each place that outlives a session.
    pub places: Vec<(Destination, PermissionSet)>,
    /// Keeps changes to them.
    pub keeper: Option<Arc<dyn PermissionKeeper>>,
    /// Is asked before a person is.
    pub can_use_tool: Option<Arc<dyn CanUseTool>>,
}

#[cfg(test)]
mod tests {
    use super::is_within;

    #[test]
    fn a_folder_holds_what_is_below_it_and_nothing_else() {
        for (path, folder) in [
            ("notes/a", "notes"),
            ("notes/a/b", "./notes/"),
            ("./notes//a", "notes"),
            ("notes", "notes"),
            ("a", "./"),
            ("a/b", "."),
            ("/srv/a", "/srv"),
            ("/srv/a", "/"),
        ] {
            assert!(is_within(path, folder), "{path} in {folder}");
        }
        for (path, folder) in
            [("notesx/a", "notes"), ("a", "notes"), ("/srv/a", "./"), ("/srv/a", "."), ("a", "/")]
        {
            assert!(!is_within(path, folder), "{path} in {folder}");
        }
    }
}
