//! Helve's built-in tools, and tools from configuration.

pub mod common;

pub mod builtin;
pub mod code;
pub mod composed;
pub mod egress;
pub mod files;
pub mod hooks;
pub mod http;
pub mod openapi;
pub mod program;
pub mod web;

pub use builtin::builtin_tools;
pub use program::{ProgramToolConfig, program_tool};
pub use web::{WebBackend, WebConfig, web_tools};
