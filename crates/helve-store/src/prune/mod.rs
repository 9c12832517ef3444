//! Taking the oldest entries off, so that what is left still proves itself.
//!
//! Entries go from the beginning only, up to a cut: each one's hash covers the one before it. The transaction that
//! removes them appends an entry that says which, with the hash at the cut, signed. It goes in steps of a few
//! thousand, each whole by itself, so that others wait for none of them for long and a crash
//! leaves a journal that is sound.
//!
//! What must stay holds the cut: open runs, questions, what can still be undone. What lives longer than the entries
//! that vouch for it (memory, sessions, API keys, rules, the signing key) is vouched for anew in the same
//! transaction, with the digest that the old entry carried: a row that was changed meanwhile is still found.

mod note;
mod plan;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use helve_core::CallId;
use jiff::Timestamp;
use serde::Serialize;

pub use self::note::{Cut, Range};
pub(crate) use self::note::{PrunedHead, all, format_up_to, last_cut, of_first_entry, remember};
pub(crate) use self::plan::open_from;
use crate::anchor::Anchor;
use crate::audit::{Audit, Problem, SigningKey};
use crate::error::StoreError;
use crate::store::Store;
use crate::writer::{Job, Own};

/// Entries that go in one transaction.
pub(crate) const STEP_ENTRIES: i64 = 2_000;

/// What may go.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Retention {
    /// Entries of calls from before this time.
    pub before: Option<Timestamp>,
    /// The oldest entries, while the journal has more bytes.
    pub bytes_max: Option<u64>,
    /// What was said in calls that only read, from before this time. Their heads stay.
    pub reads_before: Option<Timestamp>,
    /// Calls that may have changed the world since this time can still be undone, and stay.
    pub undo_from: Timestamp,
    /// What calls cost since this time counts towards a limit, so these stay. None: nothing is limited.
    pub costs_from: Option<Timestamp>,
    /// Who wants that, or which rule.
    pub by: String,
}

/// What would go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PrunePlan {
    /// The first entry that is there; 0 where there is none.
    pub first: i64,
    /// The last one that goes. Less than `first`: none does.
    pub last: i64,
    /// How many bytes the entries that go have.
    pub bytes: u64,
    /// The last entry that may lose what was said in it, where it is of a call that only read.
    pub reads_last: i64,
    /// Why not more entries go.
    pub held: Option<Hold>,
}

impl PrunePlan {
    /// How many entries go.
    pub fn entries(&self) -> i64 {
        (self.last - self.first + 1).max(0)
    }
}

/// An entry that must stay, and with it all that follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Hold {
    /// The number of the entry.
    pub seq: i64,
    /// The call, the run or the question that it belongs to.
    pub of: String,
    /// Why it stays.
    pub why: HoldReason,
}

/// Why an entry stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HoldReason {
    /// It belongs to a run that has not ended.
    OpenRun,
    /// It belongs to a question that can still lead to a call.
    Question,
    /// It belongs to a run whose caller was not told yet how it ended.
    Untold,
    /// Its call can still be undone.
    Undo,
    /// What its call cost counts towards a limit.
    Cost,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, of, why } = self;
        match why {
            HoldReason::OpenRun => write!(
                f,
                "entry {seq} stays, and all after it: the run {of} is open; end it with `helve runs resume {of}` \
                 or `helve runs cancel {of}`"
            ),
            HoldReason::Question => write!(
                f,
                "entry {seq} stays, and all after it: {of} waits for a person; see `helve approvals list`"
            ),
            HoldReason::Untold => write!(
                f,
                "entry {seq} stays, and all after it: the caller of {of} was not told yet how it ended"
            ),
            HoldReason::Undo => write!(
                f,
                "entry {seq} stays, and all after it: {of} can still be undone; `journal.retention.undo_days` says \
                 for how long"
            ),
            HoldReason::Cost => write!(
                f,
                "entry {seq} stays, and all after it: what {of} cost counts towards a limit in `[[limits.calls]]`"
            ),
        }
    }
}

