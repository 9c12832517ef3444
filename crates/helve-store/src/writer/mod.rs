//! The file as the writer sees it.
//!
//! When the disk is full, the reserve is given up: what already happened is written into the room
//! that this leaves, and new calls are refused until the reserve could be made again.

mod accept;
mod approvals;
mod identity;
mod ledger;
mod log;
mod own;
mod prune;
mod rows;
mod serve;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use helve_core::ports::JournalError;
use helve_ledger::backend::{Backend, Readiness};
use helve_ledger::queue::Health;
use jiff::Timestamp;

pub(crate) use self::ledger::Ledger;
use self::own::Answer;
pub(crate) use self::own::Own;
use crate::anchor::Anchor;
use crate::error::StoreError;
use crate::quarantine::{self, Quarantine, Standing};
use crate::reserve::Reserve;
use crate::schema;

pub(crate) type Queue = helve_ledger::queue::Queue<Own>;
pub(crate) type Job = helve_ledger::job::Job<Own>;
pub(crate) type Verdict = helve_ledger::backend::Verdict<Own>;

/// Why nothing is written until a person has looked, where that is so.
pub(crate) type Trouble = Arc<Mutex<Option<Arc<Quarantine>>>>;

/// The file, and what stands beside it.
pub(crate) struct Writer {
    pub(crate) queue: Arc<Queue>,
    pub(crate) anchor: Anchor,
    /// Whether the anchor waits for the first job to note in the chain that the journal was accepted.
    pub(crate) anchor_is_due: bool,
    pub(crate) ledger: Ledger,
    pub(crate) reserve: Reserve,
    pub(crate) page_limit: Arc<AtomicU32>,
    pub(crate) trouble: Trouble,
    /// Since when another process has kept the journal locked.
    pub(crate) blocked_since: Option<Timestamp>,
}

impl Backend for Writer {
    type Own = Own;
    type Error = StoreError;

    fn stand(&mut self) {
        self.ledger.stand();
    }

    fn make_ready(&mut self, health: &Health) -> Result<Readiness, StoreError> {
        match health {
            Health::Working => self.hold_reserve()?,
            Health::ReportsOnly(_) | Health::Broken(_) => {
                self.ledger.reopen()?;
                self.ledger.limit_pages(self.page_limit.load(Ordering::Relaxed))?;
                self.ledger.reuse_log();
            }
            Health::Quarantined(_) => return Ok(self.look_again()),
        }
        Ok(Readiness::Ready)
    }

    fn write(&mut self, jobs: &[Job]) -> Result<Vec<Verdict>, StoreError> {
        let verdicts = match self.anchor_is_due {
            false => self.ledger.write(jobs)?,
            true => {
                let verdicts = write_accepted(&mut self.anchor, &mut self.ledger, jobs)?;
                self.anchor_is_due = false;
                verdicts
            }
        };
        self.blocked_since = None;
        self.move_anchor();
        Ok(verdicts)
    }

    /// Lets calls start again, if there is room for the reserve and some more.
    fn recover(&mut self) -> Health {
        match self.hold_reserve().and_then(|()| self.ledger.probe()) {
            Ok(()) => Health::Working,
            Err(error) => {
                self.give_up_reserve();
                Health::ReportsOnly(JournalError::new(error.chain()))
            }
        }
    }

    fn tidy(&mut self, verdicts: &[Verdict]) {
        if verdicts.iter().any(|verdict| matches!(verdict, Verdict::Erased(count) if *count > 0)) {
            // The log next to the database still holds what was erased. The group is on disk, so
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
    }

    fn health_after(&mut self, error: &StoreError, worked: bool) -> Health {
        let reason = self.reason(error);
        match error.may_lack_space() && (self.give_up_reserve() || worked) {
            true => Health::ReportsOnly(reason),
            false => Health::Broken(reason),
        }
    }

    /// Leaves a database file that stands for itself.
    fn close(&mut self, health: &Health, unwritten: usize) -> Result<(), StoreError> {
        match health {
            // Nothing was written, and the files are for a person to look at as they are.
            Health::Quarantined(_) => return Ok(()),
            Health::Broken(reason) if unwritten > 0 => {
                self.move_anchor();
                return Err(StoreError::Unwritten { entries: unwritten, reason: reason.to_string() });
            }
            Health::Working | Health::ReportsOnly(_) | Health::Broken(_) => self.move_anchor(),
        }
        self.ledger.checkpoint()
    }
}

impl Writer {
    /// Begins to work with a journal that may be worked with.
    pub(crate) fn begin(&mut self, standing: &Standing) {
        if matches!(standing, Standing::Accepted) {
            self.anchor_is_due = true;
            // Before anybody is let in, so that nobody finds anything open in it.
            self.queue.push(Job::Own(Own::Accept));
        }
    }

    /// Leaves a journal alone until a person has looked at it.
    pub(crate) fn quarantine(&self, why: Box<Quarantine>) -> Health {
        let told = why.to_string();
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::from(why));
        Health::Quarantined(Arc::from(told))
    }

    /// Works with a journal in quarantine once its files are put back, or a person has accepted it.
    fn look_again(&mut self) -> Readiness {
        let pages_max = self.page_limit.load(Ordering::Relaxed);
        match quarantine::examine(&self.ledger, &mut self.anchor, pages_max) {
            Ok((None, _)) => Readiness::NotYet,
            Ok((Some(ledger), standing)) => {
                tracing::info!("the journal is worked with again");
                self.ledger = ledger;
                self.begin(&standing);
                Readiness::Again
            }
            Err(error) => {
                tracing::debug!(error = error.chain(), "the journal stays in quarantine");
                Readiness::NotYet
            }
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

    /// Gives up the reserve, so that what happened can be written. Returns whether that has freed anything.
    pub(crate) fn give_up_reserve(&mut self) -> bool {
        self.reserve.give_up().unwrap_or_else(|error| {
            tracing::error!(%error, "the journal's reserve could not be given up");
            false
        })
    }

    fn move_anchor(&mut self) {
        let position = self.ledger.position();
        // Never waits: an anchor that stays behind is still true, and the next group moves it.
        if let Err(error) = self.anchor.try_advance(position) {
            tracing::warn!(%error, "the journal's anchor could not be moved");
        }
    }

    /// Why nothing can be written, in words for everybody who waits.
    fn reason(&mut self, error: &StoreError) -> JournalError {
        let reason = JournalError::new(error.chain());
        let StoreError::Busy { blocker, .. } = error else {
            self.blocked_since = None;
            return reason;
        };
        let now = Timestamp::now();
        let since = *self.blocked_since.get_or_insert(now - schema::BUSY_TIMEOUT);
        let who = blocker.map_or_else(|| "another process".to_owned(), |blocker| blocker.to_string());
        reason.blocked_by(format!("the journal has been locked since {since:.0}: {who}"))
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
    matches!(verdict, Verdict::Own(Answer::Pruned(Some(_)) | Answer::ReadsErased(1..)))
}
