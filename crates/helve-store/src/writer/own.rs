//! What only a file can be asked for.

use helve_core::ports::JournalError;
use helve_ledger::job::{self, Reply};

use crate::prune::{Cut, EraseStep, PruneStep};

/// A job that only a file knows.
pub(crate) enum Own {
    /// Note in the chain that a person accepted the journal, and leave what was open in it to a person.
    Accept,
    /// Note in the chain which key signs for the journal, unless it tells that already.
    Keyed(String),
    /// Remove some of the oldest entries.
    Prune { step: Box<PruneStep>, reply: Reply<Option<Cut>> },
    /// Erase what was said in some calls that only read.
    EraseReads { step: Box<EraseStep>, reply: Reply<i64> },
}

/// What became of such a job.
pub(crate) enum Answer {
    Done,
    Pruned(Option<Box<Cut>>),
    ReadsErased(i64),
}

impl job::Own for Own {
    type Answer = Answer;

    fn is_request(&self) -> bool {
        match self {
            Self::Prune { .. } | Self::EraseReads { .. } => true,
            Self::Accept | Self::Keyed(_) => false,
        }
    }

    fn is_awaited(&self) -> bool {
        match self {
            Self::Accept | Self::Prune { .. } | Self::EraseReads { .. } => true,
            Self::Keyed(_) => false,
        }
    }

    fn ends_quarantine(&self) -> bool {
        matches!(self, Self::Accept)
    }

    fn answer(self, answer: Answer) {
        // Nobody may be waiting any more; that is no error.
        match (self, answer) {
            (Self::Prune { reply, .. }, Answer::Pruned(cut)) => drop(reply.send(Ok(cut.map(|cut| *cut)))),
            (Self::EraseReads { reply, .. }, Answer::ReadsErased(count)) => drop(reply.send(Ok(count))),
            (Self::Accept | Self::Keyed(_), Answer::Done) => {}
            (Self::Accept | Self::Keyed(_) | Self::Prune { .. } | Self::EraseReads { .. }, _) => {
                unreachable!("each job has its answer")
            }
        }
    }

    fn refuse(self, error: &JournalError) -> Option<Self> {
        match self {
            Self::Accept => Some(self),
            // The next who opens the journal says it again.
            Self::Keyed(_) => None,
            Self::Prune { reply, .. } => {
                let _ = reply.send(Err(error.clone()));
                None
            }
            Self::EraseReads { reply, .. } => {
                let _ = reply.send(Err(error.clone()));
                None
            }
        }
    }
}
