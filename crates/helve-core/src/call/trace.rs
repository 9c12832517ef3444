//! Where a call stands in a trace, and what the trace says about it when it has ended.
//!
//! A trace is told from the record's own times once the call has ended, so that nothing is opened,
//! kept or allocated while nobody listens.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{ErrorCode, Stage};
use crate::id::{ApprovalId, CallId};
use crate::record::{EndStatus, Facts, GateRecord, Timings};
use crate::tool::Tool;

/// A span, as others name it: W3C's `traceparent`.
///
/// ```
/// use helve_core::trace::SpanContext;
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: SpanContext = text.parse().unwrap();
/// assert!(parent.sampled);
/// assert_eq!(parent.to_string(), text);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace; never all zeros.
    pub trace_id: [u8; 16],
    /// The span; never all zeros.
    pub span_id: [u8; 8],
    /// Whether the span is kept.
    pub sampled: bool,
}

impl SpanContext {
    /// The beginning of a trace that is named after a call.
    pub fn of_call(call_id: CallId, span_id: [u8; 8]) -> Self {
        Self { trace_id: call_id.to_bytes(), span_id, sampled: true }
    }

    /// Another span of the same trace.
    pub fn child(self, span_id: [u8; 8]) -> Self {
        Self { span_id, ..self }
    }
}

/// Text that is no `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a `traceparent`: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>")]
pub struct TraceParentError;

impl FromStr for SpanContext {
    type Err = TraceParentError;

    fn from_str(text: &str) -> Result<Self, TraceParentError> {
        let mut fields = text.split('-');
        let mut next = || fields.next().ok_or(TraceParentError);
        let [version] = hex::<1>(next()?)?;
        let (trace_id, span_id) = (hex::<16>(next()?)?, hex::<8>(next()?)?);
        let [flags] = hex::<1>(next()?)?;
        // Later versions may say more, at the end; 255 is none.
        let has_more = fields.next().is_some();
        let is_whole = version != 0xff && (version > 0 || !has_more);
        if !is_whole || trace_id == [0; 16] || span_id == [0; 8] {
            return Err(TraceParentError);
        }
        Ok(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }
}

/// Lower-case hex digits, as the standard wants them.
fn hex<const N: usize>(text: &str) -> Result<[u8; N], TraceParentError> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(TraceParentError),
    };
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return Err(TraceParentError);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(bytes)
}

impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace = u128::from_be_bytes(self.trace_id);
        let span = u64::from_be_bytes(self.span_id);
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(self.sampled))
    }
}

impl Serialize for SpanContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SpanContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A call that has ended, or waits for a person, as a trace tells it.
#[derive(Debug, Clone)]
pub struct TracedCall {
    /// Its own span.
    pub span: SpanContext,
    /// The span that it belongs to: its run's, or one of the caller.
    pub parent: Option<SpanContext>,
    /// Who called what.
    pub facts: Facts,
    /// The tool, where there is one.
    pub tool: Option<Tool>,
    /// How it ended.
    pub status: EndStatus,
    /// The error's code.
    pub code: Option<ErrorCode>,
    /// Where in the pipeline the error happened.
    pub failed_at: Option<Stage>,
    /// What the gate said, where the call came that far.
    pub gate: Option<GateRecord>,
    /// The question put to a person, or the one whose answer it used.
    pub approval_id: Option<ApprovalId>,
    /// The earlier call whose outcome was returned.
    pub replay_of: Option<CallId>,
    /// How often the tool was started.
    pub attempts: usize,
    /// How long each stage took. Stages follow each other in the order of [`Stage::ALL`], without
    /// gaps, from [`Facts::received_at`] on.
    pub timings: Timings,
    /// What was said, secrets removed; only where it was asked for.
    pub content: Option<TracedContent>,
}

/// What was said in a call, secrets removed.
#[derive(Debug, Clone, Default)]
pub struct TracedContent {
    /// The beginning of the arguments, as the journal has them.
    pub arguments: Option<String>,
    /// The beginning of the result, as the journal has it.
    pub result: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

    #[test]
    fn a_traceparent_is_read_as_the_standard_says() {
        let read: SpanContext = GOOD.parse().unwrap();
        assert_eq!((read.trace_id[0], read.span_id[7], read.sampled), (0x4b, 0xb7, false));
        let later = format!("01{}-more", &GOOD[2..]);
        assert!(later.parse::<SpanContext>().is_ok(), "later versions may say more");
    }

    #[test]
    fn what_is_none_is_refused() {
        let long = "0".repeat(100_000);
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        let more = format!("{GOOD}-more");
        let (upper, none) = (GOOD.to_uppercase(), format!("ff{}", &GOOD[2..]));
        let unicode = GOOD.replacen("4b", "é", 1);
        for text in
            ["", "-", "00", &GOOD[..50], &long, &zero_trace, &zero_span, &more, &upper, &none, &unicode]
        {
            assert!(text.parse::<SpanContext>().is_err(), "{text}");
        }
    }
}
