//! Finds out whether a tool's preconditions hold.
//!
//! `evaluate` checks them all at once, each within a bounded time. Whatever keeps a check from
//! answering (an error, a panic, too much time) counts as "does not hold": a check that breaks must
//! never let a call through.

mod code;
pub(crate) mod completed;
mod evaluate;
mod tool_check;

use std::collections::BTreeMap;
use std::sync::Arc;

use helve_core::ports::{Connected, Integrations};
use helve_core::precondition::Check;
use serde::Serialize;

pub(crate) use evaluate::{CheckedCall, evaluate};
pub use tool_check::ToolCheck;

/// What a runtime knows for checking conditions.
pub(crate) struct Conditions {
    /// Tells which accounts are connected.
    pub(crate) integrations: Arc<dyn Integrations>,
    pub(crate) resources: BTreeMap<String, Arc<dyn Check>>,
    pub(crate) checks: BTreeMap<String, NamedCheck>,
    /// Permissions by principal; those of `*` are everybody's.
    pub(crate) grants: BTreeMap<String, Vec<String>>,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            integrations: Arc::new(Connected::default()),
            resources: BTreeMap::new(),
            checks: BTreeMap::new(),
            grants: BTreeMap::new(),
        }
    }
}

/// A check that tools ask for by its id.
pub(crate) enum NamedCheck {
    /// Code of the embedding program or of a pack.
    Code(Arc<dyn Check>),
    /// A call of a tool that only reads.
    Tool(ToolCheck),
}

impl<C: Check> From<Arc<C>> for NamedCheck {
    fn from(check: Arc<C>) -> Self {
        Self::Code(check)
    }
}

impl From<ToolCheck> for NamedCheck {
    fn from(check: ToolCheck) -> Self {
        Self::Tool(check)
    }
}

/// Whether something that a tool needs is so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConditionReport {
    /// What must hold, for people and models.
    pub description: String,
    /// The sort of condition: `integration`, `resource`, `state`, `permission`, `dependency` or
    /// `custom`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Whether the tool must not run without it.
    pub critical: bool,
    /// Whether it holds.
    pub holds: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ConditionReport {
    /// The condition with the reason why it does not hold, in one line.
    pub fn line(&self) -> String {
        match &self.reason {
            Some(reason) => format!("{} ({reason})", self.description),
            None => self.description.clone(),
        }
    }
}
