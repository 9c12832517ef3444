//! Runs the tool: recorded before it starts where it matters, confined in time, repeated where
//! that is safe and wanted.

mod admit;
mod attempt;
mod doubt;
mod repeat;
mod resume;
mod start;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use helve_core::ports::ToolHost;
use helve_core::record::Entry;
use helve_core::run::{PartReport, PartState, StepKind, WaitingFor};
use helve_core::{Call, Context, ContextParts, Output, Stage, Status, Tool, ToolError};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::decide::PermittedCall;
use super::effects::Doing;
use super::record::CallRecorder;
use crate::approvals::binding;
use crate::hooks::hooked;
use crate::runs::{ActiveRun, OnStop, Undoing, Unknown, Watch, find_out, step, undo_below, undoes_below};
use crate::runtime::{ComposedHost, Engine, Settings, stop};
pub(crate) use doubt::{have_answered, may_be_asked};
use resume::Resume;
pub(crate) use resume::{may_be_at_work, recall_started};
use start::Start;
pub(super) use start::{claim, key_conflict, reclaim};

/// Why a call stands that may not have happened.
const UNKNOWN: &str = "nobody knows whether it had its effect";

pub(super) enum Executed {
    /// The tool ran. What was asked, where effects or undoing may need it.
    Answered(UncheckedAnswer, Option<Doing>),
    /// It ran before, under the same idempotency key, and this is how that ended.
    Replayed(Status),
}

/// What came out of the tool, not yet checked.
pub(super) struct UncheckedAnswer {
    pub(super) tool: Tool,
    pub(super) result: Result<Value, ToolError>,
}

pub(super) async fn execute(
    engine: &Arc<Engine>,
    permitted: PermittedCall,
    record: &mut CallRecorder<'_>,
) -> Result<Executed, ToolError> {
    let (tool, mut call, permission) = permitted.into_parts();
    record.gate.permitted(permission);
    engine.deadline_ticker.note_call();
    if let Some(until) = record.subject.origin().until() {
        let left = until.saturating_duration_since(record.since().into_std());
        call.timeout = Some(call.timeout.map_or(left, |asked| asked.min(left)));
    }
    let deadline = record.since() + timeout(&engine.settings, &tool, &call);
    let cancelled = call.cancellation.as_ref().is_some_and(|token| token.is_cancelled());
    // What became of a call that had started must be found out, wanted or not.
    if cancelled && record.subject.cut_short().is_none() {
        return Err(attempt::cancelled());
    }
    if let Some(by) = engine.stop.is_over()
        && record.subject.run().is_none()
    {
        return Err(stop::refused(by));
    }
    join_run(engine, &tool, &mut call, record);
    bind_run(&tool, &call, record);
    let resumed = if record.subject.cut_short().is_some() {
        let token = call.cancellation.clone();
        let context = context(engine, &tool, &call, token, 1, record, deadline);
        Box::pin(resume::resume(engine, &tool, &call, context, record)).await?
    } else {
        Resume::Start
    };
    let doing =
        needs_doing(&tool, record).then(|| Doing { tool: tool.clone(), arguments: call.arguments.clone() });
    let result = match resumed {
        Resume::Answered(result) => {
            reclaim(&tool, &call, record);
            Ok(result)
        }
        Resume::Again if cancelled && !tool.is_composed() => return Err(attempt::cancelled()),
        Resume::Again => {
            reclaim(&tool, &call, record);
            if !tool.is_composed() {
                // A person's word that it did not happen is good for this one time: that it is used
                // must be on disk first.
                record.subject.settle_run().await?;
            }
            record.work.owe(None);
            run_tool(engine, &tool, call, deadline, record).await
        }
        Resume::Start => {
            // Before the start: a call that is refused here never began. Held until the tool has
            // ended, and given back however that is.
            let held =
                admit::hold(&engine.limits.costs, &*engine.ledger, &*engine.clock, &tool, &call).await?;
            let admitted = admit::admit(&engine.limits, &tool, &call)?;
            match start::start(engine, &tool, &call, record, deadline).await? {
                Start::Run => {}
                Start::Replay(status) => return Ok(Executed::Replayed(status)),
            }
            let timeout = call.timeout;
            record.work.owe(held);
            let result = run_tool(engine, &tool, call, deadline, record).await;
            admitted.ended(&engine.limits.health, &engine.settings, &tool, timeout, &result);
            result
        }
    };
    admit::charge(&result, record);
    let result = result.map_err(|error| error.at(Stage::Execute));
    Ok(Executed::Answered(UncheckedAnswer { tool, result }, doing))
}

