//! `code-execute`: a model's code, run in a box.
//!
//! The box is the defence: it has no files of the host but the system's programs and libraries, no
//! network, and limits on everything. Inside lies a small client (`client/`) with which the code can
//! call other tools of its caller: `bridge` answers it, and each call goes through the whole
//! pipeline. `warm` has interpreters started before anybody asks.

mod tool;

mod blocked;
mod bridge;
mod files;
mod language;
mod nesting;
mod session;
mod warm;

pub use tool::{CodeOptions, code_tool};
