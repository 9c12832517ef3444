//! Helve's vocabulary: what a tool, a call, an outcome and an error are, and the ports through
//! which the rest of the system reaches the world.
//!
//! This crate knows no async runtime, no SQL, no HTTP and no processes. It rarely changes.
//!
//! Reading order: a [`Definition`] and a [`Handler`] make a [`Tool`]; a [`Call`] by a [`Caller`]
//! ends in an [`Outcome`], which may hold a [`ToolError`]; every call leaves a [`record`] in the
//! [`Journal`](ports::Journal).

pub mod name;
pub mod pattern;

mod beside;
pub mod cost;
pub mod definition;
pub mod effect;
pub mod limit;
pub mod precondition;
pub mod retry;

pub mod expression;
pub mod hidden;
pub mod json;
pub mod regexp;
pub mod schema;
mod slices;
pub mod template;
mod words;

pub mod builder;
pub mod context;
mod function;
mod looks_at;
pub mod parameter;
pub mod tool;

pub mod approval;
pub mod call;
pub mod caller;
pub mod error;
pub mod gate;
pub mod hook;
pub mod label;
pub mod outcome;
pub mod permission;
pub mod run;

pub mod event;
pub mod id;
pub mod identity;
pub mod memory;
pub mod ports;
pub mod principal;
pub mod record;
pub mod secret;
pub mod session;
pub mod trace;

pub use approval::{Approval, ApprovalQuery, ApprovalState};
pub use builder::ToolBuilder;
pub use call::{Advice, AdvisedAction, Call};
pub use caller::{Access, Caller, Channel, PrincipalKind, SessionKind};
pub use context::{Context, ContextParts, Shortfall};
pub use definition::{
    Annotations, Assumed, Category, Definition, DefinitionError, Example, Facet, FailureMode, Problem, Risk,
    SendsTo, Source,
};
pub use error::{ErrorCode, ErrorKind, FieldError, Stage, ToolCode, ToolError};
pub use event::Event;
pub use gate::{Action, PolicyRequest, PolicyResource, Speaker, Stance, Voice};
pub use id::{ApprovalId, CallId, KeyId, RuleId};
pub use identity::{Key, KeyText, Purpose};
pub use label::{Label, LabelSet, Reads, Taint, TellsReads};
pub use name::{Layer, NameError, ToolName};
pub use outcome::{Outcome, Output, Pending, Repair, Status};
pub use parameter::{Parameter, ParameterType};
pub use schema::Schema;
pub use tool::{Handler, Implementation, RetryIf, Spellings, Tool};

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
