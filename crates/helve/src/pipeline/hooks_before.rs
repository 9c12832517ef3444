//! Hooks before the tool: they may allow, deny, ask, and change the arguments. After them nothing
//! but a person does.
//!
//! A call that was permitted before its run was cut short does not come here again: what its hooks
//! said then holds. A call that waits for a person comes here again when it is made again. One that runs
//! by its approval does too, and hooks may object to it, but no longer change it.

use std::sync::Arc;

use helve_core::hook::{HookEvent, OnFailure, PermissionAnswer, PermissionDecision};
use helve_core::json::check as check_limits;
use helve_core::{Call, ErrorCode, Stance, Tool, ToolError, Vote, VoteSource};
use serde_json::{Map, Value};

use super::origin::Origin;
use super::prepare::{PreparedCall, fit};
use super::record::{ArgumentsRecord, BeforeWork, Subject};
use super::resolve::ResolvedCall;
use crate::hooks::{Answered, Attributed, Fired, HookRunner, Hooks, Listed, OfCall};
use crate::runtime::Settings;

/// Longest reason that is passed on, in bytes.
const REASON_BYTES_MAX: usize = 4_096;

/// The hooks of an event, where there are some, and the call is neither a hook's own nor an event itself.
pub(super) fn listening(
    hooks: &Hooks,
    event: &HookEvent,
    call: &Call,
    origin: &Origin,
) -> Option<Arc<[Listed]>> {
    hooks.of(event).filter(|_| !hooks.is_own(&call.caller) && !origin.is_event())
}

/// Tells hooks that a tool is about to be called, and does what they say.
pub(super) async fn ask(
    runner: &HookRunner<'_>,
    settings: &Settings,
    hooks: Arc<[Listed]>,
    prepared: PreparedCall,
    record: &mut BeforeWork<'_, '_>,
) -> Result<PreparedCall, ToolError> {
    let ResolvedCall { tool, mut call } = prepared.0;
    let of = of_call(HookEvent::PreToolUse, &tool, &call, record.subject);
    let fired = of.fire(runner, &hooks, call.cancellation.as_ref()).await.map_err(|_| taken_back())?;
    let Some(fired) = fired else { return Ok(PreparedCall(ResolvedCall { tool, call })) };
    for answered in &fired.answers {
        cast(answered, record);
    }
    record.messages.tell_model(fired.context.iter().cloned(), record.arguments.scrubber());
    record.messages.tell_user(fired.for_user(), record.arguments.scrubber());
    if let Some(why) = fired.refusal() {
        return Err(denied(&tool, &fired, record.arguments.scrubber().text(why).get()));
    }
    // What a person has approved is what hooks had made of it then.
    let is_approved = record.subject.origin().approval().is_some();
    if let Some(updated) = fired.updated_input.filter(|_| !is_approved) {
        let arguments = refit(settings, &tool, updated.what, record.arguments).map_err(|why| {
            no(&tool, &format!("{} changed the arguments to what does not fit: {why}", updated.by))
        })?;
        record.arguments.rewrite(&updated.by, &arguments, &fired.conflicts);
        call.arguments = arguments;
    }
    Ok(PreparedCall(ResolvedCall { tool, call }))
}

/// A hook's answer in place of the person who would be asked, if there is one. Arguments in it fit the
/// tool, and are recorded as the call's.
pub(super) async fn permission_request(
    runner: &HookRunner<'_>,
    settings: &Settings,
    tool: &Tool,
    call: &Call,
    suggestions: Vec<Value>,
    record: &mut BeforeWork<'_, '_>,
) -> Result<Option<PermissionAnswer>, ToolError> {
    let Some(hooks) = listening(runner.hooks(), &HookEvent::PermissionRequest, call, record.subject.origin())
    else {
        return Ok(None);
    };
    let mut of = of_call(HookEvent::PermissionRequest, tool, call, record.subject);
    if !suggestions.is_empty() {
        of.more.push(("permission_suggestions", Value::Array(suggestions)));
    }
    let fired = of.fire(runner, &hooks, call.cancellation.as_ref()).await.map_err(|_| taken_back())?;
    let Some(fired) = fired else { return Ok(None) };
    record.messages.tell_user(fired.for_user(), record.arguments.scrubber());
    let answer = match (&fired.stopped, fired.permission) {
        (Some(Attributed { by, what }), _) => {
            let answer = PermissionAnswer::Deny { message: Some(what.clone()), interrupt: Some(true) };
            Attributed { by: Arc::clone(by), what: answer }
        }
        (None, Some(said)) => said,
        (None, None) => return Ok(None),
    };
    let Attributed { by, what: answer } = answer;
    let bounded = (!fired.bounded.is_empty()).then(|| fired.bounded.join("; "));
    let answer = match answer {
        PermissionAnswer::Deny { message, interrupt } => {
            let message = message.map(|text| record.arguments.scrubber().text(text).into_inner());
            record.ballot.add(vote(&by, Stance::Deny, message.clone()));
            PermissionAnswer::Deny { message, interrupt }
        }
        PermissionAnswer::Allow { updated_input: None, updated_permissions } => {
            record.ballot.add(vote(&by, Stance::Allow, bounded));
            PermissionAnswer::Allow { updated_input: None, updated_permissions }
        }
        PermissionAnswer::Allow { updated_input: Some(input), updated_permissions } => {
            match refit(settings, tool, input, record.arguments) {
                Ok(arguments) => {
                    let why = ["with other arguments".to_owned()].into_iter().chain(bounded);
                    record.ballot.add(vote(&by, Stance::Allow, Some(why.collect::<Vec<_>>().join("; "))));
                    record.arguments.rewrite(&by, &arguments, &fired.conflicts);
                    let updated_input = arguments.as_object().cloned();
                    PermissionAnswer::Allow { updated_input, updated_permissions }
                }
                Err(why) => {
                    let message = format!("it changed the arguments to what does not fit: {why}");
                    record.ballot.add(vote(&by, Stance::Deny, Some(message.clone())));
                    PermissionAnswer::Deny { message: Some(message), interrupt: None }
                }
            }
        }
    };
    Ok(Some(answer))
}

