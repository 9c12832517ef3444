//! Effects that call tools in a circle: found before anything runs, by lint and by loading alike.

use std::collections::HashSet;

use helve::effect::Change;
use helve::{Problem, Registry, Tool};

/// The effects of `tool` that lead back to it through the effects and parts of other tools.
pub(crate) fn circles(tool: &Tool, registry: &Registry) -> Vec<Problem> {
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
