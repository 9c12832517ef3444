//! What waits for the writer, and whether it may be waited for.
//!
//! The queue is bounded. When it is full, an entry is refused: waiting is no choice for callers
//! that are async or in the middle of being dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve_core::ports::{Begun, JournalError, KeyClaim, SharedHistogram};
use helve_core::record::Started;
use tokio::sync::oneshot;

use crate::job::{ClaimOutcome, Job, Own, Reply};
use crate::request::Request;

/// How long the writer lets records gather that nobody waits for: one fsync for a few calls costs the
/// processor, and the disk, a fraction of one each.
const GATHER_TIME: Duration = Duration::from_millis(10);
/// How many records it lets gather at most.
const GATHER_MAX: usize = 256;

/// How long the writer sleeps while there is nothing to do, before it looks whether others can still see it.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// How soon to look again whether another process has finished with a key.
const POLL_PAUSE: Duration = Duration::from_millis(25);
/// The same for those who have waited for long: a look is a job of the one writer, and a person may take days.
const POLL_PAUSE_MAX: Duration = Duration::from_millis(400);

/// How many must have been answered together before the writer waits for them to come again.
const COHORT_MIN: usize = 8;

/// What can be written.
#[derive(Debug, Clone, Default)]
pub enum Health {
    /// Everything can be written.
    #[default]
    Working,
    /// The ends of calls, into the room that the reserve left. Nothing new starts.
    ReportsOnly(JournalError),
    /// Nothing can be written.
    Broken(JournalError),
    /// Nothing, and nothing is kept for later, until a person has looked. Why, in words.
    Quarantined(Arc<str>),
}

impl Health {
    /// Whether nothing that is held can be written for now.
    pub(crate) fn writes_nothing(&self) -> bool {
        match self {
            Self::Broken(_) | Self::Quarantined(_) => true,
            Self::Working | Self::ReportsOnly(_) => false,
        }
    }
}

/// Jobs between callers and the writer.
pub struct Queue<O> {
    state: Mutex<State<O>>,
    wake: Condvar,
    // Jobs that are not done yet, those in the writer's hands included.
    pending: AtomicUsize,
    // Whether `state` holds a reason to refuse. Read without the lock before every call.
    refusing: AtomicBool,
    pending_max: usize,
    idle_max: Duration,
    /// How long groups took to reach the disk.
    pub commits: SharedHistogram,
}

struct State<O> {
    jobs: VecDeque<Job<O>>,
    // Whether a caller waits for one of them.
    awaited: bool,
    // Only then is waking the writer worth a system call.
    writer_waits: bool,
    // How many must be queued before those who wait are served: a caller that was answered just now may
    // come again, and shares the disk with those who are here.
    cohort: usize,
    // A caller waits for a retry.
    urgent: bool,
    closed: bool,
    health: Health,
}

/// How long the writer waits for work.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// Until there is work, and a little longer where much of it is likely.
    UntilWork(Option<Cohort>),
    /// Until it is time to try again what failed, or a caller asks for that.
    UntilRetry(Duration),
    /// Not at all.
    None,
}

/// Those who were answered together, a moment ago.
///
/// They come again together. Those who came meanwhile would else go to disk without them, so that each group
/// has half of the callers and each caller waits for two.
#[derive(Clone, Copy)]
pub(crate) struct Cohort {
    pub(crate) answered: usize,
    /// How long they may be waited for.
    time: Duration,
    /// From when on nobody expects them.
    gone: Instant,
}

impl Cohort {
    /// Of a group that took so long to reach the disk.
    pub(crate) fn answered(answered: usize, took: Duration) -> Option<Self> {
        let time = (took / 4).min(GATHER_TIME);
        (answered >= COHORT_MIN).then(|| Self { answered, time, gone: Instant::now() + took })
    }

    fn is_expected(&self) -> bool {
        Instant::now() < self.gone
    }
}

