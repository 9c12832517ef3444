//! Calls side by side, in a window that slides: the next starts as soon as one is done.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use helve_core::ToolError;
use serde_json::Value;

use super::plan::Part;
use super::run::{Ended, Run};
use super::step::OnError;

/// One call to be made.
pub(super) struct Job<'p> {
    pub(super) part: &'p Part,
    pub(super) path: Arc<str>,
    /// Its arguments, `None` where it is not due, or why they could not be made.
    pub(super) arguments: Result<Option<Value>, ToolError>,
}

/// What came of a call that did not end the whole.
pub(super) enum Slot {
    Skipped,
    Done(Value),
    Failed(ToolError),
}

/// Makes `count` calls, at most `width` at once, and waits for all that were started.
///
/// A failure that stops takes the others back. A question to a person only keeps further ones
/// from being started: what runs is still wanted.
pub(super) async fn gather<'p>(
    run: &Run<'_>,
    count: usize,
    width: usize,
    job: impl Fn(usize) -> Job<'p>,
) -> Result<Vec<Slot>, ToolError> {
    run.expect(count);
    let cancellation = run.context.cancellation().child_token();
    let mut running = FuturesUnordered::new();
    let mut ends: Vec<Option<(Arc<str>, OnError, Ended)>> = (0..count).map(|_| None).collect();
    let mut next = 0;
    let mut open = true;
    let is_question = |ended: &Ended| match ended {
        Ended::Stopped(error) => error.code() != helve_core::ErrorCode::Cancelled,
        Ended::Done(_) | Ended::Failed(_) => false,
    };
    while next < count || !running.is_empty() {
        open &= !run.context.is_cancelled();
        if open && next < count && running.len() < width {
            let (index, Job { part, path, arguments }) = (next, job(next));
            let token = cancellation.clone();
            next += 1;
            running.push(async move {
                let ended = match arguments {
                    Ok(Some(arguments)) => Some(run.call(part, &path, arguments, Some(token)).await),
                    Ok(None) => None,
                    Err(error) => Some(Ended::Failed(error)),
                };
                (index, path, part.on_error, ended)
            });
            continue;
        }
        let Some((index, path, policy, ended)) = running.next().await else { break };
        let Some(ended) = ended else {
            run.skipped();
            continue;
        };
        match &ended {
            Ended::Done(_) => {}
            Ended::Failed(_) if policy == OnError::Continue => {}
            Ended::Stopped(_) if is_question(&ended) => open = false,
            Ended::Failed(_) | Ended::Stopped(_) => {
                open = false;
                cancellation.cancel();
            }
        }
        ends[index] = Some((path, policy, ended));
    }
    let slots = settle(run, ends)?;
    if next < count {
        run.check_cancelled()?;
    }
    Ok(slots)
}

/// The slots, or the error of the whole: that of the first failure in the order of the calls, and
/// not of time, so that it is the same each time.
fn settle(run: &Run<'_>, ends: Vec<Option<(Arc<str>, OnError, Ended)>>) -> Result<Vec<Slot>, ToolError> {
    let mut slots = Vec::with_capacity(ends.len());
    let mut stopped = None;
    for end in ends {
        slots.push(match end {
            None => Slot::Skipped,
            Some((_, _, Ended::Done(result))) => Slot::Done(result),
            Some((path, OnError::Continue, Ended::Failed(error))) => {
                run.note_failed_part(&path, &error);
                Slot::Failed(error)
            }
            Some((path, OnError::Stop | OnError::Undo, Ended::Failed(error))) => {
                return Err(run.failed(&path, error));
            }
            Some((_, _, Ended::Stopped(error))) => {
                stopped.get_or_insert(error);
                Slot::Skipped
            }
        });
    }
    match stopped {
        Some(error) => Err(error),
        None => Ok(slots),
    }
}
