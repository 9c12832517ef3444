//! Which runs are unfinished, and who is at them.

use crate::BoxFuture;
use crate::id::CallId;
use crate::ports::JournalError;
use crate::record::Entry;

/// Knows the runs that have not finished.
///
/// A run is open from the start of a call that is no part of another
/// ([`Entry::Started`]) to its end ([`Entry::Finished`]).
pub trait Runs: Send + Sync + 'static {
    /// Open runs, oldest first, at most `limit`, beginning after `after`.
    fn open_runs(
        &self,
        after: Option<CallId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<OpenRun>, JournalError>>;

    /// Takes over an open run whose process has gone, or which waits. From then on this process
    /// is at it, and no other can take it over. What the run had to say before is written first, also
    /// what was refused and is kept for later.
    fn adopt(&self, run: CallId) -> BoxFuture<'_, Result<Adoption, JournalError>>;

    /// Everything that is recorded of a run and its parts, in order.
    fn history(&self, run: CallId) -> BoxFuture<'_, Result<Vec<Entry>, JournalError>>;

    /// The same of several runs, in the order in which they are asked for, perhaps without what was said in their
    /// calls: enough to tell how each stands. Empty where nothing is recorded.
    fn outlines(&self, runs: Vec<CallId>) -> BoxFuture<'_, Result<Vec<Vec<Entry>>, JournalError>> {
        Box::pin(async move {
            let mut outlines = Vec::with_capacity(runs.len());
            for run in runs {
                outlines.push(self.history(run).await?);
            }
            Ok(outlines)
        })
    }

    /// Asks the process at an open run to stop. Returns whether there is such a run.
    fn request_cancel(&self, run: CallId) -> BoxFuture<'_, Result<bool, JournalError>>;

    /// The runs of this process whose stop was requested.
    fn cancel_requests(&self) -> BoxFuture<'_, Result<Vec<CallId>, JournalError>>;
}

/// A run that has not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRun {
    /// The run's id, which is that of its first call.
    pub run: CallId,
    /// Who is at it.
    pub holder: Holder,
    /// Whether a stop was requested.
    pub cancel_requested: bool,
}

/// Who is at an open run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// This process holds it.
    Us,
    /// Another process, which is alive.
    Others,
    /// A process that has gone: the run was cut short.
    Nobody,
    /// A person: it waits for one.
    Person,
}

/// Whether a run could be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adoption {
    /// It is ours now, and nobody was at it before.
    Adopted,
    /// It has been ours all along: this process is at it, or has left it in its middle.
    Ours,
    /// Another process is at it.
    Busy,
    /// There is no such open run.
    NotOpen,
}
