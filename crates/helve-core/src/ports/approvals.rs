//! Where questions to people are kept, and what they said.

use jiff::Timestamp;

use crate::BoxFuture;
use crate::approval::{Approval, ApprovalQuery, Ask, Asked, Decided, Rule, Verdict};
use crate::id::{ApprovalId, RuleId};
use crate::ports::JournalError;

/// Keeps questions to people. What an answer of this port says would survive a power cut.
///
/// An approval is used up by the start that carries it
/// ([`Started::grant`](crate::record::Started::grant)), in the same commit. Every question and
/// every decision is an entry in the journal, written with the change itself.
pub trait Approvals: Send + Sync + 'static {
    /// Puts a question, unless the last one with the same binding answers it; see
    /// [`Approval::answer`].
    fn ask(&self, ask: Box<Ask>) -> BoxFuture<'_, Result<Asked, JournalError>>;

    /// One approval by its id. None: there is none.
    fn approval(&self, id: ApprovalId) -> BoxFuture<'_, Result<Option<Approval>, JournalError>>;

    /// Questions that fit, newest first.
    fn approvals(&self, query: ApprovalQuery) -> BoxFuture<'_, Result<Vec<Approval>, JournalError>>;

    /// Decides a question. Of two who decide at the same time one does, and the other is told.
    fn decide(&self, id: ApprovalId, verdict: Box<Verdict>) -> BoxFuture<'_, Result<Decided, JournalError>>;

    /// Questions that were put or changed after `since`, in order, at most `limit`, each with the
    /// number of its last change. Without `since`: none, and the number of the last change of all.
    fn approvals_changed(
        &self,
        since: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<(u64, Vec<Approval>), JournalError>>;

    /// Writes down which questions have run out by `now`, at most `limit`, and forgets those that
    /// came to an end before `forget_before`; the journal still tells of them. Returns how many have
    /// run out.
    fn sweep_approvals(
        &self,
        now: Timestamp,
        forget_before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<usize, JournalError>>;

    /// Rules about a tool, or all, newest first, at most `limit`.
    fn rules(&self, tool: Option<String>, limit: usize) -> BoxFuture<'_, Result<Vec<Rule>, JournalError>>;

    /// Takes a rule back. None: there is no such rule.
    fn revoke_rule(
        &self,
        id: RuleId,
        by: String,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Rule>, JournalError>>;
}
