//! One start of a tool, from its task to its end.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use helve_core::record::{Attempt, HandlerEnd};
use helve_core::{BoxFuture, Call, Context, ErrorCode, Handler, Tool, ToolError};
use serde_json::Value;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::record::CallRecorder;
use crate::runs::ActiveRun;
use crate::runtime::{Engine, Settings, Stop, stop};

/// How long an aborted task has to let go. One that is blocked in a system call will not.
const ABORT_WAIT: Duration = Duration::from_millis(20);

/// How long a composed tool has to stop all its parts.
const COMPOSED_GRACE: Duration = Duration::from_secs(30);

/// How a handler ended: with its result, or in a panic, of which its task may tell more.
type Ended = Result<Result<Value, ToolError>, Option<JoinError>>;

pub(super) async fn attempt(
    engine: &Engine,
    tool: &Tool,
    call: &Call,
    context: Context,
    arguments: Value,
    deadline: Instant,
    record: &mut CallRecorder<'_>,
) -> Result<Value, ToolError> {
    let started = record.attempt_begins();
    let (result, handler) =
        run_handler(engine, tool, call, &context, arguments, deadline, record.subject.run()).await;
    record.result.attach(context.attached());
    record.work.charge(context.charged());
    let shortfall = context.shortfall().filter(|_| result.is_ok());
    record.result.set_shortfall(shortfall, record.arguments.scrubber());
    let ended = Instant::now();
    let duration_us = u64::try_from((ended - started).as_micros()).unwrap_or(u64::MAX);
    let (error, handler_returned) = (result.as_ref().err(), handler == HandlerEnd::Returned);
    let code = error.map(ToolError::code);
    let nothing_done = handler_returned && error.is_some_and(ToolError::did_nothing);
    record.attempted(Attempt { duration_us, code, handler, nothing_done }, ended);
    result
}

async fn run_handler(
    engine: &Engine,
    tool: &Tool,
    call: &Call,
    context: &Context,
    arguments: Value,
    deadline: Instant,
    of: Option<&Arc<ActiveRun>>,
) -> (Result<Value, ToolError>, HandlerEnd) {
    let handler = tool.handler();
    // Its own task: a panic ends the task and not us, and a handler that blocks its thread
    // cannot keep us from noticing the deadline.
    let work = if handler.is_instant() {
        match first_step(&**handler, arguments, context.clone()).await {
            Ok(ControlFlow::Break(result)) => return (result, HandlerEnd::Returned),
            Ok(ControlFlow::Continue(rest)) if handler.is_light() => Work::Here(rest),
            Ok(ControlFlow::Continue(rest)) => Work::apart(rest, of),
            Err(_panic) => return (Err(crashed(tool)), HandlerEnd::Panicked),
        }
    } else {
        let (handler, context) = (Arc::clone(handler), context.clone());
        Work::apart(async move { handler.call(arguments, context).await }, of)
    };
    // On the heap: what waiting takes is large, and a call that ends at once does without.
    Box::pin(wait(engine, tool, call, Running { work, told: context.clone() }, deadline)).await
}

/// Waits for a handler, as long as it has time and its call is wanted.
async fn wait(
    engine: &Engine,
    tool: &Tool,
    call: &Call,
    mut running: Running,
    deadline: Instant,
) -> (Result<Value, ToolError>, HandlerEnd) {
    let told = running.told.clone();
    let error = tokio::select! {
        biased;
        ended = &mut running.work => return finished(tool, ended),
        () = taken_back(told.outer_cancellation()) => cancelled(),
        by = engine.stop.over() => stop::cut_off(&by, tool),
        () = tokio::time::sleep_until(deadline) => timed_out(&engine.settings, tool, call),
    };
    // A composed tool is our own code, and ends as soon as its parts do; each has its own grace.
    let grace = if tool.is_composed() { COMPOSED_GRACE } else { engine.settings.cancel_grace };
    match running.stop(grace).await {
        // It has changed the world, and nobody could undo what is said not to have happened.
        Ok(Ok(Ok(value))) if tool.definition().changes_world() && !tool.is_composed() => {
            (Ok(value), HandlerEnd::Returned)
        }
        Ok(_) => (Err(error), HandlerEnd::Stopped),
        Err(end) => (Err(error), end),
    }
}

/// A handler's future.
type Step = BoxFuture<'static, Result<Value, ToolError>>;

