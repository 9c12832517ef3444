//! What is said to a ledger about a question, and what it answers.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Approval, ApprovalState, Rule, Ruling};
use crate::id::ApprovalId;

/// A question in the making.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The question, pending.
    pub approval: Approval,
    /// How long a denial answers the same call again without anybody being asked.
    pub denied_for: SignedDuration,
    /// Whether to ask although it was denied a moment ago, or its approval was used by a call that did nothing.
    pub insist: bool,
    /// Most questions that may be pending at a time. Beyond that none is put.
    pub pending_max: usize,
    /// Most of them that one principal's calls may have put, so that nobody takes every place.
    pub pending_share: usize,
}

/// What became of putting a question.
#[derive(Debug, Clone)]
pub enum Asked {
    /// A person is asked now.
    New(Approval),
    /// A person was asked before, and has not decided.
    Standing(Approval),
    /// It is approved, and not used yet.
    Approved(Approval),
    /// It was denied.
    Denied(Approval),
    /// Nobody decided in time, which the caller is told once.
    Expired(Approval),
    /// Too many questions are pending.
    TooMany,
    /// Too many questions of this principal's calls are pending.
    ShareUsed,
}

/// A decision on its way to the ledger.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// What becomes of the question: approved, denied or withdrawn.
    pub state: ApprovalState,
    /// What was said.
    pub ruling: Ruling,
    /// The binding of what may run, where it was approved.
    pub granted: Option<String>,
    /// Until when it may be used, where it was approved.
    pub use_by: Option<Timestamp>,
    /// A rule to be made with it.
    pub rule: Option<Rule>,
}

/// What became of a decision.
#[derive(Debug, Clone)]
pub enum Decided {
    /// The decision holds from now on.
    Now(Approval),
    /// It came too late: this is how things stand, and who decided what.
    Before(Approval),
    /// There is no such question.
    NotFound,
}

/// An approval that a call uses up by starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The approval that the start uses up.
    pub approval_id: ApprovalId,
    /// The binding of what is about to run.
    pub binding: String,
    /// The binding of what was asked for, where a person has edited the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// What the person saw besides the arguments; see [`Approval::fingerprint`]. The start keeps it, so that a run that
    /// is resumed after a crash still knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// The approval by which a call runs: what its handler is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    /// The approval that a person gave, or a rule stood for.
    pub approval_id: ApprovalId,
    /// What the person saw besides the arguments; see [`Approval::fingerprint`].
    pub fingerprint: Option<String>,
}

impl From<&Grant> for Approved {
    fn from(grant: &Grant) -> Self {
        Self { approval_id: grant.approval_id, fingerprint: grant.fingerprint.clone() }
    }
}

/// An approval that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Spent {
    /// There is none.
    #[error("there is no such approval")]
    NotFound,
    /// It is not approved, or not any more.
    #[error("the approval is {0}")]
    Is(ApprovalState),
    /// It is for something else.
    #[error("the approval is for another tool, other arguments or another caller")]
    DoesNotFit,
}
