//! Runs: parts, effects, undo, and resuming what was cut short.

mod crashing;
mod doubt;
mod effects;
mod stopping;
mod takeover;
mod undoing;

use std::sync::{Arc, Mutex};

use helve::compose::{self, OnError, Step};
use helve::effect::{Change, Effect, MemoryOperation, StateOperation, TellOn};
use helve::memory::{MemoryPlace, MemoryScope};
use helve::ports::{Ledger, Memory, Runs};
use helve::run::{EffectState, Finding, OnCrash, PartState, StepKind, Undo};
use helve::runs::{Resumption, Settlement};
use helve::template::Template;
use helve::{Call, CallId, Caller, Outcome, Runtime, Settings, Tool, ToolBuilder, ToolError, VolatileLedger};
use helve_testkit::{Boundary, FaultyLedger};
use serde_json::{Value, json};

use crate::support::code;

/// The world: what was done to it, in order.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<String>>>);

impl World {
    fn done(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self, what: &str) -> usize {
        self.done().iter().filter(|done| *done == what).count()
    }

    /// A tool that does something, and another one that undoes it.
    fn doable(&self, name: &'static str) -> [ToolBuilder; 2] {
        let undo = format!("un{name}");
        let doing = self.act(name).undo(Undo::Tool {
            tool: undo.clone(),
            arguments: Template::parse(json!({ "what": "{{ result.did }}" })).unwrap(),
        });
        [doing, self.act(&undo)]
    }

    fn act(&self, name: &str) -> ToolBuilder {
        let (world, did) = (self.clone(), name.to_owned());
        Tool::builder(name)
            .description("Does something to the world.")
            .input_schema(json!({ "type": "object" }))
            .handler(move |_, _| {
                world.0.lock().unwrap().push(did.clone());
                let did = did.clone();
                async move { Ok(json!({ "did": did })) }
            })
    }
}

fn failing(name: &str) -> ToolBuilder {
    Tool::builder(name)
        .description("Fails.")
        .input_schema(json!({ "type": "object" }))
        .handler(|_, _| async { Err(ToolError::failed("it is broken")) })
}

fn runtime(
    ledger: Arc<dyn Ledger>,
    tools: impl IntoIterator<Item = ToolBuilder>,
    settings: Settings,
) -> Runtime {
    let mut builder = Runtime::builder().ledger(ledger).settings(settings);
    for tool in tools {
        builder = builder.tool(tool).unwrap();
    }
    builder.build()
}

fn compose(runtime: &Runtime, tool: Tool) {
    runtime.registry().register(helve::Layer::Project, tool).unwrap();
}

fn sequence(runtime: &Runtime, name: &str, steps: &[&str], policy: OnError) {
    let steps = steps.iter().map(|tool| Step::of(*tool).arguments(json!({})));
    let composed = steps.fold(compose::sequence(name), |composed, step| composed.step(step));
    let tool = composed.description("A sequence.").on_error(policy).build(runtime.registry()).unwrap();
    compose(runtime, tool);
}

fn states(outcome: &Outcome) -> Vec<(&str, PartState)> {
    outcome.parts.iter().map(|part| (&*part.path, part.state)).collect()
}

fn count_up(reversible: bool) -> Effect {
    let change = Change::StateChange {
        state: Template::literal(json!("orders")),
        change: StateOperation::Increment,
        value: None,
        scope: MemoryScope::ShortTerm,
    };
    let effect = Effect::new("counts orders", change);
    if reversible { effect.reversible() } else { effect }
}

fn cascade(tool: &str) -> Effect {
    let change = Change::Cascade { tool: tool.to_owned(), arguments: Template::default() };
    Effect::new(format!("calls {tool}"), change).reversible()
}

async fn orders(ledger: &dyn Memory) -> Value {
    let place = MemoryPlace::of(&Caller::local(), MemoryScope::ShortTerm, "orders");
    ledger.read(place).await.unwrap().map_or(Value::Null, |found| found.value)
}