impl<O: Own> Queue<O> {
    /// A queue for so many jobs.
    pub fn new(pending_max: usize) -> Self {
        let pending_max = pending_max.max(1);
        Self {
            state: Mutex::new(State::new()),
            wake: Condvar::new(),
            pending: AtomicUsize::new(0),
            refusing: AtomicBool::new(false),
            pending_max,
            idle_max: IDLE_MAX,
            commits: SharedHistogram::default(),
        }
    }

    /// Has the writer look at least so often whether others can still see it.
    #[must_use]
    pub fn waking_every(self, idle_max: Duration) -> Self {
        Self { idle_max: idle_max.min(IDLE_MAX), ..self }
    }

    /// How many jobs are not done yet.
    pub fn waiting(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Whether a new call may expect to be recorded.
    pub fn check(&self) -> Result<(), JournalError> {
        if self.refusing.load(Ordering::Acquire) {
            return self.lock().refusal();
        }
        // New calls are refused earlier than entries, so that calls under way still find room.
        if self.pending.load(Ordering::Relaxed) >= self.pending_max - self.pending_max / 4 {
            return Err(overloaded());
        }
        Ok(())
    }

    /// Whether those who can wait should: long before anybody is refused.
    pub fn is_behind(&self) -> bool {
        self.pending.load(Ordering::Relaxed) >= self.pending_max / 4
    }

    /// Queues a job, or says why not.
    ///
    /// In quarantine nothing has begun, so nothing is kept. While the journal is broken, reports are kept for later and refused nonetheless, because
    /// they are not on disk. While there is room for reports only, they are taken.
    pub fn submit(&self, job: Job<O>) -> Result<(), JournalError> {
        let is_flush = matches!(job, Job::Flush(_));
        let mut state = self.lock();
        if !state.closed && matches!(state.health, Health::Quarantined(_)) {
            return state.refusal();
        }
        if !is_flush && self.pending.load(Ordering::Relaxed) >= self.pending_max {
            return state.refusal().and(Err(overloaded()));
        }
        let taken = is_flush || (job.is_report() && !job.is_request() && !state.is_broken());
        if let Err(error) = state.refusal()
            && (state.closed || !taken)
        {
            if !state.closed && job.is_report() {
                let kept = job.refuse(&error);
                kept.into_iter().for_each(|job| self.push_to(&mut state, job));
            }
            return Err(error);
        }
        state.urgent |= is_flush;
        self.push_to(&mut state, job);
        Ok(())
    }

    /// Queues a job of the ledger's own, whatever the state. In quarantine only what ends it is kept.
    pub fn push(&self, job: Job<O>) {
        let mut state = self.lock();
        let ends_quarantine = matches!(&job, Job::Own(own) if own.ends_quarantine());
        if ends_quarantine || !matches!(state.health, Health::Quarantined(_)) {
            self.push_to(&mut state, job);
        }
    }

    /// Queues a job and waits for the writer's answer.
    pub async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job<O>) -> Result<T, JournalError> {
        let (reply, answer) = oneshot::channel();
        self.submit(job(reply))?;
        answer.await.map_err(|_| closed())?
    }

    /// Queues a request and waits for the writer's answer.
    pub async fn request<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, JournalError> {
        self.ask(|reply| Job::Ask(Box::new(request(reply)))).await
    }

