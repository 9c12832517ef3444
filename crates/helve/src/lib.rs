//! The tool runtime for AI agents.
//!
//! Register tools, then call them through one pipeline that finds the tool, checks who calls,
//! mends and validates the arguments, decides whether a person must be asked, runs the tool
//! within its limits, checks the answer, and records it all.
//!
//! ```
//! use helve::{Call, Context, Runtime, Tool, ToolError};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use serde_json::json;
//!
//! /// What `add` takes.
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     /// The first number.
//!     a: f64,
//!     /// The second number.
//!     b: f64,
//! }
//!
//! async fn add(input: Add, _context: Context) -> Result<f64, ToolError> {
//!     Ok(input.a + input.b)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::builder().tool(Tool::function("add", "Adds two numbers.", add).read_only())?.build();
//! // A model sent a number as a string: it is mended, and the outcome says so.
//! let outcome = runtime.call(Call::new("add", json!({ "a": 2, "b": "3" }))).await;
//! assert_eq!(outcome.repairs.len(), 1);
//! assert_eq!(outcome.into_result()?, json!(5.0));
//! # Ok(())
//! # }
//! ```
//!
//! Where to look: [`Registry`] and [`Workspace`] hold tools; [`Runtime`] runs calls; [`formats`]
//! speaks to model providers. Everything of [`helve_core`] is here too.

pub mod compose;
pub mod registry;
pub mod workspace;

pub mod approvals;
pub mod conditions;
pub mod hooks;
pub mod limits;
pub mod permissions;
mod pipeline;
pub mod runs;
pub mod runtime;
pub mod sessions;

pub mod bus;
pub mod formats;
mod live;
pub mod volatile;

pub use bus::{Bus, Delivery, Subscription};
pub use conditions::{ConditionReport, ToolCheck};
pub use helve_core::*;
pub use limits::{BreakerSettings, LocalLimiter, RetryBudget};
pub use registry::{Filter, Hit, Registered, Registry, RegistryError};
pub use runtime::{
    Anonymous, Asks, Durability, Runtime, RuntimeBuilder, RuntimeMemory, Served, Settings, Stopped,
};
pub use volatile::VolatileLedger;
pub use workspace::{Workspace, WorkspaceError};

/// The README's program is compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
