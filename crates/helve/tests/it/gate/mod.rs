//! The gate. The tool itself is the witness: what counts is whether it ran, and with what.

mod again;
mod labels;
mod permissions;
mod policy;

use std::sync::{Arc, Mutex};

use helve::gate::{Stance, Vote};
use helve::record::{Entry, Finished, GateRecord};
use helve::{
    Annotations, Call, Caller, Category, Facet, Outcome, Risk, Runtime, RuntimeBuilder, Settings, Status,
    Tool, ToolBuilder, VolatileLedger,
};
use serde_json::{Value, json};

/// Which tools ran, and with what.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<(String, Value)>>>);

impl Witness {
    fn ran(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(name, _)| name.clone()).collect()
    }

    fn given(&self) -> Vec<Value> {
        self.0.lock().unwrap().iter().map(|(_, arguments)| arguments.clone()).collect()
    }

    fn tool(&self, name: &str) -> ToolBuilder {
        let (witness, own) = (self.clone(), name.to_owned());
        Tool::builder(name)
            .description("Notes that it ran.")
            .input_schema(json!({ "type": "object", "properties": {
                "path": { "type": "string" }, "to": { "type": "string" }, "password": { "type": "string" } } }))
            .risk(Risk::Low)
            .handler(move |arguments, _| {
                witness.0.lock().unwrap().push((own.clone(), arguments));
                async move { Ok(json!("done")) }
            })
    }
}

/// A runtime with the tools `look` (reads only), `change`, `risky` (high risk), `write` (changes
/// files), and what it kept.
struct Bench {
    runtime: Runtime,
    ledger: Arc<VolatileLedger>,
    witness: Witness,
}

impl Bench {
    fn new(set: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Self {
        Self::with_settings(Settings::default(), set)
    }

    fn with_settings(settings: Settings, set: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Self {
        let (witness, ledger) = (Witness::default(), Arc::new(VolatileLedger::default()));
        let builder = Runtime::builder().ledger(ledger.clone()).settings(settings);
        let builder = set(builder)
            .tool(witness.tool("look").annotations(Annotations::pure()).facets([]))
            .and_then(|builder| builder.tool(witness.tool("change").facets([Facet::Mutates])))
            .and_then(|builder| builder.tool(witness.tool("risky").risk(Risk::High).facets([Facet::Egress])))
            .and_then(|builder| {
                builder.tool(
                    witness.tool("write").category(Category::File).facets([Facet::Mutates]).risk(Risk::High),
                )
            })
            .unwrap();
        Self { runtime: builder.build(), ledger, witness }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.runtime.call(Call::new(tool, arguments).by(bot())).await
    }

    /// What the record of the last call says of the gate.
    fn gate(&self) -> GateRecord {
        self.last().ending.gate.expect("the gate was asked")
    }

    fn last(&self) -> Finished {
        let entries = self.ledger.entries();
        let last = entries.into_iter().rev().find_map(|entry| match entry {
            Entry::Finished(finished) => Some(*finished),
            Entry::Started(_) | Entry::Step(_) => None,
        });
        last.expect("a call has ended")
    }
}

fn bot() -> Caller {
    Caller::agent("bot").session("s-1")
}

/// What became of a call, in a word: `done`, `pending`, or the error's code.
fn word(outcome: &Outcome) -> &'static str {
    match &outcome.status {
        Status::Done(_) => "done",
        Status::Pending(_) => "pending",
        Status::Failed(error) => error.code().as_str(),
    }
}

fn vote(policy: &str, stance: Stance) -> Vote {
    Vote::policy(policy, stance)
}
