//! The call as a trace tells it: decided when the record opens, told when it is closed.
//!
//! Not spans of `tracing`: the record has the times of every stage anyway, so that a call which
//! is not traced pays for one look at an `Option`, and a traced one is reported exactly.

use std::sync::Arc;

use helve_core::ports::Tracer;
use helve_core::record::RawJson;
use helve_core::trace::{SpanContext, TracedCall, TracedContent};
use helve_core::{Call, ErrorCode, Stage, Status, ToolError};

use super::super::origin::Origin;
use super::close::end_status;
use super::{CallRecorder, Redacted, Subject};
use crate::runs::{ActiveRun, Place};

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

/// What is recorded of a call, as far as a trace tells it.
#[derive(Clone, Copy)]
struct Recorded<'r> {
    arguments: Option<&'r RawJson>,
    result: Option<&'r RawJson>,
    /// The failure that became a result.
    returned: Option<&'r ToolError>,
    attempts: usize,
}

impl Kept {
    fn of(recorded: Recorded<'_>, tracer: &dyn Tracer) -> Self {
        let content = tracer.wants_content().then(|| TracedContent {
            arguments: recorded.arguments.map(begin),
            result: recorded.result.map(begin),
        });
        Self { content, returned: recorded.returned.map(blamed), attempts: recorded.attempts }
    }
}

/// The place of a call in a trace, where calls are traced.
pub(super) fn open(
    tracer: Option<&Arc<dyn Tracer>>,
    call: &Call,
    subject: &Subject<'_>,
) -> Option<Box<OpenTrace>> {
    let tracer = tracer?;
    let origin = subject.origin();
    let place = match origin {
        // A trace has all of a run or nothing of it.
        Origin::Part(part) => below(part.run.place()?.span),
        // It goes on where the caller went away.
        Origin::Resumed(run) if run.place().is_some() => run.place()?,
        Origin::Outside(_)
        | Origin::Served(_)
        | Origin::Raised(_)
        | Origin::Approved(_)
        | Origin::Resumed(_) => {
            match call.trace_parent {
                // The beginner of the trace has decided.
                Some(parent) => parent.sampled.then(|| below(parent))?,
                None => {
                    let span = SpanContext::of_call(subject.call_id(), new_span_id());
                    tracer.samples(span.trace_id).then_some(Place { span, parent: None })?
                }
            }
        }
    };
    let trace = OpenTrace { tracer: Arc::clone(tracer), place, kept: None };
    if let Origin::Resumed(run) = origin {
        trace.attach_run(run);
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
    pub(super) fn attach_run(&self, run: &ActiveRun) {
        run.set_place(self.place);
    }
}

impl CallRecorder<'_> {
    /// Keeps of what is about to be handed to the journal what is told at the end.
    pub(super) fn keep_for_trace(&mut self) {
        let recorded = Recorded {
            arguments: self.arguments.shown.as_ref().map(Redacted::get),
            result: self.result.shown.as_ref().map(Redacted::get),
            returned: self.result.returned.as_ref().map(Redacted::get),
            attempts: self.work.attempts.len(),
        };
        if let Some(trace) = &mut self.trace {
            trace.kept = Some(Kept::of(recorded, &*trace.tracer));
        }
    }

    /// Tells of the call, once.
    pub(super) fn tell_trace(&mut self, status: &Status) {
        if self.trace.as_ref().is_some_and(|trace| trace.kept.is_none()) {
            self.keep_for_trace();
        }
        let Some(trace) = self.trace.take() else { return };
        let OpenTrace { tracer, place, kept: Some(kept) } = *trace else { return };
        let (error, approval_id) = match status {
            Status::Failed(error) => (Some(blamed(error)), self.gate.refused_by),
            Status::Done(_) => (kept.returned, None),
            Status::Pending(pending) => (None, Some(pending.approval_id)),
        };
        let used = self.gate.grant().map(|grant| grant.approval_id);
        tracer.ended(Box::new(TracedCall {
            span: place.span,
            parent: place.parent,
            facts: self.subject.facts.clone(),
            tool: self.subject.tool().cloned(),
            status: end_status(status),
            code: error.map(|(code, _)| code),
            failed_at: error.and_then(|(_, stage)| stage),
            gate: self.gate_record(),
            approval_id: approval_id.or(used),
            replay_of: self.work.replay_of,
            attempts: kept.attempts,
            timings: self.stopwatch.timings_so_far(),
            content: kept.content,
        }));
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
