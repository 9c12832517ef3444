//! What only this database can be asked for: nothing yet.

use helve_core::ports::JournalError;
use helve_ledger::job;

/// No job.
pub(crate) enum Own {}

impl job::Own for Own {
    type Answer = std::convert::Infallible;

    fn is_request(&self) -> bool {
        match *self {}
    }

    fn is_awaited(&self) -> bool {
        match *self {}
    }

    fn answer(self, answer: Self::Answer) {
        match answer {}
    }

    fn refuse(self, _error: &JournalError) -> Option<Self> {
        match self {}
    }
}
