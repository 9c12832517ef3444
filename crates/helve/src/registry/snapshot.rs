//! All tools at one moment.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use helve_core::precondition::{Condition, DependencyStatus, Precondition};
use helve_core::{Layer, Tool, ToolName};
use serde::Serialize;
use serde_json::Value;

use super::RegistryError;
use super::broken::{Broken, BrokenTools};
use super::index::Index;
use super::shards::Shards;
use crate::formats::{ExportOptions, Format, export};
use crate::hooks::RAISE;

/// All tools at one moment. Never changes, so whatever is derived from it is derived once.
#[derive(Default)]
pub struct Snapshot {
    tools: Shards<ToolName, Slot>,
    /// Aliases and provider names, where they differ from the full name.
    other_names: Shards<String, ToolName>,
    /// Definitions that cannot be used.
    broken: BrokenTools,
    /// Tools of all layers, overridden ones included.
    registered: usize,
    sorted: OnceLock<Vec<Registered>>,
    index: OnceLock<Index>,
    /// Whether some tool depends, or has depended, on the completion of another.
    has_dependents: bool,
    /// Tools whose completion others depend on.
    awaited: OnceLock<BTreeSet<ToolName>>,
    exports: [OnceLock<Arc<Value>>; Format::ALL.len()],
}

/// The tools of one name. The one that counts stands in front: a lookup touches nothing else.
#[derive(Clone)]
pub(super) struct Slot {
    tool: Tool,
    layer: Layer,
    /// What it overrides, nearest first. Shared, because most slots have nothing here.
    overridden: Option<Arc<[(Layer, Tool)]>>,
}

impl Slot {
    /// A slot for tools of distinct layers, lowest first. `None` where there is none.
    fn of(mut stack: Vec<(Layer, Tool)>) -> Option<Self> {
        let (layer, tool) = stack.pop()?;
        stack.reverse();
        Some(Self { tool, layer, overridden: (!stack.is_empty()).then(|| stack.into()) })
    }

    /// All its tools, lowest layer first.
    fn stack(&self) -> Vec<(Layer, Tool)> {
        let overridden = self.overridden.iter().flat_map(|below| below.iter().rev().cloned());
        overridden.chain([(self.layer, self.tool.clone())]).collect()
    }

    pub(super) fn tool(&self) -> &Tool {
        &self.tool
    }

    pub(super) fn to_registered(&self) -> Registered {
        let overridden = self.overridden.iter().flat_map(|below| below.iter());
        Registered {
            tool: self.tool.clone(),
            layer: self.layer,
            overrides: overridden.map(|(layer, _)| *layer).collect(),
        }
    }
}

/// A tool with its place in the registry.
#[derive(Debug, Clone)]
pub struct Registered {
    /// The tool as it was registered.
    pub tool: Tool,
    /// The layer that it was registered in.
    pub layer: Layer,
    /// Layers whose tool of the same name it overrides, nearest first.
    pub overrides: Vec<Layer>,
}

impl Registered {
    /// The tool's full name.
    pub fn name(&self) -> &ToolName {
        self.tool.name()
    }
}

/// A tool with its place, as it stands in JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct View<'a> {
    #[serde(flatten)]
    definition: &'a helve_core::Definition,
    /// What it is made of.
    implementation: helve_core::Implementation,
    /// Its name where names may hold no `/`.
    provider_name: &'a str,
    /// The layer that the tool was registered in.
    layer: Layer,
    /// Layers whose tool of the same name it overrides, nearest first.
    #[serde(skip_serializing_if = "<[Layer]>::is_empty")]
    overrides: &'a [Layer],
}

impl schemars::JsonSchema for Registered {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Tool".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        View::json_schema(generator)
    }
}

impl Serialize for Registered {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        View {
            definition: self.tool.definition(),
            implementation: self.tool.handler().implementation(),
            provider_name: self.tool.provider_name(),
            layer: self.layer,
            overrides: &self.overrides,
        }
        .serialize(serializer)
    }
}

/// A tool found by search.
#[derive(Debug, Clone, Serialize)]
pub struct Hit {
    /// The tool, with its place in the registry.
    #[serde(flatten)]
    pub registered: Registered,
    /// How well it fits; only good for comparing within one search.
    pub score: f32,
}

impl Snapshot {
    /// How many tools there are, overridden ones not counted.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there is no tool.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every tool, by name.
    pub fn sorted(&self) -> &[Registered] {
        self.sorted.get_or_init(|| {
            let mut all: Vec<_> = self.tools.values().map(|slot| slot.to_registered()).collect();
            all.sort_unstable_by(|a, b| a.name().cmp(b.name()));
            all
        })
    }

    /// The tools that fit some words best, best first.
    pub fn search(&self, words: &str, limit: usize) -> Vec<Hit> {
        let tools = self.sorted();
        let found = self.index.get_or_init(|| Index::of(tools)).search(words, limit);
        found.into_iter().map(|(place, score)| Hit { registered: tools[place].clone(), score }).collect()
    }

    /// Every tool in a provider's format with the usual options, made once a snapshot.
    pub fn export(&self, format: Format) -> Arc<Value> {
        let make = || {
            let tools = self.sorted().iter().map(|registered| &registered.tool);
            Arc::new(export(tools, format, &ExportOptions::default()))
        };
        Arc::clone(self.exports[format as usize].get_or_init(make))
    }

    /// Whether some tool depends on the completion of this one.
    pub(super) fn is_awaited(&self, name: &str) -> bool {
        let awaited = self.awaited.get_or_init(|| {
            let preconditions = self.tools.values().flat_map(|slot| &slot.tool.definition().preconditions);
            let slots = preconditions.filter_map(awaits).filter_map(|name| self.get(name));
            slots.map(|slot| slot.tool.name().clone()).collect()
        });
        awaited.contains(name)
    }

