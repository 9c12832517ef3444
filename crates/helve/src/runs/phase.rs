//! The one phase that a run is in, and what moves it to the next.
//!
//! [`Phase::step`] takes an event and says what the phase is then, and what the journal gets of it. It is pure: it holds
//! no lock, asks no ledger and looks at no clock. `active.rs` feeds it and carries out what it says; all else only asks.
//! The tests have every phase with every event.
//!
//! | phase | the ledger has | goes on | ends |
//! |---|---|---|---|
//! | `New` | nothing | now | as it comes |
//! | `Running` | its start | now | as it comes |
//! | `Waiting` | its start, soon | when a person has said something | not yet: it stays open |
//! | `Refused` | nothing | never, it has just failed; unless it waits | as failed |
//! | `Lost` | less than has happened | when it is resumed | not here: it stays open |
//! | `Over` | what it had before | in another process, if at all | – |

use std::sync::Arc;

use helve_core::ports::JournalError;
use helve_core::run::{StepKind, WaitingFor};
use helve_core::{CallId, Pending};
use jiff::Timestamp;

/// The phase that a run is in.
#[derive(Debug, Clone, Default)]
pub(crate) enum Phase {
    /// It goes on, and nothing of it is in the ledger yet.
    #[default]
    New,
    /// It goes on, and the ledger has something of it.
    Running,
    /// It cannot go on by itself: nothing new starts, and nothing is given up.
    Waiting {
        /// What it waits for.
        on: Waiting,
        /// Whether the ledger has something of it.
        is_written: bool,
    },
    /// It was halted before the ledger had anything of it.
    Refused {
        /// Why nothing more may happen.
        halt: Halt,
        /// What it waited for: that question stands, and is written with the start.
        waiting: Option<Waiting>,
    },
    /// It was halted in its middle. It is left as the ledger has it, and goes on from there.
    Lost(Halt),
    /// This process is no longer at it. Calls of it that end late find it as it was.
    Over(Box<Phase>),
}

/// Why a run cannot go on by itself.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) reason: WaitingFor,
    /// The call that the question is about.
    pub(crate) call_id: CallId,
    pub(crate) pending: Option<Pending>,
}

/// Why nothing more of a run starts, and nothing of it is concluded.
#[derive(Debug, Clone)]
pub(crate) enum Halt {
    /// The ledger did not take what the run had to say. From then on it may say less than what has happened.
    Ledger(JournalError),
    /// The process is being stopped.
    Stop(Arc<str>),
}

/// What becomes of a run where the process stops in its middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnStop {
    /// Its call is cancelled, and it ends.
    End,
    /// It is left for the next process, which can go on with it.
    Leave,
    /// The same, once its start is written.
    LeaveOnceWritten,
}

/// What happens to a run.
#[derive(Debug)]
pub(crate) enum Event {
    /// The ledger has taken something of it.
    Written,
    /// The ledger has refused something of it.
    Refused(JournalError),
    /// The process stops.
    Stopped { by: Arc<str>, at: Timestamp, on_stop: OnStop },
    /// It cannot go on before a person has said something.
    Waits(Waiting),
    /// Nobody is waited for any more.
    WaitsNoMore,
    /// This process is no longer at it.
    Over,
}

/// What the journal gets of an event, with the next entry that is waited for.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) at: Timestamp,
    pub(crate) kind: StepKind,
}

/// Why a run starts no new parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoParts {
    /// The ledger has failed, or the process stops.
    Halted,
    /// It waits for a person.
    Waiting,
}

/// Which call of a run is about to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndOf {
    /// The call that the run is, whose start the ledger has or will have first.
    Root,
    /// The same before it had a start.
    UnstartedRoot,
    /// A part of the run that is done.
    Part,
    /// A part that is not done before the run goes on.
    OpenPart,
}

/// How a call of a run may end.
#[derive(Debug)]
pub(crate) enum Conclusion {
    /// As it came.
    Ends,
    /// As failed: it has come to its end without what was halted.
    EndsHalted(Halt),
    /// Not yet: its run stays open and says what it waits for. It may have been halted meanwhile.
    Waits(Waiting, Option<Halt>),
    /// Not here: nobody may call it an end, because the ledger has less than has happened.
    Left(Halt),
}

impl Waiting {
    pub(crate) fn step(&self) -> StepKind {
        let approval_id = self.pending.as_ref().map(|pending| pending.approval_id);
        StepKind::Waiting { reason: self.reason, approval_id }
    }
}

impl Halt {
    /// Why the ledger gets no more of the run.
    pub(crate) fn error(&self) -> JournalError {
        match self {
            Self::Ledger(error) => error.clone(),
            Self::Stop(by) => JournalError::new(format!("{by} stopped Helve")),
        }
    }
}

impl Phase {
    /// The phase after an event, and what the journal gets of it.
    pub(crate) fn step(self, event: Event) -> (Self, Option<Write>) {
        match (self, event) {
            // The process that goes on with it writes for it.
            (Self::Over(was), event) => (Self::Over(Box::new(was.step(event).0)), None),
            (phase, Event::Over) => (Self::Over(Box::new(phase)), None),
            (phase, Event::Written) => (phase.written(), None),
            (phase, Event::Refused(error)) => (phase.halted(Halt::Ledger(error)), None),
            (phase, Event::Stopped { by, at, on_stop }) => phase.stopped(by, at, on_stop),
            (phase, Event::Waits(on)) => (phase.waits(on), None),
            (phase, Event::WaitsNoMore) => (phase.waits_no_more(), None),
        }
    }

