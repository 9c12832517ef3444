//! Reading what a server behind this runtime has besides tools: resources and prompts.

use std::sync::Arc;

use helve_core::gate::{Action, PolicyRequest, PolicyResource};
use helve_core::{Call, LabelSet, Outcome, Tool};
use jiff::Timestamp;
use serde_json::Value;

use super::{Runtime, stop};
use crate::pipeline::{self, Origin};

/// A resource or a prompt that a client wants to read, to subscribe to, or to have completed.
///
/// Models do not choose it from a list of tools, so it is in no registry. What it brings into a
/// session is the same as what a tool of its server would, so it takes the same way.
#[derive(Clone)]
pub struct Served {
    /// What reads it, whatever name the call has for it.
    pub tool: Tool,
    /// What the policy is asked: [`Action::ReadResource`] or [`Action::GetPrompt`].
    pub action: Action,
    /// The server that has it.
    pub server: Arc<str>,
    /// Which argument holds its address or name there.
    pub named_by: &'static str,
    /// Who may be asked about it.
    pub asks: Asks,
}

/// Who may be asked about something that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// A person, where a source asks for one.
    Person,
    /// Nobody: what would ask is denied. For what comes with every key that a person presses.
    Nobody,
}

impl Served {
    /// The question to a policy whether a call may have it: about what it asks for now, which a hook
    /// may have changed.
    pub(crate) fn request<'a>(
        &'a self,
        call: &'a Call,
        labels: LabelSet,
        now: Timestamp,
    ) -> PolicyRequest<'a> {
        let name = call.arguments.get(self.named_by).and_then(Value::as_str).unwrap_or_default();
        let resource = PolicyResource::Served { server: &self.server, name };
        let caller = &call.caller;
        PolicyRequest { caller, action: self.action, resource, arguments: None, labels, now }
    }
}

impl Runtime {
    /// Reads what a server has besides tools, through the whole pipeline: it is one record in the
    /// journal, raises labels, and hooks, rules and limits hold for it as for a call.
    ///
    /// A person can be asked about it too. Then the outcome is pending, and the same call made again
    /// uses the approval.
    pub async fn read(&self, served: Served, mut call: Call) -> Outcome {
        let wait = self.settings().approvals.wait;
        if call.approval_wait.is_none() && !wait.is_zero() {
            call.approval_wait = Some(wait);
        }
        if let Some(by) = self.engine().stop.by() {
            return pipeline::refuse(self.engine(), call, stop::refused(by)).await;
        }
        pipeline::run_call(self.engine(), Box::new(call), Origin::Served(Box::new(served))).await
    }
}
