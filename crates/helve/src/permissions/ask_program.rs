//! The `can_use_tool` callback: the program around Helve answers before a person is asked.

use std::sync::Arc;

use helve_core::permission::{Lasting, PermissionResult, PermissionUpdate};
use helve_core::{BoxFuture, Caller};
use serde::Serialize;
use serde_json::Value;

/// Whether a tool may be used, as the program around Helve is asked it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PermissionQuestion {
    /// The tool's full name.
    pub tool_name: String,
    /// What it would be called with.
    pub input: Value,
    /// Changes that would let the like run unasked. None where a source asks about this very call.
    pub suggestions: Vec<PermissionUpdate>,
    /// The path that the call is about, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_path: Option<String>,
    /// Why it is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_reason: Option<String>,
    /// The tool's name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does.
    pub description: String,
    /// The id of the call.
    #[serde(rename = "toolUseID")]
    pub tool_use_id: String,
    /// The agent that calls.
    #[serde(rename = "agentID", skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Whose call it is.
    pub caller: Arc<Caller>,
}

impl PermissionQuestion {
    /// A question about a tool.
    pub(crate) fn new(
        tool: &helve_core::Tool,
        call: &helve_core::Call,
        id: String,
        reasons: &[String],
        suggestions: Vec<PermissionUpdate>,
    ) -> Self {
        let path = call.arguments.get("path").or_else(|| call.arguments.get("file_path"));
        Self {
            tool_name: tool.name().to_string(),
            input: call.arguments.clone(),
            suggestions,
            blocked_path: path.and_then(Value::as_str).map(str::to_owned),
            decision_reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
            title: tool.definition().annotations.title.clone(),
            description: tool.definition().description.clone(),
            tool_use_id: id,
            agent_id: call.caller.agent.clone(),
            caller: Arc::clone(&call.caller),
        }
    }
}

/// Answers whether a tool may be used, in place of a person.
///
/// It is the operator's, like a policy: a call's own caller has no way to it. `Ok(None)` leaves the
/// question to a person; an error, a panic or no answer in time denies.
pub trait CanUseTool: Send + Sync + 'static {
    /// Answers a question.
    fn can_use_tool(
        &self,
        question: Arc<PermissionQuestion>,
    ) -> BoxFuture<'static, Result<Option<PermissionResult>, String>>;

    /// How far the changes of permissions reach that it answers with. Code of the program around Helve is
    /// the operator's word; a program asked elsewhere gets [`Lasting::Session`].
    fn lasting(&self) -> Lasting {
        Lasting::AsSaid
    }
}

impl<F, R> CanUseTool for F
where
    F: Fn(Arc<PermissionQuestion>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Option<PermissionResult>, String>> + Send + 'static,
{
    fn can_use_tool(
        &self,
        question: Arc<PermissionQuestion>,
    ) -> BoxFuture<'static, Result<Option<PermissionResult>, String>> {
        Box::pin(self(question))
    }
}
