//! The gate: allow, deny or ask. The strictest voice wins.

use std::ops::ControlFlow;
use std::sync::Arc;

use helve_core::json::{canonical, sha256_hex};
use helve_core::{AdvisedAction, ApprovalId, Call, ErrorCode, Pending, Tool, ToolError};

use super::prepare::PreparedCall;
use super::ready::ReadyCall;
use super::record::OpenRecord;
use super::resolve::ResolvedCall;
use crate::runs::parse;
use crate::runtime::Parts;

/// A call that may run. Only this stage makes one, and only this can be executed.
pub(super) struct PermittedCall {
    tool: Tool,
    call: Call,
}

impl PermittedCall {
    pub(super) fn into_parts(self) -> (Tool, Call) {
        (self.tool, self.call)
    }
}

pub(super) enum Decision {
    Allow(PermittedCall),
    Ask(Pending),
}

/// A call that was permitted before its run was cut short is still permitted, if it is the same:
/// the tool as it was, the arguments as they were.
pub(super) fn permitted_before(
    prepared: PreparedCall,
    record: &OpenRecord<'_>,
) -> ControlFlow<PermittedCall, PreparedCall> {
    let Some((_, earlier)) = record.cut_short() else { return ControlFlow::Continue(prepared) };
    let ResolvedCall { tool, call } = &prepared.0;
    let same = earlier.started.as_ref().is_some_and(|started| {
        started.digest == *tool.digest() && !started.withheld && parse(&started.arguments) == call.arguments
    });
    if !same {
        return ControlFlow::Continue(prepared);
    }
    let ResolvedCall { tool, call } = prepared.0;
    ControlFlow::Break(PermittedCall { tool, call })
}

pub(super) fn decide(parts: &Parts, ready: ReadyCall) -> Result<Decision, ToolError> {
    let ResolvedCall { tool, call } = ready.0;
    if let Some(advice) = &call.advice
        && advice.action == AdvisedAction::Deny
    {
        let why = advice.reasoning.as_deref().unwrap_or("it gave no reason");
        let message = format!("the calling agent decided against this call: {why}");
        return Err(ToolError::new(ErrorCode::PermissionDenied, message));
    }
    let reasons = reasons_to_ask(parts, &tool, &call);
    if reasons.is_empty() {
        return Ok(Decision::Allow(PermittedCall { tool, call }));
    }
    Ok(Decision::Ask(Pending {
        approval_id: ApprovalId::new(parts.clock.now()),
        reasons,
        binding: binding(&tool, &call),
    }))
}

fn reasons_to_ask(parts: &Parts, tool: &Tool, call: &Call) -> Vec<String> {
    let definition = tool.definition();
    let mut reasons = Vec::new();
    // A composed call asks for the part that needs it, when it comes to it.
    if definition.risk >= parts.settings.ask_from && !tool.is_composed() {
        reasons.push(format!("`{}` is of {} risk", definition.name, definition.risk));
    }
    if definition.requires_approval {
        reasons.push(format!("`{}` always needs approval", definition.name));
    }
    if let Some(advice) = &call.advice
        && advice.action == AdvisedAction::RequestApproval
    {
        reasons.push(match &advice.reasoning {
            Some(reasoning) => format!("the calling agent asks for approval: {reasoning}"),
            None => "the calling agent asks for approval".to_owned(),
        });
    }
    reasons
}

/// What an approval is good for: this tool as it is, these arguments, this caller.
fn binding(tool: &Tool, call: &Call) -> String {
    let caller = serde_json::to_string(&Arc::as_ref(&call.caller)).unwrap_or_default();
    let parts = [&**tool.digest(), &canonical(&call.arguments), &caller];
    // Lengths keep one part from running into the next.
    let text: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    sha256_hex(text.as_bytes())
}
