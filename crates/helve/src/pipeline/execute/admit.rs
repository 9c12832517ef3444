//! Whether a permitted call may start now: the tool is well, and nobody has had too much.

use std::time::Duration;

use helve_core::ports::{Clock, Ledger, Slot};
use helve_core::{Call, ErrorCode, Tool, ToolError};
use serde_json::Value;

use super::super::record::CallRecorder;
use crate::limits::{Costs, Health, Held, Limiters, Pass, Verdict};
use crate::runtime::Settings;

/// What a call holds while it runs.
pub(super) struct Admitted<'p> {
    pass: Pass<'p>,
    _slots: Vec<Slot>,
}

pub(super) fn admit<'p>(limits: &'p Limiters, tool: &Tool, call: &Call) -> Result<Admitted<'p>, ToolError> {
    // The breaker first: a call that cannot run anyway should not use up its caller's share.
    let pass = limits.health.enter(tool.name())?;
    let slots = limits.calls.admit(tool.name(), &call.caller)?;
    Ok(Admitted { pass, _slots: slots })
}

/// Holds the price of a call to a tool that has one, where cost is limited. Before all else that is taken: who may not
/// spend must not use up what others share.
pub(super) async fn hold(
    costs: &Costs,
    ledger: &dyn Ledger,
    clock: &dyn Clock,
    tool: &Tool,
    call: &Call,
) -> Result<Option<Held>, ToolError> {
    let Some(price) = &tool.definition().cost else { return Ok(None) };
    if !costs.is_limited() {
        return Ok(None);
    }
    // On the heap: nearly no call comes here.
    let holding = costs.hold(ledger, clock.now(), price, tool.name(), &call.caller);
    Box::pin(holding).await.map(Some)
}

/// Records what a call cost, and counts it.
pub(super) fn charge(result: &Result<Value, ToolError>, record: &mut CallRecorder<'_>) {
    let did_nothing = matches!(result, Err(error) if error.did_nothing());
    record.pay(result.as_ref().ok(), did_nothing);
}

impl Admitted<'_> {
    /// Tells the breaker what this call found out.
    /// `asked` is how long its caller gave it.
    pub(super) fn ended(
        self,
        health: &Health,
        settings: &Settings,
        tool: &Tool,
        asked: Option<Duration>,
        result: &Result<Value, ToolError>,
    ) {
        let verdict = match result {
            Ok(_) => Verdict::Well,
            // Its parts have their own.
            Err(_) if tool.is_composed() => Verdict::Unknown,
            // Who gives a tool less than its time must not have it left alone for everybody.
            Err(error) if error.code() == ErrorCode::Timeout && is_hurried(settings, tool, asked) => {
                Verdict::Unknown
            }
            Err(error) => Verdict::of(error.code()),
        };
        health.ended(tool.name(), self.pass, verdict);
    }
}

fn is_hurried(settings: &Settings, tool: &Tool, asked: Option<Duration>) -> bool {
    asked.is_some_and(|asked| asked < super::time_allowed(settings, tool))
}
