//! How a run stands, as people see it.

pub(super) use helve::runs::RunState as State;

use crate::ui::table::{Cell, Tone};

/// How grave a state is.
pub(super) fn tone(state: State) -> Tone {
    match state {
        State::Running | State::Stopping | State::BeingUndone | State::Undone => Tone::Plain,
        State::WaitingForApproval
        | State::WaitingForUnknownOutcome
        | State::WaitingForDecision
        | State::WaitingForCancel
        | State::CutShort
        | State::InDoubt
        | State::PartlyUndone => Tone::Warn,
        State::Done => Tone::Good,
        State::Failed | State::Cancelled => Tone::Bad,
    }
}

/// A state in a table.
pub(super) fn cell(state: State) -> Cell {
    Cell::new(state.as_str(), tone(state))
}
