//! `helve.toml`: what can be said, where it is read, and where each value came from.
//!
//! Layers, each over the one before: built-in defaults, the user's file, the project's file,
//! the environment, flags. Reading order: [`Config`] is the typed whole; [`load()`] merges the
//! layers; a [`Document`](document::Document) knows the line of every value; [`keys`] lists what
//! there is from the doc comments of the types.

mod types;

pub mod adopted;
pub mod asked;
mod check;
pub mod document;
mod entry;
pub mod file;
pub mod find;
pub mod hooks;
mod inputs;
pub mod keys;
mod load;
mod loaded;
pub mod origin;
mod overrides;
pub mod parts;
pub mod place;
mod pointer;
mod policy;
mod retention;
pub mod rules;
pub mod schema;
mod servers;
mod standing;
pub(crate) mod store;
pub mod trusted;

pub(crate) use entry::Sort;
pub use entry::{ToolEntry, ToolKind, tool_entries};
pub use hooks::HookSection;
pub use inputs::{Inputs, ProjectFile};
pub use load::load;
pub use loaded::Loaded;
pub use origin::Origin;
pub use parts::{Problem, problems_of};
pub use policy::PolicyPath;
pub(crate) use retention::RetentionSection;
pub(crate) use servers::BrokenServer;
pub(crate) use types::{ApprovalsSection, CheckSection, Durability, TelemetrySection};
pub use types::{Config, Resource};
