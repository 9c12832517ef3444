//! Helve's vocabulary: what a tool, a call, an outcome and an error are, and the ports through
//! which the rest of the system reaches the world.
//!
//! This crate knows no async runtime, no SQL, no HTTP and no processes. It rarely changes.
//!
//! - [`tool`]: what a tool says of itself, and what runs;
//! - [`call`]: one request, who makes it, and how it ends;
//! - [`gate`]: who has a say in it, and what a person is asked;
//! - [`record`]: what is kept: entries, runs, memory, sessions;
//! - [`identity`]: who comes in; [`ports`]: the ways out;
//! - machinery for JSON, schemas and expressions is `helve-schema`'s, and is here under its names.
//!
//! Reading order: a [`Definition`] and a [`Handler`] make a [`Tool`]; a [`Call`] by a [`Caller`]
//! ends in an [`Outcome`], which may hold a [`ToolError`]; every call leaves a [`record`] in the
//! [`Journal`](ports::Journal).

pub mod hidden;
pub mod id;
pub mod name;
pub mod pattern;

pub mod tool;

pub mod call;

pub mod gate;

pub mod record;

pub mod identity;

pub mod ports;

// The words of the domain stand at the root too, whatever folder they are in.
pub use call::{caller, context, error, event, outcome, tool_code, trace};
pub use gate::{approval, hook, label, limit, permission};
pub use identity::principal;
pub use record::{memory, run, session};
pub use tool::{builder, cost, definition, effect, parameter, precondition, preview, retry};

pub use helve_schema::{expression, json, regexp, schema, secret, template};

pub use approval::{Approval, ApprovalQuery, ApprovalState, Approved};
pub use builder::ToolBuilder;
pub use call::{Advice, AdvisedAction, Call};
pub use caller::{Access, Caller, Channel, PrincipalKind, SessionKind};
pub use context::{Context, ContextParts, Shortfall};
pub use definition::{
    Annotations, Assumed, Category, Definition, DefinitionError, Example, Facet, FailureMode, Risk, SendsTo,
    Source,
};
pub use error::{ErrorCode, ErrorKind, Stage, ToolError};
pub use event::Event;
pub use gate::{Action, PolicyRequest, PolicyResource, Stance, Vote, VoteSource};
pub use helve_schema::{FieldError, Problem, Repair, Schema};
pub use id::{ApprovalId, CallId, KeyId, RuleId};
pub use identity::{Key, KeyText, Purpose};
pub use label::{Label, LabelSet, Reads, Taint, TellsReads};
pub use name::{Layer, NameError, ToolName};
pub use outcome::{Outcome, Output, Pending, Status};
pub use parameter::{Parameter, ParameterType};
pub use preview::Preview;
pub use tool::{Handler, Implementation, RetryIf, Spellings, Tool};
pub use tool_code::{CodeName, ToolCode, UnknownCode};

/// A boxed future: what our object-safe async ports return.
///
/// An alias instead of `async_trait`, which costs build time on the traits used most.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes a future in its place on the heap. `Box::pin` makes it first and moves it there, which costs where it is
/// large and often made.
#[inline]
pub fn boxed<'a, F: Future + Send + 'a>(make: impl FnOnce() -> F) -> BoxFuture<'a, F::Output> {
    let place = Box::<F>::new_uninit();
    let future: Box<F> = Box::write(place, make());
    Box::into_pin(future)
}
