//! Helve's built-in tools, and tools from configuration.

pub mod common;