/// What was removed, and what had to stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PruneReport {
    /// How many entries went.
    pub entries: i64,
    /// The last cut.
    pub cut: Option<Cut>,
    /// How many entries of calls that only read lost what was said in them.
    pub erased: i64,
}

/// Why nothing more went. What went before stays gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PruneError {
    /// What does not prove itself is not pruned: the proof would go with it.
    #[error("the journal is not sound, so nothing is pruned: {}", .0.what)]
    Unsound(Problem),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One step of a pruning.
pub(crate) struct PruneStep {
    pub(crate) through: i64,
    pub(crate) at: Timestamp,
    pub(crate) by: String,
    pub(crate) key: Arc<SigningKey>,
}

/// One step of erasing what was said in calls that only read.
pub(crate) struct EraseStep {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) at: Timestamp,
    pub(crate) by: String,
}

impl Store {
    /// Removes what a plan says, oldest first, and gives its space back. `progress` is told how many entries went so far.
    ///
    /// The journal is checked first. Export it before, where the entries should be kept elsewhere.
    pub async fn prune(
        &self,
        retention: &Retention,
        key: &Arc<SigningKey>,
        at: Timestamp,
        mut progress: impl FnMut(i64),
    ) -> Result<PruneReport, PruneError> {
        let (audit, asked) = (self.audit(), retention.clone());
        let planned = tokio::task::spawn_blocking(move || plan_checked(&audit, &asked));
        let plan = planned.await.map_err(|_| StoreError::from(helve_ledger::queue::closed()))??;
        let mut report = PruneReport::default();
        self.erase_reads(retention, &plan, at, &mut report).await?;
        while report.cut.as_ref().map_or(plan.first - 1, |cut| cut.last) < plan.last {
            let step = PruneStep { through: plan.last, at, by: retention.by.clone(), key: Arc::clone(key) };
            let ask = |reply| Job::Own(Own::Prune { step: Box::new(step), reply });
            let Some(cut) = self.queue.ask(ask).await.map_err(StoreError::from)? else { break };
            report.entries += cut.last - cut.first + 1;
            report.cut = Some(cut);
            progress(report.entries);
        }
        Ok(report)
    }

    async fn erase_reads(
        &self,
        retention: &Retention,
        plan: &PrunePlan,
        at: Timestamp,
        report: &mut PruneReport,
    ) -> Result<(), StoreError> {
        // What goes altogether need not be erased before.
        let mut first = plan.first.max(plan.last + 1);
        while first <= plan.reads_last {
            let last = plan.reads_last.min(first + STEP_ENTRIES - 1);
            let step = EraseStep { first, last, at, by: retention.by.clone() };
            let ask = |reply| Job::Own(Own::EraseReads { step: Box::new(step), reply });
            report.erased += self.queue.ask(ask).await?;
            first = last + 1;
        }
        Ok(())
    }
}

/// What goes from a journal, which is checked where anything does: reading all of it takes long.
fn plan_checked(audit: &Audit, retention: &Retention) -> Result<PrunePlan, PruneError> {
    let plan = audit.prune_plan(retention)?;
    if plan.entries() == 0 && plan.reads_last < plan.first {
        return Ok(plan);
    }
    if let Some(problem) = audit.verify(|_| {})?.first_problem {
        return Err(PruneError::Unsound(problem));
    }
    // After a power cut an anchor that was not synced may stand before the cut, and then nothing tells that the
    // journal is the one that it knew.
    Anchor::open(audit.path())
        .and_then(|anchor| anchor.sync())
        .map_err(|error| StoreError::io("write the anchor of", audit.path(), error))?;
    Ok(plan)
}

fn made_ms(id: &str) -> i64 {
    id.parse().map_or(0, CallId::made_at_ms)
}
