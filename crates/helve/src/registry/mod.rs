//! The registry: every tool, in layers and namespaces.
//!
//! Readers work on a snapshot that never changes; a writer makes the next one and swaps it in. So
//! reads never wait, for each other or for a writer.

mod away;
mod broken;
mod filter;
mod index;
mod near;
mod shards;
mod snapshot;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use helve_core::event::EventKind;
use helve_core::{Layer, Tool, ToolName, pattern};
use serde_json::Value;

use crate::bus::{Bus, Subscription};
use crate::formats::Format;
use crate::workspace::Workspace;

pub use away::Away;
pub use broken::{Broken, Covers};
pub use filter::Filter;
use snapshot::Slot;
pub use snapshot::{Hit, Registered, Snapshot};

/// Most tools by default.
pub const TOOLS_MAX: usize = 1_000;

/// Every tool, in layers and namespaces. Cheap to clone; clones share their tools.
///
/// ```
/// use helve::{Layer, Registry, Tool};
/// use serde_json::json;
///
/// let registry = Registry::default();
/// let tool = Tool::builder("ping").description("Answers pong.").handler(|_, _| async { Ok(json!("pong")) });
/// registry.register(Layer::Project, tool.build().unwrap()).unwrap();
/// assert!(registry.has("ping"));
/// assert_eq!(registry.search("pong", 5)[0].registered.name().as_str(), "ping");
/// ```
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

/// A registry that lives as long as another holder keeps it.
#[derive(Clone)]
pub struct WeakRegistry(Weak<Inner>);

impl WeakRegistry {
    /// The registry, if it is still there.
    pub fn upgrade(&self) -> Option<Registry> {
        self.0.upgrade().map(Registry)
    }
}

struct Inner {
    snapshot: ArcSwap<Snapshot>,
    /// Whether some tool depends, or has depended, on the completion of another: every call asks.
    has_dependents: AtomicBool,
    /// One writer at a time; readers never take it.
    writer: Mutex<()>,
    away: away::AwayServers,
    tools_max: usize,
    bus: Bus,
}

/// What changes in one layer.
pub struct LayerChange {
    /// The layer that changes.
    pub layer: Layer,
    /// Tools that go.
    pub out: Vec<ToolName>,
    /// Tools that come.
    pub tools: Vec<Tool>,
}

/// What became of an exchange.
#[derive(Default)]
struct Swap {
    refused: Vec<(ToolName, RegistryError)>,
    events: Vec<EventKind>,
}

impl Swap {
    fn layer(
        &mut self,
        snapshot: &mut Snapshot,
        layer: Layer,
        out: &[ToolName],
        tools: impl IntoIterator<Item = Tool>,
        tools_max: usize,
    ) {
        let removed: HashSet<_> =
            out.iter().filter(|name| snapshot.remove(layer, name.as_str()).is_ok()).cloned().collect();
        let mut kept = HashSet::new();
        for tool in tools {
            let name = tool.name().clone();
            match snapshot.insert(layer, tool, tools_max) {
                Ok(()) if removed.contains(&name) => {
                    self.events.push(EventKind::Replaced { tool: name.clone(), layer });
                    kept.insert(name);
                }
                Ok(()) => self.events.push(EventKind::Registered { tool: name, layer }),
                Err(error) => self.refused.push((name, error)),
            }
        }
        let gone = removed.into_iter().filter(|name| !kept.contains(name));
        self.events.extend(gone.map(|tool| EventKind::Unregistered { tool, layer }));
    }
}

/// Why a change to the registry was refused. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The layer has a tool of this name.
    #[error(
        "`{name}` is registered in the {layer} layer already; replace it explicitly, or choose another name"
    )]
    Duplicate {
        /// The name that both have.
        name: ToolName,
        /// The layer that both are in.
        layer: Layer,
    },
    /// Another tool answers to this name, alias or provider name.
    #[error("`{name}` of `{tool}` is taken by `{owner}`; choose another name")]
    Taken {
        /// The name, alias or provider name.
        name: String,
        /// The tool that was refused.
        tool: ToolName,
        /// The tool that has it.
        owner: ToolName,
    },
    /// The name stands for something that is no tool.
    #[error("`{name}` stands for the events that agents raise; choose another name for `{tool}`")]
    Reserved {
        /// The name, alias or provider name.
        name: String,
        /// The tool that was refused.
        tool: ToolName,
    },
    /// The registry is full.
    #[error("the registry holds {tools_max} tools, its limit; raise `registry.tools_max`")]
    Full {
        /// How many tools there may be.
        tools_max: usize,
    },
    /// A definition that cannot be used has this name.
    #[error("`{name}` is the name of a tool whose definition is broken; mend that, or choose another name")]
    Broken {
        /// The name that is in use.
        name: ToolName,
    },
    /// There is no such tool in the layer.
    #[error("no tool `{name}` in the {layer} layer")]
    NotFound {
        /// The name that was asked for.
        name: String,
        /// The layer that was searched.
        layer: Layer,
    },
}

