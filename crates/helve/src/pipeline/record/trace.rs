//! The call as a trace tells it: decided when the record opens, told when it is closed.
//!
//! Not spans of `tracing`: the record has the times of every stage anyway, so that a call which
//! nobody traces pays for one look at an `Option`, and one that is traced is told exactly.

use std::sync::Arc;

use helve_core::ports::Tracer;
use helve_core::record::{Payload, RawJson, Timings};
use helve_core::trace::{SpanContext, TracedCall, TracedContent};
use helve_core::{Call, CallId, ErrorCode, Stage, Status, ToolError};

use super::super::origin::Origin;
use super::close::end_status;
use super::{OpenRecord, nanos};
use crate::runs::{ActiveRun, Place};
use crate::runtime::Parts;

/// Longest text of arguments and of a result that a trace gets, in bytes.
const CONTENT_BYTES_MAX: usize = 8 << 10;

/// A call that is traced.
pub(super) struct OpenTrace {
    tracer: Arc<dyn Tracer>,
    place: Place,
    kept: Option<Kept>,
}

/// What is handed to the journal before the end is told here.
struct Kept {
    content: Option<TracedContent>,
    /// The failure that became a result.
    returned: Option<(ErrorCode, Option<Stage>)>,
    attempts: usize,
}

impl Kept {
    fn of(payload: &Payload, attempts: usize, tracer: &dyn Tracer) -> Self {
        let Payload { arguments, result, error, .. } = payload;
        let content = tracer.wants_content().then(|| TracedContent {
            arguments: arguments.as_ref().map(begin),
            result: result.as_ref().map(begin),
        });
        Self { content, returned: error.as_ref().map(blamed), attempts }
    }
}

/// The place of a call in a trace, where somebody wants to know of it.
pub(super) fn open(parts: &Parts, call: &Call, call_id: CallId, origin: &Origin) -> Option<Box<OpenTrace>> {
    let tracer = parts.tracer.as_ref()?;
    let place = match origin {
        // A trace has all of a run or nothing of it.
        Origin::Part(part) => below(part.run.place()?.span),
        // It goes on where whoever called went away.
        Origin::Resumed(run) if run.place().is_some() => run.place()?,
        Origin::Outside
        | Origin::Served(_)
        | Origin::Raised(_)
        | Origin::Approved(_)
        | Origin::Resumed(_) => {
            match call.trace_parent {
                // Whoever began the trace has decided.
                Some(parent) => parent.sampled.then(|| below(parent))?,
                None => {
                    let span = SpanContext::of_call(call_id, new_span_id());
                    tracer.samples(span.trace_id).then_some(Place { span, parent: None })?
                }
            }
        }
    };
    let trace = OpenTrace { tracer: Arc::clone(tracer), place, kept: None };
    if let Origin::Resumed(run) = origin {
        trace.is_run(run);
    }
    Some(Box::new(trace))
}

fn below(parent: SpanContext) -> Place {
    Place { span: parent.child(new_span_id()), parent: Some(parent) }
}

fn new_span_id() -> [u8; 8] {
    fastrand::u64(1..).to_be_bytes()
}

impl OpenTrace {
    /// The parts of this run belong to this call.
    pub(super) fn is_run(&self, run: &ActiveRun) {
        run.stands_at(self.place);
    }

    /// Keeps of what is about to be handed to the journal what is told at the end.
    pub(super) fn keep(&mut self, payload: &Payload, attempts: usize) {
        self.kept = Some(Kept::of(payload, attempts, &*self.tracer));
    }
}

impl OpenRecord<'_> {
    /// Tells of the call, once.
    pub(super) fn tell_trace(&mut self, status: &Status) {
        let Some(trace) = self.trace.take() else { return };
        let OpenTrace { tracer, place, kept } = *trace;
        let kept = kept.unwrap_or_else(|| Kept::of(&self.payload, self.attempts.len(), &*tracer));
        let (error, approval_id) = match status {
            Status::Failed(error) => (Some(blamed(error)), self.refused_by),
            Status::Done(_) => (kept.returned, None),
            Status::Pending(pending) => (None, Some(pending.approval_id)),
        };
        let used = self.grant().map(|grant| grant.approval_id);
        tracer.ended(Box::new(TracedCall {
            span: place.span,
            parent: place.parent,
            facts: self.facts.clone(),
            tool: self.tool.clone(),
            status: end_status(status),
            code: error.map(|(code, _)| code),
            failed_at: error.and_then(|(_, stage)| stage),
            gate: self.gate_record(),
            approval_id: approval_id.or(used),
            replay_of: self.replay_of,
            attempts: kept.attempts,
            timings: self.timings_so_far(),
            content: kept.content,
        }));
    }

    /// With the time since the last stage began, where it is not booked yet.
    fn timings_so_far(&self) -> Timings {
        let mut timings = self.timings;
        if !self.stage_was_reached(Stage::Record) {
            timings.add(self.stage, nanos(self.since.elapsed()));
        }
        timings
    }
}

/// The beginning of what was said.
fn begin(said: &RawJson) -> String {
    let said = said.get();
    said[..said.floor_char_boundary(CONTENT_BYTES_MAX)].to_owned()
}

/// What an error is called, and where it happened.
fn blamed(error: &ToolError) -> (ErrorCode, Option<Stage>) {
    (error.code(), error.stage())
}
