//! The gate: allow, deny or ask. The strictest voice wins.

use std::ops::ControlFlow;
use std::sync::Arc;

use helve_core::approval::{Asked, Grant, Rule};
use helve_core::event::EventKind;
use helve_core::run::StepKind;
use helve_core::{AdvisedAction, Approval, ApprovalState, Call, ErrorCode, Pending, RuleId, Tool, ToolError};
use serde_json::Value;
use tokio::time::Instant;

use super::ask::{self, pending, question};
use super::prepare::PreparedCall;
use super::ready::ReadyCall;
use super::record::{OpenRecord, unavailable};
use super::resolve::ResolvedCall;
use crate::approvals::{binding, until_decided};
use crate::runs::parse;
use crate::runtime::Parts;

/// A call that may run. Only this stage makes one, and only this can be executed.
pub(super) struct PermittedCall {
    tool: Tool,
    call: Call,
    grant: Option<Box<Grant>>,
}

impl PermittedCall {
    /// The tool.
    pub(super) fn tool(&self) -> &Tool {
        &self.tool
    }

    /// The call, as it will run.
    pub(super) fn call(&self) -> &Call {
        &self.call
    }

    /// The tool, the call, and the approval that its start uses up.
    pub(super) fn into_parts(self) -> (Tool, Call, Option<Box<Grant>>) {
        (self.tool, self.call, self.grant)
    }
}

pub(super) enum Decision {
    Allow(PermittedCall),
    Ask(Pending),
}

/// A call that was permitted before its run was cut short is still permitted, if it is the same:
/// the tool as it was, the arguments as they were, or as a person had edited them.
pub(super) fn permitted_before(
    prepared: PreparedCall,
    record: &mut OpenRecord<'_>,
) -> ControlFlow<PermittedCall, PreparedCall> {
    let Some((_, earlier)) = record.cut_short() else { return ControlFlow::Continue(prepared) };
    let ResolvedCall { tool, call } = &prepared.0;
    let Some(started) = earlier.started.as_ref() else { return ControlFlow::Continue(prepared) };
    let arguments = parse(&started.arguments);
    let edited = started.grant.as_ref().and_then(|grant| grant.asked.as_ref());
    let same = arguments == call.arguments
        || edited.is_some_and(|asked| *asked == binding(tool, call, record.part()));
    if started.digest != *tool.digest() || started.withheld || !same {
        return ControlFlow::Continue(prepared);
    }
    let ResolvedCall { tool, mut call } = prepared.0;
    if arguments != call.arguments {
        record.keep_arguments(&arguments);
        call.arguments = arguments;
    }
    ControlFlow::Break(PermittedCall { tool, call, grant: None })
}

pub(super) async fn decide(
    parts: &Arc<Parts>,
    ready: ReadyCall,
    record: &mut OpenRecord<'_>,
) -> Result<Decision, ToolError> {
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
        return Ok(Decision::Allow(PermittedCall { tool, call, grant: None }));
    }
    // Rare and large, so on the heap, as are conditions.
    Box::pin(ask(parts, tool, call, reasons, record)).await
}

/// Why a person is asked.
struct Reasons {
    /// What may be allowed for a session, once and for all.
    of_tool: Vec<String>,
    /// What somebody wants to know about this very call.
    of_call: Vec<String>,
}

impl Reasons {
    fn is_empty(&self) -> bool {
        self.of_tool.is_empty() && self.of_call.is_empty()
    }
}

fn reasons_to_ask(parts: &Parts, tool: &Tool, call: &Call) -> Reasons {
    let definition = tool.definition();
    let mut of_tool = Vec::new();
    // A composed call asks for the part that needs it, when it comes to it.
    if definition.risk >= parts.settings.ask_from && !tool.is_composed() {
        of_tool.push(format!("`{}` is of {} risk", definition.name, definition.risk));
    }
    if definition.requires_approval {
        of_tool.push(format!("`{}` always needs approval", definition.name));
    }
    let mut of_call = Vec::new();
    if let Some(advice) = &call.advice
        && advice.action == AdvisedAction::RequestApproval
    {
        of_call.push(match &advice.reasoning {
            Some(reasoning) => format!("the calling agent asks for approval: {reasoning}"),
            None => "the calling agent asks for approval".to_owned(),
        });
    }
    Reasons { of_tool, of_call }
}

