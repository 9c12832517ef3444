//! A call that had started when its run was cut short: where to go on.

use std::sync::Arc;
use std::time::Duration;

use helve_core::expression::Scope;
use helve_core::ports::Clock;
use helve_core::record::Started;
use helve_core::run::{Finding, Recall, Recalled, StepKind, WaitingFor};
use helve_core::{Call, CallId, Context, ContextParts, ErrorCode, Tool, ToolError};
use serde_json::Value;

use super::super::effects::guarded;
use super::super::record::CallRecorder;
use crate::pipeline::{self, Origin, is_redacted};
use crate::runs::{Event, Waiting, parse};
use crate::runtime::{Engine, Settings};

/// How much longer than its tool's time a call may take to have its effect: the way there, and clocks that differ.
const AT_WORK_MARGIN: Duration = Duration::from_secs(2);

/// Where a call goes on.
pub(super) enum Resume {
    /// At its beginning: it has not started yet.
    Start,
    /// At its beginning, though it had started: that does no harm, or did not happen.
    Again,
    /// After the tool: it has answered.
    Answered(Value),
}

/// Finds out where a call goes on that had started when its run was cut short.
pub(super) async fn resume(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &Call,
    context: Context,
    record: &mut CallRecorder<'_>,
) -> Result<Resume, ToolError> {
    let Some((call_id, earlier)) = record.subject.cut_short() else { return Ok(Resume::Start) };
    let (executed, settled, begun_at) = (earlier.executed.clone(), earlier.settled.clone(), earlier.begun_at);
    record.subject.buffer_step(StepKind::Resumed);
    // Its parts know by themselves how far they have come.
    if tool.is_composed() {
        return Ok(Resume::Again);
    }
    let wait = |reason, message: String, what_to_do: String| {
        if let Some(run) = record.subject.run() {
            run.feed(Event::Waits(Waiting { reason, call_id, pending: None }));
        }
        ToolError::new(ErrorCode::OutcomeUnknown, message).suggest(what_to_do)
    };
    let run = record.subject.run().map_or(call_id, |run| run.id);
    let say_so = format!(
        "find out what {call_id} did, then say so: `helve runs resume {run} --happened`, or `--did-not-happen`"
    );
    match (executed, settled) {
        (Some((result, false)), _) => return Ok(Resume::Answered(result)),
        (None, Some((Finding::Happened, result))) if !is_redacted(&result) => {
            return Ok(Resume::Answered(result));
        }
        (Some((_, true)), _) | (None, Some((Finding::Happened, _))) => {
            let message = format!("`{}` has answered, but its answer was not kept", tool.name());
            return Err(wait(WaitingFor::Cancel, message, "the run cannot go on; cancel it".to_owned()));
        }
        (None, Some((Finding::DidNotHappen, _))) => return Ok(Resume::Again),
        (None, None) if tool.definition().repeatable() => return Ok(Resume::Again),
        (None, None) => {}
    }
    match recall(engine, tool, &call.arguments, context).await {
        Ok(Recalled::Happened(result)) => Ok(Resume::Answered(result)),
        Ok(Recalled::WillNotHappen) => Ok(Resume::Again),
        Ok(Recalled::DidNotHappen)
            if may_be_at_work(&engine.settings, &*engine.clock, tool, begun_at).is_none() =>
        {
            Ok(Resume::Again)
        }
        Ok(Recalled::DidNotHappen) => {
            let message = format!(
                "`{}` was cut short and had no effect so far, but the other side may be at work on it still",
                tool.name()
            );
            Err(wait(WaitingFor::UnknownOutcome, message, say_so))
        }
        Ok(Recalled::Unknown) => {
            let message =
                format!("`{}` was cut short, and nobody knows whether it had its effect", tool.name());
            Err(wait(WaitingFor::UnknownOutcome, message, say_so))
        }
        // It was asked, and says more than that it does not know.
        Err(error) if error.code() == ErrorCode::OutcomeUnknown => {
            let message = format!("`{}` was cut short: {}", tool.name(), error.message());
            Err(wait(WaitingFor::UnknownOutcome, message, say_so))
        }
        Err(error) => {
            let message = format!(
                "`{}` was cut short, and asking whether it had its effect failed: {error}",
                tool.name()
            );
            Err(wait(WaitingFor::UnknownOutcome, message, say_so))
        }
    }
}