    fn written(self) -> Self {
        match self {
            Self::New => Self::Running,
            Self::Waiting { on, is_written: _ } => Self::Waiting { on, is_written: true },
            // Its start has got there, unlike what was refused: now something of it must be gone on with.
            Self::Refused { halt, waiting: _ } => Self::Lost(halt),
            phase @ (Self::Running | Self::Lost(_) | Self::Over(_)) => phase,
        }
    }

    fn halted(self, halt: Halt) -> Self {
        match self {
            Self::New => Self::Refused { halt, waiting: None },
            Self::Waiting { on, is_written: false } => Self::Refused { halt, waiting: Some(on) },
            Self::Running | Self::Waiting { on: _, is_written: true } => Self::Lost(halt),
            // The first reason stays.
            phase @ (Self::Refused { .. } | Self::Lost(_) | Self::Over(_)) => phase,
        }
    }

    fn stopped(self, by: Arc<str>, at: Timestamp, on_stop: OnStop) -> (Self, Option<Write>) {
        let leaves = match on_stop {
            OnStop::End => false,
            OnStop::Leave => true,
            OnStop::LeaveOnceWritten => self.is_written(),
        };
        if !leaves || self.halt().is_some() {
            return (self, None);
        }
        let kind = StepKind::Stopped { by: by.to_string() };
        (self.halted(Halt::Stop(by)), Some(Write { at, kind }))
    }

    fn waits(self, on: Waiting) -> Self {
        match self {
            Self::New => Self::Waiting { on, is_written: false },
            Self::Running => Self::Waiting { on, is_written: true },
            Self::Refused { halt, waiting } => Self::Refused { halt, waiting: waiting.or(Some(on)) },
            // The first reason stays. What is left is asked about when it is resumed.
            phase @ (Self::Waiting { .. } | Self::Lost(_) | Self::Over(_)) => phase,
        }
    }

    fn waits_no_more(self) -> Self {
        match self {
            Self::Waiting { on: _, is_written: false } => Self::New,
            Self::Waiting { on: _, is_written: true } => Self::Running,
            Self::Refused { halt, waiting: _ } => Self::Refused { halt, waiting: None },
            phase @ (Self::New | Self::Running | Self::Lost(_) | Self::Over(_)) => phase,
        }
    }

    /// Whether the ledger has something of it.
    fn is_written(&self) -> bool {
        match self {
            Self::New | Self::Refused { .. } | Self::Waiting { is_written: false, .. } => false,
            Self::Running | Self::Lost(_) | Self::Waiting { is_written: true, .. } => true,
            Self::Over(was) => was.is_written(),
        }
    }

    /// Why nothing more of it may happen, if so.
    pub(crate) fn halt(&self) -> Option<&Halt> {
        match self {
            Self::New | Self::Running | Self::Waiting { .. } => None,
            Self::Refused { halt, waiting: _ } | Self::Lost(halt) => Some(halt),
            Self::Over(was) => was.halt(),
        }
    }

    /// Whether it goes on later, if at all: nothing new starts, and nothing is given up.
    pub(crate) fn is_interrupted(&self) -> bool {
        match self {
            Self::New | Self::Running => false,
            Self::Waiting { .. } | Self::Refused { .. } | Self::Lost(_) => true,
            Self::Over(was) => was.is_interrupted(),
        }
    }

    /// Whether it is left in its middle, for the process that resumes it.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::New | Self::Running | Self::Waiting { .. } | Self::Refused { .. } => false,
            Self::Lost(_) => true,
            Self::Over(was) => was.is_lost(),
        }
    }

    /// Whether this process is no longer at it.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Over(_))
    }

    /// Why it starts no new parts, if so. What is over is asked what it was: its effects and their undoing may still be
    /// going on, and only code of its own starts nothing any more ([`Self::is_over`]).
    pub(crate) fn refuses_parts(&self) -> Option<NoParts> {
        match self {
            Self::New | Self::Running => None,
            Self::Waiting { .. } => Some(NoParts::Waiting),
            Self::Refused { .. } | Self::Lost(_) => Some(NoParts::Halted),
            Self::Over(was) => was.refuses_parts(),
        }
    }

    /// How a call of it may end now.
    pub(crate) fn conclude(&self, end_of: EndOf) -> Conclusion {
        let stays_open = matches!(end_of, EndOf::Root | EndOf::OpenPart);
        let is_root = matches!(end_of, EndOf::Root | EndOf::UnstartedRoot);
        match self {
            Self::New | Self::Running => Conclusion::Ends,
            Self::Waiting { on, .. } if stays_open => Conclusion::Waits(on.clone(), None),
            Self::Waiting { .. } => Conclusion::Ends,
            Self::Lost(halt) => Conclusion::Left(halt.clone()),
            // Whether the run had begun is certain only when all its parts have ended.
            Self::Refused { halt, .. } if !is_root => Conclusion::Left(halt.clone()),
            Self::Refused { halt, waiting: Some(on) } if stays_open => {
                Conclusion::Waits(on.clone(), Some(halt.clone()))
            }
            Self::Refused { halt, .. } => Conclusion::EndsHalted(halt.clone()),
            Self::Over(was) => was.conclude(end_of),
        }
    }
}

#[cfg(test)]
mod tests;
