//! What the journal keeps of a call.
//!
//! An entry has a head, which the hash chain covers and which never changes, and a payload, which
//! the chain covers by a salted digest only, so that it can be erased later.

pub mod memory;
pub mod run;
pub mod session;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::approval::Grant;
use crate::call::Advice;
use crate::caller::Caller;
use crate::cost::Cost;
use crate::definition::Risk;
use crate::error::{ErrorCode, Stage, ToolError};
use crate::gate::Stance;
use crate::id::{ApprovalId, CallId};
use crate::outcome::Repair;
use crate::run::{EffectReport, Part, Step};
use crate::tool_code::ToolCode;
use crate::trace::SpanContext;

/// JSON text that is kept as it is.
pub type RawJson = Box<RawValue>;

/// One line in the journal.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A call that changes the world is about to start.
    Started(Box<Started>),
    /// Something happened in the middle of a run.
    Step(Box<Step>),
    /// A call has ended.
    Finished(Box<Finished>),
}

impl Entry {
    /// The call it is about.
    pub fn call_id(&self) -> CallId {
        match self {
            Self::Started(started) => started.facts.call_id,
            Self::Step(step) => step.call_id,
            Self::Finished(finished) => finished.facts.call_id,
        }
    }

    /// The run that the call is a part of; `None` where it is no part of another.
    pub fn part_of(&self) -> Option<CallId> {
        match self {
            Self::Started(started) => started.facts.part.as_ref().map(|part| part.run),
            Self::Step(step) => (step.run != step.call_id).then_some(step.run),
            Self::Finished(finished) => finished.facts.part.as_ref().map(|part| part.run),
        }
    }

    /// What is known of the call from the beginning. A step does not repeat it.
    pub fn facts(&self) -> Option<&Facts> {
        match self {
            Self::Started(started) => Some(&started.facts),
            Self::Step(_) => None,
            Self::Finished(finished) => Some(&finished.facts),
        }
    }

    /// Something that was done besides calls, to `about`: `keys create`, `session end`. It reads like a
    /// call, so that the audit trail shows it among them. No tool has such a name.
    pub fn of_deed(what: &str, about: String, told: &Value, by: Arc<Caller>, at: Timestamp) -> Self {
        let arguments = serde_json::value::to_raw_value(told).ok();
        Self::Finished(Box::new(Finished {
            at,
            facts: Facts {
                call_id: CallId::new(at),
                received_at: at,
                correlation_id: Some(about),
                caller: by,
                tool: Arc::from(what),
                resolved: false,
                risk: None,
                changes_world: false,
                idempotency_key: None,
                part: None,
                undo_of: None,
                trace_parent: None,
            },
            ending: Ending {
                status: EndStatus::Done,
                code: None,
                tool_code: None,
                stage: None,
                approval_id: None,
                replay_of: None,
                attempts: Vec::new(),
                timings: Timings::default(),
                result_bytes: None,
                withheld: false,
                degraded: Vec::new(),
                effects: Vec::new(),
                gate: None,
                cost: None,
            },
            payload: Payload { arguments, ..Payload::default() },
        }))
    }

    /// When it happened.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Started(started) => started.at,
            Self::Step(step) => step.at,
            Self::Finished(finished) => finished.at,
        }
    }
}

/// What is known of a call from the beginning.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Facts {
    /// The call's id; all its entries carry it.
    pub call_id: CallId,
    /// When it came.
    pub received_at: Timestamp,
    /// Joins it with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Who made the call.
    pub caller: Arc<Caller>,
    /// The tool's full name, or what was asked for where no tool was found.
    pub tool: Arc<str>,
    /// Whether that name is a tool's.
    pub resolved: bool,
    /// The tool's risk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// Whether the tool may change the world.
    pub changes_world: bool,
    /// The caller's key for repeating safely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Arc<str>>,
    /// Where it stands within a bigger call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The finished run that this call undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_of: Option<CallId>,
    /// The span of the caller, so that a run which is resumed stays in their trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub trace_parent: Option<SpanContext>,
}

/// A call that changes the world is about to start.
#[derive(Debug, Clone)]
pub struct Started {
    /// When it was written.
    pub at: Timestamp,
    /// What was known of the call from the beginning.
    pub facts: Facts,
    /// A digest of the tool as it was; see [`Tool::digest`](crate::Tool::digest).
    pub digest: Arc<str>,
    /// With what, secrets removed.
    pub arguments: RawJson,
    /// Whether something of the arguments was removed, so that they cannot be used again.
    pub withheld: bool,
    /// The approval that it uses up. Where that cannot be used, the entry is refused
    /// ([`JournalError::is_spent`](crate::ports::JournalError::is_spent)) and the call does not run.
    pub grant: Option<Grant>,
}

/// A call has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// When it was written.
    pub at: Timestamp,
    /// What was known of the call from the beginning.
    pub facts: Facts,
    /// How the call ended.
    pub ending: Ending,
    /// What was said, secrets removed.
    pub payload: Payload,
}

/// How a call ended: the part of the record that is never erased.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ending {
    /// In a word.
    pub status: EndStatus,
    /// The error's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// The tool's own code for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_code: Option<ToolCode>,
    /// Where in the pipeline the error happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The question put to a person, where it is open or ended with no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// The earlier call whose outcome was returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<CallId>,
    /// How often the tool was started, and how each time ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// How long each stage took.
    #[schemars(with = "std::collections::BTreeMap<Stage, u64>")]
    pub timings: Timings,
    /// Size of the result as JSON; of a result that is too long to be kept, without what escapes add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Whether the payload lacks something of the result: a secret, or all of it for its size.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withheld: bool,
    /// Why the answer is less than was asked for: conditions that did not hold, parts of a composition that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// What became of the tool's effects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectReport>,
    /// What the gate said, where the call came that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateRecord>,
    /// What the call cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Box<Cost>>,
}

