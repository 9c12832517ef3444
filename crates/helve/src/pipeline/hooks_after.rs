//! Hooks after the tool: they are told what came of a call, may tell the model more, and may put
//! another result in the place of the tool's.

use std::sync::Arc;
use std::time::Instant;

use helve_core::hook::HookEvent;
use helve_core::{Call, ErrorCode, Output, Source, Stance, Status, Tool, ToolError, Vote, VoteSource};
use serde_json::{Value, json};

use super::execute::UncheckedAnswer;
use super::hooks_before::{listening, of_call};
use super::origin::Origin;
use super::prepare::fit;
use super::record::{AfterWork, BeforeWork, Messages, ResultRecord, Scrubber, WorkRecord};
use super::{check_output, decide::PermittedCall};
use crate::hooks::{Fired, HookRunner, Hooks, Listed};
use crate::runtime::Settings;

/// A call that hooks want to know the end of.
pub(super) struct Watched {
    tool: Tool,
    call: Call,
    answered: Option<Arc<[Listed]>>,
    failed: Option<Arc<[Listed]>>,
    since: Instant,
}

/// Remembers what hooks will be told, where there are any.
pub(super) fn watch(hooks: &Hooks, permitted: &PermittedCall, origin: &Origin) -> Option<Box<Watched>> {
    let call = permitted.call();
    let answered = listening(hooks, &HookEvent::PostToolUse, call, origin);
    let failed = listening(hooks, &HookEvent::PostToolUseFailure, call, origin);
    if answered.is_none() && failed.is_none() {
        return None;
    }
    let (tool, call) = (permitted.tool().clone(), call.clone());
    Some(Box::new(Watched { tool, call, answered, failed, since: Instant::now() }))
}

impl Watched {
    /// Whether a hook is to be told what came of the call. They have seen a replayed one before, and a tool that was
    /// not started has not failed.
    pub(super) fn is_told(&self, result: &Result<Status, ToolError>, work: &WorkRecord) -> bool {
        let hooks = match result {
            _ if work.is_replay() => return false,
            Ok(Status::Done(output)) if !output.is_failure => &self.answered,
            Ok(Status::Done(_)) => &self.failed,
            Err(_) if !work.attempts().is_empty() => &self.failed,
            Ok(Status::Failed(_) | Status::Pending(_)) | Err(_) => return false,
        };
        hooks.is_some()
    }

    /// Tells hooks what came of the call.
    pub(super) async fn tell(
        self: Box<Self>,
        runner: &HookRunner<'_>,
        settings: &Settings,
        result: Result<Status, ToolError>,
        record: &mut AfterWork<'_, '_>,
    ) -> Result<Status, ToolError> {
        match result {
            Ok(Status::Done(output)) if !output.is_failure => {
                self.tell_answer(runner, settings, output, record).await
            }
            Ok(Status::Done(output)) => {
                let error = output.value.pointer("/error/message").and_then(Value::as_str);
                let error = error.unwrap_or("the tool failed").to_owned();
                self.tell_failure(runner, error, false, record).await;
                Ok(Status::Done(output))
            }
            Ok(Status::Failed(_) | Status::Pending(_)) => result,
            Err(error) => {
                let cancelled = error.code() == ErrorCode::Cancelled;
                self.tell_failure(runner, error.message().to_owned(), cancelled, record).await;
                Err(error)
            }
        }
    }

    async fn tell_answer(
        &self,
        runner: &HookRunner<'_>,
        settings: &Settings,
        output: Output,
        record: &mut AfterWork<'_, '_>,
    ) -> Result<Status, ToolError> {
        let Some(hooks) = &self.answered else { return Ok(Status::Done(output)) };
        let mut of = of_call(HookEvent::PostToolUse, &self.tool, &self.call, record.subject);
        of.more.push(("tool_response", output.value.clone()));
        // What MCP clients get besides it is shown too, or it would pass hooks by.
        if record.result.attached_more_than(&output.value, Some(&self.tool)) {
            of.more.extend(attached(record.result));
        }
        of.more.push(("duration_ms", self.duration_ms()));
        // The tool has run: taking the call back now changes nothing about that.
        let Ok(Some(fired)) = of.fire(runner, hooks, None).await else { return Ok(Status::Done(output)) };
        tell(&fired, record.messages, record.scrubber);
        if let Some((by, failure)) = fired.blocking_failures().next() {
            // The operator wants no result to pass that this hook has not seen.
            record.result.attach(None);
            let why = record.scrubber.text(format!("{by} failed: {failure}"));
            return Err(self.withheld(why.get()));
        }
        let is_served = self.tool.definition().source == Source::Mcp;
        let replaced = fired.updated_output.or(fired.updated_mcp_output.filter(|_| is_served));
        let Some(replaced) = replaced else { return Ok(Status::Done(output)) };
        record.result.attach(None);
        record.ballot.add(
            Vote::named(VoteSource::Hook, Arc::clone(&replaced.by), Stance::Allow)
                .because("with another result"),
        );
        record.note(fired.conflicts.iter().cloned());
        let answer = UncheckedAnswer { tool: self.tool.clone(), result: Ok(replaced.what) };
        check_output::check(settings, answer, record).map_err(|error| {
            let why = format!("{} put another result in its place: {}", replaced.by, error.message());
            self.withheld(record.scrubber.text(why).get())
        })
    }

