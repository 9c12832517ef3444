//! `helve.toml`: what can be said, where it is read, and where each value came from.
//!
//! Layers, each over the one before: built-in defaults, the user's file, the project's file,
//! the environment, flags. Reading order: [`Config`] is the typed whole; [`load()`] merges the
//! layers; a [`Document`](document::Document) knows the line of every value; [`keys`] lists what
//! there is from the doc comments of the types.

mod types;

pub(crate) mod adopted;
pub(crate) mod asked;
pub(crate) mod document;
mod entry;
pub(crate) mod find;
pub(crate) mod hooks;
pub(crate) mod keys;
mod load;
pub(crate) mod origin;
mod overrides;
pub(crate) mod parts;
pub(crate) mod place;
mod policy;
mod retention;
pub(crate) mod rules;
pub(crate) mod schema;
mod servers;
mod standing;
pub(crate) mod trusted;

pub(crate) use entry::{Sort, ToolEntry, ToolKind, tool_entries};
pub(crate) use hooks::HookSection;
pub(crate) use load::{Inputs, Loaded, ProjectFile, load};
pub(crate) use origin::Origin;
pub(crate) use parts::{Problem, problems_of};
pub(crate) use policy::PolicyPath;
pub(crate) use retention::RetentionSection;
pub(crate) use servers::BrokenServer;
pub(crate) use types::{ApprovalsSection, CheckSection, Config, Durability, Resource, TelemetrySection};
