//! What a person found out about a call whose outcome was unknown, and how its run learns of it.

use helve_core::record::Entry;
use helve_core::run::{Finding, StepKind};
use helve_core::{CallId, Tool};
use serde_json::Value;

use super::active::step;
use crate::pipeline;
use crate::runtime::Engine;

/// What a person found out about the call that a run waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The call. Where the run waits for another one by now, the answer is not used. Absent:
    /// whichever call it waits for.
    pub call_id: Option<CallId>,
    /// Whether it happened.
    pub answer: Finding,
    /// What it returned, where it happened and that is known.
    pub result: Option<Value>,
    /// Who says so, as the record names them.
    pub by: Option<String>,
}

/// What a person found out, with the call that the run waits for. None where they speak of another one.
pub(super) fn of_what_it_waits_for(
    entries: &[Entry],
    settlement: Settlement,
) -> Option<(CallId, Settlement)> {
    let call_id = entries.iter().rev().find_map(|entry| match entry {
        Entry::Step(step) if matches!(step.kind, StepKind::Waiting { .. }) => Some(step.call_id),
        Entry::Started(_) | Entry::Step(_) | Entry::Finished(_) => None,
    });
    // A run that was never asked about waits for its last start.
    let started = || {
        entries.iter().rev().find_map(|entry| match entry {
            Entry::Started(started) => Some(started.facts.call_id),
            Entry::Step(_) | Entry::Finished(_) => None,
        })
    };
    let call_id = call_id.or_else(started)?;
    settlement.call_id.is_none_or(|about| about == call_id).then_some((call_id, settlement))
}

/// The step that tells what a person found out.
pub(super) fn settled(
    engine: &Engine,
    run: CallId,
    call_id: CallId,
    tool: Option<&Tool>,
    settlement: &Settlement,
) -> Entry {
    let Settlement { call_id: _, answer, result, by } = settlement;
    let kind = StepKind::Settled { answer: *answer, by: by.clone() };
    let mut step = step(engine.clock.now(), call_id, run, kind);
    let redactor = &engine.settings.redactor;
    let payload = result.as_ref().and_then(|result| pipeline::result_by_person(result, redactor, tool));
    pipeline::set_payload(&mut step, payload);
    Entry::Step(step)
}
