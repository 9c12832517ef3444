//! Are the accounts connected that the tool needs, and do its preconditions hold?

use helve_core::precondition::{Condition, DependencyStatus, Precondition};
use helve_core::{ErrorCode, ToolError};

use super::prepare::PreparedCall;
use super::resolve::ResolvedCall;
use crate::runtime::Parts;

/// A call that could run now.
pub(super) struct ReadyCall(pub(super) ResolvedCall);

pub(super) fn ready(parts: &Parts, prepared: PreparedCall) -> Result<ReadyCall, ToolError> {
    let resolved = prepared.0;
    check_integrations(parts, &resolved)?;
    check_preconditions(parts, &resolved)?;
    Ok(ReadyCall(resolved))
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

fn check_preconditions(parts: &Parts, resolved: &ResolvedCall) -> Result<(), ToolError> {
    let definition = resolved.tool.definition();
    let critical = definition.preconditions.iter().filter(|precondition| precondition.critical);
    let unmet: Vec<_> = critical.filter_map(|precondition| unmet(parts, precondition)).collect();
    if unmet.is_empty() {
        return Ok(());
    }
    let message = format!("`{}` cannot run now: {}", definition.name, unmet.join("; "));
    Err(unmet
        .into_iter()
        .fold(ToolError::new(ErrorCode::PreconditionFailed, message), |error, line| error.suggest(line)))
}

/// Why a condition does not hold. One that cannot be checked counts as not holding.
fn unmet(parts: &Parts, precondition: &Precondition) -> Option<String> {
    match &precondition.condition {
        Condition::Dependency { tool, status: DependencyStatus::Available } if parts.registry.has(tool) => {
            None
        }
        Condition::Dependency { tool, status: DependencyStatus::Available } => {
            Some(format!("{} (no tool `{tool}` is registered)", precondition.description))
        }
        Condition::Dependency { status: DependencyStatus::Completed, .. }
        | Condition::Resource { .. }
        | Condition::State { .. }
        | Condition::Permission { .. }
        | Condition::Custom { .. } => {
            Some(format!("{} (this version has no way to check it)", precondition.description))
        }
    }
}
