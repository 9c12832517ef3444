//! The one thread that writes.
//!
//! It drains what is queued into one transaction, and tells the waiting callers once that is on disk.
//! While the disk is busy with one group, the next one gathers. Where many were answered together it waits a
//! little for them to come again, so that they share the next one too.
//!
//! When writing fails altogether, what already happened is kept in memory and tried again, from time to time
//! and at each flush. A backend that has some space left may write what already happened into that, while
//! new calls are refused.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use helve_core::ports::JournalError;
use helve_core::record::Entry;
use helve_core::run::StepKind;

use crate::backend::{Backend, Readiness, Verdict};
use crate::job::{ClaimOutcome, HeldKey, Job, Own};
use crate::keys::Found;
use crate::queue::{self, Cohort, Health, Patience, Queue};

/// Most jobs in one transaction. More would save little and keep the first ones waiting.
pub const GROUP_MAX: usize = 1024;

/// Pause before what failed is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Pause before it is tried whether a full disk has room again. That takes all there is for a
/// moment, which others should not suffer often.
const ROOM_PAUSE: Duration = Duration::from_secs(2);

/// Pause before it is looked whether a journal in quarantine was put right.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// A scoped idempotency key.
type ScopedKey = [u8; 32];

/// Starts the thread that writes what comes through a queue. It ends once the queue is closed and empty.
pub fn spawn<B: Backend>(
    queue: &Arc<Queue<B::Own>>,
    backend: B,
    health: Health,
) -> std::io::Result<JoinHandle<Result<(), B::Error>>> {
    queue.set_health(health.clone());
    let backlog = Backlog { health, ..Backlog::new() };
    let writer = Writer { queue: Arc::clone(queue), backend, backlog };
    std::thread::Builder::new().name("helve-journal".to_owned()).spawn(move || writer.run())
}

/// The writing thread's state.
struct Writer<B: Backend> {
    queue: Arc<Queue<B::Own>>,
    backend: B,
    backlog: Backlog<B::Own>,
}

/// Jobs in the writer's hands.
struct Backlog<O> {
    /// To be written, in order.
    held: VecDeque<Job<O>>,
    /// Claims on keys that this process is running, until those end.
    parked: HashMap<ScopedKey, Vec<Job<O>>>,
    /// What can be written.
    health: Health,
    /// Whom the last group was for.
    cohort: Option<Cohort>,
}

impl<B: Backend> Writer<B> {
    /// Writes until the queue is closed and empty.
    fn run(mut self) -> Result<(), B::Error> {
        // Whatever ends this thread, nobody is left waiting.
        let _last_words = LastWords(Arc::clone(&self.queue));
        loop {
            let patience = self.backlog.patience();
            let ended = self.queue.take(&mut self.backlog.held, GROUP_MAX, patience);
            self.backend.stand();
            let idle = self.backlog.held.is_empty() && matches!(self.backlog.health, Health::Working);
            if !idle && let Err(error) = self.attempt() {
                self.fail(&error);
            }
            if ended && (self.backlog.held.is_empty() || self.backlog.health.writes_nothing()) {
                return self.finish();
            }
        }
    }

    /// Writes one group and answers it.
    fn attempt(&mut self) -> Result<(), B::Error> {
        match self.backend.make_ready(&self.backlog.health)? {
            Readiness::Ready => {}
            Readiness::NotYet => return Ok(()),
            Readiness::Again => {
                self.set_health(Health::Working);
                return Ok(());
            }
        }
        let count = self.backlog.held.len().min(GROUP_MAX);
        let begun = Instant::now();
        let verdicts = self.backend.write(&self.backlog.held.make_contiguous()[..count])?;
        let took = begun.elapsed();
        self.queue.commits.record(took);
        let answered = self.backlog.held.iter().take(count).filter(|job| job.is_awaited()).count();
        self.backlog.cohort = Cohort::answered(answered, took);
        if !matches!(self.backlog.health, Health::Working) {
            let health = self.backend.recover();
            if matches!(health, Health::Working) {
                tracing::info!("the journal can be written again");
            }
            self.set_health(health);
        }
        self.backend.tidy(&verdicts);
        self.deliver(verdicts);
        Ok(())
    }

