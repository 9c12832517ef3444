//! Name to tool.

use helve_core::{Call, Caller, ErrorCode, Tool, ToolError, ToolName};

use super::authorize;
use super::origin::Origin;
use crate::registry::Registry;
use crate::runtime::LivePolicy;

/// A call whose tool is known.
pub(super) struct ResolvedCall {
    pub(super) tool: Tool,
    /// On the heap: it is handed from stage to stage.
    pub(super) call: Box<Call>,
}

const NEAR_MAX: usize = 3;

/// A call whose tool is not known, and why.
pub(super) struct Unresolved {
    pub(super) call: Box<Call>,
    pub(super) error: ToolError,
}

/// Finds the tool of a call.
pub(super) fn resolve(
    registry: &Registry,
    policy: &LivePolicy,
    call: Box<Call>,
    origin: &Origin,
) -> Result<ResolvedCall, Unresolved> {
    match origin.tool().cloned().or_else(|| registry.tool(&call.tool)) {
        Some(tool) => Ok(ResolvedCall { tool, call }),
        None => Err(Unresolved { error: not_found(registry, policy, &call), call }),
    }
}

/// Whether a caller may know of a tool of this name, of which nothing else is known.
fn may_name(caller: &Caller, tool: &str) -> bool {
    ToolName::new(tool).is_ok_and(|name| caller.access.allows(&name))
}

pub(super) fn not_found(registry: &Registry, policy: &LivePolicy, call: &Call) -> ToolError {
    let asked: String = call.tool.chars().take(64).collect();
    let asked = asked.escape_debug();
    if let Some(broken) = registry.broken(&call.tool).filter(|_| may_name(&call.caller, &call.tool)) {
        return ToolError::new(
            ErrorCode::PreconditionFailed,
            format!("`{asked}` is broken: {}", broken.reason),
        )
        .nothing_done()
        .retryable(false)
        .suggest("do not repeat it; tell the user");
    }
    if let Some(away) = registry.away(&call.tool).filter(|_| may_name(&call.caller, &call.tool)) {
        let message = format!("`{asked}` is of the MCP server `{}`, which {}", away.server, away.reason);
        return ToolError::new(away.code, message)
            .nothing_done()
            .suggest("do without it, or try again later")
            .suggest(format!("the operator sees why with `helve mcp status {}`", away.server));
    }
    // Only what the caller may use is named, or a mistake would tell what else there is.
    let seen = |tool: &Tool| authorize::may_see(policy, &call.caller, tool);
    let near = registry.near_of(&call.tool, NEAR_MAX, seen);
    let message = match near.first() {
        Some(best) => format!("no tool named `{asked}`; did you mean `{best}`?"),
        None => format!("no tool named `{asked}`"),
    };
    near.iter().fold(ToolError::new(ErrorCode::ToolNotFound, message), |error, name| {
        error.suggest(format!("call `{name}`"))
    })
}
