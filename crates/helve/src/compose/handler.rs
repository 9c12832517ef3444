//! What runs when a composed tool is called.

use std::sync::Arc;

use helve_core::{BoxFuture, Context, Handler, Implementation, ToolError, boxed};
use serde_json::Value;

use super::map::Mapping;
use super::plan::{Kind, Plan};
use super::run::Run;
use super::{conditional, map, parallel, sequence};

/// Runs a plan. It touches nothing but the context: parts are called through the pipeline.
pub(super) struct Composed {
    pub(super) plan: Arc<Plan>,
    /// Whether running it all again does no more than once.
    pub(super) repeatable: bool,
}

impl Handler for Composed {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let (plan, repeatable) = (Arc::clone(&self.plan), self.repeatable);
        boxed(|| async move {
            let run = Run::new(&context, &arguments, repeatable);
            let output = plan.output.as_ref();
            let answer = match &plan.kind {
                Kind::Sequence(parts) => sequence::run_sequence(&run, parts, output).await,
                Kind::Parallel { parts, concurrency } => {
                    parallel::run_parallel(&run, parts, *concurrency, output).await
                }
                Kind::Conditional { decide, branches, otherwise } => {
                    let otherwise = otherwise.as_deref();
                    conditional::run_conditional(&run, decide.as_ref(), branches, otherwise, output).await
                }
                Kind::Map { part, over, item, concurrency, items_max } => {
                    let (concurrency, items_max) = (*concurrency, *items_max);
                    let mapping = Mapping { part, over, item, concurrency, items_max };
                    map::run_map(&run, &mapping, output).await
                }
            };
            run.tell_shortfall(output.is_none());
            answer
        })
    }

    fn implementation(&self) -> Implementation {
        Implementation::Composition
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> String {
        self.plan.fingerprint.clone()
    }

    fn undoes_on_error(&self) -> bool {
        self.plan.undoes
    }

    fn parts(&self) -> Vec<String> {
        self.plan.tools.clone()
    }
}
