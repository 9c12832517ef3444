//! Where a call comes from: from outside, or from within a run.

use std::sync::Arc;
use std::time::Instant;

use helve_core::run::Part;
use helve_core::{ApprovalId, CallId, Tool};

use crate::runs::{ActiveRun, Earlier, FollowUp};
use crate::runtime::Served;

/// Where a call comes from.
pub(crate) enum Origin {
    /// A call by a caller. With the tool, where they have looked it up already.
    Outside(Option<Tool>),
    /// A caller reads what a server behind this runtime has, which is no tool of the registry.
    Served(Box<Served>),
    /// An event from outside: a call of this tool, which is in no registry.
    Raised(Box<Tool>),
    /// A caller came back for a call that a person has approved: it runs by that approval or not at all.
    Approved(ApprovalId),
    /// A running call makes it, as one of its parts.
    Part(PartOf),
    /// A run that was cut short is resumed.
    Resumed(Arc<ActiveRun>),
}

/// A call within a run.
pub(crate) struct PartOf {
    pub(crate) run: Arc<ActiveRun>,
    pub(crate) part: Part,
    /// When the call that makes it must be done.
    pub(crate) until: Option<Instant>,
    pub(crate) follow_up: FollowUp,
}

impl Origin {
    pub(super) fn run(&self) -> Option<&Arc<ActiveRun>> {
        match self {
            Self::Outside(_) | Self::Served(_) | Self::Raised(_) | Self::Approved(_) => None,
            Self::Part(part) => Some(&part.run),
            Self::Resumed(run) => Some(run),
        }
    }

    pub(super) fn part(&self) -> Option<&Part> {
        match self {
            Self::Outside(_) | Self::Served(_) | Self::Raised(_) | Self::Approved(_) | Self::Resumed(_) => {
                None
            }
            Self::Part(part) => Some(&part.part),
        }
    }

    /// The deadline that the maker of the call sets.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Part(part) => part.until,
            Self::Outside(_) | Self::Served(_) | Self::Raised(_) | Self::Approved(_) | Self::Resumed(_) => {
                None
            }
        }
    }

    /// What is read, where that is no tool of the registry.
    pub(super) fn served(&self) -> Option<&Served> {
        match self {
            Self::Served(served) => Some(served),
            Self::Outside(_) | Self::Raised(_) | Self::Approved(_) | Self::Part(_) | Self::Resumed(_) => None,
        }
    }

    /// Whether it is a call of a tool by its name.
    pub(super) fn is_outside(&self) -> bool {
        match self {
            Self::Outside(_) => true,
            Self::Served(_) | Self::Raised(_) | Self::Approved(_) | Self::Part(_) | Self::Resumed(_) => false,
        }
    }

    /// The approval by which the call runs, or not at all.
    pub(super) fn approval(&self) -> Option<ApprovalId> {
        match self {
            Self::Approved(id) => Some(*id),
            Self::Outside(_) | Self::Served(_) | Self::Raised(_) | Self::Part(_) | Self::Resumed(_) => None,
        }
    }

    /// The tool that comes with the call, so that nobody looks for it by its name.
    pub(super) fn tool(&self) -> Option<&Tool> {
        match self {
            Self::Served(served) => Some(&served.tool),
            Self::Raised(tool) => Some(tool),
            Self::Outside(found) => found.as_ref(),
            Self::Approved(_) | Self::Part(_) | Self::Resumed(_) => None,
        }
    }

    /// Whether it is an event. Hooks hear of the event itself, not also of the call that carries it.
    pub(super) fn is_event(&self) -> bool {
        matches!(self, Self::Raised(_))
    }

    /// The id that the call has already.
    pub(super) fn call_id(&self) -> Option<CallId> {
        match self {
            Self::Resumed(run) => Some(run.id),
            Self::Outside(_) | Self::Served(_) | Self::Raised(_) | Self::Approved(_) | Self::Part(_) => {
                self.cut_short().map(|(call_id, _)| call_id)
            }
        }
    }

    /// The same call before its run was cut short, where it had started and not ended.
    pub(super) fn cut_short(&self) -> Option<(CallId, &Earlier)> {
        let (call_id, earlier) = match self {
            Self::Outside(_) | Self::Served(_) | Self::Raised(_) | Self::Approved(_) => return None,
            Self::Part(part) => part.run.history.part(&part.part.path)?,
            Self::Resumed(run) => (run.id, run.history.call(run.id)?),
        };
        (earlier.started.is_some() && earlier.finished.is_none()).then_some((call_id, earlier))
    }
}
