//! From `helve.toml` to a running Helve: configuration, trust and wiring.
//!
//! The `helve` binary stands on this crate, and so can any program that embeds Helve. It finds the files of a
//! folder and of its user, asks what is trusted, and makes tools, hooks, policies, MCP servers and the journal
//! of them. It prints nothing: what a person should know comes back as a [`Remark`] or a [`HostError`].
//!
//! ```
//! use helve::Call;
//! use helve_host::{Host, Options};
//! use serde_json::json;
//!
//! # async fn call() -> Result<(), Box<dyn std::error::Error>> {
//! let helve = Host::open(Options::in_folder(".")).await?;
//! let call = Call::new("math-eval", json!({ "expression": "2^10" }));
//! let outcome = helve.runtime().call(call).await;
//! assert!(outcome.is_success());
//! # Ok(())
//! # }
//! ```
//!
//! A project's tools, hooks and servers that reach beyond its folder do nothing before their user has seen them:
//! [`Host::waiting`] lists them, and `helve trust` lets them. A program adds tools of its own with
//! `helve.runtime().registry().register(…)`.

mod error;
mod host;
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
pub use host::{Host, Options, Waiting};
pub use remark::Remark;
