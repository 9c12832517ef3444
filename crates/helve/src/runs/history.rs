//! What the journal says of a run, put in order.

use std::collections::HashMap;
use std::sync::Arc;

use helve_core::CallId;
use helve_core::record::{Entry, Finished, RawJson, Started};
use helve_core::run::{Finding, Step, StepKind};
use serde_json::Value;

use super::active::UndoState;
use crate::pipeline::is_redacted;

/// What had happened in a run before it was resumed. Empty for a new one.
#[derive(Debug, Default)]
pub(crate) struct History {
    calls: HashMap<CallId, Earlier>,
    /// The last call of each part.
    paths: HashMap<Arc<str>, CallId>,
    /// Calls that were started, in order.
    started: Vec<CallId>,
    /// Parts that have ended, in order.
    ended: Vec<CallId>,
}

impl History {
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let mut history = Self::default();
        entries.into_iter().for_each(|entry| history.add(entry));
        history
    }

    fn add(&mut self, entry: Entry) {
        let call_id = entry.call_id();
        if let Some(part) = entry.facts().and_then(|facts| facts.part.as_ref()) {
            self.paths.insert(Arc::clone(&part.path), call_id);
        }
        let call = self.calls.entry(call_id).or_default();
        match entry {
            Entry::Started(started) => {
                call.begun_at = Some(started.at);
                call.started = Some(*started);
                self.started.push(call_id);
            }
            Entry::Finished(finished) => {
                call.finished = Some(*finished);
                self.ended.push(call_id);
            }
            Entry::Step(step) => call.add(*step),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(crate) fn call(&self, call_id: CallId) -> Option<&Earlier> {
        self.calls.get(&call_id)
    }

    /// Takes over what a person has just said that a call returned, where its record leaves a secret out.
    pub(super) fn set_settled_result(&mut self, call_id: CallId, result: Value) {
        let settled = self.calls.get_mut(&call_id).and_then(|earlier| earlier.settled.as_mut());
        if let Some((_, kept)) = settled.filter(|(_, kept)| is_redacted(kept)) {
            *kept = result;
        }
    }

    /// What is known of a part.
    pub(crate) fn part(&self, path: &str) -> Option<(CallId, &Earlier)> {
        // Asked for every part, and nearly always a new run's.
        if self.is_empty() {
            return None;
        }
        let call_id = *self.paths.get(path)?;
        Some((call_id, self.calls.get(&call_id)?))
    }

    /// Calls that were started and have not ended, in order.
    pub(crate) fn cut_short(&self) -> impl Iterator<Item = (CallId, &Started, &Earlier)> {
        self.started.iter().filter_map(|call_id| {
            let earlier = self.calls.get(call_id).filter(|earlier| earlier.finished.is_none())?;
            Some((*call_id, earlier.started.as_ref()?, earlier))
        })
    }

    /// Calls that have ended, in order, each once.
    pub(crate) fn ended(&self) -> impl Iterator<Item = (CallId, &Earlier)> {
        self.ended.iter().filter_map(|call_id| Some((*call_id, self.calls.get(call_id)?)))
    }
}

/// What is known of one call from before its run was resumed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Earlier {
    pub(crate) started: Option<Started>,
    pub(crate) finished: Option<Finished>,
    /// When it began, the last time.
    pub(crate) begun_at: Option<jiff::Timestamp>,
    /// The tool's answer, and whether something of it is missing.
    pub(crate) executed: Option<(Value, bool)>,
    /// Each effect's last step, with what its handler said.
    pub(crate) effects: HashMap<u32, (StepKind, Value)>,
    pub(crate) undone: UndoState,
    /// What a person said became of it, and its result.
    pub(crate) settled: Option<(Finding, Value)>,
}

impl Earlier {
    fn add(&mut self, step: Step) {
        let payload = || step.payload.as_ref().map(parse).unwrap_or_default();
        match step.kind {
            StepKind::Executed { withheld } => self.executed = Some((payload(), withheld)),
            StepKind::EffectApplied { index }
            | StepKind::EffectSkipped { index }
            | StepKind::EffectFailed { index, .. }
            | StepKind::EffectRolledBack { index }
            | StepKind::RollbackFailed { index } => {
                // What a handler said when it applied the effect is what it needs to take it back; later steps
                // say why something failed.
                let said = matches!(step.kind, StepKind::EffectApplied { .. }).then(payload);
                let known = self.effects.entry(index).or_insert((step.kind.clone(), Value::Null));
                known.0 = step.kind;
                known.1 = said.unwrap_or_else(|| known.1.take());
            }
            StepKind::Undone => self.undone = UndoState::Undone,
            StepKind::UndoFailed { .. } => self.undone = UndoState::Failed,
            // Of a call that has ended, what was said first holds: a reader may have acted on it.
            StepKind::Settled { .. } if self.finished.is_some() && self.settled.is_some() => {}
            StepKind::Settled { answer, by: _ } => self.settled = Some((answer, payload())),
            StepKind::Resumed => {
                self.begun_at = self.begun_at.max(Some(step.at));
                // An answer is good for one time only.
                if matches!(self.settled, Some((Finding::DidNotHappen, _))) {
                    self.settled = None;
                }
            }
            StepKind::Attempted { .. }
            | StepKind::UndoStarted
            | StepKind::Waiting { .. }
            | StepKind::Asked { .. }
            | StepKind::Decided { .. }
            | StepKind::Labelled { .. }
            | StepKind::RuleUsed { .. }
            | StepKind::RuleRevoked { .. }
            | StepKind::CancelRequested
            | StepKind::Stopped { .. }
            | StepKind::RollingBack
            | StepKind::Told => {}
        }
    }
}

/// JSON that we wrote ourselves.
pub(crate) fn parse(json: &RawJson) -> Value {
    serde_json::from_str(json.get()).unwrap_or_default()
}
