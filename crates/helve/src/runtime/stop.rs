//! Stopping: no new calls, time for those that run, then an end of each that is recorded and true.
//!
//! A stop has two moments. When it begins, new calls are refused and callers who wait for a person are told that
//! the question stands. When the grace is over, every call that still runs is cancelled, and says who stopped it and
//! whether its tool may have done its work. A composed run is not cancelled: it is left open as the ledger has it,
//! and the next process goes on with it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use helve_core::{CallId, ErrorCode, Tool, ToolError};
use tokio_util::sync::CancellationToken;

use super::Runtime;
use crate::runs::ActiveRun;

/// How often it is looked whether the last call has ended. Only while the process stops.
const LOOK_PAUSE: Duration = Duration::from_millis(10);
/// How long calls have to end once they were cancelled, besides the grace of each tool.
const END_MAX: Duration = Duration::from_secs(10);
/// How long the journal has to write the last entries.
const FLUSH_MAX: Duration = Duration::from_secs(10);

/// Whether the process stops, who wants it, and how many calls it waits for.
#[derive(Default)]
pub(crate) struct Stop {
    by: OnceLock<Arc<str>>,
    begun: CancellationToken,
    over: CancellationToken,
    /// Calls that nobody within another call makes.
    calls: AtomicUsize,
}

impl Stop {
    /// Who stops the process, if it is being stopped.
    pub(crate) fn by(&self) -> Option<&Arc<str>> {
        self.by.get()
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.by.get().is_some()
    }

    /// Waits until the stop begins.
    pub(crate) async fn begun(&self) {
        self.begun.cancelled().await;
    }

    /// Who stops the process, where the grace is over.
    pub(crate) fn is_over(&self) -> Option<&Arc<str>> {
        self.by.get().filter(|_| self.over.is_cancelled())
    }

    /// Waits until the grace is over. Who stops the process.
    pub(crate) async fn over(&self) -> Arc<str> {
        self.over.cancelled().await;
        self.by.get().cloned().unwrap_or_else(|| Arc::from("the operator"))
    }

    /// A call begins. It has ended when the guard is dropped.
    pub(crate) fn call_begins(&self) -> GoingOn<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        GoingOn(self)
    }

    /// Why no part of a run starts: the process stops, and the run is left for the next one.
    pub(crate) fn refuses_part_of(&self, run: &ActiveRun, now: jiff::Timestamp) -> Option<ToolError> {
        let by = self.is_over()?;
        // It may have begun after all others were halted. A run that cannot be halted starts no part either.
        run.halt(by, now);
        Some(refused(by))
    }
}

/// A call that has not ended.
pub(crate) struct GoingOn<'s>(&'s Stop);

impl Drop for GoingOn<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a stop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Calls that had not ended when the time was up. The ledger has those that changed something as open, and
    /// the next process takes them up.
    pub unfinished: usize,
    /// Whether everything that was recorded is on disk.
    pub is_flushed: bool,
}

impl Runtime {
    /// Stops: from now on new calls are refused with [`ErrorCode::Stopping`], and callers who wait for a person are
    /// told that the question stands. Calls that run have `grace` to end by themselves. Then each is cancelled: it
    /// ends with [`ErrorCode::Cancelled`], says that `by` stopped it and whether its tool may have done its work.
    /// A composed run is left open instead, and goes on in the next process that has the same ledger.
    ///
    /// Returns when every call has ended and is on disk, or cannot be waited for any longer. There is no way back.
    pub async fn stop(&self, by: &str, grace: Duration) -> Stopped {
        let (engine, stop) = (self.engine(), &self.engine().stop);
        stop.by.get_or_init(|| Arc::from(by));
        stop.begun.cancel();
        tokio::select! {
            () = self.until_quiet() => {}
            () = tokio::time::sleep(grace) => {}
            () = stop.over.cancelled() => {}
        }
        self.hurry();
        let end_max = engine.settings.cancel_grace + END_MAX;
        let _in_time = tokio::time::timeout(end_max, self.until_quiet()).await;
        let flushed = tokio::time::timeout(FLUSH_MAX, engine.ledger.flush()).await;
        Stopped { unfinished: self.unfinished(), is_flushed: matches!(flushed, Ok(Ok(()))) }
    }

    /// Ends the grace of a [`stop`](Self::stop) now.
    pub fn hurry(&self) {
        let engine = self.engine();
        let Some(by) = engine.stop.by() else { return };
        // Before calls are cancelled: a run must know that its parts stop for this.
        for run in engine.runs.all() {
            run.halt(by, engine.clock.now());
        }
        engine.stop.over.cancel();
    }

    /// Whether new calls are refused because the process is about to end.
    pub fn is_stopping(&self) -> bool {
        self.engine().stop.has_begun()
    }

    /// Waits until the process is about to end.
    pub async fn until_stopping(&self) {
        self.engine().stop.begun().await;
    }

    /// How many calls and runs have not ended. Most runs are calls too, and are not counted twice.
    pub fn unfinished(&self) -> usize {
        let engine = self.engine();
        engine.stop.calls.load(Ordering::Relaxed).max(engine.runs.len())
    }

    /// Waits until no call runs.
    async fn until_quiet(&self) {
        while self.unfinished() > 0 {
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}

/// Why a call did not begin: nothing was done.
pub(crate) fn refused(by: &str) -> ToolError {
    ToolError::new(ErrorCode::Stopping, format!("this Helve is stopping ({by}) and takes no new calls"))
        .nothing_done()
        .suggest("nothing was done: call again on another replica, or here once Helve has started again")
}

/// Why a call was cut off in the middle of its tool's work.
pub(crate) fn cut_off(by: &str, tool: &Tool) -> ToolError {
    let message = format!("Helve was stopped ({by}) before `{}` had answered", tool.name());
    let error = ToolError::new(ErrorCode::Cancelled, message);
    match tool.definition().repeatable() {
        true => error.suggest("call again on another replica, or here once Helve has started again"),
        false => error,
    }
}

/// Why a call is not tried once more.
pub(crate) fn between_attempts(by: &str) -> ToolError {
    ToolError::new(ErrorCode::Cancelled, format!("Helve was stopped ({by}) before the next attempt"))
}

/// What the caller reads about a run that the next process resumes.
pub(crate) fn left_open(by: &str, run: CallId) -> ToolError {
    let message = format!("Helve was stopped ({by}) in the middle of {run}, which is left open as it is");
    ToolError::new(ErrorCode::Stopping, message)
        .retryable(false)
        .in_doubt()
        .suggest(format!("do not call again: {run} goes on in the next Helve with this journal"))
        .suggest(format!("`helve runs show {run}` says how far it has come"))
}
