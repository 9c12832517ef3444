//! What a tool names: tools that its effects call, that undo it and that are asked about it, and what its
//! preconditions ask for.

use helve::effect::Change;
use helve::precondition::Condition;
use helve::run::Undo;
use helve::{Problem, Registry, Tool};

use serde_json::Value;

use crate::suggest;
use crate::wire::circles;

/// What is wrong with the tools that `tool` names. `is_elsewhere` knows tools that are not seen here.
pub(super) fn problems(
    tool: &Tool,
    registry: &Registry,
    is_elsewhere: impl Fn(&str) -> bool,
) -> Vec<Problem> {
    let definition = tool.definition();
    let mut problems = Vec::new();
    let mut refuse = |at: String, message: String| problems.push(Problem { at, message });
    let absent = |name: &str| !registry.has(name) && !is_elsewhere(name);
    for (index, effect) in definition.effects.iter().enumerate() {
        if let Change::Cascade { tool: called, .. } = &effect.change
            && absent(called)
        {
            let at = format!("effects/{index}/tool");
            refuse(at, format!("there is no tool `{called}` in this file or built in"));
        }
    }
    if let Some(Undo::Tool { tool: undo, .. }) = &definition.undo {
        if undo == tool.name().as_str() {
            refuse("undo/tool".to_owned(), "a tool cannot undo itself by doing it again".to_owned());
        } else if absent(undo) {
            refuse("undo/tool".to_owned(), format!("there is no tool `{undo}` in this file or built in"));
        }
    }
    if let Some(recall) = &definition.recall {
        let asked = registry.get(&recall.tool).map(|found| found.tool);
        if asked.is_some_and(|asked| asked.definition().changes_world()) {
            let message = format!("`{}` may change something; only a read-only tool is asked", recall.tool);
            refuse("recall/tool".to_owned(), message);
        } else if absent(&recall.tool) {
            refuse("recall/tool".to_owned(), format!("there is no tool `{}` here", recall.tool));
        }
    }
    problems.extend(circles(tool, registry));
    problems
}

/// Preconditions that nothing in this file can make hold. The person's own helve.toml may, so these are no
/// errors.
pub(super) fn never_met(
    tool: &Tool,
    written: &Value,
    file: &Value,
    registry: &Registry,
    is_elsewhere: impl Fn(&str) -> bool,
) -> Vec<Problem> {
    // A composed tool has those of its parts too, which are said where they stand.
    let own = written.get("preconditions").and_then(Value::as_array).map_or(0, Vec::len);
    let preconditions = tool.definition().preconditions.iter().take(own).enumerate();
    let unmet = preconditions.filter_map(|(index, precondition)| {
        let (key, message) = match &precondition.condition {
            Condition::Resource { resource } => ("resource", undeclared(file, "resources", resource)?),
            Condition::Custom { id } => ("id", undeclared(file, "checks", id)?),
            Condition::Dependency { tool, .. } if !registry.has(tool) && !is_elsewhere(tool) => {
                ("tool", format!("there is no tool `{tool}` in this file or built in"))
            }
            Condition::Dependency { .. } | Condition::State { .. } | Condition::Permission { .. } => {
                return None;
            }
        };
        Some(Problem { at: format!("preconditions/{index}/{key}"), message })
    });
    unmet.collect()
}

/// That a section of the file has no such name, where it has not.
fn undeclared(file: &Value, section: &str, name: &str) -> Option<String> {
    let declared = file.get(section).and_then(Value::as_object);
    let mut names = declared.into_iter().flatten().map(|(name, _)| name.as_str());
    if names.clone().any(|one| one == name) {
        return None;
    }
    let meant = suggest::nearest(name, &mut names).map(|meant| format!("; did you mean `{meant}`?"));
    Some(format!(
        "`[{section}.{name}]` is not in this file, and without it this never holds{}",
        meant.unwrap_or_default()
    ))
}
