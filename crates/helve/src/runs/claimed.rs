//! A run between being left and being gone on with.

use std::sync::Arc;
use std::time::Duration;

use helve_core::CallId;
use helve_core::ports::{Adoption, JournalError, Ledger};
use tokio::time::Instant;

use super::here::Left;
use super::recover::RunError;
use crate::runtime::Engine;

/// A run that this process holds and is not at yet. Should the process that resumes it go away before, or the ledger
/// fail, it is left for the next one: else it would be nobody's until this process ends.
pub(super) struct ClaimedRun {
    engine: Option<Arc<Engine>>,
    run: CallId,
    left: Left,
}

impl ClaimedRun {
    /// Takes a run that was left by any process. `asked`: because a caller wants it to go on.
    pub(super) async fn take(engine: &Arc<Engine>, run: CallId, asked: bool) -> Result<Self, RunError> {
        if engine.stop.has_begun() {
            return Err(RunError::Stopping(run));
        }
        let engine = Arc::clone(engine);
        // In its own task: once the ledger was asked, the run may be ours, even if the asker has gone.
        let taken = tokio::spawn(async move {
            let _taking = engine.runs.begin_taking(run).ok_or(RunError::Busy(run))?;
            // Looked at before the ledger is asked: only what was left by then has said all that it had to.
            let mark = engine.runs.mark(run);
            // Asked in any case: that the run waits for a person may have been written after it was left, and
            // then the first process has it.
            let adoption = engine.ledger.adopt(run).await?;
            match (adoption, mark) {
                (Adoption::Adopted, _) | (Adoption::Ours, Some(_)) => {}
                (Adoption::Ours, None) | (Adoption::Busy, _) => return Err(RunError::Busy(run)),
                (Adoption::NotOpen, _) => return Err(not_open(&*engine.ledger, run).await),
            }
            engine.runs.forget(run);
            let before = mark.map(|mark| mark.left).unwrap_or_default();
            let left = Left {
                asked: asked || before.asked,
                tries: before.tries.saturating_add(1),
                not_before: None,
            };
            Ok(Self { engine: Some(Arc::clone(&engine)), run, left })
        });
        taken.await.unwrap_or_else(|_| Err(JournalError::new("taking over a run broke off").into()))
    }

    pub(super) fn run(&self) -> CallId {
        self.run
    }

    /// Whether a caller asked for it to go on.
    pub(super) fn is_asked(&self) -> bool {
        self.left.asked
    }

    /// Leaves it, not to be resumed by itself before this time is over.
    pub(super) fn postpone(mut self, wait: Duration) {
        self.left.tries = self.left.tries.saturating_sub(1);
        self.left.not_before = Some(Instant::now() + wait);
    }

    /// This process is at it from now on. How it is left, should it have to be.
    pub(super) fn begins(mut self) -> (CallId, Left) {
        self.engine = None;
        (self.run, self.left)
    }
}

impl Drop for ClaimedRun {
    fn drop(&mut self) {
        if let Some(engine) = &self.engine {
            engine.runs.leave(self.run, self.left);
        }
    }
}

/// Why a run cannot be taken: it has ended, or never was.
pub(super) async fn not_open(ledger: &dyn Ledger, run: CallId) -> RunError {
    match ledger.history(run).await {
        Ok(entries) if entries.is_empty() => RunError::NotFound(run),
        Ok(_) => RunError::Ended(run),
        Err(error) => RunError::Journal(error),
    }
}
