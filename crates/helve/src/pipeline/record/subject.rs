//! The call that a record is about: who calls what, when, from where, and within which run.
//!
//! Stages read it, and write steps of it. Only the recorder changes it.

use std::sync::Arc;

use helve_core::ports::{Clock, JournalError, Ledger};
use helve_core::record::{Entry, Facts};
use helve_core::run::{Part, Step, StepKind};
use helve_core::{Call, CallId, Caller, Tool, ToolError};
use jiff::Timestamp;

use super::super::origin::Origin;
use super::{shortened, unavailable, unnamed};
use crate::runs::{ActiveRun, Earlier, step};
use crate::runtime::Engine;

/// The call that a record is about.
pub(in crate::pipeline) struct Subject<'p> {
    ledger: &'p dyn Ledger,
    clock: &'p dyn Clock,
    pub(super) origin: Origin,
    pub(super) facts: Facts,
    pub(super) tool: Option<Tool>,
    /// The run that the call is, or belongs to.
    pub(super) run: Option<Arc<ActiveRun>>,
}

impl<'p> Subject<'p> {
    pub(super) fn new(engine: &'p Engine, call: &Call, origin: Origin) -> Self {
        let now = engine.clock.now();
        let facts = Facts {
            call_id: origin.call_id().unwrap_or_else(|| CallId::new(now)),
            received_at: now,
            correlation_id: call.correlation_id.as_deref().map(|id| shortened(id).to_string()),
            caller: Arc::clone(&call.caller),
            tool: unnamed(),
            resolved: false,
            risk: None,
            changes_world: false,
            idempotency_key: call.idempotency_key.clone(),
            part: origin.part().cloned(),
            undo_of: None,
            trace_parent: call.trace_parent,
        };
        let run = origin.run().cloned();
        Self { ledger: &*engine.ledger, clock: &*engine.clock, origin, facts, tool: None, run }
    }

    pub(super) fn set_tool(&mut self, tool: &Tool) {
        let definition = tool.definition();
        self.facts.tool = definition.name.to_shared();
        self.facts.resolved = true;
        self.facts.risk = Some(definition.risk);
        self.facts.changes_world = definition.changes_world();
        self.tool = Some(tool.clone());
    }

    /// The id of the call.
    pub(in crate::pipeline) fn call_id(&self) -> CallId {
        self.facts.call_id
    }

    /// Who made the call.
    pub(in crate::pipeline) fn caller(&self) -> &Arc<Caller> {
        &self.facts.caller
    }

    /// Where the call comes from.
    pub(in crate::pipeline) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// When the call came.
    pub(in crate::pipeline) fn received_at(&self) -> Timestamp {
        self.facts.received_at
    }

    /// The tool, once it is known.
    pub(in crate::pipeline) fn tool(&self) -> Option<&Tool> {
        self.tool.as_ref()
    }

    /// The run that the call is, or belongs to.
    pub(in crate::pipeline) fn run(&self) -> Option<&Arc<ActiveRun>> {
        self.run.as_ref()
    }

    /// Its place in a run that another call is.
    pub(in crate::pipeline) fn part(&self) -> Option<&Part> {
        self.facts.part.as_ref()
    }

    /// The same call before its run was cut short.
    pub(in crate::pipeline) fn cut_short(&self) -> Option<(CallId, &Earlier)> {
        self.origin.cut_short()
    }

    pub(super) fn is_root(&self) -> bool {
        self.facts.part.is_none()
    }

    pub(super) fn is_composed(&self) -> bool {
        self.tool.as_ref().is_some_and(Tool::is_composed)
    }

    /// What the ledger has of a run.
    pub(in crate::pipeline) async fn history(&self, run: CallId) -> Result<Vec<Entry>, JournalError> {
        self.ledger.history(run).await
    }

    /// Writes what the run has buffered, before something that may take its time.
    pub(in crate::pipeline) async fn settle_run(&self) -> Result<(), ToolError> {
        match &self.run {
            Some(run) => run.settle(self.ledger).await.map_err(unavailable),
            None => Ok(()),
        }
    }

    /// Records a step in its place, without waiting.
    pub(in crate::pipeline) fn tell_step(&self, kind: StepKind) {
        match &self.run {
            Some(_) => self.buffer_step(kind),
            None => self.append_step(kind),
        }
    }

    /// Records a step with the next entry of the run that is waited for.
    pub(in crate::pipeline) fn buffer_step(&self, kind: StepKind) {
        if let Some(run) = &self.run {
            run.buffer(Entry::Step(self.step(kind)));
        }
    }

    /// Records a step without waiting.
    pub(in crate::pipeline) fn append_step(&self, kind: StepKind) {
        if let Err(error) = self.ledger.append(Entry::Step(self.step(kind))) {
            tracing::error!(call_id = %self.facts.call_id, %error, "a step could not be recorded");
        }
    }

    /// A step of this call, now.
    pub(super) fn step(&self, kind: StepKind) -> Box<Step> {
        let run = self.facts.part.as_ref().map_or(self.facts.call_id, |part| part.run);
        step(self.clock.now(), self.facts.call_id, run, kind)
    }
}
