//! The one thread that writes.
//!
//! It drains what is queued into one transaction, and tells whoever waits once that is on disk.
//! While the disk is busy with one group, the next one gathers. Where many were answered together it waits a
//! little for them to come again, so that they share the next one too.
//!
//! When the disk is full, the reserve is given up: what already happened is written into the room
//! that this leaves, and new calls are refused until the reserve could be made again. When writing
//! fails altogether, what already happened is kept in memory and tried again, from time to time
//! and whenever somebody flushes.

mod accept;
mod approvals;
mod encode;
mod head;
mod identity;
mod json;
mod ledger;
mod log;
mod prune;
mod rows;
mod serve;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use helve_core::ports::JournalError;
use helve_core::record::Entry;
use helve_core::run::StepKind;
use jiff::Timestamp;

pub(crate) use self::encode::Seals;
pub(crate) use self::ledger::Ledger;
use self::ledger::Verdict;
use crate::anchor::Anchor;
use crate::error::StoreError;
use crate::keys::Found;
use crate::quarantine::{self, Standing};
use crate::queue::{self, ClaimOutcome, Cohort, Health, HeldKey, Job, Patience, Queue};
use crate::request::Response;
use crate::reserve::Reserve;
use crate::schema;

/// Most jobs in one transaction. More would save little and keep the first ones waiting.
const GROUP_MAX: usize = 1024;

/// Pause before what failed is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Pause before it is tried whether a full disk has room again. That takes all there is for a
/// moment, which others should not suffer often.
const ROOM_PAUSE: Duration = Duration::from_secs(2);

/// Pause before it is looked whether a journal in quarantine was put right.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// A scoped idempotency key.
type ScopedKey = [u8; 32];

/// The writing thread's state.
pub(crate) struct Writer {
    pub(crate) queue: Arc<Queue>,
    pub(crate) anchor: Anchor,
    /// Whether the anchor waits for the first job to note in the chain that the journal was accepted.
    pub(crate) anchor_is_due: bool,
    pub(crate) ledger: Ledger,
    pub(crate) reserve: Reserve,
    pub(crate) page_limit: Arc<AtomicU32>,
    pub(crate) backlog: Backlog,
}

/// Jobs in the writer's hands.
#[derive(Default)]
pub(crate) struct Backlog {
    /// To be written, in order.
    held: VecDeque<Job>,
    /// Claims on keys that this process is running, until those end.
    parked: HashMap<ScopedKey, Vec<Job>>,
    /// What can be written.
    health: Health,
    /// Since when another process has kept the journal locked.
    blocked_since: Option<Timestamp>,
    /// Whom the last group was for.
    cohort: Option<Cohort>,
}

