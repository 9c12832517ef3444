//! How a call ended.

use std::sync::Arc;

pub use helve_schema::Repair;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::cost::Cost;
use crate::error::ToolError;
use crate::id::{ApprovalId, CallId};
use crate::run::{EffectReport, PartReport};

/// How a call ended.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[non_exhaustive]
pub struct Outcome {
    /// The call; also the id of its record in the journal.
    pub call_id: CallId,
    /// The tool's full name, or what was asked for where no tool was found.
    pub tool: Arc<str>,
    /// What came of it.
    #[serde(flatten)]
    pub status: Status,
    /// What was mended in the arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
    /// How often the tool was started.
    pub attempts: u32,
    /// How long it all took.
    pub duration_us: u64,
    /// The earlier call with the same idempotency key whose outcome this is.
    /// In JSON `replayed` stands next to it.
    #[serde(flatten, serialize_with = "replay")]
    #[schemars(with = "Option<Replay>")]
    pub replay_of: Option<CallId>,
    /// Why the answer is less than was asked for: conditions that did not hold, parts of a composition that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// What it cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Box<Cost>>,
    /// What became of the tool's effects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectReport>,
    /// What became of the parts of a composed call that did not simply succeed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartReport>,
    /// What hooks want the model to know in addition to the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
    /// What hooks want the user to know: a `systemMessage`, and what they told the model unless `suppressOutput` hides
    /// it. Models are not shown these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
    /// The answer in the richer form that the tool attached: an MCP tool result. Not in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Arc<RawValue>>,
}

impl Outcome {
    /// An outcome with nothing mended and nothing started.
    pub fn new(call_id: CallId, tool: impl Into<Arc<str>>, status: Status) -> Self {
        Self {
            call_id,
            tool: tool.into(),
            status,
            repairs: Vec::new(),
            attempts: 0,
            duration_us: 0,
            replay_of: None,
            degraded: Vec::new(),
            cost: None,
            effects: Vec::new(),
            parts: Vec::new(),
            context: Vec::new(),
            messages: Vec::new(),
            content: None,
        }
    }

    /// The result, or why there is none. A pending call counts as an error.
    pub fn into_result(self) -> Result<Value, ToolError> {
        match self.status {
            Status::Done(output) => Ok(output.value),
            Status::Failed(error) => Err(error),
            Status::Pending(pending) => Err(pending.into_error()),
        }
    }

    /// Whether the tool ran and succeeded.
    pub fn is_success(&self) -> bool {
        matches!(&self.status, Status::Done(output) if !output.is_failure)
    }

    /// The error, where the call failed.
    pub fn error(&self) -> Option<&ToolError> {
        match &self.status {
            Status::Failed(error) => Some(error),
            Status::Done(_) | Status::Pending(_) => None,
        }
    }
}

/// Marks an outcome that is not this call's own.
/// An outcome that an earlier call had, as it stands in JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Replay {
    /// Always true: other outcomes leave the field out.
    replayed: bool,
    /// The call that ran.
    replay_of: CallId,
}

fn replay<S: serde::Serializer>(replay_of: &Option<CallId>, serializer: S) -> Result<S::Ok, S::Error> {
    match *replay_of {
        Some(replay_of) => Replay { replayed: true, replay_of }.serialize(serializer),
        None => serializer.serialize_none(),
    }
}

/// What came of a call.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    /// The tool ran and answered.
    Done(Output),
    /// The call was refused, or the tool failed.
    Failed(
        #[serde(with = "as_error")]
        #[schemars(with = "as_error::Field<ToolError>")]
        ToolError,
    ),
    /// A person must decide first.
    Pending(Pending),
}

impl Status {
    /// Whether an idempotency key is free again after this end: nothing was done, so that the same call can run.
    pub fn gives_key_back(&self) -> bool {
        matches!(self, Self::Failed(error) if error.did_nothing())
    }
}

/// Puts the error in its own field, so that `status` and `code` do not mix.
mod as_error {
    use super::{Deserialize, Serialize, ToolError};

    #[derive(Serialize, Deserialize, schemars::JsonSchema)]
    #[schemars(rename = "Failure")]
    pub(super) struct Field<E> {
        /// Why there is no result.
        error: E,
    }

    pub(super) fn serialize<S: serde::Serializer>(
        error: &ToolError,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Field { error }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ToolError, D::Error> {
        Field::deserialize(deserializer).map(|field| field.error)
    }
}

/// A tool's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Output {
    /// What the tool returned, in the form of its output schema.
    #[serde(rename = "result")]
    pub value: Value,
    /// Whether the call counts as failed although there is an answer: an error that the tool's failure mode made a result
    /// of, or what a composition came to without some of its parts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_failure: bool,
}

impl Output {
    /// The answer of a tool that did its work.
    pub fn success(value: Value) -> Self {
        Self { value, is_failure: false }
    }

    /// A failure as an answer.
    pub fn failure(error: &ToolError) -> Self {
        Self { value: json!({ "error": error }), is_failure: true }
    }

    /// The error within an answer that a tool's failure mode made of it.
    pub fn error(&self) -> Option<ToolError> {
        let error = self.is_failure.then(|| self.value.get("error"))??;
        serde_json::from_value(error.clone()).ok()
    }
}

/// A question put to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Pending {
    /// The question's id.
    pub approval_id: ApprovalId,
    /// Why it is asked, one line each.
    pub reasons: Vec<String>,
    /// A digest of tool, arguments and caller: what an approval will be bound to.
    pub binding: String,
}

impl Pending {
    /// The question as an error, for callers that know only results and errors.
    pub fn into_error(self) -> ToolError {
        let message = format!("waiting for approval {}: {}", self.approval_id, self.reasons.join("; "));
        ToolError::new(crate::ErrorCode::PermissionDenied, message)
            .suggest("tell the user that a person must approve this call; do not repeat it meanwhile")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_have_a_stable_shape() {
        let id: CallId = "call_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let done = Outcome::new(id, "add", Status::Done(Output::success(json!(5))));
        assert_eq!(
            serde_json::to_value(&done).unwrap(),
            json!({ "call_id": id, "tool": "add", "status": "done", "result": 5, "attempts": 0, "duration_us": 0 })
        );
        let mut replayed = Outcome::new(id, "add", Status::Done(Output::success(json!(5))));
        replayed.replay_of = Some(id);
        let json = serde_json::to_value(&replayed).unwrap();
        assert_eq!((&json["replayed"], &json["replay_of"]), (&json!(true), &json!(id)));
        let failed = Outcome::new(id, "add", Status::Failed(ToolError::failed("no")));
        let json = serde_json::to_value(&failed).unwrap();
        assert_eq!(json["status"], "failed");
        assert_eq!(json["error"]["code"], "execution_failed");
        for status in [done.status, failed.status] {
            let text = serde_json::to_string(&status).unwrap();
            let back: Status = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&back).unwrap(), text);
        }
    }
}