impl Default for Registry {
    fn default() -> Self {
        Self::with_limit(TOOLS_MAX)
    }
}

impl Registry {
    /// A registry that holds at most `tools_max` tools.
    pub fn with_limit(tools_max: usize) -> Self {
        Self(Arc::new(Inner {
            snapshot: ArcSwap::from_pointee(Snapshot::default()),
            has_dependents: AtomicBool::new(false),
            writer: Mutex::new(()),
            away: away::AwayServers::default(),
            tools_max,
            bus: Bus::default(),
        }))
    }

    /// Adds a tool to a layer.
    pub fn register(&self, layer: Layer, tool: Tool) -> Result<(), RegistryError> {
        self.register_many(layer, [tool])
    }

    /// Adds tools to a layer: all of them, or none.
    pub fn register_many(
        &self,
        layer: Layer,
        tools: impl IntoIterator<Item = Tool>,
    ) -> Result<(), RegistryError> {
        let mut added = Vec::new();
        self.change(|snapshot| {
            for tool in tools {
                added.push(tool.name().clone());
                snapshot.insert(layer, tool, self.0.tools_max)?;
            }
            Ok(())
        })?;
        for name in added {
            self.warn_of_override(&name, layer);
            self.0.bus.publish(|| EventKind::Registered { tool: name, layer });
        }
        Ok(())
    }

    /// Adds a whole workspace to a layer: all its tools, or none.
    pub fn register_workspace(&self, layer: Layer, workspace: Workspace) -> Result<(), RegistryError> {
        self.register_many(layer, workspace.into_tools())
    }

    /// Puts a tool in place of the one with the same name in the same layer, which must be there.
    pub fn replace(&self, layer: Layer, tool: Tool) -> Result<(), RegistryError> {
        let name = tool.name().clone();
        self.change(|snapshot| {
            snapshot.remove(layer, name.as_str())?;
            snapshot.insert(layer, tool, self.0.tools_max)
        })?;
        self.0.bus.publish(|| EventKind::Replaced { tool: name, layer });
        Ok(())
    }

    /// Takes a tool out of a layer. One that it overrode comes back.
    pub fn unregister(&self, layer: Layer, name: &str) -> Result<(), RegistryError> {
        let mut removed = None;
        self.change(|snapshot| {
            removed = Some(snapshot.remove(layer, name)?);
            Ok(())
        })?;
        if let Some(tool) = removed {
            self.0.bus.publish(|| EventKind::Unregistered { tool: tool.name().clone(), layer });
        }
        Ok(())
    }

    /// Takes tools out of a layer and puts others in, in one step that readers see whole: for
    /// sources that change while we run. What cannot be put in is left out and returned with the
    /// reason; what was not there to be taken out is no error.
    pub fn exchange(
        &self,
        layer: Layer,
        out: &[ToolName],
        tools: impl IntoIterator<Item = Tool>,
    ) -> Vec<(ToolName, RegistryError)> {
        let mut swap = Swap::default();
        // Each step is whole by itself, and those that are refused change nothing.
        let _never = self.change(|snapshot| {
            swap.layer(snapshot, layer, out, tools, self.0.tools_max);
            Ok(())
        });
        self.announce_all(swap)
    }

    /// The same in several layers at once, and with other definitions that cannot be used: for a
    /// configuration that is read again.
    pub fn update(
        &self,
        changes: impl IntoIterator<Item = LayerChange>,
        broken: Vec<Broken>,
    ) -> Vec<(ToolName, RegistryError)> {
        let mut swap = Swap::default();
        let _never = self.change(|snapshot| {
            // Those that were broken hold no name any more.
            snapshot.set_broken(Vec::new());
            for LayerChange { layer, out, tools } in changes {
                swap.layer(snapshot, layer, &out, tools, self.0.tools_max);
            }
            snapshot.set_broken(broken);
            Ok(())
        });
        self.announce_all(swap)
    }

    /// Says which definitions cannot be used. Tools of lower layers that one of them would override are
    /// taken out.
    pub fn set_broken(&self, broken: Vec<Broken>) {
        self.update([], broken);
    }

    /// Says that a server whose tools would be in this namespace is down, or, with nothing, that it is not any more.
    pub fn set_away(&self, namespace: &str, away: Option<Away>) {
        self.0.away.set(namespace, away);
    }

    /// The server that is down and would have the tool of this name.
    pub fn away(&self, name: &str) -> Option<Away> {
        self.0.away.of(name)
    }

    /// What is wrong with the tool of this name, if its definition cannot be used.
    pub fn broken(&self, name: &str) -> Option<Broken> {
        self.0.snapshot.load().broken(name).cloned()
    }