/// Runs a handler here until it first waits. Its end, what is left to run, or a panic.
async fn first_step(
    handler: &dyn Handler,
    arguments: Value,
    context: Context,
) -> std::thread::Result<ControlFlow<Result<Value, ToolError>, Step>> {
    let mut parts = Some((arguments, context));
    poll_fn(|cx| {
        // Nothing of the handler is touched again after a panic.
        Poll::Ready(catch_unwind(AssertUnwindSafe(|| {
            let (arguments, context) = parts.take().expect("polled once");
            let mut future = handler.call(arguments, context);
            match future.as_mut().poll(cx) {
                Poll::Ready(result) => ControlFlow::Break(result),
                Poll::Pending => ControlFlow::Continue(future),
            }
        })))
    })
    .await
}

/// A handler at work: in its own task, or here, in its caller's.
enum Work {
    Task(JoinHandle<Result<Value, ToolError>>),
    Here(Step),
    Stopped,
}

impl Work {
    /// In its own task. Its run knows until that has really ended.
    fn apart(
        work: impl Future<Output = Result<Value, ToolError>> + Send + 'static,
        of: Option<&Arc<ActiveRun>>,
    ) -> Self {
        let at_work = of.map(ActiveRun::at_work);
        Self::Task(tokio::spawn(async move {
            let _at_work = at_work;
            work.await
        }))
    }

    fn is_going_on(&self) -> bool {
        match self {
            Self::Task(task) => !task.is_finished(),
            Self::Here(_) => true,
            Self::Stopped => false,
        }
    }

    fn abort(&mut self) {
        match self {
            Self::Task(task) => task.abort(),
            Self::Here(_) | Self::Stopped => *self = Self::Stopped,
        }
    }
}

impl Future for Work {
    type Output = Ended;

    fn poll(self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Ended> {
        let this = self.get_mut();
        let ended = match this {
            Self::Task(task) => return Pin::new(task).poll(cx).map(|joined| joined.map_err(Some)),
            Self::Here(rest) => match catch_unwind(AssertUnwindSafe(|| rest.as_mut().poll(cx))) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(result)) => Ok(result),
                Err(_panic) => Err(None),
            },
            Self::Stopped => return Poll::Ready(Err(None)),
        };
        *this = Self::Stopped;
        Poll::Ready(ended)
    }
}

/// A handler at work. Dropped with its call, it is told to stop and stopped.
struct Running {
    work: Work,
    told: Context,
}

impl Running {
    /// Tells the handler to stop: its end if it comes in time, else how it was made to.
    async fn stop(&mut self, grace: Duration) -> Result<Ended, HandlerEnd> {
        self.told.cancellation().cancel();
        if let Ok(joined) = tokio::time::timeout(grace, &mut self.work).await {
            return Ok(joined);
        }
        self.work.abort();
        match tokio::time::timeout(ABORT_WAIT, &mut self.work).await {
            Ok(_) => Err(HandlerEnd::Stopped),
            Err(_) => Err(HandlerEnd::Abandoned),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.work.is_going_on() {
            self.told.cancellation().cancel();
            self.work.abort();
        }
    }
}

fn finished(tool: &Tool, ended: Ended) -> (Result<Value, ToolError>, HandlerEnd) {
    match ended {
        Ok(result) => (result, HandlerEnd::Returned),
        // What it panicked with may hold anything, so it goes to the log alone.
        Err(Some(error)) => (Err(crashed(tool).with_source(error)), HandlerEnd::Panicked),
        Err(None) => (Err(crashed(tool)), HandlerEnd::Panicked),
    }
}

fn crashed(tool: &Tool) -> ToolError {
    ToolError::failed(format!("`{}` crashed; this is a defect in the tool", tool.name()))
}

pub(super) fn cancelled() -> ToolError {
    ToolError::new(ErrorCode::Cancelled, "the call was cancelled")
}

fn timed_out(settings: &Settings, tool: &Tool, call: &Call) -> ToolError {
    let allowed = super::timeout(settings, tool, call);
    let message = format!("`{}` did not finish within {} ms", tool.name(), allowed.as_millis());
    let error = ToolError::new(ErrorCode::Timeout, message);
    // Where the call may have done its work, this would be an invitation to do it twice.
    match tool.definition().repeatable() || tool.is_composed() {
        true => error.suggest("ask for less at once, or allow more time"),
        false => error,
    }
}

/// Waits between attempts.
pub(super) async fn wait_or_cancel(stop: &Stop, wait: Duration, call: &Call) -> Result<(), ToolError> {
    tokio::select! {
        () = tokio::time::sleep(wait) => Ok(()),
        () = taken_back(call.cancellation.as_ref()) => Err(cancelled()),
        by = stop.over() => Err(stop::between_attempts(&by)),
    }
}

/// Waits until the caller takes the call back; for ever where it cannot.
pub(super) async fn taken_back(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}
