//! Are the accounts connected that the tool needs, and do its preconditions hold?
//!
//! Most tools have no preconditions, and for them nothing here waits. Where there are some, their
//! checks run in [`check`], its own future.

mod check;
mod report;

use helve_core::effect::Change;
use helve_core::ports::Integrations;
use helve_core::run::Undo;
use helve_core::{ErrorCode, ToolError};

use super::prepare::PreparedCall;
use super::resolve::ResolvedCall;
use crate::registry::Registry;
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

/// Checks that accounts are connected and that the tools are there which the tool names.
pub(super) fn ready(
    registry: &Registry,
    integrations: &dyn Integrations,
    prepared: PreparedCall,
) -> Result<Readiness, ToolError> {
    let resolved = prepared.0;
    check_integrations(integrations, &resolved)?;
    check_named(registry, &resolved)?;
    Ok(if resolved.tool.definition().preconditions.is_empty() {
        Readiness::Ready(ReadyCall(resolved))
    } else {
        Readiness::Conditional(ConditionalCall(resolved))
    })
}

/// Are the tools there that its effects call and that undo it? Found out later, the tool has changed the world.
fn check_named(registry: &Registry, resolved: &ResolvedCall) -> Result<(), ToolError> {
    let definition = resolved.tool.definition();
    let cascades = definition.effects.iter().filter_map(|effect| match &effect.change {
        Change::Cascade { tool, .. } => Some((tool, "calls afterwards")),
        Change::StateChange { .. } | Change::Memory { .. } | Change::Notification { .. } => None,
    });
    let undo = definition.undo.iter().filter_map(|undo| match undo {
        Undo::Tool { tool, .. } => Some((tool, "is undone by")),
        Undo::Handler => None,
    });
    let Some((absent, relation)) = cascades.chain(undo).find(|(tool, _)| !registry.has(tool)) else {
        return Ok(());
    };
    let message = format!("`{}` {relation} `{absent}`, and there is no such tool now", definition.name);
    Err(ToolError::new(ErrorCode::PreconditionFailed, message)
        .suggest(format!("nothing was run; call again once `{absent}` is there")))
}

fn check_integrations(integrations: &dyn Integrations, resolved: &ResolvedCall) -> Result<(), ToolError> {
    let definition = resolved.tool.definition();
    let caller = &resolved.call.caller;
    let missing: Vec<_> =
        definition.integrations.iter().filter(|name| !integrations.connected(name, caller)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let message = format!("`{}` needs {names}, which is not connected", definition.name);
    Err(missing.iter().fold(ToolError::new(ErrorCode::IntegrationMissing, message), |error, name| {
        error.suggest(integrations.how_to_connect(name))
    }))
}
