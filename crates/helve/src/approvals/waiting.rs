//! Learning of decisions as they are made, here and in other processes.

use std::sync::Arc;
use std::time::Duration;

use helve_core::ports::{Clock, JournalError, Ledger};
use helve_core::{Approval, ApprovalId, ApprovalState};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, Notify, broadcast};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::runtime::Stop;

/// How often to look for what other processes decided. What is decided here is told at once.
const PAUSE: Duration = Duration::from_millis(200);
/// How often to write down which questions have run out, in pauses.
const SWEEP_EVERY: u32 = 5;
/// How many changes are read in one go.
const PAGE: usize = 256;
/// How many changes a listener may be behind before it must look for itself.
const BEHIND_MAX: usize = 1_024;

/// Where decisions are announced. Nobody looks while nobody listens.
pub(crate) struct ApprovalFeed {
    changes: broadcast::Sender<Arc<Approval>>,
    /// Whether a task looks.
    looking: Mutex<bool>,
    nudge: Notify,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    /// How long questions are kept.
    keep: Duration,
}

impl ApprovalFeed {
    pub(crate) fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, keep: Duration) -> Self {
        Self {
            changes: broadcast::Sender::new(BEHIND_MAX),
            looking: Mutex::default(),
            nudge: Notify::new(),
            ledger,
            clock,
            keep,
        }
    }

    /// Something was decided here.
    pub(crate) fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// From now on no change is missed.
    pub(crate) async fn subscribe(self: &Arc<Self>) -> Result<Changes, JournalError> {
        let mut looking = self.looking.lock().await;
        let changes = self.changes.subscribe();
        if !*looking {
            // Known before anybody relies on it, so that nothing falls in between.
            let (cursor, _) = self.ledger.approvals_changed(None, 0).await?;
            *looking = true;
            tokio::spawn(Arc::clone(self).look(cursor));
        }
        Ok(Changes(changes))
    }

    async fn look(self: Arc<Self>, mut cursor: u64) {
        let mut rounds = 0_u32;
        loop {
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.nudge.notified() => {}
            }
            {
                let mut looking = self.looking.lock().await;
                if self.changes.receiver_count() == 0 {
                    *looking = false;
                    return;
                }
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(SWEEP_EVERY)
                && let Err(error) = self.sweep().await
            {
                tracing::debug!(%error, "cannot write down which questions have run out");
            }
            loop {
                let (last, changed) = match self.ledger.approvals_changed(Some(cursor), PAGE).await {
                    Ok(found) => found,
                    Err(error) => {
                        tracing::debug!(%error, "cannot see what was decided");
                        break;
                    }
                };
                cursor = last;
                let full = changed.len() == PAGE;
                for approval in changed {
                    // The listener may have gone.
                    let _ = self.changes.send(Arc::new(approval));
                }
                if !full {
                    break;
                }
            }
        }
    }

    /// Writes down which questions have run out, and forgets old ones.
    pub(super) async fn sweep(&self) -> Result<usize, JournalError> {
        const LIMIT: usize = 1_000;
        let now = self.clock.now();
        let forget_before = now.saturating_sub(self.keep).unwrap_or(jiff::Timestamp::MIN);
        let mut all = 0;
        loop {
            let swept = self.ledger.sweep_approvals(now, forget_before, LIMIT).await?;
            all += swept;
            if swept < LIMIT {
                return Ok(all);
            }
        }
    }

    /// Waits until a person has decided, the question has run out, time is up, the call is taken back or the
    /// process is about to end.
    pub(crate) async fn until_decided(
        self: &Arc<Self>,
        id: ApprovalId,
        until: Instant,
        cancellation: Option<&CancellationToken>,
        stop: &Stop,
    ) -> Result<(), JournalError> {
        let mut changes = self.subscribe().await?;
        let decided = async {
            loop {
                let Some(found) = self.ledger.approval(id).await? else { return Ok(()) };
                if found.state_at(self.clock.now()) != ApprovalState::Pending {
                    return Ok(());
                }
                // Until it has changed. One that was missed is looked up as well.
                while changes.next().await.is_some_and(|changed| changed.id != id) {}
            }
        };
        let taken_back = async {
            match cancellation {
                Some(token) => token.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            decided = decided => decided,
            () = tokio::time::sleep_until(until) => Ok(()),
            () = taken_back => Ok(()),
            // A process that ends reports no decision: the question stands.
            () = stop.begun() => Ok(()),
        }
    }
}

/// Changes of questions, as they happen.
pub struct Changes(broadcast::Receiver<Arc<Approval>>);

impl Changes {
    /// The next change. None where this listener was too slow and should look for itself.
    pub async fn next(&mut self) -> Option<Arc<Approval>> {
        match self.0.recv().await {
            Ok(approval) => Some(approval),
            Err(RecvError::Lagged(_)) => None,
            // The sender lives as long as the runtime, which those who wait here hold.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
