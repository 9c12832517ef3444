//! Where a question and its call stand. Looking runs nothing and changes nothing; [`Runtime::outcome_of`]
//! is what runs an approved call.

use std::sync::Arc;

use helve_core::approval::Approval;
use helve_core::{ApprovalId, ApprovalState, CallId, Caller, Outcome, Status};
use jiff::Timestamp;

use super::DecideError;
use super::decide::belongs_to;
use super::flight::Flight;
use super::follow::{end_of, last_wait, not_kept, out_of_reach, pending, run_of, waits};
use crate::pipeline::denied;
use crate::runs::told;
use crate::runtime::Runtime;

/// Where a question and its call stand.
#[derive(Debug)]
pub enum Standing {
    /// A person is asked: what was asked for, or something later in the same run.
    Pending(Outcome),
    /// A person has decided, and nobody has run it yet. [`Runtime::outcome_of`] does.
    Ready(Ready),
    /// It has begun and not ended yet.
    Running {
        /// The call that runs.
        call_id: CallId,
        /// The full name of the tool that runs.
        tool: Arc<str>,
    },
    /// It has ended, or will never run.
    Ended(Outcome),
}

/// A call that waits for its caller to run it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ready {
    /// The approval that lets it run.
    pub approval_id: ApprovalId,
    /// The call that was approved.
    pub call_id: CallId,
    /// The full name of the tool that would run.
    pub tool: Arc<str>,
    /// Until when it can be run.
    pub expires_at: Timestamp,
}

impl Runtime {
    /// Where a question and the call that it is about stand, for the one who asked. Nothing is run and
    /// nothing changes, however often this is asked.
    pub async fn standing_of(&self, id: ApprovalId, caller: &Caller) -> Result<Standing, DecideError> {
        let found = self.approvals().get(id).await?.filter(|found| belongs_to(found, caller));
        let approval = found.ok_or(DecideError::NotFound(id))?;
        let outcome = |status| Outcome::new(approval.run(), Arc::clone(&approval.tool), status);
        Ok(match approval.state {
            ApprovalState::Pending => Standing::Pending(outcome(Status::Pending(pending(&approval)))),
            ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Withdrawn => {
                Standing::Ended(outcome(Status::Failed(denied(&approval))))
            }
            ApprovalState::Approved | ApprovalState::Used => match run_of(&approval) {
                Some(run) => return self.standing_of_run(run, &approval).await,
                None if self.engine().questions.flights.has(Flight::Call(id)) => running(&approval),
                None => match out_of_reach(&self.engine().registry, &approval) {
                    Some(error) => Standing::Ended(outcome(Status::Failed(error))),
                    None => Standing::Ready(ready(&approval)),
                },
            },
        })
    }

    async fn standing_of_run(&self, run: CallId, asked: &Approval) -> Result<Standing, DecideError> {
        let engine = self.engine();
        let entries = engine.ledger.history(run).await?;
        let failed = |error| Outcome::new(run, Arc::clone(&asked.tool), Status::Failed(error));
        if let Some(finished) = end_of(&entries, run) {
            return Ok(Standing::Ended(told(finished).unwrap_or_else(|| failed(not_kept()))));
        }
        let Some(wait) = last_wait(&entries).filter(|wait| wait.is_last_word) else {
            return Ok(running(asked));
        };
        let Some(question) = wait.question else { return Ok(Standing::Ended(failed(waits(run)))) };
        let Some(question) = self.approvals().get(question).await? else { return Ok(running(asked)) };
        Ok(match question.state {
            ApprovalState::Pending => {
                let status = Status::Pending(pending(&question));
                Standing::Pending(Outcome::new(run, Arc::clone(&question.tool), status))
            }
            ApprovalState::Used => running(asked),
            ApprovalState::Approved
            | ApprovalState::Denied
            | ApprovalState::Expired
            | ApprovalState::Withdrawn => Standing::Ready(ready(asked)),
        })
    }
}

fn running(approval: &Approval) -> Standing {
    let call_id = run_of(approval).unwrap_or_else(|| approval.run());
    Standing::Running { call_id, tool: Arc::clone(&approval.tool) }
}

fn ready(approval: &Approval) -> Ready {
    Ready {
        approval_id: approval.id,
        call_id: approval.run(),
        tool: Arc::clone(&approval.tool),
        expires_at: approval.expires_at,
    }
}