    /// Begins a call under an idempotency key: see [`Journal::begin`](helve_core::ports::Journal::begin).
    pub async fn begin(&self, started: Box<Started>, claim: KeyClaim) -> Result<Begun, JournalError> {
        let mut started = started;
        let mut pause = POLL_PAUSE;
        loop {
            let claim = claim.clone();
            match self.ask(|reply| Job::Begin { started, claim, reply }).await? {
                ClaimOutcome::Fresh(key) => {
                    key.hand_over();
                    return Ok(Begun::Fresh);
                }
                ClaimOutcome::Settled(begun) => return Ok(begun),
                ClaimOutcome::Elsewhere(back) => started = back,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(POLL_PAUSE_MAX);
        }
    }

    fn push_to(&self, state: &mut State<O>, job: Job<O>) {
        self.pending.fetch_add(1, Ordering::Relaxed);
        state.awaited |= job.is_awaited();
        state.jobs.push_back(job);
        // The first wakes the writer, which then lets others gather.
        let wanted = state.jobs.len() == 1 || !state.gathers();
        if state.writer_waits && wanted && (state.urgent || !state.is_broken()) {
            state.writer_waits = false;
            self.wake.notify_one();
        }
    }

    /// Moves jobs to the writer until it holds `held_max`, waiting as it has patience.
    /// Returns whether the queue is closed and empty.
    pub(crate) fn take(&self, held: &mut VecDeque<Job<O>>, held_max: usize, patience: Patience) -> bool {
        let mut state = self.lock();
        match patience {
            Patience::None => {}
            Patience::UntilWork(cohort) => {
                state.writer_waits = true;
                let idle = |state: &mut State<O>| state.jobs.is_empty() && !state.closed;
                state = self
                    .wake
                    .wait_timeout_while(state, self.idle_max, idle)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                if idle(&mut state) {
                    state.writer_waits = false;
                    return false;
                }
                let mut time = GATHER_TIME;
                if let Some(cohort) = cohort.filter(|cohort| state.awaited && cohort.is_expected()) {
                    time = cohort.time;
                    state.cohort = (state.jobs.len() + cohort.answered).min(held_max);
                }
                state.writer_waits = true;
                state = self
                    .wake
                    .wait_timeout_while(state, time, |state| state.gathers())
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                state.cohort = 0;
            }
            Patience::UntilRetry(pause) => {
                state.writer_waits = true;
                let asked = |state: &mut State<O>| {
                    !state.urgent && !state.closed && (state.is_broken() || state.jobs.is_empty())
                };
                state = self
                    .wake
                    .wait_timeout_while(state, pause, asked)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
        state.writer_waits = false;
        state.urgent = false;
        let count = state.jobs.len().min(held_max.saturating_sub(held.len()));
        held.extend(state.jobs.drain(..count));
        state.awaited &= !state.jobs.is_empty();
        state.closed && state.jobs.is_empty()
    }

    /// Counts jobs as done.
    pub(crate) fn settle(&self, jobs: usize) {
        self.pending.fetch_sub(jobs, Ordering::Relaxed);
    }

    /// Takes from now on what can be written, and refuses the rest.
    pub fn set_health(&self, health: Health) {
        let mut state = self.lock();
        state.health = health;
        self.refusing.store(state.refusal().is_err(), Ordering::Release);
    }

    /// Whether nothing is written until a person has looked.
    pub fn is_quarantined(&self) -> bool {
        // Read without the lock: it is asked before much that only reads.
        self.refusing.load(Ordering::Acquire) && matches!(self.lock().health, Health::Quarantined(_))
    }

    /// Whether nothing more is taken.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes nothing more, and lets the writer end once it has written what is there.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.refusing.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Answers everybody who is left, after the writer has ended.
    pub(crate) fn abandon(&self) -> usize {
        self.close();
        let jobs = std::mem::take(&mut self.lock().jobs);
        let error = closed();
        jobs.into_iter().filter_map(|job| job.refuse(&error)).filter(Job::is_report).count()
    }

    fn lock(&self) -> MutexGuard<'_, State<O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Own> State<O> {
    fn new() -> Self {
        Self {
            jobs: VecDeque::new(),
            awaited: false,
            writer_waits: false,
            cohort: 0,
            urgent: false,
            closed: false,
            health: Health::default(),
        }
    }

    fn refusal(&self) -> Result<(), JournalError> {
        if self.closed {
            return Err(closed());
        }
        match &self.health {
            Health::Working => Ok(()),
            Health::ReportsOnly(error) | Health::Broken(error) => Err(error.clone()),
            Health::Quarantined(why) => Err(JournalError::new(&**why)),
        }
    }

    /// Whether what is queued can wait for more.
    fn gathers(&self) -> bool {
        let enough = if self.awaited { self.cohort } else { GATHER_MAX };
        !self.closed && self.jobs.len() < enough
    }

    fn is_broken(&self) -> bool {
        matches!(self.health, Health::Broken(_))
    }
}

fn overloaded() -> JournalError {
    JournalError::new("the journal is overloaded: too many entries wait for the disk; call again later")
}

/// The error of everybody who comes after the end.
pub fn closed() -> JournalError {
    JournalError::new("the journal is closed")
}

#[cfg(test)]
mod tests {
    use helve_testkit::entries::SampleCall;
    use serde_json::json;

    use super::*;

    /// A backend that adds no jobs to the common ones.
    enum Nothing {}

    impl Own for Nothing {
        type Answer = ();

        fn is_request(&self) -> bool {
            match *self {}
        }

        fn is_awaited(&self) -> bool {
            match *self {}
        }

        fn answer(self, (): ()) {}

        fn refuse(self, _error: &JournalError) -> Option<Self> {
            None
        }
    }

    type Queue = super::Queue<Nothing>;

    fn record() -> Job<Nothing> {
        Job::Append(SampleCall::new("add").done(json!(3)))
    }

    fn take(queue: &Queue) -> usize {
        let mut held = VecDeque::new();
        queue.take(&mut held, usize::MAX, Patience::UntilWork(None));
        queue.settle(held.len());
        held.len()
    }

    #[test]
    fn records_gather_until_there_are_many_or_somebody_waits() {
        let queue = Queue::new(10 * GATHER_MAX);
        queue.submit(record()).unwrap();
        assert!(queue.lock().gathers(), "nobody waits");
        let (reply, _answer) = oneshot::channel();
        queue.submit(Job::Flush(reply)).unwrap();
        assert!(!queue.lock().gathers(), "somebody does");
        assert_eq!(take(&queue), 2);

        (0..GATHER_MAX - 1).for_each(|_| queue.submit(record()).unwrap());
        assert!(queue.lock().gathers(), "those who waited before have their answer");
        queue.submit(record()).unwrap();
        assert!(!queue.lock().gathers(), "enough for one fsync");
        assert_eq!(take(&queue), GATHER_MAX);

        // What nobody waits for comes too, without a push by anybody.
        queue.submit(record()).unwrap();
        assert_eq!(take(&queue), 1);
    }

    #[test]
    fn those_who_were_answered_together_are_waited_for() {
        let queue = Arc::new(Queue::new(10 * GATHER_MAX));
        let flush = |queue: &Queue| queue.submit(Job::Flush(oneshot::channel().0)).unwrap();
        let take = |queue: &Queue, cohort| {
            let mut held = VecDeque::new();
            queue.take(&mut held, 1_024, Patience::UntilWork(cohort));
            held.len()
        };
        let hour = Duration::from_secs(3_600);
        assert!(Cohort::answered(COHORT_MIN - 1, hour).is_none(), "few are not worth it");
        let cohort = Cohort::answered(COHORT_MIN, hour).unwrap();
        assert_eq!(cohort.time, GATHER_TIME, "nobody is waited for longer");

        // One is there, and as many as were answered come again. With the last of them it is enough.
        flush(&queue);
        let patient = Cohort { time: hour, ..cohort };
        let writer = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || take(&queue, Some(patient))
        });
        while queue.lock().cohort == 0 {
            std::thread::yield_now();
        }
        (0..COHORT_MIN).for_each(|_| flush(&queue));
        assert_eq!(writer.join().unwrap(), COHORT_MIN + 1);

        flush(&queue);
        let gone = Cohort { time: hour, gone: Instant::now(), ..cohort };
        assert_eq!(take(&queue, Some(gone)), 1, "nobody expects them any more");
        flush(&queue);
        assert_eq!(take(&queue, Some(Cohort { time: Duration::ZERO, ..cohort })), 1, "nobody came");
    }
}