/// How much longer the server may be at work on a call whose process has gone. The other side does not know of that:
/// for as long as the call was allowed to take, "it did not happen" may only mean "not yet".
pub(crate) fn may_be_at_work(
    settings: &Settings,
    clock: &dyn Clock,
    tool: &Tool,
    begun_at: Option<jiff::Timestamp>,
) -> Option<Duration> {
    let allowed = super::time_allowed(settings, tool) + AT_WORK_MARGIN;
    // A clock that was set back tells nothing, so that all of the time is waited for.
    let since = begun_at.map(|begun_at| clock.now().duration_since(begun_at));
    let since = since.and_then(|since| Duration::try_from(since).ok()).unwrap_or_default();
    allowed.checked_sub(since).filter(|left| !left.is_zero())
}

/// Asks the tool, or another one, what became of the call.
pub(super) async fn recall(
    engine: &Arc<Engine>,
    tool: &Tool,
    arguments: &Value,
    context: Context,
) -> Result<Recalled, ToolError> {
    if let Some(handler) = tool.recall_handler() {
        return guarded(engine.settings.timeout_default, handler.recall(arguments.clone(), context)).await;
    }
    let Some(declared) = &tool.definition().recall else { return Ok(Recalled::Unknown) };
    let key = context.idempotency_key().map_or(Value::Null, Value::from);
    let scope = Scope::new().with("arguments", arguments).with("key", &key);
    ask(engine, declared, &scope, &context).await
}

/// Asks what became of a call that was cut short and will not go on.
pub(crate) async fn recall_started(
    engine: &Arc<Engine>,
    tool: &Tool,
    call_id: CallId,
    started: &Started,
) -> Result<Recalled, ToolError> {
    let (facts, deadline) = (&started.facts, std::time::Instant::now() + engine.settings.timeout_default);
    let context = ContextParts {
        idempotency_key: facts.idempotency_key.clone(),
        part: facts.part.clone(),
        host: Some(Arc::clone(engine) as _),
        ..ContextParts::new(call_id, tool.name().clone(), Arc::clone(&facts.caller), deadline)
    };
    recall(engine, tool, &parse(&started.arguments), context.into()).await
}

async fn ask(
    engine: &Arc<Engine>,
    recall: &Recall,
    scope: &Scope<'_>,
    context: &Context,
) -> Result<Recalled, ToolError> {
    let wrong = |error: helve_core::expression::ExpressionError| ToolError::failed(error.to_string());
    if engine.registry.tool(&recall.tool).is_some_and(|tool| tool.definition().changes_world()) {
        return Err(ToolError::failed(format!("`{}` may change the world, so it is not asked", recall.tool)));
    }
    let arguments = recall.arguments.render(scope).map_err(wrong)?;
    let question = Call::new(recall.tool.clone(), arguments)
        .by(Arc::clone(context.caller()))
        .correlation_id(context.run().to_string());
    // No part of the run: what it says now is not what it will say after the next crash.
    let answer = Box::pin(pipeline::run_call(engine, Box::new(question), Origin::Outside(None)))
        .await
        .into_result()?;
    let scope = scope.clone().with("answer", &answer);
    if !recall.happened.holds(&scope).map_err(wrong)? {
        return Ok(Recalled::DidNotHappen);
    }
    match &recall.result {
        Some(result) => result.render(&scope).map(Recalled::Happened).map_err(wrong),
        None => Ok(Recalled::Happened(answer)),
    }
}
