//! Other tools that a tool names: those that its effects call, that undo it and that are asked about it.

use helve::effect::Change;
use helve::run::Undo;
use helve::{Problem, Registry, Tool};

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