/// A call that changes something or is made of others is a run, or a part of one.
fn join_run(engine: &Arc<Engine>, tool: &Tool, call: &mut Call, record: &mut CallRecorder<'_>) {
    let definition = tool.definition();
    let is_run = definition.changes_world() || tool.is_composed() || !definition.effects.is_empty();
    if record.subject.run().is_none() && is_run {
        let token = call.cancellation.take().map_or_else(CancellationToken::new, |token| token.child_token());
        let on_stop = if tool.is_composed() { OnStop::Leave } else { OnStop::End };
        record.begin_run(token, on_stop, tool);
        Watch::begin(engine);
    }
    if record.subject.part().is_none()
        && let Some(run) = record.subject.run()
    {
        call.cancellation = Some(run.cancellation.clone());
    }
}

/// Questions about the parts of a call say which call it is, so that a caller that makes it again finds its run.
fn bind_run(tool: &Tool, call: &Call, record: &CallRecorder<'_>) {
    let Some(run) = record.subject.run().filter(|_| tool.is_composed() && record.subject.part().is_none())
    else {
        return;
    };
    // A person may have edited the arguments: the call is made again with those that were asked for.
    let before = record.subject.cut_short().and_then(|(_, earlier)| earlier.started.as_ref()?.grant.as_ref());
    let asked = before.or(record.gate.grant()).and_then(|grant| grant.asked.clone());
    run.set_binding(asked.unwrap_or_else(|| binding(tool, call, None)));
}

/// Whether what was asked will be needed after the tool has answered.
fn needs_doing(tool: &Tool, record: &CallRecorder<'_>) -> bool {
    let definition = tool.definition();
    !definition.effects.is_empty()
        || (record.subject.part().is_some() && definition.changes_world() && !tool.is_composed())
}

