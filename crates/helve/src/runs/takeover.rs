//! Taking over what dead processes left, in the background of one that stays.
//!
//! Each run goes on in its own task, a few at a time. One that hangs, because the service that its tool asks
//! does not answer, keeps its place for a moment only: then the next one has it, and the one that hangs goes on
//! in addition to them until its tool's own time is up.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helve_core::CallId;
use helve_core::ports::{Holder, JournalError, Ledger};
use helve_core::record::Entry;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::recover::{RecoveredRun, Resumption, RunError, resume_left};
use crate::registry::Registry;
use crate::runtime::{Engine, Runtime};

/// How many runs are resumed at the same time.
const PLACES: usize = 32;
/// How long one keeps its place.
const PLACE_MAX: Duration = Duration::from_secs(2);
/// Most runs that are being taken over, those included that hang and those that wait for a place. The rest is
/// found when some of them have ended.
const UNDER_WAY_MAX: usize = 1_000;
/// How many open runs are looked at in one go.
const PAGE: usize = 1_000;
/// When a run whose tool is not here is looked at again: its server may be connected by then.
const ABSENT_PAUSE: Duration = Duration::from_secs(10);
/// First and longest pause before a run that could not be resumed is tried again. Each is twice the one before.
const VAIN_PAUSE: Duration = Duration::from_secs(2);
const VAIN_PAUSE_MAX: Duration = Duration::from_secs(300);

/// Runs that are being taken over.
pub(super) struct Takeover {
    places: Arc<Semaphore>,
    under_way: Mutex<UnderWay>,
    found: AtomicU64,
    done: AtomicU64,
}

#[derive(Default)]
struct UnderWay {
    runs: HashSet<CallId>,
    /// Runs that cannot go on here now: their tool is not here, or they could not be resumed.
    aside: HashMap<CallId, Aside>,
}

#[derive(Clone, Copy)]
struct Aside {
    again_at: Instant,
    /// How often it could not be resumed.
    failures: u32,
}

impl Default for Takeover {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(PLACES)),
            under_way: Mutex::default(),
            found: AtomicU64::new(0),
            done: AtomicU64::new(0),
        }
    }
}

impl Takeover {
    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with a run, unless a task has, it was put aside a moment ago, or there are too many.
    fn begin(&self, run: CallId) -> bool {
        let mut under_way = self.lock();
        let is_aside = under_way.aside.get(&run).is_some_and(|aside| Instant::now() < aside.again_at);
        let begins = !is_aside && under_way.runs.len() < UNDER_WAY_MAX && under_way.runs.insert(run);
        if begins {
            self.found.fetch_add(1, Ordering::AcqRel);
        }
        begins
    }

    /// Its tool is not here: it is left for a process that has it.
    fn mark_absent(&self, run: CallId) {
        self.put_aside(run, |failures| Aside { again_at: Instant::now() + ABSENT_PAUSE, failures });
    }

    /// It could not be resumed, for what may not pass by itself. Whether that is so for the first time.
    fn mark_failed(&self, run: CallId) -> bool {
        let mut is_first = false;
        self.put_aside(run, |failures| {
            is_first = failures == 0;
            let pause = VAIN_PAUSE.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
            let again_at = Instant::now() + pause.min(VAIN_PAUSE_MAX);
            Aside { again_at, failures: failures.saturating_add(1) }
        });
        is_first
    }

    /// Neither done nor found: it is looked at again.
    fn put_aside(&self, run: CallId, aside: impl FnOnce(u32) -> Aside) {
        let mut under_way = self.lock();
        under_way.runs.remove(&run);
        let failures = under_way.aside.get(&run).map_or(0, |before| before.failures);
        under_way.aside.insert(run, aside(failures));
        self.found.fetch_sub(1, Ordering::AcqRel);
    }

    fn mark_done(&self, run: CallId) {
        let mut under_way = self.lock();
        under_way.runs.remove(&run);
        under_way.aside.remove(&run);
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    /// This process has it, and looks at it again when its call is not at work any more.
    fn postpone(&self, run: CallId) {
        self.lock().runs.remove(&run);
        self.found.fetch_sub(1, Ordering::AcqRel);
    }

    /// Forgets those that another process has taken over.
    fn forget_aside_but(&self, left: &HashSet<CallId>) {
        self.lock().aside.retain(|run, _| left.contains(run));
    }
}

/// How far a process is with what others had left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Recovery {
    /// Runs that were resumed and have ended, or wait for a person by now.
    pub done: u64,
    /// All that were found, since this process began.
    pub total: u64,
}

