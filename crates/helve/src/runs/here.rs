//! The runs that this process is at, and those that it had to leave.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use helve_core::CallId;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::active::ActiveRun;
use super::takeover::Takeover;
use super::watch::Watch;

/// How often a run is resumed in vain before there are pauses between.
const VAIN_AT_ONCE: u32 = 2;
/// Longest pause before a run that was left is resumed.
const VAIN_PAUSE_MAX: Duration = Duration::from_secs(60);

/// The runs of this process that have not ended.
#[derive(Default)]
pub(crate) struct ActiveRuns {
    active: Mutex<HashMap<CallId, Arc<ActiveRun>>>,
    /// Runs that this process holds and is not at: the ledger failed in their middle.
    left: Mutex<HashMap<CallId, Mark>>,
    /// Runs about which the ledger is being asked whether they can be taken.
    taking: Mutex<HashSet<CallId>>,
    /// Held while looking for runs that were left, until those are taken.
    looking: Arc<tokio::sync::Mutex<()>>,
    /// What is being taken over from dead processes.
    pub(super) takeover: Takeover,
    /// Looks for requests to stop one of them.
    pub(super) watch: Watch,
}

/// How a run was left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Whether a caller had asked to go on with it, and it has not got any further since: then what the
    /// tool says of crashes does not count.
    pub(crate) asked: bool,
    /// How often it was resumed in vain.
    pub(crate) tries: u32,
    /// When to look at it again, where a call of it may be at work until then.
    pub(crate) not_before: Option<Instant>,
}

/// That a run was left, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) left: Left,
    at: Instant,
}

impl Mark {
    /// When it is worth the while to take it up again. What fails for good must not be tried for ever at
    /// the same pace; a caller that asks for it need not wait.
    fn due_at(&self) -> Instant {
        let pauses = self.left.tries.saturating_sub(VAIN_AT_ONCE);
        let pause = if pauses == 0 { 0 } else { 1_u64.checked_shl(pauses).unwrap_or(u64::MAX) };
        let due_at = self.at + Duration::from_secs(pause).min(VAIN_PAUSE_MAX);
        self.left.not_before.map_or(due_at, |not_before| due_at.max(not_before))
    }
}

impl ActiveRuns {
    pub(crate) fn get(&self, run: CallId) -> Option<Arc<ActiveRun>> {
        self.lock().get(&run).cloned()
    }

    pub(crate) fn insert(&self, run: &Arc<ActiveRun>) {
        self.lock().insert(run.id, Arc::clone(run));
    }

    pub(crate) fn remove(&self, run: &Arc<ActiveRun>) {
        let mut active = self.lock();
        // One that waited may have been resumed anew meanwhile.
        if active.get(&run.id).is_some_and(|now| Arc::ptr_eq(now, run)) {
            active.remove(&run.id);
        }
        drop(active);
        run.end();
    }

    /// Waits until this process is no longer at a run; where it is not, for a moment.
    pub(crate) async fn until_over(&self, run: CallId, moment: Duration) {
        match self.get(run) {
            Some(active) => active.until_over().await,
            None => tokio::time::sleep(moment).await,
        }
    }

    /// The runs that this process is at.
    pub(crate) fn all(&self) -> Vec<Arc<ActiveRun>> {
        self.lock().values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, Arc<ActiveRun>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a run as it is in the ledger, for recovery.
    pub(crate) fn leave(&self, run: CallId, left: Left) {
        self.left().insert(run, Mark { left, at: Instant::now() });
    }

    /// How this process has left a run that it holds.
    pub(crate) fn mark(&self, run: CallId) -> Option<Mark> {
        self.left().get(&run).copied()
    }

    /// The runs that this process holds and has left, as far as it is time to take them up again.
    pub(crate) fn due(&self) -> Vec<(CallId, Mark)> {
        let now = Instant::now();
        let left = self.left();
        left.iter().filter(|(_, mark)| mark.due_at() <= now).map(|(run, mark)| (*run, *mark)).collect()
    }

    /// A run that was left is taken, or has ended.
    pub(crate) fn forget(&self, run: CallId) {
        self.left().remove(&run);
    }

    /// A run is no longer as it was left, unless it was left again since.
    pub(crate) fn forget_as(&self, run: CallId, mark: Mark) {
        let mut left = self.left();
        if left.get(&run) == Some(&mark) {
            left.remove(&run);
        }
    }

    /// Begins to take a run. None: another task of this process is about to.
    pub(crate) fn begin_taking(&self, run: CallId) -> Option<Taking<'_>> {
        let is_first = self.taking().insert(run);
        is_first.then(|| Taking { runs: self, run })
    }

    /// Begins to look for runs that were left. None: another task is, and has not taken all of them yet.
    pub(crate) fn begin_looking(&self) -> Option<Arc<OwnedMutexGuard<()>>> {
        Arc::clone(&self.looking).try_lock_owned().ok().map(Arc::new)
    }

    fn left(&self) -> MutexGuard<'_, HashMap<CallId, Mark>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taking(&self) -> MutexGuard<'_, HashSet<CallId>> {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of this process at a time asks whether a run can be taken.
pub(crate) struct Taking<'r> {
    runs: &'r ActiveRuns,
    run: CallId,
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.runs.taking().remove(&self.run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_taken_up_in_vain_is_tried_less_and_less_often_but_tried() {
        let (runs, run) = (ActiveRuns::default(), CallId::new(jiff::Timestamp::UNIX_EPOCH));
        let mut tried = Vec::new();
        for tries in 0..100 {
            let left = Instant::now();
            runs.leave(run, Left { tries, ..Left::default() });
            while runs.due().is_empty() {
                assert!(left.elapsed() < VAIN_PAUSE_MAX + Duration::from_secs(1));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            tried.push(left.elapsed().as_secs());
            assert!(runs.mark(run).is_some(), "a caller that asks for it has it in any case");
        }
        assert_eq!(&tried[..9], [0, 0, 0, 2, 4, 8, 16, 32, 60]);
        assert_eq!(tried.last(), Some(&60));
    }

    #[tokio::test]
    async fn a_run_that_was_left_again_is_not_forgotten_as_it_was() {
        let (runs, run) = (ActiveRuns::default(), CallId::new(jiff::Timestamp::UNIX_EPOCH));
        runs.leave(run, Left::default());
        let before = runs.mark(run).unwrap();
        runs.leave(run, Left { tries: 1, ..Left::default() });
        runs.forget_as(run, before);
        let now = runs.mark(run).expect("it is still left");
        runs.forget_as(run, now);
        assert_eq!(runs.mark(run), None);
    }

    #[test]
    fn one_at_a_time_takes_a_run_and_one_looks_for_them() {
        let (runs, run) = (ActiveRuns::default(), CallId::new(jiff::Timestamp::UNIX_EPOCH));
        let taking = runs.begin_taking(run);
        assert!(taking.is_some() && runs.begin_taking(run).is_none());
        drop(taking);
        assert!(runs.begin_taking(run).is_some());
        let looking = runs.begin_looking();
        assert!(looking.is_some() && runs.begin_looking().is_none());
        drop(looking);
        assert!(runs.begin_looking().is_some());
    }
}
