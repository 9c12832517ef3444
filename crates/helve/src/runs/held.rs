//! A run between being left and being gone on with.

use std::sync::Arc;

use helve_core::CallId;
use helve_core::ports::{Adoption, JournalError};

use super::recover::RunError;
use crate::runtime::Parts;

/// A run that this process holds and is not at yet. Should whoever takes it up go away before, or the ledger
/// fail, it is left for the next one: else it would be nobody's until this process ends.
pub(super) struct Held {
    parts: Option<Arc<Parts>>,
    run: CallId,
}

impl Held {
    /// Takes one that was left, whoever left it.
    pub(super) async fn take(parts: &Arc<Parts>, run: CallId) -> Result<Self, RunError> {
        let parts = Arc::clone(parts);
        if parts.runs.take_left(run) {
            return Ok(Self { parts: Some(parts), run });
        }
        // In a task of its own: once the ledger was asked, the run may be ours, whoever waits for the answer.
        let adopted = tokio::spawn(async move {
            let adoption = parts.ledger.adopt(run).await?;
            match adoption {
                Adoption::Adopted => Ok(Self { parts: Some(parts), run }),
                Adoption::Busy => Err(RunError::Busy(run)),
                Adoption::NotOpen => Err(not_open(&parts, run).await),
            }
        });
        adopted.await.unwrap_or_else(|_| Err(JournalError::new("taking over a run broke off").into()))
    }

    /// This process is at it from now on.
    pub(super) fn begins(mut self) -> CallId {
        self.parts = None;
        self.run
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(parts) = &self.parts {
            parts.runs.leave(self.run);
        }
    }
}

/// Why a run cannot be taken: it has ended, or never was.
pub(super) async fn not_open(parts: &Parts, run: CallId) -> RunError {
    match parts.ledger.history(run).await {
        Ok(entries) if entries.is_empty() => RunError::NotFound(run),
        Ok(_) => RunError::Ended(run),
        Err(error) => RunError::Journal(error),
    }
}
