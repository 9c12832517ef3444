//! The record as a part of its run: what the run is told, and what it lets be written together.

use std::sync::Arc;

use helve_core::ports::JournalError;
use helve_core::record::Entry;
use helve_core::run::{EffectReport, Part, PartReport, PartState, Step, StepKind, WaitingFor};
use helve_core::{CallId, Caller, ErrorCode, Status, Tool, ToolError};
use tokio_util::sync::CancellationToken;

use super::{OpenRecord, unavailable, unnamed};
use crate::runs::{ActiveRun, Deed, Done, Earlier, History, Waiting, step};

impl OpenRecord<'_> {
    /// Its effects go on when the run does.
    pub(in crate::pipeline) fn suspend(&mut self) {
        self.suspended = true;
    }

    pub(super) fn is_composed(&self) -> bool {
        self.tool.as_ref().is_some_and(Tool::is_composed)
    }

    pub(super) fn is_root(&self) -> bool {
        self.facts.part.is_none()
    }

    /// Lets the run know how this part of it ended.
    pub(super) fn tell_run(&mut self, status: &Status) {
        let (Some(run), Some(part)) = (&self.run, &self.facts.part) else { return };
        let call_id = self.facts.call_id;
        let state = match status {
            Status::Done(output) if output.is_failure => PartState::Failed,
            Status::Done(_) => PartState::Done,
            Status::Failed(_) if self.cut_off && self.facts.changes_world && !self.is_composed() => {
                PartState::Unknown
            }
            Status::Failed(error) => match error.code() {
                ErrorCode::Cancelled => PartState::Cancelled,
                ErrorCode::OutcomeUnknown => PartState::Unknown,
                _ => PartState::Failed,
            },
            Status::Pending(pending) => {
                let pending = Some(pending.clone());
                run.wait_for(Waiting { reason: WaitingFor::Approval, call_id, pending });
                PartState::Waiting
            }
        };
        let report =
            PartReport { path: Arc::clone(&part.path), call_id, tool: Arc::clone(&self.facts.tool), state };
        let deed = self.deed.take().filter(|_| stands(state)).map(Arc::new);
        run.add(Done { run: run.id, report, deed });
    }

    /// The same call before its run was cut short.
    pub(in crate::pipeline) fn cut_short(&self) -> Option<(CallId, &Earlier)> {
        self.origin.cut_short()
    }

    pub(in crate::pipeline) fn run(&self) -> Option<&Arc<ActiveRun>> {
        self.run.as_ref()
    }

    pub(in crate::pipeline) fn part(&self) -> Option<&Part> {
        self.facts.part.as_ref()
    }

    /// The call is a run of its own.
    pub(in crate::pipeline) fn begin_run(&mut self, cancellation: CancellationToken, tool: &Tool) {
        let run = Arc::new(ActiveRun::new(self.facts.call_id, cancellation, History::default()));
        run.hide(&self.secrets);
        if let Some(trace) = &self.trace {
            trace.is_run(&run);
        }
        self.parts.runs.insert(&run);
        self.run = Some(run);
        self.enter_run(tool);
    }

    /// From now on the call is going on in its run.
    pub(super) fn enter_run(&mut self, tool: &Tool) {
        if let Some(run) = &self.run {
            let path = self.facts.part.as_ref().map_or_else(unnamed, |part| Arc::clone(&part.path));
            if self.is_root() && tool.is_composed() {
                run.resumes();
            }
            self.in_flight = Some(run.enter(&path, tool));
        }
    }

    /// Says in the journal that the call is about to start, and waits for it.
    ///
    /// A composed call does nothing by itself: its start is written with that of its first part.
    pub(in crate::pipeline) async fn announce_start(&mut self, composed: bool) -> Result<(), JournalError> {
        let started = Entry::Started(self.started());
        self.must_survive();
        self.announced = true;
        let written = match &self.run {
            Some(run) if composed && self.grant().is_none() => {
                run.hold(started);
                self.start_has_arguments = true;
                return Ok(());
            }
            Some(run) if self.grant().is_some() => {
                // By itself: should the approval be of no use, only this start is refused.
                run.settle(&*self.parts.ledger).await?;
                run.commit(&*self.parts.ledger, started).await
            }
            Some(run) => run.commit(&*self.parts.ledger, started).await,
            None => self.parts.ledger.commit(started).await,
        };
        self.announced = written.as_ref().err().is_none_or(|error| error.is_spent().is_none());
        self.start_has_arguments = written.is_ok();
        written
    }

    pub(in crate::pipeline) fn was_announced(&mut self) {
        (self.announced, self.start_has_arguments) = (true, true);
        if let Some(run) = &self.run {
            run.begin();
        }
    }

    /// Says in the journal that the tool has answered and its effects come next, and waits for it.
    pub(in crate::pipeline) async fn executed(&mut self) -> Result<(), ToolError> {
        let Some(run) = self.run.clone() else { return Ok(()) };
        if self.cut_short().is_some_and(|(_, earlier)| earlier.executed.is_some()) {
            return Ok(());
        }
        if !self.announced {
            run.hold(Entry::Started(self.started()));
            (self.announced, self.start_has_arguments) = (true, true);
        }
        self.must_survive();
        let mut step = self.step(StepKind::Executed { withheld: self.result_withheld });
        step.payload = self.payload.result.clone();
        run.commit(&*self.parts.ledger, Entry::Step(step)).await.map_err(unavailable)
    }

    /// Writes what the run has held back, before something that may take its time.
    pub(in crate::pipeline) async fn settle_run(&self) -> Result<(), ToolError> {
        match &self.run {
            Some(run) => run.settle(&*self.parts.ledger).await.map_err(unavailable),
            None => Ok(()),
        }
    }

    /// Records a step with the next entry that is waited for.
    pub(in crate::pipeline) fn hold_step(&self, kind: StepKind) {
        if let Some(run) = &self.run {
            run.hold(Entry::Step(self.step(kind)));
        }
    }

    /// Records a step in its place, without waiting.
    pub(in crate::pipeline) fn tell_step(&self, kind: StepKind) {
        match &self.run {
            Some(_) => self.hold_step(kind),
            None => self.append_step(kind),
        }
    }

    /// Records a step without waiting.
    pub(in crate::pipeline) fn append_step(&self, kind: StepKind) {
        if let Err(error) = self.parts.ledger.append(Entry::Step(self.step(kind))) {
            tracing::error!(call_id = %self.facts.call_id, %error, "a step could not be recorded");
        }
    }

    pub(in crate::pipeline) fn caller(&self) -> &Arc<Caller> {
        &self.facts.caller
    }

    /// This call undoes another one.
    pub(in crate::pipeline) fn undoes(&mut self, run: CallId) {
        self.facts.undo_of = Some(run);
    }

    /// What it will take to undo the call.
    pub(in crate::pipeline) fn keep_deed(&mut self, deed: Deed) {
        self.deed = Some(deed);
    }

    pub(in crate::pipeline) fn effects_are(&mut self, effects: Vec<EffectReport>) {
        self.effects = effects;
    }

    /// A step of this call, now.
    pub(in crate::pipeline) fn step(&self, kind: StepKind) -> Box<Step> {
        let run = self.facts.part.as_ref().map_or(self.facts.call_id, |part| part.run);
        step(self.parts.clock.now(), self.facts.call_id, run, kind)
    }
}

/// Whether what a tool did stands when its call ended so: a tool can succeed and its effects fail.
fn stands(state: PartState) -> bool {
    matches!(state, PartState::Done | PartState::Failed)
}
