//! What happens between the permission and the start: the record on disk, and the check that the
//! same call has not run before.

use std::sync::Arc;

use helve_core::ports::{Begun, JournalError, KeyClaim, Ledger};
use helve_core::{Call, CallId, Caller, ErrorCode, FieldError, Status, Tool, ToolError};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::super::record::{CallRecorder, unavailable};
use super::attempt;
use crate::runtime::{Stop, stop};

pub(super) enum Start {
    Run,
    Replay(Status),
}

/// Longest idempotency key.
const KEY_BYTES_MAX: usize = 256;

pub(super) async fn start(
    ledger: &dyn Ledger,
    stop: &Stop,
    tool: &Tool,
    call: &Call,
    record: &mut CallRecorder<'_>,
    deadline: Instant,
) -> Result<Start, ToolError> {
    match &call.idempotency_key {
        // Few have one, and this is large.
        Some(key) => Box::pin(begin(ledger, stop, tool, call, key, record, deadline)).await,
        // That an approval is used up is on disk before anything is done with it.
        None if tool.definition().changes_world() || record.gate.grant().is_some() => {
            record.announce_start(tool.is_composed()).await.map_err(not_started)?;
            Ok(Start::Run)
        }
        None => Ok(Start::Run),
    }
}

async fn begin(
    ledger: &dyn Ledger,
    stop: &Stop,
    tool: &Tool,
    call: &Call,
    key: &str,
    record: &mut CallRecorder<'_>,
    deadline: Instant,
) -> Result<Start, ToolError> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(bad_key(format!("1 to {KEY_BYTES_MAX} bytes"), format!("{} bytes", key.len())));
    }
    let claim = claim(tool, call, key);
    let begun = tokio::select! {
        begun = ledger.begin(record.started(), claim.clone()) => begun,
        () = tokio::time::sleep_until(deadline) => return Err(still_running()),
        () = attempt::taken_back(call.cancellation.as_ref()) => return Err(attempt::cancelled()),
        by = stop.over() => return Err(stop::refused(&by)),
    };
    settle(begun.map_err(not_started)?, claim, record)
}

/// The start of a call that undoes a run: others who want the same wait for it, and not for longer than
/// the tool itself may take, since it may wait for a person.
pub(super) async fn start_undo(
    ledger: &dyn Ledger,
    claim: KeyClaim,
    record: &mut CallRecorder<'_>,
    deadline: Instant,
) -> Result<Start, ToolError> {
    let begun = tokio::select! {
        begun = ledger.begin(record.started(), claim.clone()) => begun,
        () = tokio::time::sleep_until(deadline) => return Err(still_undoing()),
    };
    settle(begun.map_err(unavailable)?, claim, record)
}

fn settle(begun: Begun, claim: KeyClaim, record: &mut CallRecorder<'_>) -> Result<Start, ToolError> {
    match begun {
        Begun::Fresh => {
            record.start_is_written();
            record.claim(claim);
            Ok(Start::Run)
        }
        Begun::Finished { call_id, status } => {
            record.work.set_replay(call_id);
            Ok(Start::Replay(Arc::unwrap_or_clone(status)))
        }
        Begun::Unknown { call_id } => Err(unknown(call_id)),
        Begun::Conflict { call_id } => Err(bad_key(
            format!("a new key, or the arguments of {call_id}"),
            "a key used with other arguments".to_owned(),
        )),
    }
}

/// The call held its key already when its run was cut short, and still does.
pub(in crate::pipeline) fn reclaim(tool: &Tool, call: &Call, record: &mut CallRecorder<'_>) {
    match &call.idempotency_key {
        Some(key) if record.subject.part().is_none() => record.claim(claim(tool, call, key)),
        Some(_) | None => record.require_durable_end(),
    }
}

fn claim(tool: &Tool, call: &Call, key: &str) -> KeyClaim {
    KeyClaim {
        scoped_key: scoped_key(&call.caller, tool, key),
        fingerprint: fingerprint(&call.arguments),
        repeatable: tool.definition().repeatable(),
    }
}

/// Keys of different callers or tools never meet.
fn scoped_key(caller: &Caller, tool: &Tool, key: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [caller.principal.as_deref().unwrap_or_default(), tool.name().as_str(), key] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn fingerprint(arguments: &Value) -> [u8; 32] {
    Sha256::digest(helve_core::json::canonical(arguments)).into()
}

/// Why the start of a call was not recorded: without that it does not run.
fn not_started(error: JournalError) -> ToolError {
    let Some(spent) = error.is_spent() else { return unavailable(error) };
    let message = format!("a person approved this call, but that cannot be used: {spent}");
    ToolError::new(ErrorCode::ApprovalDenied, message)
        .suggest("call again only if it is meant to happen once more; a person is then asked again")
}

fn bad_key(expected: String, received: String) -> ToolError {
    let field = FieldError::new("idempotency_key", expected, received);
    ToolError::new(ErrorCode::ValidationFailed, field.message.clone())
        .with_fields(vec![field])
        .retryable(false)
}

fn still_running() -> ToolError {
    ToolError::new(ErrorCode::Timeout, "an earlier call with the same idempotency key is still running")
        .suggest("call again with the same key to get its outcome")
}

fn still_undoing() -> ToolError {
    ToolError::new(ErrorCode::Timeout, "another call undoes this run, and has not finished").suggest(
        "undo it again to go on with that; `helve runs list --waiting` says whether it waits for a person",
    )
}

fn unknown(earlier: CallId) -> ToolError {
    let message = format!(
        "{earlier} started with this idempotency key and was cut short; nobody knows how far it came"
    );
    ToolError::new(ErrorCode::OutcomeUnknown, message)
        .suggest(format!("find out whether {earlier} had its effect; if not, call again with a new key"))
        .suggest(format!("`helve runs show {earlier}` says what is recorded of it, and how to settle it"))
}
