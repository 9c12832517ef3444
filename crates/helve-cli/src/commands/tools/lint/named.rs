//! Other tools that a tool names: those that its effects call, that undo it and that are asked about it.

use helve::effect::Change;
use helve::run::Undo;
use helve::{Problem, Registry, Tool};

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
        if let Change::Cascade { tool: called, .. } = &effect.change {
            let at = format!("effects/{index}/tool");
            if absent(called) {
                refuse(at, format!("there is no tool `{called}` in this file or built in"));
            } else if let Some(circle) = circle(registry, tool, called) {
                refuse(at, format!("effects would go round in a circle: {circle}"));
            }
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
    problems
}

/// The way from `tool` through the effects of `called` back to `tool`.
fn circle(registry: &Registry, tool: &Tool, called: &str) -> Option<String> {
    let mut ways = vec![vec![called.to_owned()]];
    let mut seen = std::collections::HashSet::new();
    while let Some(way) = ways.pop() {
        let last = registry.get(way.last()?)?.tool;
        if last.name() == tool.name() {
            let names: Vec<_> = way.iter().map(|name| format!("`{name}`")).collect();
            return Some(format!("`{}` → {}", tool.name(), names.join(" → ")));
        }
        if seen.insert(last.name().clone()) {
            for effect in &last.definition().effects {
                if let Change::Cascade { tool: next, .. } = &effect.change
                    && registry.has(next.as_str())
                {
                    ways.push(way.iter().cloned().chain([next.clone()]).collect());
                }
            }
        }
    }
    None
}
