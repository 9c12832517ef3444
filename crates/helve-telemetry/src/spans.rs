//! A call as spans: one for the call, and below it one for each stage that it reached.
//!
//! Names are those of OpenTelemetry's conventions for generative AI, and `helve.…` for what these do
//! not know. Nothing that was said in a call is here unless the operator wants it.

use helve_core::record::{EndStatus, GateRecord};
use helve_core::trace::TracedCall;
use helve_core::{ErrorCode, Source, Stage};

use crate::wire::{AnyValue, KeyValue, ListValue, Span, Status, Value, attribute, text};

/// Longest text of an attribute that is not content, in bytes.
const TEXT_BYTES_MAX: usize = 256;
/// Most who are named as having decided.
const VOICES_MAX: usize = 16;

/// The spans of a call: its own first, then its stages in order.
pub(crate) fn of(call: &TracedCall) -> Vec<Span> {
    let stages = call.timings.iter();
    let start = u64::try_from(call.facts.received_at.as_nanosecond()).unwrap_or(0);
    let mut spans = vec![whole(call, start)];
    let mut begins = start;
    for (stage, nanos) in stages {
        let ends = begins.saturating_add(nanos);
        spans.push(part(call, stage, begins, ends));
        begins = ends;
    }
    spans
}

fn whole(call: &TracedCall, start: u64) -> Span {
    let facts = &call.facts;
    // What nobody has could be any text, and is no name for a group of spans.
    let name =
        if facts.resolved { format!("execute_tool {}", facts.tool) } else { "execute_tool".to_owned() };
    Span {
        trace_id: call.span.trace_id.to_vec(),
        span_id: call.span.span_id.to_vec(),
        parent_span_id: call.parent.map(|parent| parent.span_id.to_vec()).unwrap_or_default(),
        name,
        kind: Span::INTERNAL,
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(call.timings.total_nanos()),
        attributes: attributes(call),
        status: call.code.map(|code| failure(code, call.failed_at)),
        flags: Span::SAMPLED,
    }
}

fn part(call: &TracedCall, stage: Stage, begins: u64, ends: u64) -> Span {
    let code = call.code.filter(|_| call.failed_at == Some(stage));
    let mut attributes = vec![text("helve.stage", stage.as_str())];
    attributes.extend(code.map(|code| text("error.type", code.as_str())));
    Span {
        trace_id: call.span.trace_id.to_vec(),
        span_id: fastrand::u64(1..).to_be_bytes().to_vec(),
        parent_span_id: call.span.span_id.to_vec(),
        name: stage.as_str().to_owned(),
        kind: Span::INTERNAL,
        start_time_unix_nano: begins,
        end_time_unix_nano: ends,
        attributes,
        status: code.map(|code| failure(code, None)),
        flags: Span::SAMPLED,
    }
}

/// An error's message may repeat what the tool was given, so its code and place must do.
fn failure(code: ErrorCode, stage: Option<Stage>) -> Status {
    let message = match stage {
        Some(stage) => format!("{code} at {stage}"),
        None => code.to_string(),
    };
    Status { message, code: Status::ERROR }
}

fn attributes(call: &TracedCall) -> Vec<KeyValue> {
    let (facts, caller) = (&call.facts, &*call.facts.caller);
    let mut all = vec![
        text("gen_ai.operation.name", "execute_tool"),
        text("gen_ai.tool.name", short(&facts.tool)),
        text("gen_ai.tool.call.id", facts.call_id.to_string()),
        text("helve.status", call.status.as_str()),
        text("helve.channel", caller.channel.as_str()),
        attribute("helve.attempts", Value::Int(i64::try_from(call.attempts).unwrap_or(i64::MAX))),
    ];
    let mut add = |key: &str, value: Option<String>| all.extend(value.map(|value| text(key, value)));
    add("gen_ai.tool.type", call.tool.as_ref().map(|tool| kind(tool.definition().source).to_owned()));
    add("gen_ai.conversation.id", caller.session.as_deref().map(short));
    add("gen_ai.agent.name", caller.agent.as_deref().map(short));
    add("error.type", call.code.map(|code| code.as_str().to_owned()));
    add("helve.risk", facts.risk.map(|risk| risk.to_string()));
    add("helve.correlation.id", facts.correlation_id.as_deref().map(short));
    add("helve.approval.id", call.approval_id.map(|id| id.to_string()));
    add("helve.replay_of", call.replay_of.map(|id| id.to_string()));
    add("helve.undo_of", facts.undo_of.map(|id| id.to_string()));
    add("helve.run.id", facts.part.as_ref().map(|part| part.run.to_string()));
    add("helve.part", facts.part.as_ref().map(|part| short(&part.path)));
    if let Some(content) = &call.content {
        add("gen_ai.tool.call.arguments", content.arguments.clone());
        add("gen_ai.tool.call.result", content.result.clone());
    }
    all.extend(call.gate.iter().flat_map(gate));
    if call.status == EndStatus::Pending {
        all.push(attribute("helve.waits_for_person", Value::Bool(true)));
    }
    all
}

fn gate(gate: &GateRecord) -> [KeyValue; 2] {
    let by = gate.by.iter().take(VOICES_MAX).map(|by| AnyValue { value: Some(Value::Text(short(by))) });
    let by = Value::List(ListValue { values: by.collect() });
    [text("helve.gate.said", gate.said.as_str()), attribute("helve.gate.by", by)]
}

/// Where a tool runs, in the words of the conventions: with the agent, or behind an interface.
fn kind(source: Source) -> &'static str {
    match source {
        Source::Builtin | Source::Function => "function",
        Source::Mcp | Source::Plugin => "extension",
    }
}

/// The beginning of a text.
fn short(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}
