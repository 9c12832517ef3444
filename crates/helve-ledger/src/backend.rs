//! What the writer writes to.

use helve_core::ports::JournalError;

use crate::job::{Job, Own};
use crate::keys::Found;
use crate::queue::Health;
use crate::request::Response;

/// A database that entries, and what belongs to them, are written to in groups.
///
/// Everything here may block: it is called by the writer's own thread alone.
pub trait Backend: Send + 'static {
    /// Jobs that only this backend knows.
    type Own: Own;
    /// Why it fails.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Makes sure that others see that we live, also while there is nothing to write.
    fn stand(&mut self);

    /// Makes ready for the next group.
    fn make_ready(&mut self, health: &Health) -> Result<Readiness, Self::Error>;

    /// Writes all jobs or none. Only when this returns well is anybody told.
    fn write(&mut self, jobs: &[Job<Self::Own>]) -> Result<Vec<Verdict<Self::Own>>, Self::Error>;

    /// What can be written, now that a group could be written although not everything could before.
    fn recover(&mut self) -> Health;

    /// Does what follows from a group that is written, and can fail it no more.
    fn tidy(&mut self, verdicts: &[Verdict<Self::Own>]);

    /// What can still be written after a failure. `worked`: until then everything could.
    fn health_after(&mut self, error: &Self::Error, worked: bool) -> Health;

    /// Lets go of the database. `unwritten`: how many reports could not be written.
    fn close(&mut self, health: &Health, unwritten: usize) -> Result<(), Self::Error>;
}

/// Whether a group can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The group can be written.
    Ready,
    /// It cannot, and nothing has changed.
    NotYet,
    /// What was wrong is put right: from now on everything can be written.
    Again,
}

/// What became of a job, once its group is on disk.
pub enum Verdict<O: Own> {
    /// It is done.
    Done,
    /// It is refused, and has changed nothing.
    Refused(JournalError),
    /// What is known of a key that was claimed.
    Found(Found),
    /// So many entries lost their payload.
    Erased(usize),
    /// A request has its answer.
    Answered(Response),
    /// The backend's own job has its answer.
    Own(O::Answer),
}

impl<O: Own> From<Result<(), JournalError>> for Verdict<O> {
    fn from(result: Result<(), JournalError>) -> Self {
        result.map_or_else(Self::Refused, |()| Self::Done)
    }
}
