//! What happens between the permission and the start: the record on disk, and the check that the
//! same call has not run before.

use std::sync::Arc;

use helve_core::ports::{Begun, JournalError, KeyClaim, Ledger};
use helve_core::run::{OnCrash, Recalled};
use helve_core::{Call, CallId, Caller, ErrorCode, FieldError, Output, Status, Tool, ToolError};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::super::record::{CallRecorder, unavailable};
use super::attempt;
use super::doubt::{RECALL_MAX, may_be_asked};
use super::resume::recall;
use crate::runs::{RunError, resume_same};
use crate::runtime::{Engine, stop};

pub(super) enum Start {
    Run,
    Replay(Status),
}

/// Longest idempotency key.
const KEY_BYTES_MAX: usize = 256;

pub(super) async fn start(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &Call,
    record: &mut CallRecorder<'_>,
    deadline: Instant,
) -> Result<Start, ToolError> {
    match &call.idempotency_key {
        // Few have one, and this is large.
        Some(key) => Box::pin(begin(engine, tool, call, key, record, deadline)).await,
        // That an approval is used up is on disk before anything is done with it.
        None if tool.definition().changes_world() || record.gate.grant().is_some() => {
            record.announce_start(tool.is_composed()).await.map_err(not_started)?;
            Ok(Start::Run)
        }
        None => Ok(Start::Run),
    }
}

async fn begin(
    engine: &Arc<Engine>,
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
    let begun = in_time(engine, call, deadline, engine.ledger.begin(record.started(), claim.clone())).await?;
    let begun = begun.map_err(not_started)?;
    let Begun::Unknown { call_id } = begun else {
        return match settle(begun, claim, record)? {
            Start::Run => Ok(Start::Run),
            Start::Replay(status) => {
                Ok(Start::Replay(ask_again(engine, tool, call, status, record, deadline).await))
            }
        };
    };
    // Whoever repeats a call wants to know what became of it: that is found out first, where it can be.
    let found = in_time(engine, call, deadline, find_out(engine, tool, call_id)).await?;
    let begun = in_time(engine, call, deadline, engine.ledger.begin(record.started(), claim.clone())).await?;
    settle(begun.map_err(not_started)?, claim, record).map_err(|error| match found {
        Some(why) if error.code() == ErrorCode::OutcomeUnknown => unknown_because(call_id, &why),
        Some(_) | None => error,
    })
}

/// An earlier call under the same key that ended in doubt may be known to have happened by now: whoever knows is asked
/// again. What is still in doubt is answered as before.
async fn ask_again(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &Call,
    status: Status,
    record: &CallRecorder<'_>,
    deadline: Instant,
) -> Status {
    match &status {
        Status::Failed(error) if error.may_have_happened() && may_be_asked(tool) => {}
        Status::Failed(_) | Status::Done(_) | Status::Pending(_) => return status,
    }
    let until = deadline.min(Instant::now() + RECALL_MAX);
    let context = super::context(engine, tool, call, None, 1, record, until);
    let asked = recall(engine, tool, &call.arguments, context);
    match tokio::time::timeout_at(until, asked).await {
        Ok(Ok(Recalled::Happened(result))) => Status::Done(Output::success(result)),
        Ok(Ok(Recalled::DidNotHappen | Recalled::WillNotHappen | Recalled::Unknown) | Err(_)) | Err(_) => {
            status
        }
    }
}

/// Waits for something, as long as the call has time and is wanted.
async fn in_time<T>(
    engine: &Engine,
    call: &Call,
    deadline: Instant,
    work: impl Future<Output = T>,
) -> Result<T, ToolError> {
    tokio::select! {
        done = work => Ok(done),
        () = tokio::time::sleep_until(deadline) => Err(still_running()),
        () = attempt::taken_back(call.cancellation.as_ref()) => Err(attempt::cancelled()),
        by = engine.stop.over() => Err(stop::refused(&by)),
    }
}

/// Takes up an earlier call under the same key that was cut short, as its tool says: it is asked what became of it. Why
/// that is not known afterwards either.
async fn find_out(engine: &Arc<Engine>, tool: &Tool, earlier: CallId) -> Option<ToolError> {
    // What a person is to take up, or what is to be rolled back, is not for a repeated call to go on with.
    if tool.definition().on_crash != OnCrash::Resume {
        return None;
    }
    // In a task of its own: once it is taken up, it comes to its end whoever waits for it.
    let taken_up = tokio::spawn(resume_same(Arc::clone(engine), earlier, Arc::clone(tool.digest())));
    match taken_up.await {
        Ok(Ok(outcome)) => match outcome.status {
            Status::Failed(error) => Some(error),
            Status::Done(_) | Status::Pending(_) => None,
        },
        Ok(Err(error @ RunError::AtWork { .. })) => Some(ToolError::failed(error.to_string())),
        // Somebody else was faster, or there is nothing left of it that could be taken up.
        Ok(Err(_)) | Err(_) => None,
    }
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
        Begun::Conflict { call_id } => Err(key_conflict(call_id)),
    }
}

/// The key belongs to a call with other arguments.
pub(in crate::pipeline) fn key_conflict(earlier: CallId) -> ToolError {
    let expected = format!("a new key, or the arguments of {earlier}");
    bad_key(expected, "a key used with other arguments".to_owned())
}

/// The call held its key already when its run was cut short, and still does.
pub(in crate::pipeline) fn reclaim(tool: &Tool, call: &Call, record: &mut CallRecorder<'_>) {
    match &call.idempotency_key {
        Some(key) if record.subject.part().is_none() => record.claim(claim(tool, call, key)),
        Some(_) | None => record.require_durable_end(),
    }
}

/// What a call claims with its key.
pub(in crate::pipeline) fn claim(tool: &Tool, call: &Call, key: &str) -> KeyClaim {
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
    doubt(
        earlier,
        format!(
            "{earlier} started with this idempotency key and was cut short; nobody knows how far it came"
        ),
    )
}

/// The same, with what was found out by asking.
fn unknown_because(earlier: CallId, why: &ToolError) -> ToolError {
    let why = why.message();
    doubt(earlier, format!("{earlier} started with this idempotency key and was cut short: {why}"))
}

fn doubt(earlier: CallId, message: String) -> ToolError {
    ToolError::new(ErrorCode::OutcomeUnknown, message)
        .suggest(format!("find out whether {earlier} had its effect; if not, call again with a new key"))
        .suggest(format!("`helve runs show {earlier}` says what is recorded of it, and how to settle it"))
}