/// Runs the tool, and undoes its parts where they are made to stand or fall together.
async fn run_tool(
    engine: &Arc<Engine>,
    tool: &Tool,
    mut call: Box<Call>,
    deadline: Instant,
    record: &mut CallRecorder<'_>,
) -> Result<Value, ToolError> {
    let error = match attempts(engine, tool, &mut call, deadline, record).await {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if !tool.is_composed() {
        return doubt::clear_up(engine, tool, &call, error, record).await;
    }
    match record.subject.run().filter(|run| !run.is_interrupted()).cloned() {
        // Rare and large, so on the heap.
        Some(run) => Err(Box::pin(fail(engine, tool, &run, error, record)).await),
        None => Err(error),
    }
}

/// What becomes of the parts of a composed tool that has failed.
async fn fail(
    engine: &Arc<Engine>,
    tool: &Tool,
    run: &Arc<ActiveRun>,
    error: ToolError,
    record: &CallRecorder<'_>,
) -> ToolError {
    let path = record.subject.part().map(|part| Arc::clone(&part.path)).unwrap_or_default();
    // This time it may have failed before it came to a part that it had started before a crash.
    find_out(engine, run, &path, Unknown::Ask).await;
    if run.is_interrupted() {
        return error;
    }
    let error = match tool.handler().undoes_on_error() {
        true => undone(error, undo_below(engine, run, &path).await),
        false => error,
    };
    doubt::of_parts(tool, run, &path, error)
}

fn undone(error: ToolError, all: bool) -> ToolError {
    error.suggest(if all {
        "what its parts had done before was undone; nothing stands"
    } else {
        "what its parts had done before could not all be undone; the list of parts says what stands"
    })
}

/// The time that the tool has of itself, within what any tool may have.
fn time_allowed(settings: &Settings, tool: &Tool) -> Duration {
    let of_tool = tool.definition().timeout_ms.map(Duration::from_millis);
    of_tool.unwrap_or(settings.timeout_default).min(settings.timeout_max)
}

fn timeout(settings: &Settings, tool: &Tool, call: &Call) -> Duration {
    let allowed = time_allowed(settings, tool);
    call.timeout.map_or(allowed, |asked| asked.min(allowed))
}

fn host(engine: &Arc<Engine>, tool: &Tool, record: &CallRecorder<'_>) -> Arc<dyn ToolHost> {
    match record.subject.run() {
        Some(run) if tool.is_composed() => Arc::new(ComposedHost::new(engine, run)),
        Some(_) | None => Arc::clone(engine) as _,
    }
}

fn context(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &Call,
    token: Option<CancellationToken>,
    attempt: u32,
    record: &CallRecorder<'_>,
    deadline: Instant,
) -> Context {
    Context::from(ContextParts {
        call_id: record.subject.call_id(),
        tool: tool.name().clone(),
        caller: Arc::clone(&call.caller),
        deadline: deadline.into_std(),
        attempt,
        idempotency_key: call.idempotency_key.clone(),
        has_own_key: tool.definition().changes_world(),
        part: record.subject.part().cloned(),
        approved: record.gate.approved(),
        degraded: record.messages.degraded().cloned(),
        host: Some(host(engine, tool, record)),
        client: call.client.as_ref().map(|client| hooked(engine, tool, call, client)),
        cancellation: token,
        reads: record.work.reads(),
    })
}

async fn attempts(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &mut Call,
    deadline: Instant,
    record: &mut CallRecorder<'_>,
) -> Result<Value, ToolError> {
    let retries_max = tool.definition().retry.retries_max;
    let mut number = 1;
    loop {
        // Only an attempt that others, or a question about it, may follow leaves them a copy.
        let (arguments, token) = match number > retries_max && !doubt::may_be_asked(tool) {
            true => (std::mem::take(&mut call.arguments), call.cancellation.take()),
            false => (call.arguments.clone(), call.cancellation.clone()),
        };
        let context = context(engine, tool, call, token, number, record, deadline);
        let error = match attempt::attempt(engine, tool, call, context, arguments, deadline, record).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let Some(wait) = repeat::wait(
            &engine.limits.health,
            tool,
            &error,
            number,
            record.work.attempts().last(),
            deadline,
        ) else {
            return Err(error);
        };
        if tool.definition().changes_world() {
            record.subject.append_step(StepKind::Attempted { number, code: error.code() });
        }
        attempt::wait_or_cancel(&engine.stop, wait, call).await?;
        number += 1;
    }
}

/// Undoes what a finished run did. What needs approval asks for it by itself.
pub(super) async fn undo(
    engine: &Arc<Engine>,
    tool: Tool,
    undoing: Undoing,
    record: &mut CallRecorder<'_>,
) -> Result<Status, ToolError> {
    if record.subject.cut_short().is_some() {
        record.subject.buffer_step(StepKind::Resumed);
        record.claim(undoing.claim());
    } else {
        record.begin_run(CancellationToken::new(), OnStop::LeaveOnceWritten, &tool);
        let deadline = record.since() + time_allowed(&engine.settings, &tool);
        if let Start::Replay(status) =
            start::start_undo(&*engine.ledger, undoing.claim(), record, deadline).await?
        {
            return Ok(status);
        }
    }
    let Some(run) = record.subject.run().cloned() else { return Err(attempt::cancelled()) };
    // All others may have been halted while this one waited for its start: then it is left for the next process, too.
    if let Some(by) = engine.stop.is_over() {
        run.halt(by, engine.clock.now());
    }
    // The calls that undo are parts too, of this run and of one that was rolled back, and nothing that is
    // left to be undone.
    let done = undoing.done.iter().filter(|done| !undoes_below("", &done.report.path));
    let done: HashSet<_> = done.map(|done| done.report.call_id).collect();
    undoing.done.into_iter().for_each(|done| run.add(done));
    let all = undo_below(engine, &run, "").await;
    let reports: Vec<_> = run.reports().into_iter().filter(|part| done.contains(&part.call_id)).collect();
    if all {
        return Ok(Status::Done(Output::success(json!({ "undone": undoing.run, "parts": reports }))));
    }
    let stands = |state| matches!(state, PartState::Done | PartState::UndoFailed | PartState::Unknown);
    let standing = reports.iter().filter(|part| stands(part.state));
    let name = |part: &PartReport| {
        let unknown = || (part.state == PartState::Unknown).then(|| UNKNOWN.to_owned());
        let why = run.why_not_undone(part.call_id).or_else(unknown);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        format!("`{}` ({}){why}", part.tool, part.call_id)
    };
    let named: Vec<_> = standing.map(name).collect();
    let message = format!("not all of {} could be undone; what stands: {}", undoing.run, named.join(", "));
    let error = ToolError::failed(message).suggest("undo by hand what stands, or leave it");
    let unknown = reports.iter().filter(|part| part.state == PartState::Unknown);
    Err(unknown.fold(error, |error, part| {
        // Asking again asks the tool again: it may know by then.
        let kind = StepKind::Waiting { reason: WaitingFor::UnknownOutcome, approval_id: None };
        run.buffer(Entry::Step(step(engine.clock.now(), part.call_id, undoing.run, kind)));
        error.suggest(format!("find out whether {} had its effect, say so, and undo again", part.call_id))
    }))
}