    fn set_health(&mut self, health: Health) {
        self.queue.set_health(health.clone());
        self.backlog.health = health;
    }

    /// Keeps what must not be lost, and tells everybody else.
    fn fail(&mut self, error: &B::Error) {
        let worked = matches!(self.backlog.health, Health::Working);
        let health = self.backend.health_after(error, worked);
        let (reason, refused) = match &health {
            Health::ReportsOnly(reason) => (reason.clone(), Refused::Requests),
            Health::Broken(reason) => (reason.clone(), Refused::Everything),
            Health::Quarantined(why) => (JournalError::new(&**why), Refused::Everything),
            Health::Working => (JournalError::new(error.to_string()), Refused::Everything),
        };
        if worked {
            tracing::error!(error = %reason, "calls are refused until the journal can be written");
        }
        // Before the queue is emptied, so that nobody can slip in between and wait in vain.
        self.set_health(health);
        self.queue.take(&mut self.backlog.held, usize::MAX, Patience::None);
        let before = self.backlog.len();
        self.backlog.refuse(&reason, refused);
        self.queue.settle(before - self.backlog.len());
    }

    /// Answers a group that is on disk.
    fn deliver(&mut self, verdicts: Vec<Verdict<B::Own>>) {
        let mut ended_keys = Vec::new();
        let before = self.backlog.len();
        for verdict in verdicts {
            let job = self.backlog.held.pop_front().expect("there is a job for every verdict");
            match &job {
                Job::Finish { claim, .. } => ended_keys.push(claim.scoped_key),
                Job::Release { scoped_key, .. } => ended_keys.push(*scoped_key),
                // Another process may take the run up and end it, of which we would not hear.
                Job::Append(entry) | Job::Commit(entry, _) if leaves_run(entry) => {
                    ended_keys.extend(self.backlog.parked.keys());
                }
                Job::CommitAll(entries, _) if entries.iter().any(leaves_run) => {
                    ended_keys.extend(self.backlog.parked.keys());
                }
                Job::Append(_) | Job::Commit(..) | Job::CommitAll(..) | Job::Begin { .. } => {}
                Job::Own(_) | Job::Erase { .. } | Job::Ask(_) | Job::Flush(_) => {}
            }
            self.answer(job, verdict);
        }
        // After the whole group, since a claim may have been parked by it behind its end.
        for key in ended_keys {
            let waiting = self.backlog.parked.remove(&key).unwrap_or_default();
            waiting.into_iter().rev().for_each(|job| self.backlog.held.push_front(job));
        }
        self.queue.settle(before - self.backlog.len());
    }

    fn answer(&mut self, job: Job<B::Own>, verdict: Verdict<B::Own>) {
        // Nobody may be waiting any more; that is no error.
        match (job, verdict) {
            (Job::Begin { started, claim, reply }, Verdict::Found(found)) => {
                let answer = match found {
                    Found::Claimed { .. } => ClaimOutcome::Fresh(HeldKey::new(
                        &self.queue,
                        claim.scoped_key,
                        started.facts.call_id,
                    )),
                    Found::Settled(begun) => ClaimOutcome::Settled(begun),
                    Found::Elsewhere => ClaimOutcome::Elsewhere(started),
                    Found::Ours => return self.backlog.park(Job::Begin { started, claim, reply }),
                };
                let _ = reply.send(Ok(answer));
            }
            (Job::Erase { reply, .. }, Verdict::Erased(count)) => {
                let _ = reply.send(Ok(count));
            }
            (Job::Commit(_, reply) | Job::Flush(reply), Verdict::Done) => {
                let _ = reply.send(Ok(()));
            }
            (Job::Ask(request), Verdict::Answered(response)) => request.answer(response),
            (Job::Finish { reply, .. } | Job::CommitAll(_, reply), Verdict::Done) => {
                reply.map(|reply| reply.send(Ok(())));
            }
            (job, Verdict::Refused(error)) => {
                let lost = job.is_report();
                job.refuse(&error);
                if lost {
                    tracing::error!(%error, "an entry was refused and is lost");
                }
            }
            (Job::Own(own), Verdict::Own(answer)) => own.answer(answer),
            (Job::Append(_) | Job::Release { .. }, _) => {}
            (
                Job::Commit(..)
                | Job::CommitAll(..)
                | Job::Finish { .. }
                | Job::Flush(_)
                | Job::Begin { .. }
                | Job::Ask(_)
                | Job::Own(_)
                | Job::Erase { .. },
                _,
            ) => {
                unreachable!("each kind of job has its kind of verdict")
            }
        }
    }