    fn announce_all(&self, swap: Swap) -> Vec<(ToolName, RegistryError)> {
        for event in swap.events {
            self.0.bus.publish(|| event);
        }
        swap.refused
    }

    /// The tool with this full name, alias or provider name.
    pub fn get(&self, name: &str) -> Option<Registered> {
        self.look_up(name, Slot::to_registered)
    }

    /// The tool alone: what the pipeline needs on every call.
    pub(crate) fn tool(&self, name: &str) -> Option<Tool> {
        self.look_up(name, |slot| slot.tool().clone())
    }

    /// From a name to its tool. It leaves a trace, by which a test counts the look-ups of one call.
    fn look_up<T>(&self, name: &str, take: impl FnOnce(&Slot) -> T) -> Option<T> {
        tracing::trace!(name = %name.escape_debug(), "look up");
        self.0.snapshot.load().get(name).map(take)
    }

    /// Whether there is a tool with this full name, alias or provider name.
    pub fn has(&self, name: &str) -> bool {
        self.0.snapshot.load().get(name).is_some()
    }

    /// Whether some tool depends on the completion of this one.
    pub(crate) fn is_awaited(&self, name: &str) -> bool {
        self.0.has_dependents.load(Ordering::Acquire) && self.0.snapshot.load().is_awaited(name)
    }

    /// How many tools there are, overridden ones not counted.
    pub fn len(&self) -> usize {
        self.0.snapshot.load().len()
    }

    /// Whether there is no tool.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tools that pass a filter, by name.
    pub fn list(&self, filter: &Filter) -> Vec<Registered> {
        self.snapshot().sorted().iter().filter(|registered| filter.passes(registered)).cloned().collect()
    }

    /// Every tool of every layer, those that are overridden too: lowest layer first, then by name.
    pub fn layers(&self) -> Vec<(Layer, Tool)> {
        let mut all = self.snapshot().layers();
        all.sort_by(|(one, a), (other, b)| one.cmp(other).then_with(|| a.name().cmp(b.name())));
        all
    }

    /// The tools that fit some words best, best first.
    pub fn search(&self, words: &str, limit: usize) -> Vec<Hit> {
        self.snapshot().search(words, limit)
    }

    /// The tools whose full name matches a pattern with `*` and `?`, by name.
    pub fn matching(&self, pattern: &str) -> Vec<Registered> {
        let named = |registered: &&Registered| pattern::matches(pattern, registered.name().as_str());
        self.snapshot().sorted().iter().filter(named).cloned().collect()
    }

    /// Names that `name` may have been meant to be, best first. The name that is spelled most like it is always among them.
    pub fn near(&self, name: &str, limit: usize) -> Vec<ToolName> {
        self.near_of(name, limit, |_| true)
    }

    /// The same of the tools that a caller may know of.
    pub(crate) fn near_of(&self, name: &str, limit: usize, seen: impl Fn(&Tool) -> bool) -> Vec<ToolName> {
        near::near(&self.snapshot(), name, limit, seen)
    }

    /// Every tool in a provider's format, with the usual options. Cached until a tool changes.
    /// [`Runtime::export`](crate::Runtime::export) knows the caller, what is connected, and the settings.
    pub fn export(&self, format: Format) -> Arc<Value> {
        self.snapshot().export(format)
    }

    /// All tools as they are now: a view that never changes.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot.load_full()
    }

    /// Learns of changes, and of the calls of a runtime with this registry.
    pub fn subscribe(&self) -> Subscription {
        self.0.bus.subscribe()
    }

    /// Tells subscribers of something that happened to a provider of tools.
    pub fn announce(&self, make: impl FnOnce() -> EventKind) {
        self.0.bus.publish(make);
    }

    /// The same registry, for a tool in it: one that held the registry itself would keep it forever.
    pub fn downgrade(&self) -> WeakRegistry {
        WeakRegistry(Arc::downgrade(&self.0))
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.0.bus
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Snapshot) -> Result<(), RegistryError>,
    ) -> Result<(), RegistryError> {
        // A writer that panicked has swapped nothing in, so what is there is whole.
        let _turn = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = self.0.snapshot.load().next();
        change(&mut next)?;
        // First, so that a caller of a tool that is there knows of it.
        self.0.has_dependents.store(next.has_dependents(), Ordering::Release);
        self.0.snapshot.store(Arc::new(next));
        Ok(())
    }

    fn warn_of_override(&self, name: &ToolName, layer: Layer) {
        let Some(registered) = self.get(name.as_str()) else { return };
        if !registered.overrides.is_empty() {
            let overridden = registered.overrides.iter().map(|l| l.as_str()).collect::<Vec<_>>().join(", ");
            tracing::warn!(tool = %name, layer = %registered.layer, %overridden, added = %layer, "a tool overrides another of the same name");
        }
    }
}
