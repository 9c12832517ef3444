//! Hooks: code that sees what an agent does, and may object.
//!
//! Names and shapes are those of the Claude Agent SDK, so that hooks people already have work here:
//! a [`HookInput`] goes in as JSON, a [`HookOutput`] comes back. Who fires them, and what becomes of
//! several answers, is the runtime's business.

mod event;
mod input;
mod output;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::BoxFuture;
use crate::call::Call;
use crate::outcome::Outcome;

pub use event::{EventError, HookEvent};
pub use input::HookInput;
pub use output::{
    Background, Elicited, HookOutput, HookVerdict, OutputError, PermissionAnswer, PermissionDecision,
    SpecificOutput,
};

/// Something that gets events and may answer.
///
/// Any `Fn(Arc<HookInput>, HookContext) -> Future` is one. It must not block its thread: it runs in
/// the task of the call that it is about. When that call is taken back, or the hook's time is up,
/// its future is dropped.
pub trait Hook: Send + Sync + 'static {
    /// Tells of an event.
    fn fire(
        &self,
        input: Arc<HookInput>,
        context: HookContext,
    ) -> BoxFuture<'_, Result<HookOutput, HookFailure>>;

    /// What people call it, such as its command.
    fn label(&self) -> Cow<'_, str> {
        Cow::Borrowed("code")
    }
}

impl<F, R> Hook for F
where
    F: Fn(Arc<HookInput>, HookContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<HookOutput, HookFailure>> + Send + 'static,
{
    fn fire(
        &self,
        input: Arc<HookInput>,
        context: HookContext,
    ) -> BoxFuture<'_, Result<HookOutput, HookFailure>> {
        Box::pin(self(input, context))
    }
}

/// What a hook can ask of the runtime while it runs. Cheap to clone.
#[derive(Clone)]
pub struct HookContext {
    cancellation: CancellationToken,
    host: Arc<dyn HookHost>,
}

impl HookContext {
    /// A context that ends with `cancellation`.
    pub fn new(cancellation: CancellationToken, host: Arc<dyn HookHost>) -> Self {
        Self { cancellation, host }
    }

    /// Cancelled when what the hook is about was taken back.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Calls a tool through the whole pipeline: as the principal `hook`, whose calls fire no hooks, or
    /// they would go in circles; for an event from outside, as the caller that raised it.
    pub fn call_tool(&self, call: Call) -> BoxFuture<'static, Outcome> {
        Arc::clone(&self.host).call_for_hook(call.cancellation(self.cancellation.clone()))
    }

    /// Lets the rest of a hook run while everything goes on: it has answered, and has no more say. The
    /// rest is dropped when the runtime ends. False: too many run so already, and it was dropped.
    pub fn go_on(&self, rest: BoxFuture<'static, ()>) -> bool {
        Arc::clone(&self.host).go_on_for_hook(rest)
    }
}

/// Runs the calls that hooks make.
pub trait HookHost: Send + Sync + 'static {
    /// Runs a call that a hook makes, whatever caller it names.
    fn call_for_hook(self: Arc<Self>, call: Call) -> BoxFuture<'static, Outcome>;

    /// Runs the rest of a hook in the background. False where there is no room.
    fn go_on_for_hook(self: Arc<Self>, rest: BoxFuture<'static, ()>) -> bool;
}

/// A hook that gave no answer that could be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HookFailure {
    message: String,
}

impl HookFailure {
    /// Says what went wrong, in one line.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// What becomes of a call, or of what else an event is about, when its hook fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// It goes on, as if there were no hook.
    Continue,
    /// It does not happen: a check that breaks denies.
    Block,
}
