//! Program tools: an executable that reads arguments as JSON and answers in JSON.
//!
//! The contract, in any language: read one JSON object from stdin, write one JSON value to stdout,
//! write everything else to stderr, exit with 0. Any other exit code is a failure, and the end of
//! stderr says why. The command line never depends on arguments, so a model cannot add an option.
//!
//! ```toml
#![doc = include_str!("example.toml")]
//! ```

mod config;
mod reach;
mod variable;

mod excerpt;
mod handler;

pub use config::{ProgramToolConfig, program_tool};
pub use reach::Reach;
pub(crate) use variable::Variable;
