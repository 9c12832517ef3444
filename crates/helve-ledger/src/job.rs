//! What the writer is asked for.

use std::sync::Arc;

use helve_core::ports::{Begun, JournalError, KeyClaim};
use helve_core::record::{Entry, Started};
use helve_core::run::StepKind;
use helve_core::{CallId, Status};
use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::queue::Queue;
use crate::request::Request;

/// Where the writer's answer goes.
pub type Reply<T> = oneshot::Sender<Result<T, JournalError>>;

/// Jobs that only one backend knows.
pub trait Own: Send + Sized + 'static {
    /// What became of it.
    type Answer: Send + 'static;

    /// Whether it asks for something new, for which space that was set aside is not meant.
    fn is_request(&self) -> bool;

    /// Whether a caller waits for it.
    fn is_awaited(&self) -> bool;

    /// Whether it puts an end to a quarantine, in which nothing else is taken.
    fn ends_quarantine(&self) -> bool {
        false
    }

    /// Tells the waiting caller what became of it.
    fn answer(self, answer: Self::Answer);

    /// Tells the waiting caller that it failed. What is to be tried again nonetheless is returned.
    fn refuse(self, error: &JournalError) -> Option<Self>;
}

/// One piece of work for the writer.
pub enum Job<O> {
    /// Write, and tell nobody.
    Append(Entry),
    /// Write, and tell when it is on disk.
    Commit(Entry, Reply<()>),
    /// Write all of them or none, and tell when they are on disk.
    CommitAll(Vec<Entry>, Option<Reply<()>>),
    /// Claim an idempotency key and write the start of its call.
    Begin {
        /// The start that is written with the claim.
        started: Box<Started>,
        /// The key that is claimed, and by which call.
        claim: KeyClaim,
        /// Where the answer goes.
        reply: Reply<ClaimOutcome>,
    },
    /// Write the end of a call, and what to answer when its key comes again.
    Finish {
        /// The end of the call.
        entry: Entry,
        /// The key that is kept with its answer.
        claim: KeyClaim,
        /// What to answer.
        status: Arc<Status>,
        /// Where the answer goes, where a caller waits for it.
        reply: Option<Reply<()>>,
    },
    /// Give back the key of a call that was never run.
    Release {
        /// The key that becomes free.
        scoped_key: [u8; 32],
        /// The call that holds it.
        call_id: CallId,
    },
    /// Erase what was said in a call.
    Erase {
        /// The call whose payloads are erased.
        call_id: CallId,
        /// When that was asked for.
        at: Timestamp,
        /// Where it is told how many entries lost their payload.
        reply: Reply<usize>,
    },
    /// Change runs, memory, questions, sessions or keys.
    Ask(Box<Request>),
    /// What only this backend knows.
    Own(O),
    /// Tell when everything before it is on disk.
    Flush(Reply<()>),
}

impl<O: Own> Job<O> {
    /// Whether it tells of something that has happened already, and so must not be lost.
    ///
    /// The others only announce something, which does not happen when they are refused.
    pub fn is_report(&self) -> bool {
        match self {
            Self::Append(_) | Self::Finish { .. } => true,
            Self::Commit(entry, _) => is_report(entry),
            Self::CommitAll(entries, _) => entries.iter().any(is_report),
            Self::Begin { .. } | Self::Release { .. } | Self::Own(_) => false,
            Self::Erase { .. } | Self::Ask(_) | Self::Flush(_) => false,
        }
    }

    /// Whether it asks for something new, for which the reserve is not meant.
    pub fn is_request(&self) -> bool {
        match self {
            Self::Begin { .. } | Self::Erase { .. } | Self::Ask(_) => true,
            Self::Commit(entry, _) => !is_report(entry),
            Self::CommitAll(entries, _) => !entries.iter().all(is_report),
            Self::Own(own) => own.is_request(),
            Self::Append(_) | Self::Finish { .. } | Self::Release { .. } | Self::Flush(_) => false,
        }
    }

    /// Whether a caller waits for it.
    pub fn is_awaited(&self) -> bool {
        match self {
            Self::Append(_) => false,
            Self::Own(own) => own.is_awaited(),
            Self::Commit(..) | Self::CommitAll(..) | Self::Begin { .. } | Self::Finish { .. } => true,
            Self::Release { .. } | Self::Erase { .. } | Self::Ask(_) | Self::Flush(_) => true,
        }
    }

    /// How many entries with a payload it may write.
    pub fn entries(&self) -> usize {
        match self {
            Self::CommitAll(entries, _) => entries.len(),
            Self::Append(_) | Self::Commit(..) | Self::Begin { .. } | Self::Finish { .. } | Self::Ask(_) => 1,
            Self::Release { .. } | Self::Own(_) | Self::Erase { .. } | Self::Flush(_) => 0,
        }
    }

    /// Tells the waiting caller that it failed. What remains to be written nonetheless is returned.
    pub fn refuse(self, error: &JournalError) -> Option<Self> {
        // Nobody may be waiting any more; that is no error.
        match self {
            Self::Append(_) | Self::Release { .. } => Some(self),
            Self::Own(own) => own.refuse(error).map(Self::Own),
            Self::Commit(entry, reply) => {
                let _ = reply.send(Err(error.clone()));
                is_report(&entry).then_some(Self::Append(entry))
            }
            Self::CommitAll(mut entries, reply) => {
                reply.map(|reply| reply.send(Err(error.clone())));
                // What was announced does not happen; what has happened is kept.
                entries.retain(is_report);
                (!entries.is_empty()).then_some(Self::CommitAll(entries, None))
            }
            Self::Finish { entry, claim, status, reply } => {
                reply.map(|reply| reply.send(Err(error.clone())));
                Some(Self::Finish { entry, claim, status, reply: None })
            }
            Self::Begin { started, claim, reply } => {
                let _ = reply.send(Err(error.clone()));
                // A transaction that failed at its very end may still come back after a crash.
                Some(Self::Release { scoped_key: claim.scoped_key, call_id: started.facts.call_id })
            }
            Self::Erase { reply, .. } => {
                let _ = reply.send(Err(error.clone()));
                None
            }
            Self::Ask(request) => {
                request.refuse(error);
                None
            }
            Self::Flush(reply) => {
                let _ = reply.send(Err(error.clone()));
                None
            }
        }
    }
}

/// Whether an entry tells of something that has happened, and does not just announce it.
fn is_report(entry: &Entry) -> bool {
    match entry {
        Entry::Started(_) => false,
        Entry::Step(step) => step.kind != StepKind::UndoStarted,
        Entry::Finished(_) => true,
    }
}

/// What became of a claim.
pub enum ClaimOutcome {
    /// Ours, and on disk.
    Fresh(HeldKey),
    /// Another caller's, and decided.
    Settled(Begun),
    /// Another process is running it. Ask again later.
    Elsewhere(Box<Started>),
}

/// A key on its way to the call that claimed it. Given back when that call is no longer there.
pub struct HeldKey(Option<Box<dyn FnOnce() + Send>>);

impl HeldKey {
    pub(crate) fn new<O: Own>(queue: &Arc<Queue<O>>, scoped_key: [u8; 32], call_id: CallId) -> Self {
        let queue = Arc::clone(queue);
        Self(Some(Box::new(move || queue.push(Job::Release { scoped_key, call_id }))))
    }

    /// The call is there and will run.
    pub fn hand_over(mut self) {
        self.0 = None;
    }
}

impl Drop for HeldKey {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}
