//! Tells all hooks that match, at once, each within its time.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use helve_core::BoxFuture;
use helve_core::hook::{HookContext, HookFailure, HookHost, HookInput, HookOutput};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{Answered, Behalf, Hooks, Listed, Spoken};
use crate::runtime::{Engine, Judges};

/// A hook that is told, and what.
pub(crate) struct Matched<'l> {
    pub(crate) listed: &'l Listed,
    pub(crate) input: Arc<HookInput>,
    pub(crate) spoken: Spoken,
}

/// What it takes to tell hooks of something.
pub(crate) struct HookRunner<'e> {
    hooks: &'e Hooks,
    judges: &'e Judges,
    /// Who runs what hooks call.
    host: Arc<dyn HookHost>,
    /// Room for hooks that nobody waits for.
    room: &'e Arc<Semaphore>,
}

impl<'e> HookRunner<'e> {
    /// What it takes to tell hooks of something on somebody's behalf.
    pub(super) fn new(engine: &'e Arc<Engine>, behalf: &Behalf) -> Self {
        let (hooks, judges) = (&engine.hooks, &engine.judges);
        Self { hooks, judges, host: behalf.host(engine), room: behalf.room(hooks) }
    }

    /// The same for hooks of calls, which are told on Helve's own behalf.
    pub(crate) fn of_calls(engine: &'e Arc<Engine>) -> Self {
        Self::new(engine, &Behalf::Helve)
    }

    /// The hooks that are asked, in the order of registration.
    pub(crate) fn hooks(&self) -> &'e Hooks {
        self.hooks
    }

    /// Who judges calls.
    pub(crate) fn judges(&self) -> &'e Judges {
        self.judges
    }

    fn context(&self, token: CancellationToken) -> HookContext {
        HookContext::new(token, Arc::clone(&self.host))
    }
}

/// The event's call was taken back meanwhile.
pub(crate) struct TakenBack;

type HookResult = Result<HookOutput, HookFailure>;

/// Tells them all. The answers are in the order of registration.
///
/// Most hooks in code answer at once: these cost no timer and no trip through the scheduler.
pub(crate) async fn run_all(
    runner: &HookRunner<'_>,
    matched: &[Matched<'_>],
    taken_back: Option<&CancellationToken>,
) -> Result<Vec<Answered>, TakenBack> {
    let token = taken_back.map_or_else(CancellationToken::new, CancellationToken::child_token);
    let context = runner.context(token.clone());
    let mut answers: Vec<Answered> = Vec::with_capacity(matched.len());
    let mut going = Vec::new();
    for (index, one) in matched.iter().enumerate() {
        let answer = if one.listed.entry.in_background {
            in_background(runner, one);
            Ok(HookOutput::none())
        } else {
            match poll_fn(|cx| Poll::Ready(first_step(one, &context, cx))).await {
                Step::Answered(answer) => answer,
                Step::Going(rest) => {
                    going.push((index, rest));
                    Ok(HookOutput::none())
                }
            }
        };
        answers.push(Answered::new(one, answer));
    }
    if going.is_empty() {
        return Ok(answers);
    }
    // Rare and large, so on the heap.
    Box::pin(wait_for(going, matched, &mut answers, token, taken_back)).await?;
    Ok(answers)
}

/// Waits for hooks that did not answer at once.
async fn wait_for<'m>(
    going: Vec<(usize, BoxFuture<'m, HookResult>)>,
    matched: &[Matched<'_>],
    answers: &mut [Answered],
    token: CancellationToken,
    taken_back: Option<&CancellationToken>,
) -> Result<(), TakenBack> {
    // Whatever a hook has started elsewhere ends with this, however it ends.
    let _told = token.drop_guard();
    let waits = going.into_iter().map(|(index, rest)| {
        let time = matched[index].listed.entry.time();
        async move { (index, within(time, rest).await) }
    });
    let all = join_all(waits);
    let ended = match taken_back {
        None => all.await,
        Some(token) => tokio::select! {
            biased;
            ended = all => ended,
            () = token.cancelled() => return Err(TakenBack),
        },
    };
    for (index, answer) in ended {
        answers[index].result = answer;
    }
    Ok(())
}

enum Step<'h> {
    Answered(HookResult),
    Going(BoxFuture<'h, HookResult>),
}

/// Runs a hook until it first waits.
fn first_step<'h>(one: &'h Matched<'_>, context: &HookContext, cx: &mut Context<'_>) -> Step<'h> {
    // Nothing of the hook is touched again after a panic.
    let step = catch_unwind(AssertUnwindSafe(|| {
        let mut future = one.listed.entry.hook.fire(Arc::clone(&one.input), context.clone());
        match future.as_mut().poll(cx) {
            Poll::Ready(answer) => Step::Answered(answer),
            Poll::Pending => Step::Going(future),
        }
    }));
    step.unwrap_or_else(|_panic| Step::Answered(Err(crashed())))
}

async fn within(time: Duration, rest: BoxFuture<'_, HookResult>) -> HookResult {
    match tokio::time::timeout(time, AssertUnwindSafe(rest).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_panic)) => Err(crashed()),
        Err(_) => Err(HookFailure::new(format!("it did not answer within {time:?}"))),
    }
}

fn crashed() -> HookFailure {
    HookFailure::new("it crashed")
}

/// Runs a hook while everything goes on. Nobody hears its answer but the log.
pub(super) fn in_background(runner: &HookRunner<'_>, one: &Matched<'_>) {
    let by = Arc::clone(&one.listed.by);
    let Ok(room) = Arc::clone(runner.room).try_acquire_owned() else {
        tracing::warn!(%by, "a hook was not told: too many run in the background");
        return;
    };
    let (entry, input) = (one.listed.entry.clone(), Arc::clone(&one.input));
    let context = runner.context(runner.hooks.ending());
    tokio::spawn(async move {
        let time = entry.time();
        let answer = within(time, Box::pin(async { entry.hook.fire(input, context).await })).await;
        if let Err(failure) = answer {
            tracing::warn!(%by, "a hook in the background failed: {failure}");
        }
        drop(room);
    });
}