/// Asks a person, or finds that one was asked before.
async fn ask(
    parts: &Arc<Parts>,
    tool: Tool,
    call: Call,
    reasons: Reasons,
    record: &mut OpenRecord<'_>,
) -> Result<Decision, ToolError> {
    if reasons.of_call.is_empty()
        && let Some(rule_id) = allowed_by_rule(parts, &tool, &call).await?
    {
        record.tell_step(StepKind::RuleUsed { rule_id });
        return Ok(Decision::Allow(PermittedCall { tool, call, grant: None }));
    }
    // What the run did so far must be on disk before something that may take days.
    record.settle_run().await?;
    let until = call.approval_wait.map(|wait| Instant::now() + wait);
    let reasons = [reasons.of_tool, reasons.of_call].concat();
    let mut question = question(parts, &tool, &call, reasons, record).await;
    loop {
        question.approval.created_at = parts.clock.now();
        let asked = parts.ledger.ask(question.clone().into()).await.map_err(unavailable)?;
        let approval = match asked {
            Asked::New(approval) => {
                parts.bulletin.nudge();
                approval
            }
            Asked::Standing(approval) => approval,
            Asked::Approved(approval) => return Ok(Decision::Allow(permit(tool, call, approval, record))),
            Asked::Denied(approval) | Asked::Expired(approval) => return Err(denied(&approval)),
            Asked::TooMany => return Err(ask::too_many(parts.settings.approvals.pending_max)),
        };
        let Some(until) = until.filter(|until| Instant::now() < *until) else {
            return Ok(Decision::Ask(pending(&approval)));
        };
        // Whoever wants to be asked once more has been.
        question.insist = false;
        let (call_id, approval_id) = (record.call_id(), approval.id);
        let told = || EventKind::Pending { call_id, tool: tool.name().clone(), approval_id };
        parts.registry.bus().publish(told);
        until_decided(parts, approval.id, until, call.cancellation.as_ref()).await.map_err(unavailable)?;
        if call.cancellation.as_ref().is_some_and(|token| token.is_cancelled()) {
            return Err(ask::taken_back(&approval));
        }
        // Whoever took the question back does not want it put again.
        let now = parts.ledger.approval(approval.id).await.map_err(unavailable)?;
        if let Some(withdrawn) = now.filter(|now| now.state == ApprovalState::Withdrawn) {
            return Err(denied(&withdrawn));
        }
    }
}

/// The rule by which a person has allowed the like for the session.
async fn allowed_by_rule(parts: &Parts, tool: &Tool, call: &Call) -> Result<Option<RuleId>, ToolError> {
    /// Most rules of one tool that are looked at. Beyond that a person is asked.
    const RULES_MAX: usize = 1_000;
    let name = Some(tool.name().to_string());
    let rules = parts.ledger.rules(name, RULES_MAX).await.map_err(unavailable)?;
    let now = parts.clock.now();
    let allows = |rule: &&Rule| rule.allows(tool.digest(), &call.caller, &call.arguments, now);
    Ok(rules.iter().find(allows).map(|rule| rule.id))
}

/// A person has approved the call, perhaps with other arguments.
fn permit(tool: Tool, mut call: Call, approval: Approval, record: &mut OpenRecord<'_>) -> PermittedCall {
    let asked = approval.binding;
    let edited: Option<Value> = approval.ruling.and_then(|ruling| ruling.edited).map(|edited| parse(&edited));
    let Some(edited) = edited else {
        let grant = Grant { approval_id: approval.id, binding: asked, asked: None };
        return PermittedCall { tool, call, grant: Some(Box::new(grant)) };
    };
    call.arguments = edited;
    record.keep_arguments(&call.arguments);
    record.edited(&call.arguments);
    // Made anew from what will run, and compared with what was approved when it is used up.
    let binding = binding(&tool, &call, record.part());
    let grant = Grant { approval_id: approval.id, binding, asked: Some(asked) };
    PermittedCall { tool, call, grant: Some(Box::new(grant)) }
}

/// Why a question was answered with no.
pub(crate) fn denied(approval: &Approval) -> ToolError {
    let ruling = approval.ruling.as_ref();
    let by = ruling.map(|ruling| format!(" by {}", ruling.by)).unwrap_or_default();
    let why = ruling.and_then(|ruling| ruling.reason.as_deref());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let tool = &approval.tool;
    match approval.state {
        ApprovalState::Expired => ToolError::new(
            ErrorCode::ApprovalExpired,
            format!("nobody approved this call of `{tool}` in time ({})", approval.id),
        )
        .suggest("ask the user whether it is still wanted; calling again asks anew"),
        ApprovalState::Withdrawn => {
            ToolError::new(ErrorCode::Cancelled, format!("the question {} was taken back", approval.id))
        }
        ApprovalState::Pending | ApprovalState::Approved | ApprovalState::Denied | ApprovalState::Used => {
            let message = format!("this call of `{tool}` was denied{by}{why}");
            ToolError::new(ErrorCode::ApprovalDenied, message)
                .suggest("do not repeat it; do what the reason says, or ask the user what they want instead")
        }
    }
}
