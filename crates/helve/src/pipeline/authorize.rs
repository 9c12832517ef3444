//! May this caller use this tool?

use helve_core::{
    Access, Action, Call, Caller, ErrorCode, LabelSet, PolicyRequest, PolicyResource, Stance, Tool,
    ToolError, Vote, VoteSource,
};

use super::judge;
use super::origin::Origin;
use super::resolve::ResolvedCall;
use crate::runtime::{LivePolicy, Settings};

/// A call whose caller may use the tool.
pub(super) struct AuthorizedCall(pub(super) ResolvedCall);

/// A call whose caller may not use the tool, whose vote that was, and why.
pub(super) struct Unauthorized {
    pub(super) call: Box<Call>,
    pub(super) vote: Vote,
    pub(super) error: ToolError,
}

/// Checks that the caller may use the tool.
pub(super) fn authorize(
    settings: &Settings,
    policy: &LivePolicy,
    resolved: ResolvedCall,
    origin: &Origin,
) -> Result<AuthorizedCall, Unauthorized> {
    match denial(settings, policy, &resolved, origin) {
        None => Ok(AuthorizedCall(resolved)),
        Some((error, vote)) => Err(Unauthorized { call: resolved.call, vote, error }),
    }
}

/// Why a caller may not use a tool, and who says so.
pub(super) fn denial(
    settings: &Settings,
    policy: &LivePolicy,
    resolved: &ResolvedCall,
    origin: &Origin,
) -> Option<(ToolError, Vote)> {
    let (caller, name) = (&resolved.call.caller, resolved.tool.name());
    if settings.require_authentication && caller.principal.is_none() {
        let error = ToolError::new(ErrorCode::NotAuthorized, "the caller did not say who it is")
            .suggest("call with a principal; this runtime requires authentication");
        return Some((error, Vote::new(VoteSource::Authentication, Stance::Deny)));
    }
    let who = caller.principal.as_deref().unwrap_or("this caller");
    if !caller.access.allows(name) {
        let error = ToolError::new(ErrorCode::NotAuthorized, format!("{who} may not use `{name}`"));
        let error = match &caller.access {
            Access::Only(allowed) if !allowed.is_empty() => error.suggest(format!(
                "use one of: {}",
                allowed.iter().take(20).cloned().collect::<Vec<_>>().join(", ")
            )),
            Access::Only(_) | Access::All => error,
        };
        return Some((error, Vote::new(VoteSource::AccessList, Stance::Deny)));
    }
    let vote = match origin.served() {
        Some(served) => policy.rule(|now| served.request(&resolved.call, LabelSet::NONE, now)),
        None => see(policy, caller, &resolved.tool),
    }?;
    (vote.stance == Stance::Deny).then(|| (judge::denial(&vote), vote))
}

/// What the policy says to a caller who wants to know of a tool. Nothing, where there is none.
fn see(policy: &LivePolicy, caller: &Caller, tool: &Tool) -> Option<Vote> {
    policy.rule(|now| PolicyRequest {
        caller,
        action: Action::List,
        resource: PolicyResource::Tool(tool),
        arguments: None,
        labels: LabelSet::NONE,
        now,
    })
}

/// Whether a caller may know of a tool: the same that is asked before they call it.
pub(crate) fn may_see(policy: &LivePolicy, caller: &Caller, tool: &Tool) -> bool {
    caller.access.allows(tool.name())
        && see(policy, caller, tool).is_none_or(|vote| vote.stance != Stance::Deny)
}
