//! Journal entries as calls leave them.

use std::sync::Arc;

use helve_core::ports::KeyClaim;
use helve_core::record::{
    Attempt, EndStatus, Ending, Entry, Facts, Finished, HandlerEnd, Payload, RawJson, Started, Timings,
};
use helve_core::run::{Part, Step, StepKind};
use helve_core::{CallId, Caller, ErrorCode, Output, Risk, Stage, Status, ToolError};
use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A call to make entries of. Change the fields that matter to a test.
#[derive(Debug, Clone)]
pub struct SampleCall {
    /// What is known from the beginning.
    pub facts: Facts,
    /// What the tool is called with.
    pub arguments: Value,
}

impl SampleCall {
    /// A call of a tool that changes the world, now.
    pub fn new(tool: &str) -> Self {
        Self::at(tool, Timestamp::now())
    }

    /// The same at a given time.
    pub fn at(tool: &str, now: Timestamp) -> Self {
        let facts = Facts {
            call_id: CallId::new(now),
            received_at: now,
            correlation_id: None,
            caller: Arc::new(Caller::agent("assistant").session("s-1")),
            tool: tool.into(),
            resolved: true,
            risk: Some(Risk::Medium),
            changes_world: true,
            idempotency_key: None,
            part: None,
            undo_of: None,
            trace_parent: None,
        };
        Self { facts, arguments: json!({ "to": "ada@example.com", "subject": "the engine" }) }
    }

    /// Sets the arguments.
    pub fn arguments(mut self, arguments: Value) -> Self {
        self.arguments = arguments;
        self
    }

    /// Makes it a part of a run.
    pub fn part_of(mut self, run: &Self, path: &str) -> Self {
        self.facts.part = Some(Part { run: run.id(), path: path.into() });
        self
    }

    /// The call's id.
    pub fn id(&self) -> CallId {
        self.facts.call_id
    }

    /// Its start, to be begun under a key.
    pub fn start(&self) -> Box<Started> {
        Box::new(Started {
            at: self.facts.received_at,
            facts: self.facts.clone(),
            digest: "5a4d".into(),
            arguments: raw(&self.arguments),
            withheld: false,
            grant: None,
        })
    }

    /// Its start as an entry.
    pub fn started(&self) -> Entry {
        Entry::Started(self.start())
    }

    /// A good end.
    pub fn done(&self, result: Value) -> Entry {
        let payload = Payload {
            arguments: Some(raw(&self.arguments)),
            result: Some(raw(&result)),
            ..Payload::default()
        };
        self.finished(EndStatus::Done, None, payload)
    }

    /// A bad end.
    pub fn failed(&self, code: ErrorCode) -> Entry {
        let payload = Payload {
            arguments: Some(raw(&self.arguments)),
            error: Some(ToolError::new(code, "it did not work")),
            ..Payload::default()
        };
        self.finished(EndStatus::Failed, Some(code), payload)
    }

    /// Something that happened in the middle.
    pub fn step(&self, kind: StepKind) -> Box<Step> {
        let run = self.facts.part.as_ref().map_or(self.id(), |part| part.run);
        Box::new(Step { at: self.facts.received_at, call_id: self.id(), run, kind, payload: None })
    }

    fn finished(&self, status: EndStatus, code: Option<ErrorCode>, payload: Payload) -> Entry {
        let mut timings = Timings::default();
        timings.add(Stage::Resolve, 400);
        timings.add(Stage::Prepare, 2_100);
        timings.add(Stage::Execute, 1_250_000);
        let ending = Ending {
            status,
            code,
            tool_code: None,
            stage: code.map(|_| Stage::Execute),
            approval_id: None,
            replay_of: None,
            attempts: vec![Attempt {
                duration_us: 1_250,
                code,
                handler: HandlerEnd::Returned,
                nothing_done: false,
            }],
            timings,
            result_bytes: payload.result.as_ref().map(|result| result.get().len() as u64),
            withheld: false,
            degraded: Vec::new(),
            gate: None,
            cost: None,
            effects: Vec::new(),
        };
        let facts = self.facts.clone();
        Entry::Finished(Box::new(Finished { at: self.facts.received_at, facts, ending, payload }))
    }
}

/// A claim on the key `key` for arguments with the digest `fingerprint`.
pub fn claim(key: u8, fingerprint: u8) -> KeyClaim {
    KeyClaim { scoped_key: [key; 32], fingerprint: [fingerprint; 32], repeatable: false }
}

/// A status to keep for a key.
pub fn done_status(result: Value) -> Arc<Status> {
    Arc::new(Status::Done(Output::success(result)))
}

/// A value as text.
pub fn raw(value: &Value) -> RawJson {
    RawValue::from_string(value.to_string()).expect("a value is valid JSON")
}