impl Writer {
    /// Writes until the queue is closed and empty.
    pub(crate) fn run(mut self) -> Result<(), StoreError> {
        // Whatever ends this thread, nobody is left waiting.
        let _last_words = LastWords(Arc::clone(&self.queue));
        loop {
            let patience = self.backlog.patience();
            let ended = self.queue.take(&mut self.backlog.held, GROUP_MAX, patience);
            self.ledger.stand();
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
    fn attempt(&mut self) -> Result<(), StoreError> {
        match self.backlog.health {
            Health::Working => self.hold_reserve()?,
            Health::ReportsOnly(_) | Health::Broken(_) => {
                self.ledger.reopen()?;
                self.ledger.limit_pages(self.page_limit.load(Ordering::Relaxed))?;
                self.ledger.reuse_log();
            }
            Health::Quarantined(_) => {
                self.look_again();
                return Ok(());
            }
        }
        let count = self.backlog.held.len().min(GROUP_MAX);
        let begun = Instant::now();
        let jobs = &self.backlog.held.make_contiguous()[..count];
        let verdicts = match self.anchor_is_due {
            false => self.ledger.write(jobs)?,
            true => {
                let verdicts = write_accepted(&mut self.anchor, &mut self.ledger, jobs)?;
                self.anchor_is_due = false;
                verdicts
            }
        };
        let took = begun.elapsed();
        self.queue.commits.record(took);
        self.backlog.blocked_since = None;
        let answered = self.backlog.held.iter().take(count).filter(|job| job.is_awaited()).count();
        self.backlog.cohort = Cohort::answered(answered, took);
        self.move_anchor();
        self.recover();
        if verdicts.iter().any(|verdict| matches!(verdict, Verdict::Erased(count) if *count > 0)) {
            // The log beside the database still holds what was erased. The group is on disk, so
            // this must not fail it.
            if let Err(error) = self.ledger.checkpoint() {
                tracing::warn!(
                    error = error.chain(),
                    "erased payloads stay in the log until the next checkpoint"
                );
            }
        }
        if verdicts.iter().any(is_pruning) {
            if let Err(error) = self.ledger.give_back() {
                tracing::warn!(error = error.chain(), "space is not given back yet; new entries use it");
            }
            // Waits for no reader, since everybody else waits for us.
            self.ledger.reuse_log();
        }
        self.deliver(verdicts);
        Ok(())
    }

    /// Begins to work with a journal that may be worked with.
    pub(crate) fn begin(&mut self, standing: &Standing) {
        if matches!(standing, Standing::Accepted) {
            self.anchor_is_due = true;
            // Before anybody is let in, so that nobody finds anything open in it.
            self.queue.push(Job::Accept);
        }
    }

    /// Works with a journal in quarantine once its files are put back, or a person has accepted it.
    fn look_again(&mut self) {
        let pages_max = self.page_limit.load(Ordering::Relaxed);
        match quarantine::examine(&self.ledger, &mut self.anchor, pages_max) {
            Ok((None, _)) => {}
            Ok((Some(ledger), standing)) => {
                tracing::info!("the journal is worked with again");
                self.ledger = ledger;
                self.begin(&standing);
                self.set_health(Health::Working);
            }
            Err(error) => tracing::debug!(error = error.chain(), "the journal stays in quarantine"),
        }
    }

    /// Makes sure of the reserve, without which nothing may start.
    pub(crate) fn hold_reserve(&mut self) -> Result<(), StoreError> {
        if let pages @ 1.. = self.page_limit.load(Ordering::Relaxed) {
            let reserved = self.reserve.bytes() / self.ledger.page_bytes()?;
            let reserved = u32::try_from(reserved).unwrap_or(u32::MAX);
            self.ledger.limit_pages(pages.saturating_sub(reserved).max(1))?;
            self.ledger.check_pages()?;
        } else {
            self.ledger.limit_pages(0)?;
        }
        self.reserve.make().map_err(|error| self.ledger.reserve_error(error))
    }

    /// Lets calls start again, if there is room for the reserve and some more.
    fn recover(&mut self) {
        if matches!(self.backlog.health, Health::Working) {
            return;
        }
        match self.hold_reserve().and_then(|()| self.ledger.probe()) {
            Ok(()) => {
                tracing::info!("the journal can be written again");
                self.set_health(Health::Working);
            }
            Err(error) => {
                self.spare_for_reports(&error);
            }
        }
    }

    /// Gives up the reserve, so that what happened can be written, and lets nothing start. Returns
    /// whether that has freed anything.
    pub(crate) fn spare_for_reports(&mut self, error: &StoreError) -> bool {
        self.set_health(Health::ReportsOnly(JournalError::new(error.chain())));
        self.reserve.give_up().unwrap_or_else(|error| {
            tracing::error!(%error, "the journal's reserve could not be given up");
            false
        })
    }

    pub(crate) fn set_health(&mut self, health: Health) {
        self.queue.set_health(health.clone());
        self.backlog.health = health;
    }

    fn move_anchor(&mut self) {
        if matches!(self.backlog.health, Health::Quarantined(_)) {
            return;
        }
        let position = self.ledger.position();
        // Never waits: an anchor that stays behind is still true, and the next group moves it.
        if let Err(error) = self.anchor.try_advance(position) {
            tracing::warn!(%error, "the journal's anchor could not be moved");
        }
    }

    /// Keeps what must not be lost, and tells everybody else.
    fn fail(&mut self, error: &StoreError) {
        let reason = self.reason(error);
        let worked = matches!(self.backlog.health, Health::Working);
        if worked {
            tracing::error!(error = %reason, "calls are refused until the journal can be written");
        }
        // Before the queue is emptied, so that nobody can slip in between and wait in vain.
        let has_room = error.may_lack_space() && (self.spare_for_reports(error) || worked);
        let refused = if has_room {
            Refused::Requests
        } else {
            self.set_health(Health::Broken(reason.clone()));
            Refused::Everything
        };
        self.queue.take(&mut self.backlog.held, usize::MAX, Patience::None);
        let before = self.backlog.len();
        self.backlog.refuse(&reason, refused);
        self.queue.settle(before - self.backlog.len());
    }

    /// Why nothing can be written, in words for everybody who waits.
    fn reason(&mut self, error: &StoreError) -> JournalError {
        let reason = JournalError::new(error.chain());
        let StoreError::Busy { blocker, .. } = error else {
            self.backlog.blocked_since = None;
            return reason;
        };
        let now = Timestamp::now();
        let since = *self.backlog.blocked_since.get_or_insert(now - schema::BUSY_TIMEOUT);
        let who = blocker.map_or_else(|| "another process".to_owned(), |blocker| blocker.to_string());
        reason.blocked_by(format!("the journal has been locked since {since:.0}: {who}"))
    }

    /// Answers a group that is on disk.
    fn deliver(&mut self, verdicts: Vec<Verdict>) {
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
                Job::Accept | Job::Keyed(_) | Job::Erase { .. } | Job::Ask(_) | Job::Flush(_) => {}
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

    fn answer(&mut self, job: Job, verdict: Verdict) {
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
            (Job::Append(_) | Job::Release { .. } | Job::Accept | Job::Keyed(_), _) => {}
            (
                Job::Commit(..)
                | Job::CommitAll(..)
                | Job::Finish { .. }
                | Job::Flush(_)
                | Job::Begin { .. }
                | Job::Ask(_)
                | Job::Erase { .. },
                _,
            ) => {
                unreachable!("each kind of job has its kind of verdict")
            }
        }
    }

    /// Leaves a database file that stands for itself.
    fn finish(mut self) -> Result<(), StoreError> {
        self.move_anchor();
        self.backlog.refuse(&queue::closed(), Refused::Everything);
        if let Health::Broken(reason) = &self.backlog.health {
            let entries = self.backlog.held.iter().filter(|job| job.is_report()).count();
            tracing::error!(entries, "the journal was closed before these entries could be written");
            if entries > 0 {
                return Err(StoreError::Unwritten { entries, reason: reason.to_string() });
            }
        }
        match self.backlog.health {
            // Nothing was written, and the files are for a person to look at as they are.
            Health::Quarantined(_) => Ok(()),
            Health::Working | Health::ReportsOnly(_) | Health::Broken(_) => self.ledger.checkpoint(),
        }
    }
}

impl Backlog {
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

    /// Tells whoever waits for what is refused, and keeps what remains to be written.
    fn refuse(&mut self, error: &JournalError, refused: Refused) {
        let held = std::mem::take(&mut self.held);
        let remains = |job: Job| match refused {
            Refused::Requests if !job.is_request() => Some(job),
            Refused::Requests | Refused::Everything => job.refuse(error),
        };
        self.held = held.into_iter().filter_map(remains).collect();
        self.parked.drain().flat_map(|(_, waiting)| waiting).for_each(|job| drop(job.refuse(error)));
    }

    /// Keeps a claim until the call that holds its key has ended.
    fn park(&mut self, job: Job) {
        let Job::Begin { claim, .. } = &job else { unreachable!("only claims are parked") };
        let waiting = self.parked.entry(claim.scoped_key).or_default();
        // Those who gave up waiting make room.
        waiting.retain(|job| matches!(job, Job::Begin { reply, .. } if !reply.is_closed()));
        waiting.push(job);
    }
}

/// Writes the first group of an accepted journal, which notes that in the chain, and makes the anchor anew.
///
/// Nobody else looks at the anchor in between: of two processes that find the word `accept`, the second finds the note
/// after what it knows, or the new anchor.
fn write_accepted(
    anchor: &mut Anchor,
    ledger: &mut Ledger,
    jobs: &[Job],
) -> Result<Vec<Verdict>, StoreError> {
    let path = ledger.path().to_owned();
    let io = |error| StoreError::io("write the anchor of", &path, error);
    let mut locked = anchor.lock().map_err(io)?;
    let verdicts = ledger.write(jobs)?;
    // The group is on disk, so this must not fail it. The word that stays is taken by the next who opens the journal.
    if let Err(error) = locked.create(ledger.position()) {
        tracing::warn!(%error, "the journal's anchor could not be made");
    }
    Ok(verdicts)
}

/// Whether entries were removed, or much of them.
fn is_pruning(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Answered(Response::Pruned(Some(_)) | Response::ReadsErased(1..)))
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
struct LastWords(Arc<Queue>);

impl Drop for LastWords {
    fn drop(&mut self) {
        let lost = self.0.abandon();
        if lost > 0 {
            tracing::error!(entries = lost, "the journal's writer has ended; these entries are lost");
        }
    }
}

fn unwritable(what: &str, error: serde_json::Error) -> JournalError {
    JournalError::new(format!("the {what} cannot be written as JSON")).with_source(error)
}
