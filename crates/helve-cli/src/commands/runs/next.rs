//! What can be typed next about a run.

use std::cell::OnceCell;

use helve::runs::Story;
use helve::{CallId, Registry};
use helve_host::config::Loaded;
use helve_host::wire;

use super::state::State;

/// A command, and what it does.
pub(super) struct Next {
    pub(super) command: String,
    pub(super) what: &'static str,
}

/// Which tools can be undone. Asked only where something stands, and never over a network: a look at the
/// journal does not wait for a host that is down.
pub(super) struct Undoable<'l> {
    loaded: &'l Loaded,
    registry: OnceCell<Registry>,
}

impl<'l> Undoable<'l> {
    pub(super) fn of(loaded: &'l Loaded) -> Self {
        Self { loaded, registry: OnceCell::new() }
    }

    /// Whether anything takes back what a call did, where it stands. Nothing undoes what a tool of an MCP server
    /// did; of other tools that are not known here nobody can tell.
    fn has(&self, story: &Story, call_id: CallId) -> bool {
        let registry = self.registry.get_or_init(|| wire::known_here(self.loaded));
        let tool = registry.get(story.tool(call_id)).map(|found| found.tool);
        let is_of_server = || {
            let servers = self.loaded.config.mcp.servers.iter();
            let below =
                |name: &str| story.tool(call_id).strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
            servers.map(|(name, server)| server.namespace(name)).any(below)
        };
        tool.map_or_else(
            || !is_of_server(),
            |tool| {
                let definition = tool.definition();
                let is_reversible = |index: u32| {
                    let effect = usize::try_from(index).ok().and_then(|index| definition.effects.get(index));
                    effect.is_some_and(|effect| effect.reversible)
                };
                definition.undo.is_some() || story.applied(call_id).any(is_reversible)
            },
        )
    }
}

pub(super) fn next(story: &Story, undoable: &Undoable<'_>) -> Vec<Next> {
    let run = story.run;
    let of =
        |verb: &str, flags: &str, what| Next { command: format!("helve runs {verb} {run}{flags}"), what };
    let cancel = || of("cancel", "", "end it, and undo what its tool undoes on failure");
    match story.state {
        State::Running => vec![of("cancel", "", "ask it to stop")],
        State::Stopping | State::BeingUndone => vec![of("show", "", "see whether it has")],
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
            of("resume", " --did-not-happen", "it had none; run its tool again, and go on"),
            cancel(),
        ],
        State::WaitingForDecision => vec![of("resume", "", "go on"), cancel()],
        State::WaitingForCancel => vec![cancel()],
        State::Done
        | State::Failed
        | State::InDoubt
        | State::Cancelled
        | State::Undone
        | State::PartlyUndone => {
            let undo = story.state != State::Undone && can_be_undone(story, undoable);
            let what = match story.state {
                State::PartlyUndone => "try again to undo what stands",
                _ => "undo what it did",
            };
            undo.then(|| of("undo", "", what)).into_iter().chain(settle(story, undoable)).collect()
        }
    }
}

/// What can be said of the first call of an ended run of which nobody knows whether it had its effect.
fn settle(story: &Story, undoable: &Undoable<'_>) -> Vec<Next> {
    let can_be_undone = |call_id: &CallId| undoable.has(story, *call_id);
    if story.facts.undo_of.is_some() {
        return Vec::new();
    }
    let Some(call_id) = story.in_doubt().into_iter().find(can_be_undone) else { return Vec::new() };
    let of = |flags: String, what| Next { command: format!("helve runs undo {}{flags}", story.run), what };
    vec![
        of(
            format!(" --happened {call_id} --result JSON"),
            "it had its effect, and this is its result: undo it too",
        ),
        of(format!(" --did-not-happen {call_id}"), "it had none; undo the rest"),
    ]
}

/// The one command to name where there is no room for more.
pub(super) fn first(story: &Story, undoable: &Undoable<'_>) -> Option<String> {
    match story.state {
        // What failed and left something behind is looked at; what is done is done.
        State::Failed | State::InDoubt | State::Cancelled if !next(story, undoable).is_empty() => {
            Some(format!("helve runs show {}", story.run))
        }
        _ if story.finished.is_some() => None,
        // There is a question to read first.
        state if state.is_waiting() => Some(format!("helve runs show {}", story.run)),
        _ => next(story, undoable).into_iter().next().map(|next| next.command),
    }
}

/// Whether anything of it stands that can be undone. A run that undoes another is not undone itself.
fn can_be_undone(story: &Story, undoable: &Undoable<'_>) -> bool {
    let stands = || story.stands().into_iter();
    story.facts.undo_of.is_none() && stands().any(|call_id| undoable.has(story, call_id))
}
