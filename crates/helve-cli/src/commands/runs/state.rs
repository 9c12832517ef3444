//! How a run stands, in a word.

use helve::ErrorCode;
use helve::ports::{Holder, OpenRun};
use helve::record::{EndStatus, Ending};
use helve::run::WaitingFor;
use serde::Serialize;

use crate::ui::table::{Cell, Tone};

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Running,
    /// Somebody asked it to stop, and it has not yet.
    Stopping,
    WaitingForApproval,
    WaitingForUnknownOutcome,
    WaitingForDecision,
    /// It cannot go on as it is.
    WaitingForCancel,
    /// Its process has gone.
    CutShort,
    Done,
    Failed,
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

impl State {
    pub(super) fn of_open(open: &OpenRun, waits: Option<WaitingFor>) -> Self {
        match (open.holder, waits) {
            (Holder::Us | Holder::Others, _) if open.cancel_requested => Self::Stopping,
            (Holder::Us | Holder::Others, _) => Self::Running,
            (Holder::Nobody, _) => Self::CutShort,
            (Holder::Person, Some(WaitingFor::Approval)) => Self::WaitingForApproval,
            (Holder::Person, Some(WaitingFor::UnknownOutcome)) => Self::WaitingForUnknownOutcome,
            (Holder::Person, Some(WaitingFor::Cancel)) => Self::WaitingForCancel,
            (Holder::Person, Some(WaitingFor::Decision) | None) => Self::WaitingForDecision,
        }
    }

    pub(super) fn of_ended(ending: &Ending, undone: UndoneLater) -> Self {
        match (undone, ending.status) {
            (UndoneLater::All, _) => Self::Undone,
            (UndoneLater::Some, _) => Self::PartlyUndone,
            (UndoneLater::Nothing, EndStatus::Done) => Self::Done,
            (UndoneLater::Nothing, EndStatus::Pending) => Self::WaitingForApproval,
            (UndoneLater::Nothing, EndStatus::Returned | EndStatus::Failed | EndStatus::Denied) => {
                if ending.code == Some(ErrorCode::Cancelled) { Self::Cancelled } else { Self::Failed }
            }
        }
    }

    pub(super) fn is_waiting(self) -> bool {
        matches!(
            self,
            Self::WaitingForApproval
                | Self::WaitingForUnknownOutcome
                | Self::WaitingForDecision
                | Self::WaitingForCancel
        )
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::WaitingForApproval => "waiting for approval",
            Self::WaitingForUnknownOutcome => "waiting: unknown outcome",
            Self::WaitingForDecision => "waiting for a decision",
            Self::WaitingForCancel => "cannot go on",
            Self::CutShort => "cut short",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Undone => "undone",
            Self::PartlyUndone => "partly undone",
        }
    }

    pub(super) fn tone(self) -> Tone {
        match self {
            Self::Running | Self::Stopping | Self::Undone => Tone::Plain,
            Self::WaitingForApproval
            | Self::WaitingForUnknownOutcome
            | Self::WaitingForDecision
            | Self::WaitingForCancel
            | Self::CutShort
            | Self::PartlyUndone => Tone::Warn,
            Self::Done => Tone::Good,
            Self::Failed | Self::Cancelled => Tone::Bad,
        }
    }

    pub(super) fn cell(self) -> Cell {
        Cell::new(self.as_str(), self.tone())
    }
}
