//! What an approval is good for, as a digest.

use helve_core::json::{canonical, sha256_hex};
use helve_core::run::Part;
use helve_core::{Approval, Call, Caller, Channel, SessionKind, Tool};
use serde_json::Value;

/// The binding of a call: this tool as it is, these arguments, this caller, this place in a run.
pub(crate) fn binding(tool: &Tool, call: &Call, part: Option<&Part>) -> String {
    digest(tool.digest(), &call.arguments, &call.caller, part, call.idempotency_key.as_deref())
}

/// The same call as one that was asked about, with other arguments.
pub(crate) fn binding_of(approval: &Approval, arguments: &Value) -> String {
    let key = approval.idempotency_key.as_deref();
    digest(&approval.digest, arguments, &approval.caller, approval.part.as_ref(), key)
}

/// What of a caller an approval is bound to. The same call over another channel is still the same,
/// and so is one whose caller has got a role meanwhile, or lost one: a call is judged by the roles of
/// the caller that makes it, or comes back for it, and a part by those that its run began with. A client that lost its
/// connection is the same too, though it has another session now; of those who do not say who they are, the session
/// is all that tells them apart.
fn bound(caller: &Caller) -> Caller {
    let mut bound = caller.clone();
    if caller.session_kind == SessionKind::Connection && caller.principal.is_some() {
        bound.session = None;
    }
    bound.session_kind = SessionKind::default();
    bound.roles.clear();
    bound.channel = Channel::default();
    bound
}

fn digest(tool: &str, arguments: &Value, caller: &Caller, part: Option<&Part>, key: Option<&str>) -> String {
    let caller = serde_json::to_string(&bound(caller)).expect("a caller is plain data");
    // A call by itself is bound to no run: the next one with the same arguments is the same call.
    let run = part.map(|part| format!("{} {}", part.run, part.path)).unwrap_or_default();
    let parts = [tool, &canonical(arguments), &caller, &run, key.unwrap_or_default()];
    // Lengths keep one part from running into the next.
    let text: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    sha256_hex(text.as_bytes())
}