    async fn tell_failure(
        &self,
        runner: &HookRunner<'_>,
        error: String,
        is_interrupt: bool,
        record: &mut AfterWork<'_, '_>,
    ) {
        let Some(hooks) = &self.failed else { return };
        let mut of = of_call(HookEvent::PostToolUseFailure, &self.tool, &self.call, record.subject);
        of.more.push(("error", error.into()));
        of.more.extend(attached(record.result));
        of.more.push(("is_interrupt", is_interrupt.into()));
        of.more.push(("duration_ms", self.duration_ms()));
        // A caller that took the call back does not wait, and gets to hear nothing.
        if is_interrupt {
            return of.fire_in_background(runner, hooks).await;
        }
        if let Ok(Some(fired)) = of.fire(runner, hooks, None).await {
            tell(&fired, record.messages, record.scrubber);
        }
    }

    fn duration_ms(&self) -> Value {
        json!(u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn withheld(&self, why: &str) -> ToolError {
        let message = format!("`{}` ran, but its result is withheld: {why}", self.tool.name());
        ToolError::new(ErrorCode::HookDenied, message).suggest(
            "do not call it again: what it did is done; tell the user that a hook withholds the result",
        )
    }
}

/// What the tool attached to its answer, as hooks see it.
fn attached(result: &ResultRecord) -> Option<(&'static str, Value)> {
    let content = result.attached()?;
    Some(("tool_content", serde_json::from_str(content.get()).unwrap_or_default()))
}

/// What hooks say after the fact reaches the model with the result, and the user.
fn tell(fired: &Fired, messages: &mut Messages, scrubber: &Scrubber<'_>) {
    messages.tell_model(fired.for_model(), scrubber);
    messages.tell_user(fired.for_user(), scrubber);
}

/// Arguments of a call that may be denied, where hooks want to know of that.
pub(super) struct Denial {
    call: Call,
    hooks: Arc<[Listed]>,
}

/// Remembers what hooks will be told if the call is denied, where there are any.
pub(super) fn watch_denial(hooks: &Hooks, call: &Call, origin: &Origin) -> Option<Box<Denial>> {
    let hooks = listening(hooks, &HookEvent::PermissionDenied, call, origin)?;
    Some(Box::new(Denial { call: call.clone(), hooks }))
}

impl Denial {
    /// Tells hooks that the gate has denied the call. They may say that it can be tried again.
    pub(super) async fn tell(
        mut self: Box<Self>,
        runner: &HookRunner<'_>,
        settings: &Settings,
        error: ToolError,
        record: &mut BeforeWork<'_, '_>,
    ) -> ToolError {
        let is_gate = matches!(
            error.code(),
            ErrorCode::NotAuthorized | ErrorCode::PermissionDenied | ErrorCode::ApprovalDenied
        );
        let Some(tool) = record.subject.tool().cloned().filter(|_| is_gate) else { return error };
        // Nothing that does not fit the tool is shown to a hook.
        let limits = helve_core::json::check(&self.call.arguments, settings.arguments);
        if limits.is_err() || fit(settings, &tool, &mut self.call.arguments).is_err() {
            return error;
        }
        let mut of = of_call(HookEvent::PermissionDenied, &tool, &self.call, record.subject);
        of.more.push(("reason", error.message().into()));
        let Ok(Some(fired)) = of.fire(runner, &self.hooks, self.call.cancellation.as_ref()).await else {
            return error;
        };
        tell(&fired, record.messages, record.arguments.scrubber());
        match fired.to_output().specific.and_then(|specific| specific.retry) {
            Some(true) => error.retryable(true).suggest("a hook says that the call may be tried again"),
            Some(false) | None => error,
        }
    }
}
