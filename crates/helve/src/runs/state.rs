//! How a run stands, in a word.

use std::collections::HashMap;

use helve_core::ports::{Holder, JournalError, OpenRun};
use helve_core::record::{EndStatus, Ending};
use helve_core::run::WaitingFor;
use helve_core::{CallId, ErrorCode};
use serde::Serialize;

use super::story::{Standing, Story};
use crate::runtime::Runtime;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// A process is at it.
    Running,
    /// A stop was requested, and it has not stopped yet.
    Stopping,
    /// What its parts did is being taken back.
    BeingUndone,
    /// A person must say whether a step may run.
    WaitingForApproval,
    /// A person must say whether a step had its effect.
    WaitingForUnknownOutcome,
    /// A person must say whether it goes on.
    WaitingForDecision,
    /// It cannot go on as it is.
    WaitingForCancel,
    /// Its process has gone.
    CutShort,
    /// It did what it should.
    Done,
    /// It has failed.
    Failed,
    /// It has ended, and nobody knows whether all it began had its effect.
    InDoubt,
    /// It was stopped.
    Cancelled,
    /// It was done, and undone later.
    Undone,
    /// It was done; some of it was undone later, and the rest stands.
    PartlyUndone,
}

/// What was undone after a run had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UndoneLater {
    Nothing,
    Some,
    All,
}

impl RunState {
    pub(super) fn of_open(open: &OpenRun, waits: Option<WaitingFor>, is_undone: bool) -> Self {
        match (open.holder, waits) {
            (Holder::Us | Holder::Others, _) if open.cancel_requested => Self::Stopping,
            (Holder::Us | Holder::Others, _) if is_undone => Self::BeingUndone,
            (Holder::Us | Holder::Others, _) => Self::Running,
            (Holder::Nobody, _) => Self::CutShort,
            (Holder::Person, Some(WaitingFor::Approval)) => Self::WaitingForApproval,
            (Holder::Person, Some(WaitingFor::UnknownOutcome)) => Self::WaitingForUnknownOutcome,
            (Holder::Person, Some(WaitingFor::Cancel)) => Self::WaitingForCancel,
            (Holder::Person, Some(WaitingFor::Decision) | None) => Self::WaitingForDecision,
        }
    }

    pub(super) fn of_ended(ending: &Ending, undone: UndoneLater, in_doubt: bool) -> Self {
        match (undone, ending.status) {
            (UndoneLater::All, _) => Self::Undone,
            (UndoneLater::Some, _) => Self::PartlyUndone,
            (UndoneLater::Nothing, EndStatus::Done) => Self::Done,
            (UndoneLater::Nothing, EndStatus::Pending) => Self::WaitingForApproval,
            (UndoneLater::Nothing, EndStatus::Returned | EndStatus::Failed | EndStatus::Denied) => {
                match (ending.code, in_doubt) {
                    // The process that stopped it knows that it did not come to its end.
                    (Some(ErrorCode::Cancelled), _) => Self::Cancelled,
                    (_, true) => Self::InDoubt,
                    (_, false) => Self::Failed,
                }
            }
        }
    }

    /// Whether a person must say something before it goes on.
    pub fn is_waiting(self) -> bool {
        matches!(
            self,
            Self::WaitingForApproval
                | Self::WaitingForUnknownOutcome
                | Self::WaitingForDecision
                | Self::WaitingForCancel
        )
    }

    /// The state in words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::WaitingForApproval => "waiting for approval",
            Self::WaitingForUnknownOutcome => "waiting: unknown outcome",
            Self::WaitingForDecision => "waiting for a decision",
            Self::WaitingForCancel => "cannot go on",
            Self::CutShort => "cut short",
            Self::Done => "done",
            Self::BeingUndone => "being undone",
            Self::Failed => "failed",
            Self::InDoubt => "in doubt",
            Self::Cancelled => "cancelled",
            Self::Undone => "undone",
            Self::PartlyUndone => "partly undone",
        }
    }
}

/// Most open runs that are looked at.
const OPEN_MAX: usize = 10_000;
const PAGE: usize = 500;

impl Runtime {
    /// How runs stand, in the order in which they are asked for. `None` where nothing tells of one.
    ///
    /// Every edge tells this: the command line, its JSON and the HTTP API never differ.
    pub async fn standing_of_runs(&self, runs: &[CallId]) -> Result<Vec<Option<Standing>>, JournalError> {
        let ledger = &self.engine().ledger;
        let mut open: Vec<OpenRun> = Vec::new();
        while open.len() < OPEN_MAX {
            let page = ledger.open_runs(open.last().map(|last| last.run), PAGE).await?;
            if page.is_empty() {
                break;
            }
            open.extend(page);
        }
        let open: HashMap<_, _> = open.iter().map(|open| (open.run, open)).collect();
        let outlines = ledger.outlines(runs.to_vec()).await?;
        let standing = |(run, outline): (&CallId, _)| {
            Story::new(*run, outline, open.get(run).copied()).map(|story| story.standing())
        };
        Ok(runs.iter().zip(outlines).map(standing).collect())
    }
}
