//! What can be typed next about a run.

use super::state::State;
use super::story::Story;

/// A command, and what it does.
pub(super) struct Next {
    pub(super) command: String,
    pub(super) what: &'static str,
}

pub(super) fn next(story: &Story) -> Vec<Next> {
    let run = story.run;
    let of =
        |verb: &str, flags: &str, what| Next { command: format!("helve runs {verb} {run}{flags}"), what };
    let cancel = || of("cancel", "", "end it, and undo what its tool undoes on failure");
    match story.state {
        State::Running => vec![of("cancel", "", "ask it to stop")],
        State::Stopping => vec![of("show", "", "see whether it has")],
        State::CutShort => vec![of("resume", "", "go on after the last step that had finished"), cancel()],
        State::WaitingForApproval if story.finished.is_some() => Vec::new(),
        State::WaitingForApproval => {
            let approval = story.waiting.as_ref().and_then(|waiting| waiting.approval_id);
            let show = approval.map(|id| Next {
                command: format!("helve approvals show {id}"),
                what: "see what exactly would run, and decide",
            });
            show.into_iter().chain([of("resume", "", "go on, once it is decided"), cancel()]).collect()
        }
        State::WaitingForUnknownOutcome => vec![
            of("resume", " --happened --result JSON", "it had its effect, and this is its result"),
            of("resume", " --did-not-happen", "it had none; do it now, and go on"),
            cancel(),
        ],
        State::WaitingForDecision => vec![of("resume", "", "go on"), cancel()],
        State::Done | State::Failed | State::Cancelled if can_be_undone(story) => {
            vec![of("undo", "", "undo what it did")]
        }
        State::Done | State::Failed | State::Cancelled | State::Undone | State::PartlyUndone => Vec::new(),
    }
}

/// The one command to name where there is no room for more.
pub(super) fn first(story: &Story) -> Option<String> {
    if story.finished.is_some() {
        return None;
    }
    match story.state {
        // There is a question to read first.
        state if state.is_waiting() => Some(format!("helve runs show {}", story.run)),
        _ => next(story).into_iter().next().map(|next| next.command),
    }
}

/// Whether anything of it stands. A run that undoes another is not undone itself.
fn can_be_undone(story: &Story) -> bool {
    story.facts.undo_of.is_none() && !story.stands().is_empty()
}