impl Ending {
    /// The name of what went wrong: the tool's own code, else the stable one.
    pub fn error_name(&self) -> Option<&str> {
        let stable = self.code.map(ErrorCode::as_str);
        self.tool_code.as_ref().map(ToolCode::as_str).or(stable)
    }
}

/// What the gate said to a call, and by what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GateRecord {
    /// What it said.
    pub said: Stance,
    /// Who decided it; empty where nobody had anything to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<Arc<str>>,
}

/// What one source said to a call, in the journal's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct VoteRecord {
    /// Who: `policy no-mail`, `rule deny mail/*`, `hook 2 (check.sh)`, `risk`, `labels`.
    pub by: Arc<str>,
    /// What it said.
    pub stance: Stance,
    /// Why it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a call ended, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndStatus {
    /// The tool answered.
    Done,
    /// The tool failed, and there is a result all the same: its failure mode made one of that, or it is a composition
    /// that went on without a part.
    Returned,
    /// The tool failed, or the call was wrong.
    Failed,
    /// It was forbidden.
    Denied,
    /// A person is asked.
    Pending,
}

impl EndStatus {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Returned => "returned",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Pending => "pending",
        }
    }
}

/// One start of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Attempt {
    /// How long it took.
    pub duration_us: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// How the handler came to its end.
    pub handler: HandlerEnd,
    /// What it, or the tool that was asked about it, said of a failure: it did nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nothing_done: bool,
}

impl Attempt {
    /// Whether it failed and may have done its work all the same: it was stopped in the middle of that or
    /// crashed, or the other side was asked and did not say.
    pub fn is_in_doubt(&self) -> bool {
        use ErrorCode::{McpConnection, Network, OutcomeUnknown, ServerError, Timeout};
        let broke_off = self.handler != HandlerEnd::Returned;
        let got_no_answer =
            matches!(self.code, Some(Timeout | Network | ServerError | McpConnection | OutcomeUnknown));
        self.code.is_some() && !self.nothing_done && (broke_off || got_no_answer)
    }
}

/// How a handler came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandlerEnd {
    /// The tool returned.
    Returned,
    /// The tool panicked.
    Panicked,
    /// It was stopped at the deadline or by cancellation.
    Stopped,
    /// It could not be stopped and was left behind; it may still be running.
    Abandoned,
}

/// How long each stage took, in nanoseconds. A stage that was not reached is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings([u64; Stage::ALL.len()]);

impl Timings {
    /// Adds time to a stage.
    pub fn add(&mut self, stage: Stage, nanos: u64) {
        // A stage that was reached took some time, however little.
        self.0[stage as usize] += nanos.max(1);
    }

    /// Stages that were reached, with their nanoseconds.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, u64)> + '_ {
        Stage::ALL.into_iter().zip(self.0).filter(|(_, nanos)| *nanos > 0)
    }

    /// All stages together.
    pub fn total_nanos(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Serialize for Timings {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(stage, nanos)| (stage.as_str(), nanos)))
    }
}

impl<'de> Deserialize<'de> for Timings {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = std::collections::HashMap::<Stage, u64>::deserialize(deserializer)?;
        let mut timings = Self::default();
        for (stage, nanos) in map {
            timings.add(stage, nanos);
        }
        Ok(timings)
    }
}

/// A result that was kept. `null` is one too: a run whose part answered it can go on.
fn kept<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

/// What is kept of an attached answer: images and sounds are too large for a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AttachedRecord {
    /// Its size as JSON, as the caller got it.
    pub bytes: u64,
    /// The SHA-256 of the same, as hexadecimal digits.
    pub sha256: String,
}

/// What is kept of arguments that are too long for a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CutRecord {
    /// Their size as JSON, secrets removed.
    pub bytes: u64,
    /// The SHA-256 of the same, as hexadecimal digits.
    pub sha256: String,
    /// The beginning of the arguments.
    pub head: String,
}

impl CutRecord {
    /// Most bytes of the beginning.
    const HEAD_BYTES_MAX: usize = 1_024;

    /// What is kept of a text.
    pub fn of(text: &str) -> Self {
        let end = text.floor_char_boundary(Self::HEAD_BYTES_MAX);
        let (bytes, sha256) = (text.len() as u64, crate::json::sha256_hex(text.as_bytes()));
        Self { bytes, sha256, head: text[..end].to_owned() }
    }
}

/// What was said in a call: the part of the record that can be erased.
#[derive(Debug, Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Payload {
    /// Arguments as the tool got them, or as they came where they were refused. The end of a call leaves out those
    /// that its start has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<RawJson>,
    /// What is kept of them instead, where they are too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutRecord>,
    /// What was mended in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
    /// The result, where it is small enough to keep.
    #[serde(default, deserialize_with = "kept", skip_serializing_if = "Option::is_none")]
    pub result: Option<RawJson>,
    /// What the tool attached to its answer for callers that can show more than JSON values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<AttachedRecord>,
    /// Why the call failed, secrets removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// Why the gate decided as it did: votes with a reason. Journals have them as `voices`.
    #[serde(rename = "voices", default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<VoteRecord>,
    /// What the calling agent decided about its call, how sure it was and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Box<Advice>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_null_is_still_one() {
        let read = |text: &str| serde_json::from_str::<Payload>(text).unwrap().result;
        assert_eq!(read(r#"{"result":null}"#).as_deref().map(RawValue::get), Some("null"));
        assert!(read("{}").is_none());
    }
}
