//! Learning of decisions as they are made, here and in other processes.

use std::sync::Arc;
use std::time::Duration;

use helve_core::ports::JournalError;
use helve_core::{Approval, ApprovalId, ApprovalState};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, Notify, broadcast};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::runtime::Engine;

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
    /// Whether somebody looks.
    looking: Mutex<bool>,
    nudge: Notify,
}

impl Default for ApprovalFeed {
    fn default() -> Self {
        Self { changes: broadcast::Sender::new(BEHIND_MAX), looking: Mutex::default(), nudge: Notify::new() }
    }
}

impl ApprovalFeed {
    /// Something was decided here.
    pub(crate) fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// From now on no change is missed.
    pub(crate) async fn subscribe(engine: &Arc<Engine>) -> Result<Changes, JournalError> {
        let approval_feed = &engine.approval_feed;
        let mut looking = approval_feed.looking.lock().await;
        let changes = approval_feed.changes.subscribe();
        if !*looking {
            // Known before anybody relies on it, so that nothing falls in between.
            let (cursor, _) = engine.ledger.approvals_changed(None, 0).await?;
            *looking = true;
            tokio::spawn(look(Arc::clone(engine), cursor));
        }
        Ok(Changes(changes))
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
            // The sender lives as long as the runtime, which whoever waits here holds.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

async fn look(engine: Arc<Engine>, mut cursor: u64) {
    let approval_feed = &engine.approval_feed;
    let mut rounds = 0_u32;
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = approval_feed.nudge.notified() => {}
        }
        {
            let mut looking = approval_feed.looking.lock().await;
            if approval_feed.changes.receiver_count() == 0 {
                *looking = false;
                return;
            }
        }
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(SWEEP_EVERY)
            && let Err(error) = sweep(&engine).await
        {
            tracing::debug!(%error, "cannot write down which questions have run out");
        }
        loop {
            let (last, changed) = match engine.ledger.approvals_changed(Some(cursor), PAGE).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(%error, "cannot see what was decided");
                    break;
                }
            };
            cursor = last;
            let full = changed.len() == PAGE;
            for approval in changed {
                // Whoever listened may have gone.
                let _ = approval_feed.changes.send(Arc::new(approval));
            }
            if !full {
                break;
            }
        }
    }
}

/// Writes down which questions have run out, and forgets old ones.
pub(super) async fn sweep(engine: &Engine) -> Result<usize, JournalError> {
    const LIMIT: usize = 1_000;
    let now = engine.clock.now();
    let forget_before = now.saturating_sub(engine.settings.approvals.keep).unwrap_or(jiff::Timestamp::MIN);
    let mut all = 0;
    loop {
        let swept = engine.ledger.sweep_approvals(now, forget_before, LIMIT).await?;
        all += swept;
        if swept < LIMIT {
            return Ok(all);
        }
    }
}

/// Waits until somebody has decided, the question has run out, time is up or the call is taken back.
pub(crate) async fn until_decided(
    engine: &Arc<Engine>,
    id: ApprovalId,
    until: Instant,
    cancellation: Option<&CancellationToken>,
) -> Result<(), JournalError> {
    let mut changes = ApprovalFeed::subscribe(engine).await?;
    let decided = async {
        loop {
            let Some(found) = engine.ledger.approval(id).await? else { return Ok(()) };
            if found.state_at(engine.clock.now()) != ApprovalState::Pending {
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
        // Nobody is told of a decision by a process that ends: the question stands.
        () = engine.stop.begun() => Ok(()),
    }
}
