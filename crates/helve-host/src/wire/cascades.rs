//! The tools that a tool names: its effects call them, they undo it, or are asked about it. What is wrong with
//! that is found before anything runs, by lint and by loading alike.

use std::collections::HashSet;

use helve::effect::Change;
use helve::run::Undo;
use helve::{Problem, Registry, Tool};

/// What is wrong with the tools that `tool` names. `is_elsewhere` knows tools that are not seen here.
pub fn wrongly_named(tool: &Tool, registry: &Registry, is_elsewhere: impl Fn(&str) -> bool) -> Vec<Problem> {
    let definition = tool.definition();
    let mut problems = Vec::new();
    let mut refuse = |at: String, message: String| problems.push(Problem { at, message });
    let absent = |name: &str| !registry.has(name) && !is_elsewhere(name);
    let none = |name: &str| format!("there is no tool `{name}` in this file or built in");
    for (index, effect) in definition.effects.iter().enumerate() {
        if let Change::Cascade { tool: called, .. } = &effect.change
            && absent(called)
        {
            refuse(format!("effects/{index}/tool"), none(called));
        }
    }
    if let Some(Undo::Tool { tool: undo, .. }) = &definition.undo
        && absent(undo)
    {
        refuse("undo/tool".to_owned(), none(undo));
    }
    if let Some(recall) = &definition.recall {
        let asked = registry.get(&recall.tool).map(|found| found.tool);
        if asked.is_some_and(|asked| asked.definition().changes_world()) {
            let message = format!("`{}` may change something; only a read-only tool is asked", recall.tool);
            refuse("recall/tool".to_owned(), message);
        } else if absent(&recall.tool) {
            refuse("recall/tool".to_owned(), none(&recall.tool));
        }
    }
    problems.extend(circles(tool, registry));
    problems
}

/// Whether a tool would come from one of these MCP servers.
pub fn is_of_server<'a>(tool: &str, mut servers: impl Iterator<Item = &'a String>) -> bool {
    servers.any(|name| tool.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('/')))
}

/// The effects of `tool` that lead back to it through the effects and parts of other tools.
fn circles(tool: &Tool, registry: &Registry) -> Vec<Problem> {
    let effects = tool.definition().effects.iter().enumerate();
    let found = effects.filter_map(|(index, effect)| {
        let Change::Cascade { tool: called, .. } = &effect.change else { return None };
        let circle = circle(registry, tool, called)?;
        let message = format!("effects would go round in a circle: {circle}");
        Some(Problem { at: format!("effects/{index}/tool"), message })
    });
    found.collect()
}

/// The way from `tool` through `called` back to `tool`.
fn circle(registry: &Registry, tool: &Tool, called: &str) -> Option<String> {
    let mut ways = vec![vec![called.to_owned()]];
    let mut seen = HashSet::new();
    while let Some(way) = ways.pop() {
        // A tool that is not known here calls nothing that is.
        let Some(found) = way.last().and_then(|name| registry.get(name)) else { continue };
        let last = found.tool;
        if last.name() == tool.name() {
            let names: Vec<_> = way.iter().map(|name| format!("`{name}`")).collect();
            return Some(format!("`{}` → {}", tool.name(), names.join(" → ")));
        }
        if seen.insert(last.name().clone()) {
            let next = calls(&last).into_iter();
            ways.extend(next.map(|next| way.iter().cloned().chain([next]).collect()));
        }
    }
    None
}

/// The tools that a tool calls, by its effects or as its parts.
fn calls(tool: &Tool) -> Vec<String> {
    let cascades = tool.definition().effects.iter().filter_map(|effect| match &effect.change {
        Change::Cascade { tool, .. } => Some(tool.clone()),
        Change::StateChange { .. } | Change::Memory { .. } | Change::Notification { .. } => None,
    });
    cascades.chain(tool.handler().parts()).collect()
}
