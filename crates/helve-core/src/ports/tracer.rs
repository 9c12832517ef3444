//! Where calls are told as traces.

use crate::BoxFuture;
use crate::trace::TracedCall;

/// Where calls are told as traces. Nothing here may wait, and nothing that goes wrong here is any
/// business of the call.
pub trait Tracer: Send + Sync + 'static {
    /// Whether the calls of a trace that begins here are told.
    fn samples(&self, trace_id: [u8; 16]) -> bool;

    /// Whether arguments and results are wanted, without their secrets.
    fn wants_content(&self) -> bool;

    /// A call has ended.
    fn ended(&self, call: Box<TracedCall>);

    /// How many calls were not told, because more came than could leave.
    fn dropped(&self) -> u64;

    /// Waits until everything told so far has left, or cannot leave.
    fn flush(&self) -> BoxFuture<'_, ()>;
}
