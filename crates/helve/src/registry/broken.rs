//! Tools whose definition cannot be used: they are no tools, but a call by their name is told what is wrong.

use std::sync::Arc;

use helve_core::{Layer, ToolName};

/// A tool, or a whole namespace of tools, whose definition cannot be used.
///
/// INVARIANT: nothing else answers in its place. It may have been written to be stricter than the tool of a
/// lower layer that it overrides, so that tool is not called either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The layer that it would be in.
    pub layer: Layer,
    /// What it covers.
    pub covers: Covers,
    /// Where its definition stands and what to do about it. Its caller reads this, so it quotes nothing
    /// of the definition: that could hold a secret.
    pub reason: String,
}

/// What a definition that cannot be used covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Covers {
    /// One tool, by its full name or an alias.
    Tool(String),
    /// Every tool of a namespace.
    Namespace(String),
}

impl Broken {
    /// Whether a tool of this name is covered.
    pub fn has(&self, tool: &str) -> bool {
        match &self.covers {
            Covers::Tool(name) => name == tool,
            Covers::Namespace(namespace) => {
                tool.strip_prefix(namespace.as_str()).is_some_and(|rest| rest.starts_with('/'))
            }
        }
    }

    /// Whether a tool of this layer would answer in its place. In addition to a broken namespace another source of
    /// the same layer may have tools of its own.
    fn bars(&self, layer: Layer, tool: &ToolName) -> bool {
        let is_below = match self.covers {
            Covers::Tool(_) => layer <= self.layer,
            Covers::Namespace(_) => layer < self.layer,
        };
        is_below && self.has(tool.as_str())
    }
}

/// The broken ones of a snapshot. There are few, and only a call that finds no tool asks.
#[derive(Clone, Default)]
pub(super) struct BrokenTools(Arc<[Broken]>);

impl BrokenTools {
    pub(super) fn of(all: Vec<Broken>) -> Self {
        Self(all.into())
    }

    pub(super) fn get(&self, tool: &str) -> Option<&Broken> {
        self.0.iter().find(|one| one.has(tool))
    }

    /// Whether a tool that comes now would answer in the place of one of these.
    pub(super) fn bar(&self, layer: Layer, tool: &ToolName) -> bool {
        self.0.iter().any(|one| one.bars(layer, tool))
    }

    /// Whether a tool that is there lies below one of these.
    pub(super) fn shadow(&self, layer: Layer, tool: &ToolName) -> bool {
        self.0.iter().any(|one| layer < one.layer && one.has(tool.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use helve_core::Tool;
    use serde_json::json;

    use super::*;
    use crate::registry::{LayerChange, Registry, RegistryError};

    fn tool(name: &str) -> Tool {
        Tool::builder(name).description("Answers.").handler(|_, _| async { Ok(json!(1)) }).build().unwrap()
    }

    fn broken(layer: Layer, covers: Covers) -> Broken {
        Broken { layer, covers, reason: "why".to_owned() }
    }

    #[test]
    fn nothing_answers_in_the_place_of_a_broken_tool_until_it_is_mended() {
        let registry = Registry::default();
        registry.register(Layer::BuiltIn, tool("a")).unwrap();
        registry.register(Layer::Org, tool("api/x")).unwrap();
        registry.set_broken(vec![
            broken(Layer::Project, Covers::Tool("a".to_owned())),
            broken(Layer::Project, Covers::Namespace("api".to_owned())),
        ]);
        assert!(!registry.has("a") && !registry.has("api/x"));
        assert!(registry.broken("api/y").is_some() && registry.broken("apis").is_none());
        let refused = registry.register(Layer::Project, tool("a"));
        assert!(matches!(refused, Err(RegistryError::Broken { .. })));
        registry.register(Layer::Project, tool("api/z")).unwrap();
        let back = LayerChange { layer: Layer::BuiltIn, out: Vec::new(), tools: vec![tool("a")] };
        assert!(registry.update([back], Vec::new()).is_empty());
        assert!(registry.has("a") && registry.broken("a").is_none());
    }

    #[test]
    fn a_good_tool_of_a_later_layer_stands() {
        let registry = Registry::default();
        registry.register(Layer::Project, tool("a")).unwrap();
        registry.set_broken(vec![broken(Layer::Org, Covers::Tool("a".to_owned()))]);
        assert!(registry.has("a"));
    }
}
