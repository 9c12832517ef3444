//! The end of a record whose caller went away: nobody waits for the call any more, and it is recorded all the same.

use std::sync::Arc;

use helve_core::ports::JournalError;
use helve_core::record::{Attempt, Entry, HandlerEnd};
use helve_core::{ErrorCode, Stage, Status, ToolError};

use super::{CallRecorder, State, Wait};
use crate::runs::{Phase, leave_dropped, wind_up_dropped};

impl Drop for CallRecorder<'_> {
    fn drop(&mut self) {
        match self.state {
            State::Open => self.drop_open(),
            State::Closed if self.subject.is_root() => {
                self.settle_bill();
                if let Some(run) = &self.subject.run {
                    self.engine.runs.remove(run);
                }
            }
            // Its run goes on.
            State::Closed => {}
        }
    }
}

impl CallRecorder<'_> {
    /// The caller went away in the middle of the call.
    fn drop_open(&mut self) {
        self.settle_bill();
        if let Some(run) = self.subject.run.clone() {
            if let Err(error) = run.release(&*self.engine.ledger) {
                tracing::error!(run = %run.id, %error, "what a cancelled run did could not be recorded");
            }
            if self.subject.is_root() {
                if run.ask(Phase::is_lost) {
                    return leave_dropped(self.engine, &run);
                }
                if self.leaves_parts() {
                    let arguments = self.arguments.shown().0;
                    return wind_up_dropped(self.engine, &run, &self.subject.facts, arguments);
                }
                self.engine.runs.remove(&run);
            }
        }
        self.record_went_away();
    }

    /// Whether it goes away in the middle of a composed run, whose parts are to be undone or listed.
    fn leaves_parts(&self) -> bool {
        let lives = tokio::runtime::Handle::try_current().is_ok();
        self.subject.is_composed() && self.journal.has_start && lives
    }

    /// Records that the caller went away, and tells whoever listens.
    fn record_went_away(&mut self) {
        let went_away = went_away().at(self.stopwatch.stage());
        self.enter(Stage::Record);
        if self.stopwatch.has_booked(Stage::Execute) && self.journal.wait == Wait::Yes {
            self.work.attempts.push(Attempt {
                duration_us: 0,
                code: Some(ErrorCode::Cancelled),
                handler: HandlerEnd::Stopped,
                nothing_done: false,
            });
            // Its run has to know, too.
            self.work.is_cut_off = true;
        }
        let repeatable = self.subject.tool().is_none_or(|tool| tool.definition().repeatable());
        let in_doubt = self.work.is_cut_off && !repeatable;
        let status = Status::Failed(if in_doubt { went_away.in_doubt() } else { went_away });
        self.tell_trace(&status);
        let entry = self.finished(&status);
        self.announce(&status, self.stopwatch.timings().total_nanos() / 1_000);
        self.tell_run(&status);
        self.write_in_background(entry, status);
    }

    /// From a destructor nothing can be awaited; a key is given back by a task.
    fn write_in_background(&mut self, entry: Entry, status: Status) {
        let call_id = self.subject.facts.call_id;
        let lost = move |error: JournalError| tracing::error!(%call_id, %error, "a cancelled call could not be recorded");
        match (self.journal.claim.take(), tokio::runtime::Handle::try_current()) {
            (Some(claim), Ok(handle)) => {
                let journal = Arc::clone(&self.engine.ledger);
                handle.spawn(async move {
                    if let Err(error) = journal.finish(entry, claim, Arc::new(status)).await {
                        lost(error);
                    }
                });
            }
            _ => {
                if let Err(error) = self.engine.ledger.append(entry) {
                    lost(error);
                }
            }
        }
    }
}

fn went_away() -> ToolError {
    ToolError::new(ErrorCode::Cancelled, "the caller went away before the call had ended")
}
