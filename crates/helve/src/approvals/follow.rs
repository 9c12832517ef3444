//! Going on after a decision: runs that wait, and callers who come back for what became of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use helve_core::approval::Approval;
use helve_core::ports::{Holder, JournalError};
use helve_core::record::Entry;
use helve_core::run::{StepKind, WaitingFor};
use helve_core::{
    ApprovalId, ApprovalState, Call, CallId, Caller, ErrorCode, Outcome, Pending, Status, ToolError,
};
use tokio::time::Instant;

use super::decide::belongs_to;
use super::{Flights, until_decided};
use crate::pipeline::denied;
use crate::runs::{History, Recovered, RunError, TakenUp, resume, told};
use crate::runtime::{Parts, Runtime};

/// How many open runs are looked at in one go.
const PAGE: usize = 1_000;
/// How many runs are taken up at the same time.
const CONCURRENT_MAX: usize = 32;
/// How long to wait for the end of a call that somebody else has begun, and how often to look.
const END_WAIT: Duration = Duration::from_secs(10);
const END_PAUSE: Duration = Duration::from_millis(100);

impl Runtime {
    /// What became of a question and of the call that it is about, for the one who asked.
    ///
    /// One that is approved runs now, once, however often this is asked and by however many at a time, and
    /// goes on if whoever asked goes away; one that was used answers with the outcome of the call that used
    /// it, which is waited for a while.
    pub async fn outcome_of(&self, id: ApprovalId, caller: &Caller) -> Result<Outcome, super::DecideError> {
        let parts = self.parts();
        let found = self.approvals().get(id).await?.filter(|found| belongs_to(found, caller));
        let approval = found.ok_or(super::DecideError::NotFound(id))?;
        if let Some(outcome) = parts.flights.end_of(id).await {
            return Ok(outcome);
        }
        let outcome = |status| Outcome::new(approval.run(), Arc::clone(&approval.tool), status);
        Ok(match approval.state {
            ApprovalState::Pending => outcome(Status::Pending(pending(&approval))),
            ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Withdrawn => {
                outcome(Status::Failed(denied(&approval)))
            }
            ApprovalState::Approved => match &approval.part {
                Some(part) => match resume(parts, part.run).await {
                    Ok(outcome) => outcome,
                    Err(error) => outcome(Status::Failed(not_resumed(&error))),
                },
                None if approval.withheld => {
                    let message = "this call is approved, but its arguments hold a secret, which is not kept";
                    let error = ToolError::new(ErrorCode::PermissionDenied, message);
                    outcome(Status::Failed(error.suggest("make the same call again; it runs now")))
                }
                None => {
                    let ran = Flights::join(parts, &approval).await;
                    let ran = ran.unwrap_or_else(|| outcome(Status::Failed(lost())));
                    // Another process, or the same call made again, may have been faster.
                    let is_late = ran.error().is_some_and(|error| error.code() == ErrorCode::ApprovalDenied);
                    let now = if is_late { self.approvals().get(id).await? } else { None };
                    match now.filter(|now| now.state == ApprovalState::Used) {
                        Some(now) => used(parts, &now).await?,
                        None => ran,
                    }
                }
            },
            ApprovalState::Used => used(parts, &approval).await?,
        })
    }
}

/// How the call ended, or will have ended in a moment, that used an approval.
async fn used(parts: &Parts, approval: &Approval) -> Result<Outcome, JournalError> {
    let failed = |error| Outcome::new(approval.run(), Arc::clone(&approval.tool), Status::Failed(error));
    let Some(run) = approval.part.as_ref().map(|part| part.run).or(approval.used_by) else {
        return Ok(failed(denied(approval)));
    };
    let until = Instant::now() + END_WAIT;
    loop {
        let history = History::new(parts.ledger.history(run).await?);
        match history.call(run).and_then(|call| call.finished.as_ref()) {
            Some(finished) => return Ok(told(finished).unwrap_or_else(|| failed(not_kept()))),
            None if Instant::now() >= until => return Ok(failed(not_ended())),
            None => tokio::time::sleep(END_PAUSE).await,
        }
    }
}

