//! May this caller use this tool?

use helve_core::{Access, ErrorCode, ToolError};

use super::record::OpenRecord;
use super::resolve::ResolvedCall;
use crate::runtime::Parts;

/// A call whose caller may use the tool.
pub(super) struct AuthorizedCall(pub(super) ResolvedCall);

pub(super) fn authorize(
    parts: &Parts,
    resolved: ResolvedCall,
    record: &mut OpenRecord<'_>,
) -> Result<AuthorizedCall, ToolError> {
    match denial(parts, &resolved) {
        None => Ok(AuthorizedCall(resolved)),
        Some(error) => {
            record.keep_unchecked_arguments(&resolved.call.arguments);
            Err(error)
        }
    }
}

/// Why a caller may not use a tool.
pub(super) fn denial(parts: &Parts, resolved: &ResolvedCall) -> Option<ToolError> {
    let (caller, name) = (&resolved.call.caller, resolved.tool.name());
    if parts.settings.require_authentication && caller.principal.is_none() {
        let error = ToolError::new(ErrorCode::NotAuthorized, "the caller did not say who it is");
        return Some(error.suggest("call with a principal; this runtime requires authentication"));
    }
    if caller.access.allows(name) {
        return None;
    }
    let who = caller.principal.as_deref().unwrap_or("this caller");
    let error = ToolError::new(ErrorCode::NotAuthorized, format!("{who} may not use `{name}`"));
    Some(match &caller.access {
        Access::Only(allowed) if !allowed.is_empty() => error.suggest(format!(
            "use one of: {}",
            allowed.iter().take(20).cloned().collect::<Vec<_>>().join(", ")
        )),
        Access::Only(_) | Access::All => error,
    })
}
