//! The record as a part of its run: what the run is told, and what it lets be written together.

use std::sync::Arc;

use helve_core::ports::JournalError;
use helve_core::record::Entry;
use helve_core::run::{PartReport, PartState, StepKind, WaitingFor};
use helve_core::{CallId, ErrorCode, Status, Tool, ToolError};
use tokio_util::sync::CancellationToken;

use super::redacted::set_payload;
use super::{CallRecorder, unavailable, unnamed};
use crate::runs::{ActiveRun, Done, Event, OnStop, Waiting};

impl CallRecorder<'_> {
    /// Lets the run know how this part of it ended.
    pub(super) fn tell_run(&mut self, status: &Status) {
        let (Some(run), Some(part)) = (&self.subject.run, &self.subject.facts.part) else { return };
        let call_id = self.subject.call_id();
        let state = match status {
            Status::Done(output) if output.is_failure => PartState::Failed,
            Status::Done(_) => PartState::Done,
            Status::Failed(_)
                if self.work.is_cut_off
                    && self.subject.facts.changes_world
                    && !self.subject.is_composed() =>
            {
                PartState::Unknown
            }
            Status::Failed(error) => match error.code() {
                ErrorCode::Cancelled => PartState::Cancelled,
                ErrorCode::OutcomeUnknown => PartState::Unknown,
                _ => PartState::Failed,
            },
            Status::Pending(pending) => {
                let pending = Some(pending.clone());
                run.feed(Event::Waits(Waiting { reason: WaitingFor::Approval, call_id, pending }));
                PartState::Waiting
            }
        };
        let report = PartReport {
            path: Arc::clone(&part.path),
            call_id,
            tool: Arc::clone(&self.subject.facts.tool),
            state,
        };
        let undo_record = self.work.undo_record.take().filter(|_| stands(state)).map(Arc::new);
        run.add(Done { run: run.id, report, undo_record });
    }

    /// The call is its own run.
    pub(in crate::pipeline) fn begin_run(
        &mut self,
        cancellation: CancellationToken,
        on_stop: OnStop,
        tool: &Tool,
    ) {
        let run = Arc::new(ActiveRun::new(self.subject.call_id(), cancellation, on_stop));
        self.arguments.scrubber_mut().set_run(&run);
        if let Some(trace) = &self.trace {
            trace.attach_run(&run);
        }
        self.engine.runs.insert(&run);
        self.subject.run = Some(run);
        self.enter_run(tool);
    }

    /// From now on the call is going on in its run.
    pub(super) fn enter_run(&mut self, tool: &Tool) {
        if let Some(run) = self.subject.run() {
            let path = self.subject.part().map_or_else(unnamed, |part| Arc::clone(&part.path));
            self.in_flight = Some(run.enter(&path, tool));
        }
    }

    /// Says in the journal that the call is about to start, and waits for it.
    ///
    /// A composed call does nothing by itself: its start is written with that of its first part.
    pub(in crate::pipeline) async fn announce_start(&mut self, composed: bool) -> Result<(), JournalError> {
        let started = Entry::Started(self.started());
        self.require_durable_end();
        self.journal.has_start = true;
        let (ledger, is_granted) = (&*self.engine.ledger, self.gate.grant().is_some());
        let written = match self.subject.run() {
            Some(run) if composed && !is_granted => {
                run.buffer(started);
                self.arguments.are_in_start = true;
                return Ok(());
            }
            Some(run) if is_granted => {
                // By itself: should the approval be of no use, only this start is refused.
                run.settle(ledger).await?;
                run.commit(ledger, started).await
            }
            Some(run) => run.commit(ledger, started).await,
            None => ledger.commit(started).await,
        };
        self.journal.has_start = written.as_ref().err().is_none_or(|error| error.is_spent().is_none());
        self.arguments.are_in_start = written.is_ok();
        written
    }

    /// The ledger has the start already, because it came with the claim of an idempotency key.
    pub(in crate::pipeline) fn start_is_written(&mut self) {
        (self.journal.has_start, self.arguments.are_in_start) = (true, true);
        if let Some(run) = self.subject.run() {
            run.feed(Event::Written);
        }
    }

    /// Says in the journal that the tool has answered and its effects come next, and waits for it.
    pub(in crate::pipeline) async fn announce_answer(&mut self) -> Result<(), ToolError> {
        let Some(run) = self.subject.run().cloned() else { return Ok(()) };
        if self.subject.cut_short().is_some_and(|(_, earlier)| earlier.executed.is_some()) {
            return Ok(());
        }
        if !self.journal.has_start {
            run.buffer(Entry::Started(self.started()));
            (self.journal.has_start, self.arguments.are_in_start) = (true, true);
        }
        self.require_durable_end();
        let mut step = self.subject.step(StepKind::Executed { withheld: self.result.is_withheld });
        set_payload(&mut step, self.result.shown.clone());
        run.commit(&*self.engine.ledger, Entry::Step(step)).await.map_err(unavailable)
    }

    /// This call undoes another one.
    pub(in crate::pipeline) fn set_undo_of(&mut self, run: CallId) {
        self.subject.facts.undo_of = Some(run);
    }
}

/// Whether what a tool did stands when its call ended so: a tool can succeed and its effects fail.
fn stands(state: PartState) -> bool {
    matches!(state, PartState::Done | PartState::Failed)
}
