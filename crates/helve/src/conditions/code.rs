//! Checks that are code.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::ports::ToolHost;
use helve_core::precondition::Check;
use helve_core::{Context, ToolError};
use tokio::task::JoinHandle;

use super::evaluate::{CheckedCall, Verdict};

/// Runs a check. `otherwise` is the reason where it only says no.
///
/// Its own task: a panic ends the task and not us, and a check that blocks its thread cannot
/// keep us from noticing that its time is up.
pub(super) async fn run_check(
    host: Arc<dyn ToolHost>,
    check: Arc<dyn Check>,
    asked: CheckedCall<'_>,
    time: Duration,
    otherwise: String,
) -> Verdict {
    let context = asked.context(host, Instant::now() + time);
    let (arguments, told) = (asked.arguments().clone(), context.clone());
    let task = tokio::spawn(async move { check.holds(arguments, context).await });
    let mut checking = Checking { task, told };
    match (&mut checking.task).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(otherwise),
        Ok(Err(error)) => Err(ToolError::message(&error).to_owned()),
        Err(error) => {
            tracing::warn!(tool = %asked.tool.name(), %error, "the check of a precondition crashed");
            Err("its check crashed".to_owned())
        }
    }
}

/// A check's task. Dropped when its time is up, it is told to stop and stopped.
struct Checking {
    task: JoinHandle<Result<bool, ToolError>>,
    told: Context,
}

impl Drop for Checking {
    fn drop(&mut self) {
        if !self.task.is_finished() {
            self.told.cancellation().cancel();
            self.task.abort();
        }
    }
}
