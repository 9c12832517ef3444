//! File tools, confined to the folders that the operator names.
//!
//! - `config`: what the operator says; `Files` puts it to work;
//! - `path`, `root`: from what a model wrote to a handle of the folder that holds the file. Every
//!   step is taken beneath a root's handle, in the kernel: no path is ever compared as text to
//!   find out whether it is allowed;
//! - `atomic`, `backup`, `change`: replacing a file whole, keeping what it was, and undoing that;
//! - `at_hand`: what need not wait for a disk; `text`: encodings; `walk`: folders, without following links;
//! - `read`, `write`, `edit`, `list`, `search`: one tool each.

mod config;

#[cfg(unix)]
mod asked;
mod at_hand;
#[cfg(unix)]
mod atomic;
#[cfg(unix)]
mod backup;
#[cfg(unix)]
mod change;
#[cfg(unix)]
mod edit;
#[cfg(unix)]
mod fault;
#[cfg(unix)]
mod list;
#[cfg(unix)]
mod near;
#[cfg(unix)]
mod path;
#[cfg(unix)]
mod read;
#[cfg(unix)]
mod root;
#[cfg(unix)]
mod search;
#[cfg(unix)]
mod setup;
#[cfg(unix)]
mod text;
#[cfg(unix)]
mod walk;
#[cfg(unix)]
mod write;

pub use config::{FilesConfig, RootConfig, RootDetail};
#[cfg(all(unix, fuzzing))]
pub use path::read_path;
#[cfg(unix)]
pub use setup::{Files, FilesBuilder, file_tools};