/// The question as callers see it.
pub(crate) fn pending(approval: &Approval) -> Pending {
    Pending { approval_id: approval.id, reasons: approval.reasons.clone(), binding: approval.binding.clone() }
}

fn not_resumed(error: &RunError) -> ToolError {
    ToolError::new(ErrorCode::OutcomeUnknown, error.to_string()).suggest("ask again in a moment")
}

fn lost() -> ToolError {
    ToolError::new(ErrorCode::OutcomeUnknown, "nobody could tell how the call ended")
        .suggest("ask again; the journal may know by then")
}

fn not_kept() -> ToolError {
    ToolError::new(
        ErrorCode::OutcomeUnknown,
        "the call has ended, but how was not kept: its result holds a secret or is too large",
    )
}

fn not_ended() -> ToolError {
    ToolError::new(ErrorCode::OutcomeUnknown, "the call has begun and not ended yet")
        .suggest("ask again in a moment; do not make it again")
}

/// A call whose run waits for a person: waits with it, and goes on with it, until time is up.
pub(crate) async fn go_on(parts: &Arc<Parts>, mut outcome: Outcome, until: Instant, call: &Call) -> Outcome {
    let cancelled = || call.cancellation.as_ref().is_some_and(|token| token.is_cancelled());
    while let Status::Pending(pending) = &outcome.status
        && Instant::now() < until
        && !cancelled()
    {
        let id = pending.approval_id;
        let asked = parts.ledger.approval(id).await.ok().flatten();
        // Only a run waits; a call by itself has waited in the gate already.
        let Some(run) = asked.and_then(|asked| asked.part).map(|part| part.run) else { return outcome };
        if until_decided(parts, id, until, call.cancellation.as_ref()).await.is_err() {
            return outcome;
        }
        let decided = parts.ledger.approval(id).await.ok().flatten();
        if decided.is_none_or(|found| found.state_at(parts.clock.now()) == ApprovalState::Pending) {
            return outcome;
        }
        match resume(parts, run).await {
            Ok(resumed) => outcome = resumed,
            // Somebody else took it up: they will tell how it ended.
            Err(error) => {
                tracing::debug!(%run, %error, "a run that waited was taken up elsewhere");
                return outcome;
            }
        }
    }
    outcome
}

/// Takes up runs that waited for a decision which has been made.
pub(super) async fn resume_decided(parts: &Arc<Parts>) -> Result<Vec<Recovered>, JournalError> {
    let (mut resumed, mut after) = (Vec::new(), None);
    loop {
        let page = parts.ledger.open_runs(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(resumed) };
        after = Some(last.run);
        let waiting = page.into_iter().filter(|open| open.holder == Holder::Person);
        let taken_up = waiting.map(|open| async move {
            match is_decided(parts, open.run).await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    return Some(Recovered { run: open.run, taken_up: TakenUp::Failed(error.into()) });
                }
            }
            let taken_up = match resume(parts, open.run).await {
                Ok(outcome) if matches!(outcome.status, Status::Pending(_)) => TakenUp::Waits(outcome),
                Ok(outcome) => TakenUp::Ended(outcome),
                // Another process was faster.
                Err(RunError::Busy(_) | RunError::Ended(_)) => return None,
                Err(error) => TakenUp::Failed(error),
            };
            Some(Recovered { run: open.run, taken_up })
        });
        let mut taken_up = futures_util::stream::iter(taken_up).buffer_unordered(CONCURRENT_MAX);
        while let Some(one) = taken_up.next().await {
            resumed.extend(one);
        }
    }
}

/// Whether what a run waits for is an approval that somebody has decided.
async fn is_decided(parts: &Parts, run: CallId) -> Result<bool, JournalError> {
    let entries = parts.ledger.history(run).await?;
    let waits_for = entries.iter().rev().find_map(|entry| {
        let Entry::Step(step) = entry else { return None };
        let StepKind::Waiting { reason, approval_id } = step.kind else { return None };
        Some(approval_id.filter(|_| reason == WaitingFor::Approval))
    });
    let Some(Some(id)) = waits_for else { return Ok(false) };
    let approval = parts.ledger.approval(id).await?;
    Ok(approval.is_some_and(|found| found.state_at(parts.clock.now()) != ApprovalState::Pending))
}
