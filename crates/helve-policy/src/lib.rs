//! Who may do what, written in [Cedar](https://www.cedarpolicy.com): the one crate that names
//! `cedar-policy`.
//!
//! [`Policies`] is a [`Policy`](helve_core::ports::Policy): it is asked on every call, and for every
//! tool that is shown. A `permit` allows, a `forbid` beats every `permit`, and what no policy permits
//! is denied. A `forbid … unless { context.approved }` asks a person.
//!
//! ```
//! use helve_core::{Action, Caller, LabelSet, PolicyRequest, PolicyResource, Stance, Tool};
//! use helve_core::ports::Policy as _;
//! use helve_policy::{Vocabulary, Policies, PolicyFile};
//! # use helve_core::{Context, ToolError};
//! # #[derive(serde::Deserialize, schemars::JsonSchema)]
//! # struct Mail { to: String }
//! # async fn send(mail: Mail, _: Context) -> Result<String, ToolError> { Ok(mail.to) }
//! # let send = Tool::function("mail/send", "Sends a mail.", send).build().unwrap();
//!
//! let text = r#"
//!     permit (principal, action in [Action::"list", Action::"call"], resource);
//!
//!     @id("inside-only")
//!     @reason("mail goes to our own people")
//!     forbid (principal, action == Action::"call mail/send", resource)
//!     unless { context.arguments.to like "*@example.com" };
//! "#;
//! let tools = [send];
//! let policies = Policies::load(&[PolicyFile::new("policy.cedar", text)], Vocabulary::tools(&tools)).unwrap();
//!
//! let caller = Caller::agent("planner");
//! let request = PolicyRequest {
//!     caller: &caller,
//!     action: Action::Call,
//!     resource: PolicyResource::Tool(&tools[0]),
//!     arguments: Some(&serde_json::json!({ "to": "eve@elsewhere.org" })),
//!     labels: LabelSet::NONE,
//!     now: jiff::Timestamp::now(),
//! };
//! let vote = policies.rule(&request);
//! assert_eq!(vote.stance, Stance::Deny);
//! assert_eq!(&*vote.by, "policy inside-only");
//! assert_eq!(vote.reason.as_deref(), Some("mail goes to our own people"));
//! ```
//!
//! The way of a request: `cache` knows requests like it, or `plan` picks the policies whose scope
//! fits (`scope`) and, where none of them looks at what differs from call to call (`mention`), settles
//! them once and for all. The others are evaluated with the arguments that they look at
//! (`arguments`), and nothing else.

mod policies;

mod file;
mod finding;

mod check;
mod guard;
mod mention;
mod nesting;
mod parse;
mod scope;

mod arguments;
mod entities;
mod schema;

mod cache;
mod plan;

mod explain;

#[cfg(test)]
mod tests;

pub use explain::{Applied, Explanation};
pub use file::{PolicyFile, Weight, limits};
pub use finding::{Finding, Severity};
pub use policies::{DEFAULT_POLICY, Policies, Statement, Vocabulary};
pub use schema::schema;
