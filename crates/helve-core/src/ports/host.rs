//! What a running tool can ask of the runtime that runs it.

use std::any::Any;
use std::sync::Arc;

use crate::BoxFuture;
use crate::call::Call;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::ports::Memory;
use crate::run::Progress;

/// The runtime as a running tool sees it, through its [`Context`].
pub trait ToolHost: Any + Send + Sync {
    /// Calls another tool as the part `step` of the running call, through the whole pipeline and
    /// as the same caller. A part that had finished before its run was cut short is not run
    /// again; its recorded outcome is returned.
    fn call_part(
        self: Arc<Self>,
        context: &Context,
        step: Arc<str>,
        call: Box<Call>,
    ) -> BoxFuture<'static, Outcome>;

    /// Where memory is kept.
    fn memory(&self) -> &dyn Memory;

    /// Whether anybody listens how far the running call has come.
    fn is_heard(&self, context: &Context) -> bool;

    /// Tells the listeners how far the running call has come.
    fn report(&self, context: &Context, progress: Progress);
}
