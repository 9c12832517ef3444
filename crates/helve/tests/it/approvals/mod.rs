//! Questions to people: what is asked, who decides, and what runs then. The tool itself is the
//! witness: what matters is what it was given, and how often.

use std::sync::{Arc, Mutex};

mod asking;
mod clock;
mod deciding;
mod fetching;
mod left;
mod repeating;
mod rules;
mod runs;
mod seen;
mod waiting;

use std::time::Duration;

use helve::approval::{Mark, Same};
use helve::approvals::{DecideError, Decider, Decision, Remember, Vouch};
use helve::compose::{self, OnError, Step};
use helve::ports::{Clock, Ledger, Runs};
use helve::record::Entry;
use helve::run::StepKind;
use helve::runs::Resumption;
use helve::{
    Approval, ApprovalId, ApprovalQuery, ApprovalState, BoxFuture, Call, Caller, Context, Handler, Layer,
    Outcome, Pending, Preview, Risk, Runtime, Settings, Status, Tool, ToolBuilder, ToolError, VolatileLedger,
};
use helve_testkit::{Boundary, FaultyLedger, ManualClock};
use serde_json::{Value, json};

use crate::support::code;

/// What a tool was given, each time it ran.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<Value>>>);

impl Witness {
    fn seen(&self) -> Vec<Value> {
        self.0.lock().unwrap().clone()
    }

    fn tool(&self, name: &str) -> ToolBuilder {
        let witness = self.clone();
        Tool::builder(name)
            .description("Sends something to somebody.")
            .input_schema(json!({ "type": "object", "required": ["to"], "properties": {
                "to": { "type": "string" }, "text": { "type": "string" }, "password": { "type": "string" } } }))
            .risk(Risk::High)
            .handler(move |arguments, _| {
                witness.0.lock().unwrap().push(arguments);
                async move { Ok(json!("sent")) }
            })
    }
}

struct Bench {
    runtime: Runtime,
    ledger: Arc<VolatileLedger>,
    clock: Arc<ManualClock>,
    witness: Witness,
}

impl Bench {
    fn new() -> Self {
        Self::with(|tool| tool, |_| {})
    }

    fn with(change: impl Fn(ToolBuilder) -> ToolBuilder, set: impl FnOnce(&mut Settings)) -> Self {
        let (clock, witness) = (Arc::new(ManualClock::default()), Witness::default());
        let ledger = Arc::new(VolatileLedger::new(clock.clone(), Default::default()));
        let mut settings = Settings::default();
        set(&mut settings);
        let runtime = Runtime::builder()
            .ledger(ledger.clone())
            .clock(clock.clone())
            .settings(settings)
            .tool(change(witness.tool("send")))
            .unwrap()
            .build();
        Self { runtime, ledger, clock, witness }
    }

    async fn ask(&self, call: Call) -> Pending {
        let outcome = self.runtime.call(call).await;
        match outcome.status {
            Status::Pending(pending) => pending,
            other => panic!("{other:?}"),
        }
    }

    async fn decide(&self, id: ApprovalId, decision: Decision) -> Result<Approval, DecideError> {
        self.runtime.approvals().decide(id, decision, &ada()).await
    }

    async fn approve(&self, id: ApprovalId) {
        self.decide(id, Decision::approve()).await.unwrap();
    }

    async fn get(&self, id: ApprovalId) -> Approval {
        self.runtime.approvals().get(id).await.unwrap().unwrap()
    }
}

fn ada() -> Decider {
    Decider::vouched("ada", Vouch::LocalUser)
}

fn bot() -> Arc<Caller> {
    Arc::new(Caller::agent("bot").session("s-1"))
}

fn send(to: &str) -> Call {
    Call::new("send", json!({ "to": to, "text": "hi" })).by(bot())
}