    /// Lets go of what was written to.
    fn finish(mut self) -> Result<(), B::Error> {
        self.backlog.refuse(&queue::closed(), Refused::Everything);
        let unwritten = match &self.backlog.health {
            Health::Broken(_) => self.backlog.held.iter().filter(|job| job.is_report()).count(),
            Health::Working | Health::ReportsOnly(_) | Health::Quarantined(_) => 0,
        };
        if matches!(self.backlog.health, Health::Broken(_)) {
            let entries = unwritten;
            tracing::error!(entries, "the journal was closed before these entries could be written");
        }
        self.backend.close(&self.backlog.health, unwritten)
    }
}

impl<O: Own> Backlog<O> {
    fn new() -> Self {
        let (held, parked) = (VecDeque::new(), HashMap::new());
        Self { held, parked, health: Health::default(), cohort: None }
    }

    fn patience(&self) -> Patience {
        match (&self.health, self.held.is_empty()) {
            (Health::Working, true) => Patience::UntilWork(self.cohort),
            (Health::Broken(_), _) => Patience::UntilRetry(RETRY_PAUSE),
            (Health::Quarantined(_), _) => Patience::UntilRetry(LOOK_PAUSE),
            (Health::ReportsOnly(_), true) => Patience::UntilRetry(ROOM_PAUSE),
            (Health::Working | Health::ReportsOnly(_), false) => Patience::None,
        }
    }

    fn len(&self) -> usize {
        self.held.len() + self.parked.values().map(Vec::len).sum::<usize>()
    }

    /// Tells the callers that wait for what is refused, and keeps what remains to be written.
    fn refuse(&mut self, error: &JournalError, refused: Refused) {
        let held = std::mem::take(&mut self.held);
        let remains = |job: Job<O>| match refused {
            Refused::Requests if !job.is_request() => Some(job),
            Refused::Requests | Refused::Everything => job.refuse(error),
        };
        self.held = held.into_iter().filter_map(remains).collect();
        self.parked.drain().flat_map(|(_, waiting)| waiting).for_each(|job| drop(job.refuse(error)));
    }

    /// Keeps a claim until the call that holds its key has ended.
    fn park(&mut self, job: Job<O>) {
        let Job::Begin { claim, .. } = &job else { unreachable!("only claims are parked") };
        let waiting = self.parked.entry(claim.scoped_key).or_default();
        // Those who gave up waiting make room.
        waiting.retain(|job| matches!(job, Job::Begin { reply, .. } if !reply.is_closed()));
        waiting.push(job);
    }
}

/// Whether this process is no longer at the run after an entry.
fn leaves_run(entry: &Entry) -> bool {
    matches!(entry, Entry::Step(step) if matches!(step.kind, StepKind::Waiting { .. }))
}

/// Which jobs are refused when a group could not be written.
#[derive(Clone, Copy)]
enum Refused {
    /// Those that ask for something new.
    Requests,
    /// All. Reports are kept nonetheless.
    Everything,
}

/// Closes the queue when the thread ends, even by a panic.
struct LastWords<O: Own>(Arc<Queue<O>>);

impl<O: Own> Drop for LastWords<O> {
    fn drop(&mut self) {
        let lost = self.0.abandon();
        if lost > 0 {
            tracing::error!(entries = lost, "the journal's writer has ended; these entries are lost");
        }
    }
}
