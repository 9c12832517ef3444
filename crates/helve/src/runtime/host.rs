//! The runtime as a running tool sees it.

use std::sync::Arc;

use helve_core::event::EventKind;
use helve_core::hook::HookHost;
use helve_core::ports::{Memory, ToolHost};
use helve_core::run::Progress;
use helve_core::{BoxFuture, Call, Context, Outcome};

use super::Engine;
use crate::pipeline::{self, Origin};
use crate::runs::{ActiveRun, DuePart, FollowUp, part_of};

impl HookHost for Engine {
    fn call_for_hook(self: Arc<Self>, call: Call) -> BoxFuture<'static, Outcome> {
        let call = call.by(Arc::clone(self.hooks.caller()));
        Box::pin(async move { pipeline::run_call(&self, Box::new(call), Origin::Outside(None)).await })
    }

    fn go_on_for_hook(self: Arc<Self>, rest: BoxFuture<'static, ()>) -> bool {
        self.hooks.go_on(self.hooks.background(), rest)
    }
}

impl ToolHost for Engine {
    fn call_part(
        self: Arc<Self>,
        context: &Context,
        step: Arc<str>,
        call: Box<Call>,
    ) -> BoxFuture<'static, Outcome> {
        let run = self.runs.get(context.run());
        part_of(self, run, context, step, call, FollowUp::Unknown).run_apart()
    }

    fn memory(&self) -> &dyn Memory {
        &self.memory
    }

    fn is_heard(&self, context: &Context) -> bool {
        context.client().is_some() || self.registry.bus().is_heard()
    }

    fn report(&self, context: &Context, progress: Progress) {
        if !self.is_heard(context) {
            return;
        }
        let call_id = context.run();
        let progress = match (self.runs.get(call_id), context.part()) {
            (Some(run), part) => {
                let path = part.map(|part| Arc::clone(&part.path)).unwrap_or_default();
                run.with_progress(|tree| tree.report(&path, progress))
            }
            (None, _) => progress,
        };
        if let Some(client) = context.client() {
            client.progress(&progress);
        }
        self.registry.bus().publish_of(context.caller(), || EventKind::Progress { call_id, progress });
    }
}

/// The runtime as a composed tool sees it, which knows its run and need not look for it at each part.
pub(crate) struct ComposedHost {
    engine: Arc<Engine>,
    run: Arc<ActiveRun>,
}

impl ComposedHost {
    pub(crate) fn new(engine: &Arc<Engine>, run: &Arc<ActiveRun>) -> Self {
        Self { engine: Arc::clone(engine), run: Arc::clone(run) }
    }

    /// That of a composed tool's own context. A tool that is tried out without a runtime has another.
    pub(crate) fn of(context: &Context) -> Option<&Self> {
        context.host_as()
    }

    /// A tool is to be called as the part `step`.
    pub(crate) fn part(&self, context: &Context, step: Arc<str>, call: Box<Call>) -> DuePart {
        let run = Some(Arc::clone(&self.run));
        part_of(Arc::clone(&self.engine), run, context, step, call, FollowUp::AtOnce)
    }
}

impl ToolHost for ComposedHost {
    fn call_part(
        self: Arc<Self>,
        context: &Context,
        step: Arc<str>,
        call: Box<Call>,
    ) -> BoxFuture<'static, Outcome> {
        self.part(context, step, call).run_apart()
    }

    fn memory(&self) -> &dyn Memory {
        &self.engine.memory
    }

    fn is_heard(&self, context: &Context) -> bool {
        self.engine.is_heard(context)
    }

    fn report(&self, context: &Context, progress: Progress) {
        self.engine.report(context, progress);
    }
}