impl Runtime {
    /// Looks once for runs whose process is dead, and takes them over in the background: each goes on, is rolled
    /// back or waits for a person, as its tool says. Waits for none of them. For a process that stays, every second
    /// or two: where there are none it costs one query. Two processes never take the same run, and a process that
    /// is only slow or suspended is not taken for dead.
    ///
    /// A run whose tool this process does not have is left for one that has it. One that cannot be resumed is tried
    /// again, less and less often. One of which a call may be at work still, on the other side, is left for
    /// [`recover_left`](Self::recover_left). `told` hears what became of each, and once that one cannot be resumed.
    pub async fn take_over(
        &self,
        told: impl Fn(&RecoveredRun) + Clone + Send + 'static,
    ) -> Result<(), JournalError> {
        let engine = self.engine();
        if engine.stop.has_begun() {
            return Ok(());
        }
        engine.ledger.check()?;
        let left = find_left(&*engine.ledger).await?;
        engine.runs.takeover.forget_aside_but(&left.iter().map(|(run, _)| *run).collect());
        for (run, cancel) in left {
            if engine.runs.takeover.begin(run) {
                tokio::spawn(take_over(Arc::clone(engine), run, cancel, told.clone()));
            }
        }
        Ok(())
    }

    /// How far this process is with what others had left.
    pub fn recovery(&self) -> Recovery {
        let takeover = &self.engine().runs.takeover;
        let done = takeover.done.load(Ordering::Acquire);
        Recovery { done, total: takeover.found.load(Ordering::Acquire).max(done) }
    }
}

/// The open runs whose process is dead, each with whether a stop was requested.
async fn find_left(ledger: &dyn Ledger) -> Result<Vec<(CallId, bool)>, JournalError> {
    let (mut left, mut after) = (Vec::new(), None);
    loop {
        let page = ledger.open_runs(after, PAGE).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map(|open| open.run);
        let of_dead = page.iter().filter(|open| open.holder == Holder::Nobody);
        left.extend(of_dead.map(|open| (open.run, open.cancel_requested)));
        if is_last {
            return Ok(left);
        }
    }
}

/// Takes one over. It has a place for a moment, and goes on without it where that is not enough.
async fn take_over(engine: Arc<Engine>, run: CallId, cancel: bool, told: impl Fn(&RecoveredRun)) {
    let place = Arc::clone(&engine.runs.takeover.places).acquire_owned().await;
    if !has_tool(&*engine.ledger, &engine.registry, run).await {
        tracing::debug!(%run, "a run was cut short whose tool is not here");
        return engine.runs.takeover.mark_absent(run);
    }
    let resuming = resume_left(&engine, run, cancel);
    tokio::pin!(resuming);
    let recovered = match tokio::time::timeout(PLACE_MAX, &mut resuming).await {
        Ok(recovered) => recovered,
        Err(_) => {
            drop(place);
            resuming.await
        }
    };
    match recovered.as_ref().map(|recovered| &recovered.resumption) {
        Some(Resumption::Failed(RunError::AtWork { .. })) => return engine.runs.takeover.postpone(run),
        Some(Resumption::Failed(error)) => {
            // Once is enough: it is tried again and again.
            if !engine.runs.takeover.mark_failed(run) {
                return tracing::debug!(%run, %error, "a run that was left still cannot be resumed");
            }
        }
        Some(Resumption::Ended(_) | Resumption::Waits(_)) | None => engine.runs.takeover.mark_done(run),
    }
    if let Some(recovered) = recovered {
        told(&recovered);
    }
}

/// Whether this process knows the tool that a run began with. A run that cannot be read is taken over, so
/// that its failure shows.
async fn has_tool(ledger: &dyn Ledger, registry: &Registry, run: CallId) -> bool {
    let entries = ledger.history(run).await.unwrap_or_default();
    let started = entries.iter().find_map(|entry| match entry {
        Entry::Started(started) if started.facts.call_id == run => Some(started),
        Entry::Started(_) | Entry::Step(_) | Entry::Finished(_) => None,
    });
    started.is_none_or(|started| registry.tool(&started.facts.tool).is_some())
}