    /// Whether it is worth asking that.
    pub(super) fn has_dependents(&self) -> bool {
        self.has_dependents
    }

    pub(super) fn get(&self, name: &str) -> Option<&Slot> {
        self.tools.get(name).or_else(|| self.tools.get(self.other_names.get(name)?.as_str()))
    }

    /// Every tool of every layer.
    pub(super) fn layers(&self) -> Vec<(Layer, Tool)> {
        self.tools.values().flat_map(Slot::stack).collect()
    }

    /// The start of the next snapshot: the same tools, nothing derived yet.
    pub(super) fn next(&self) -> Self {
        Self {
            tools: self.tools.clone(),
            other_names: self.other_names.clone(),
            broken: self.broken.clone(),
            registered: self.registered,
            has_dependents: self.has_dependents,
            ..Self::default()
        }
    }

    pub(super) fn insert(&mut self, layer: Layer, tool: Tool, tools_max: usize) -> Result<(), RegistryError> {
        if self.registered >= tools_max {
            return Err(RegistryError::Full { tools_max });
        }
        let name = tool.name().clone();
        if self.broken.bar(layer, &name) {
            return Err(RegistryError::Broken { name });
        }
        self.check_names(&tool)?;
        let depends = tool.definition().preconditions.iter().any(|one| awaits(one).is_some());
        let mut stack = self.tools.get(name.as_str()).map(Slot::stack).unwrap_or_default();
        match stack.binary_search_by_key(&layer, |(layer, _)| *layer) {
            Ok(_) => return Err(RegistryError::Duplicate { name, layer }),
            Err(place) => stack.insert(place, (layer, tool)),
        }
        self.put(name, stack);
        self.registered += 1;
        self.has_dependents |= depends;
        Ok(())
    }

    pub(super) fn remove(&mut self, layer: Layer, name: &str) -> Result<Tool, RegistryError> {
        let not_found = || RegistryError::NotFound { name: name.to_owned(), layer };
        let mut stack = self.tools.get(name).ok_or_else(not_found)?.stack();
        let place = stack.iter().position(|(other, _)| *other == layer).ok_or_else(not_found)?;
        let (_, removed) = stack.remove(place);
        self.put(removed.name().clone(), stack);
        self.registered -= 1;
        Ok(removed)
    }

    /// What is wrong with the tool of this name, if its definition cannot be used and nobody else has it.
    pub(super) fn broken(&self, name: &str) -> Option<&Broken> {
        self.broken.get(name)
    }

    /// Takes note of definitions that cannot be used, and takes out what they would override.
    pub(super) fn set_broken(&mut self, broken: Vec<Broken>) {
        self.broken = BrokenTools::of(broken);
        let below = |slot: &Slot| {
            let stack = slot.stack().into_iter().map(|(layer, tool)| (layer, tool.name().clone()));
            stack.filter(|(layer, name)| self.broken.shadow(*layer, name)).collect::<Vec<_>>()
        };
        let shadowed: Vec<_> = self.tools.values().flat_map(below).collect();
        for (layer, name) in shadowed {
            // It was there a moment ago, and nobody else writes.
            let _taken_out = self.remove(layer, name.as_str());
        }
    }

    /// Puts a stack in its slot and keeps the other names those of its top tool.
    fn put(&mut self, name: ToolName, stack: Vec<(Layer, Tool)>) {
        if let Some(former) = self.tools.remove(name.as_str()) {
            for other in other_names(former.tool()) {
                self.other_names.remove(other);
            }
        }
        let Some(slot) = Slot::of(stack) else { return };
        for other in other_names(slot.tool()) {
            self.other_names.insert(other.to_owned(), name.clone());
        }
        self.tools.insert(name, slot);
    }

    /// No two tools may answer to one name, or a call could reach the wrong one.
    fn check_names(&self, tool: &Tool) -> Result<(), RegistryError> {
        let name = tool.name();
        let taken = |text: &str, owner: &ToolName| RegistryError::Taken {
            name: text.to_owned(),
            tool: name.clone(),
            owner: owner.clone(),
        };
        // A caller that may use it must not find another tool behind the name.
        if let Some(reserved) = other_names(tool).chain([name.as_str()]).find(|name| *name == RAISE) {
            return Err(RegistryError::Reserved { name: reserved.to_owned(), tool: name.clone() });
        }
        if let Some(owner) = self.other_names.get(name.as_str()).filter(|owner| *owner != name) {
            return Err(taken(name.as_str(), owner));
        }
        for other in other_names(tool) {
            let as_name = self.tools.get(other).map(|slot| slot.tool().name());
            let owner = as_name.or_else(|| self.other_names.get(other)).filter(|owner| *owner != name);
            if let Some(owner) = owner {
                return Err(taken(other, owner));
            }
        }
        Ok(())
    }
}

/// The tool whose completion a precondition waits for.
fn awaits(precondition: &Precondition) -> Option<&str> {
    match &precondition.condition {
        Condition::Dependency { tool, status: DependencyStatus::Completed } => Some(tool),
        Condition::Dependency { status: DependencyStatus::Available, .. }
        | Condition::Resource { .. }
        | Condition::State { .. }
        | Condition::Permission { .. }
        | Condition::Custom { .. } => None,
    }
}

fn other_names(tool: &Tool) -> impl Iterator<Item = &str> {
    let provider = Some(tool.provider_name()).filter(|name| *name != tool.name().as_str());
    tool.definition().aliases.iter().map(String::as_str).chain(provider)
}
