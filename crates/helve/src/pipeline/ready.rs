//! Are the accounts connected that the tool needs, and do its preconditions hold?
//!
//! Most tools have no preconditions, and for them nothing here waits. Where there are some, their
//! checks run in [`check`], a future of its own.

mod check;
mod report;

use helve_core::{ErrorCode, ToolError};

use super::prepare::PreparedCall;
use super::resolve::ResolvedCall;
use crate::runtime::Parts;
pub(super) use check::check;
pub(crate) use report::report;

/// A call that could run now.
pub(super) struct ReadyCall(pub(super) ResolvedCall);

/// A call whose tool has preconditions, which are not checked yet.
pub(super) struct ConditionalCall(ResolvedCall);

pub(super) enum Readiness {
    Ready(ReadyCall),
    Conditional(ConditionalCall),
}

pub(super) fn ready(parts: &Parts, prepared: PreparedCall) -> Result<Readiness, ToolError> {
    let resolved = prepared.0;
    check_integrations(parts, &resolved)?;
    Ok(if resolved.tool.definition().preconditions.is_empty() {
        Readiness::Ready(ReadyCall(resolved))
    } else {
        Readiness::Conditional(ConditionalCall(resolved))
    })
}

fn check_integrations(parts: &Parts, resolved: &ResolvedCall) -> Result<(), ToolError> {
    let definition = resolved.tool.definition();
    let caller = &resolved.call.caller;
    let missing: Vec<_> =
        definition.integrations.iter().filter(|name| !parts.integrations.connected(name, caller)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let message = format!("`{}` needs {names}, which is not connected", definition.name);
    Err(missing.iter().fold(ToolError::new(ErrorCode::IntegrationMissing, message), |error, name| {
        error.suggest(parts.integrations.how_to_connect(name))
    }))
}