pub(super) fn of_call<'a>(
    event: HookEvent,
    tool: &'a Tool,
    call: &'a Call,
    subject: &Subject<'_>,
) -> OfCall<'a> {
    OfCall {
        event,
        tool,
        arguments: &call.arguments,
        caller: &call.caller,
        call_id: subject.call_id(),
        more: Vec::new(),
    }
}

/// Adds a hook's vote on whether the call runs, where it has one.
fn cast(answered: &Answered, record: &mut BeforeWork<'_, '_>) {
    let (stance, why) = match &answered.result {
        Ok(output) if output.is_async() => return,
        Ok(output) if output.goes_on == Some(false) => {
            (Stance::Deny, output.stop_reason.as_deref().or(output.why()).map(str::to_owned))
        }
        Ok(output) => match output.decision() {
            Some(PermissionDecision::Allow) => (Stance::Allow, output.why().map(str::to_owned)),
            // Nobody else is there who could decide later.
            Some(PermissionDecision::Ask | PermissionDecision::Defer) => {
                (Stance::Ask, output.why().map(str::to_owned))
            }
            Some(PermissionDecision::Deny) => (Stance::Deny, output.why().map(str::to_owned)),
            None => return,
        },
        Err(failure) if answered.on_failure == OnFailure::Block => {
            (Stance::Deny, Some(format!("it failed: {failure}")))
        }
        Err(_) => return,
    };
    let why = why.map(|why| record.arguments.scrubber().text(why).into_inner());
    record.ballot.add(vote(&answered.by, stance, why));
}

fn vote(by: &Arc<str>, stance: Stance, why: Option<String>) -> Vote {
    let vote = Vote::named(VoteSource::Hook, Arc::clone(by), stance);
    match why {
        Some(why) => vote.because(why),
        None => vote,
    }
}

/// Arguments from a hook, checked and mended as those of a caller are.
fn refit(
    settings: &Settings,
    tool: &Tool,
    updated: Map<String, Value>,
    record: &mut ArgumentsRecord<'_>,
) -> Result<Value, String> {
    let mut arguments = Value::Object(updated);
    check_limits(&arguments, settings.arguments).map_err(|error| error.to_string())?;
    match fit(settings, tool, &mut arguments) {
        Ok(repairs) => {
            record.add_repairs(repairs);
            Ok(arguments)
        }
        Err(error) => Err(record.scrubber().text(error.message()).into_inner()),
    }
}

fn denied(tool: &Tool, fired: &Fired, why: &str) -> ToolError {
    let by = fired.stopped.as_ref().map(|said| &said.by);
    let by = by.or(fired.decision.as_ref().map(|said| &said.by)).map_or("a hook", |by| &**by);
    let error = no(tool, &format!("{by} says no: {}", &why[..why.floor_char_boundary(REASON_BYTES_MAX)]));
    match fired.stopped {
        Some(_) => error.suggest("stop here, and tell the user why"),
        None => {
            error.suggest("do not repeat it; do what the reason says, or ask the user what they want instead")
        }
    }
}

pub(super) fn no(tool: &Tool, why: &str) -> ToolError {
    ToolError::new(ErrorCode::HookDenied, format!("this call of `{}` was denied: {why}", tool.name()))
}

fn taken_back() -> ToolError {
    ToolError::new(ErrorCode::Cancelled, "the call was cancelled")
}
