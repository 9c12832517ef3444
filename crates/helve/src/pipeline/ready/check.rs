//! The preconditions of a call: met, or without the critical ones no call.

use std::sync::Arc;

use helve_core::{BoxFuture, CallId, ErrorCode, ToolError};

use super::super::record::Subject;
use super::super::resolve::ResolvedCall;
use super::{ConditionalCall, ReadyCall};
use crate::conditions::{CheckedCall, ConditionReport, evaluate};
use crate::runtime::Engine;

/// Checks the preconditions. Returns the call with those that do not hold and that it can do without.
pub(in crate::pipeline) async fn check(
    engine: &Arc<Engine>,
    conditional: ConditionalCall,
    subject: &Subject<'_>,
) -> Result<(ReadyCall, Vec<String>), ToolError> {
    // What the run did so far must be on disk before something that may take its time.
    subject.settle_run().await?;
    let resolved = conditional.0;
    let reports = reports(engine, &resolved, subject.call_id()).await?;
    let unmet: Vec<_> = reports.iter().filter(|report| !report.holds).collect();
    if unmet.iter().any(|report| report.critical) {
        return Err(refusal(&resolved, &unmet));
    }
    let degraded = unmet.into_iter().map(ConditionReport::line).collect();
    Ok((ReadyCall(resolved), degraded))
}

/// Boxed: few calls need it, and the others should not carry its size.
fn reports<'a>(
    engine: &'a Arc<Engine>,
    resolved: &'a ResolvedCall,
    call_id: CallId,
) -> BoxFuture<'a, Result<Vec<ConditionReport>, ToolError>> {
    Box::pin(async move {
        let call = &resolved.call;
        let taken_back = async {
            match &call.cancellation {
                Some(token) => token.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            reports = evaluate(engine, CheckedCall { call_id, tool: &resolved.tool, call }) => Ok(reports),
            () = taken_back => Err(ToolError::new(ErrorCode::Cancelled, "the call was cancelled")),
        }
    })
}

fn refusal(resolved: &ResolvedCall, unmet: &[&ConditionReport]) -> ToolError {
    let lines: Vec<_> = unmet
        .iter()
        .map(
            |report| if report.critical { report.line() } else { format!("{}, not critical", report.line()) },
        )
        .collect();
    let message = format!("`{}` cannot run now: {}", resolved.tool.name(), lines.join("; "));
    lines.into_iter().fold(ToolError::new(ErrorCode::PreconditionFailed, message), ToolError::suggest)
}
