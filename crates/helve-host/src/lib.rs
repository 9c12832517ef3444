//! From `helve.toml` to a running Helve: configuration, trust and wiring.
//!
//! The `helve` binary stands on this crate, and so can any program that embeds Helve. It finds the files of a
//! folder and of its user, asks what is trusted, and makes tools, hooks, policies, MCP servers and the journal
//! of them. It prints nothing: what a person should know comes back as a [`Remark`] or a [`HostError`].

mod error;
mod remark;

// What the binary's commands look into. It changes with them, so programs should not build on it.
#[doc(hidden)]
pub mod blocking;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod running;
#[doc(hidden)]
pub mod suggest;
#[doc(hidden)]
pub mod wire;
#[doc(hidden)]
pub mod words;

pub use error::{HostError, HostErrorKind};
pub use remark::Remark;
