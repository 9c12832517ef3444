//! Checks that call a tool and look at its result.

use std::sync::Arc;

use helve_core::expression::{Expression, Scope};
use helve_core::{BoxFuture, Call, Outcome, Status, Tool};
use serde_json::Value;

use super::evaluate::{CheckedCall, Verdict};
use crate::pipeline::{self, Origin};
use crate::runtime::Engine;

/// A check that calls a tool and looks at its result.
///
/// The tool is called as the caller whose call is being checked, and its call is recorded like any
/// other. It must only read; it must be neither composed nor have preconditions of its own, or
/// checks could go in circles.
#[derive(Debug, Clone)]
pub struct ToolCheck {
    /// The full name of the tool to call.
    pub tool: String,
    /// The arguments that it is called with.
    pub arguments: Value,
    /// Whether the condition holds, by the tool's `result`.
    pub expect: Expression,
}

impl ToolCheck {
    /// Why a tool cannot be used for checks.
    pub fn objection(tool: &Tool) -> Option<&'static str> {
        let definition = tool.definition();
        if definition.changes_world() {
            Some("it may change something; checks only read")
        } else if tool.is_composed() {
            Some("it is composed of others; checks call one tool")
        } else if !definition.preconditions.is_empty() {
            Some("it has preconditions of its own, and checks could go in circles")
        } else {
            None
        }
    }
}

/// Boxed: the call takes the whole pipeline, which is where it comes from.
pub(super) fn call_tool<'a>(
    engine: &'a Arc<Engine>,
    asked: CheckedCall<'a>,
    check: &'a ToolCheck,
) -> BoxFuture<'a, Verdict> {
    Box::pin(async move {
        let name = &check.tool;
        let tool = engine.registry.tool(name).ok_or_else(|| format!("no tool `{name}` is registered"))?;
        if let Some(objection) = ToolCheck::objection(&tool) {
            return Err(format!("`{name}` cannot check it: {objection}"));
        }
        let call = Call::new(name.as_str(), check.arguments.clone())
            .by(Arc::clone(&asked.call.caller))
            .correlation_id(asked.call_id.to_string());
        let result = answer(pipeline::run_call(engine, Box::new(call), Origin::Outside(None)).await)?;
        match check.expect.holds(&Scope::new().with("result", &result)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("`{name}` says otherwise")),
            Err(error) => Err(error.to_string()),
        }
    })
}

fn answer(outcome: Outcome) -> Result<Value, String> {
    let tool = outcome.tool;
    match outcome.status {
        Status::Done(output) if !output.is_failure => Ok(output.value),
        Status::Done(_) => Err(format!("`{tool}` failed")),
        Status::Failed(error) => Err(format!("`{tool}` failed: {}", error.message())),
        Status::Pending(_) => Err(format!("`{tool}` waits for a person")),
    }
}
