//! Whether a tool could run now, without running it.

use std::sync::Arc;

use helve_core::ports::Integrations;
use helve_core::{Call, CallId, ToolError};
use serde_json::{Map, Value};

use super::super::authorize::denial;
use super::super::origin::Origin;
use super::super::prepare::fit;
use super::super::resolve::{ResolvedCall, not_found};
use crate::conditions::{CheckedCall, ConditionReport, evaluate};
use crate::runtime::Engine;

/// All that the tool of a call needs, and whether it is so. Null stands for no arguments.
pub(crate) async fn report(engine: &Arc<Engine>, call: Call) -> Result<Vec<ConditionReport>, ToolError> {
    let (registry, policy) = (&engine.registry, &engine.judges.policy);
    let tool = registry.tool(&call.tool).ok_or_else(|| not_found(registry, policy, &call))?;
    let mut resolved = ResolvedCall { tool, call: Box::new(call) };
    if let Some((denial, _)) = denial(&engine.settings, policy, &resolved, &Origin::Outside(None)) {
        return Err(denial);
    }
    let ResolvedCall { tool, call } = &mut resolved;
    if call.arguments.is_null() {
        call.arguments = Value::Object(Map::new());
    } else {
        helve_core::json::check(&call.arguments, engine.settings.arguments)
            .map_err(|error| ToolError::new(helve_core::ErrorCode::ValidationFailed, error.to_string()))?;
        fit(&engine.settings, tool, &mut call.arguments)?;
    }
    let mut reports = integrations(&*engine.conditions.integrations, &resolved);
    let asked =
        CheckedCall { call_id: CallId::new(engine.clock.now()), tool: &resolved.tool, call: &resolved.call };
    reports.extend(evaluate(engine, asked).await);
    Ok(reports)
}

fn integrations(integrations: &dyn Integrations, resolved: &ResolvedCall) -> Vec<ConditionReport> {
    let names = resolved.tool.definition().integrations.iter();
    names
        .map(|name| {
            let holds = integrations.connected(name, &resolved.call.caller);
            ConditionReport {
                description: format!("`{name}` is connected"),
                kind: "integration",
                critical: true,
                holds,
                reason: (!holds).then(|| integrations.how_to_connect(name)),
            }
        })
        .collect()
}
