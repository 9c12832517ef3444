//! Helve's built-in tools, and tools from configuration.

pub mod common;

pub mod builtin;

pub use builtin::builtin_tools;
