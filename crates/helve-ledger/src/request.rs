//! What else the writer is asked for: changes of runs, of memory, of keys and of questions to people, each with an answer.
//!
//! All of these announce something. Where one is refused it does not happen, and nothing is kept.

use std::sync::Arc;

use helve_core::approval::{Ask, Asked, Decided, Rule, Verdict};
use helve_core::memory::{Changed, MemoryChange, MemoryError, MemoryPlace};
use helve_core::ports::{Adoption, EffectId, JournalError};
use helve_core::run::Step;
use helve_core::session::{SessionChange, SessionKey, SessionState};
use helve_core::{ApprovalId, CallId, Caller, Key, KeyId, RuleId};
use jiff::Timestamp;

use crate::job::Reply;

/// A change that a caller waits for, who gets the answer by `reply`.
#[expect(missing_docs, reason = "fields are what they are called")]
pub enum Request {
    /// Take over an open run.
    Adopt { run: CallId, reply: Reply<Adoption> },
    /// Ask the process at an open run to stop, with the step that says so.
    Cancel { step: Box<Step>, reply: Reply<bool> },
    /// Change a value.
    Change { place: MemoryPlace, change: MemoryChange, reply: Reply<Result<Changed, MemoryError>> },
    /// Change a value as the effect of a call.
    Apply {
        effect: EffectId,
        place: MemoryPlace,
        change: MemoryChange,
        step: Box<Step>,
        reply: Reply<Result<(), MemoryError>>,
    },
    /// Take back an effect.
    Undo { effect: EffectId, step: Box<Step>, reply: Reply<Result<(), MemoryError>> },
    /// Put a question to a person.
    Question { ask: Box<Ask>, reply: Reply<Asked> },
    /// Decide a question.
    Decide { id: ApprovalId, verdict: Box<Verdict>, reply: Reply<Decided> },
    /// Write down which questions have run out, and forget old ones.
    Sweep { now: Timestamp, forget_before: Timestamp, limit: usize, reply: Reply<usize> },
    /// Change what is remembered of a session.
    ChangeSession {
        key: SessionKey,
        change: Box<SessionChange>,
        now: Timestamp,
        forget_before: Timestamp,
        reply: Reply<SessionState>,
    },
    /// Take back what was allowed for a session.
    Revoke { id: RuleId, by: String, at: Timestamp, reply: Reply<Option<Rule>> },
    /// Change an API key.
    Keys { change: KeyChange, reply: Reply<Option<Key>> },
}

/// A change of keys, on its way to the writer.
pub enum KeyChange {
    /// Keep a new one.
    Create {
        /// The key that is kept from now on.
        key: Box<Key>,
        /// Who made it.
        by: Arc<Caller>,
    },
    /// Take one back.
    Revoke {
        /// The key that no longer counts.
        id: KeyId,
        /// Who takes it back.
        by: Arc<Caller>,
        /// When it was taken back.
        at: Timestamp,
    },
    /// Use up a sign-in code.
    Redeem {
        /// The id of the code.
        id: KeyId,
        /// When it was used up.
        at: Timestamp,
    },
    /// Note when some were last used.
    Touch {
        /// Which, and when.
        used: Vec<(KeyId, Timestamp)>,
    },
}

/// What became of a request, once it is on disk: one for each kind of request.
#[expect(missing_docs, reason = "each is named for its request")]
pub enum Response {
    Adopted(Adoption),
    Cancelled(bool),
    Changed(Result<Changed, MemoryError>),
    Effect(Result<(), MemoryError>),
    Asked(Box<Asked>),
    Decided(Box<Decided>),
    Swept(usize),
    Session(Box<SessionState>),
    Revoked(Option<Box<Rule>>),
    Keys(Option<Box<Key>>),
}

impl Request {
    /// Tells the waiting caller what became of it.
    pub fn answer(self, response: Response) {
        // Nobody may be waiting any more; that is no error.
        match (self, response) {
            (Self::Adopt { reply, .. }, Response::Adopted(adoption)) => drop(reply.send(Ok(adoption))),
            (Self::Cancel { reply, .. }, Response::Cancelled(is_open)) => drop(reply.send(Ok(is_open))),
            (Self::Change { reply, .. }, Response::Changed(changed)) => drop(reply.send(Ok(changed))),
            (Self::Apply { reply, .. } | Self::Undo { reply, .. }, Response::Effect(done)) => {
                drop(reply.send(Ok(done)));
            }
            (Self::Question { reply, .. }, Response::Asked(asked)) => drop(reply.send(Ok(*asked))),
            (Self::Decide { reply, .. }, Response::Decided(decided)) => drop(reply.send(Ok(*decided))),
            (Self::Sweep { reply, .. }, Response::Swept(count)) => drop(reply.send(Ok(count))),
            (Self::ChangeSession { reply, .. }, Response::Session(state)) => drop(reply.send(Ok(*state))),
            (Self::Revoke { reply, .. }, Response::Revoked(rule)) => {
                drop(reply.send(Ok(rule.map(|rule| *rule))));
            }
            (Self::Keys { reply, .. }, Response::Keys(key)) => drop(reply.send(Ok(key.map(|key| *key)))),
            (
                Self::Adopt { .. }
                | Self::Cancel { .. }
                | Self::Change { .. }
                | Self::Apply { .. }
                | Self::Undo { .. }
                | Self::Question { .. }
                | Self::Decide { .. }
                | Self::Sweep { .. }
                | Self::ChangeSession { .. }
                | Self::Revoke { .. }
                | Self::Keys { .. },
                _,
            ) => unreachable!("each request has its response"),
        }
    }

    /// Tells the waiting caller that it failed.
    pub fn refuse(self, error: &JournalError) {
        let error = error.clone();
        match self {
            Self::Adopt { reply, .. } => drop(reply.send(Err(error))),
            Self::Cancel { reply, .. } => drop(reply.send(Err(error))),
            Self::Change { reply, .. } => drop(reply.send(Err(error))),
            Self::Apply { reply, .. } | Self::Undo { reply, .. } => drop(reply.send(Err(error))),
            Self::Question { reply, .. } => drop(reply.send(Err(error))),
            Self::Decide { reply, .. } => drop(reply.send(Err(error))),
            Self::Sweep { reply, .. } => drop(reply.send(Err(error))),
            Self::ChangeSession { reply, .. } => drop(reply.send(Err(error))),
            Self::Revoke { reply, .. } => drop(reply.send(Err(error))),
            Self::Keys { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}
