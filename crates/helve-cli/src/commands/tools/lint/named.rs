//! What a tool gives the tools that it names, and what its preconditions ask for.

use helve::precondition::Condition;
use helve::schema::repair::repair;
use helve::template::Template;
use helve::{Problem, Registry, Tool};
use helve_host::suggest;

use serde_json::Value;

/// Constant arguments, of steps, effects, undo or recall, that the tool they are for would refuse.
pub(super) fn refused_arguments(written: &Value, registry: &Registry) -> Vec<Problem> {
    let mut problems = Vec::new();
    collect_refused(written, String::new(), registry, &mut problems);
    problems
}

fn collect_refused(written: &Value, at: String, registry: &Registry, problems: &mut Vec<Problem>) {
    let below =
        |key: &dyn std::fmt::Display| if at.is_empty() { key.to_string() } else { format!("{at}/{key}") };
    match written {
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| collect_refused(item, below(&index), registry, problems));
        }
        Value::Object(fields) => {
            if let (Some(Value::String(tool)), Some(arguments)) =
                (fields.get("tool"), fields.get("arguments"))
            {
                let message = refusal(tool, arguments, registry);
                problems.extend(message.map(|message| Problem { at: below(&"arguments"), message }));
            }
            fields.iter().for_each(|(key, value)| collect_refused(value, below(key), registry, problems));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Why a tool would refuse these arguments, filled in and mended as those of a call are.
fn refusal(tool: &str, arguments: &Value, registry: &Registry) -> Option<String> {
    let tool = registry.get(tool)?.tool;
    let mut arguments = Template::parse(arguments.clone()).ok()?.constant()?;
    let schema = tool.input();
    schema.apply_defaults(&mut arguments);
    let fields = schema.validate(&arguments).err()?;
    if repair(schema, &mut arguments).is_some() {
        return None;
    }
    Some(format!("`{}` would refuse them: {}", tool.name(), fields.first()?.message))
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
