//! The tool runtime for AI agents: registry, pipeline, provider formats.

pub mod formats;

pub use helve_core::*;
