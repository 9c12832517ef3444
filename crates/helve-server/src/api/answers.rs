//! `/v1/answers`: a model's message in, the messages that answer it out. One step of an agent's loop.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use helve::formats::{AnswerOptions, Answered, Format, FormatError, ProviderCall, Repeats, UnknownFormat};
use helve::{ApprovalId, CallId, ErrorCode, Outcome, Status, ToolCode, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::calls::{NAME_CHARS_MAX, WAIT_MAX, check_names, in_session};
use super::extract::{Calling, Json, Traced};
use crate::problem::Problem;
use crate::state::ServerState;
use crate::visitor::Pass;

/// Most messages at work at a time, of all callers and of each. A message is at work until its calls have ended,
/// also where its loop hung up.
pub(super) const AT_WORK_MAX: usize = 256;
pub(super) const OWN_AT_WORK_MAX: usize = 16;

/// A model's message.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerRequest {
    /// The provider's format. Absent: told by the message, where only one fits.
    #[schemars(extend("enum" = [
        "anthropic", "openai", "openai-responses", "openai-chat", "gemini", "mcp", "llm", null,
    ]))]
    format: Option<String>,
    /// What the model answered, as its provider returned it: the whole response, its message, or the calls
    /// in it.
    #[schemars(extend("type" = ["object", "array"]))]
    message: Value,
    /// The session that the calls belong to.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    session: Option<String>,
    /// The loop of that session.
    #[serde(rename = "loop")]
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    loop_id: Option<String>,
    /// Names this turn, where the provider gives calls no ids or uses the same ids again. A call never runs
    /// twice in a turn.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    idempotency_key: Option<String>,
    /// How long to wait for people, where some are asked; at most ten minutes, for all calls together.
    /// Absent: as the server is set up.
    wait_ms: Option<u64>,
}

/// What became of a model's message.
#[derive(Serialize, JsonSchema)]
pub(super) struct AnswerReply {
    /// The format of the message, and of those that answer it.
    format: &'static str,
    /// Whether the message held no calls: the loop is over.
    done: bool,
    /// What to append to the conversation, in the provider's format. Every call is answered: what failed or
    /// was denied says so, and a call that waits for a person says that.
    messages: Vec<Value>,
    /// What became of each call, in the message's order.
    calls: Vec<AnsweredCall>,
    /// The calls that wait for a person. Post the same message again for what became of them.
    pending: Vec<WaitingCall>,
}

/// What became of one call of a message.
#[derive(Serialize, JsonSchema)]
struct AnsweredCall {
    /// The id that the provider gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_id: Option<String>,
    /// The id that it is recorded by.
    call_id: CallId,
    /// The full name of the tool.
    tool: Arc<str>,
    /// Whether it ran.
    status: AnsweredStatus,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<ErrorCode>,
    /// The tool's own code for that, as in `FILE_EXISTS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_code: Option<ToolCode>,
    /// The question to a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<ApprovalId>,
    /// It ran before, when the same message was posted; this is how that ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
}

/// How a call of a message stands.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AnsweredStatus {
    /// It ran and succeeded.
    Done,
    /// It failed, or was denied.
    Failed,
    /// A person is asked.
    Pending,
}

/// A call that waits for a person.
#[derive(Serialize, JsonSchema)]
struct WaitingCall {
    /// The id that the provider gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_id: Option<String>,
    /// The approval that it waits for.
    approval_id: ApprovalId,
    /// The full name of the tool.
    tool: Arc<str>,
    /// Why a person is asked.
    reasons: Vec<String>,
    /// Where the call's owner sees how it stands.
    look_at: String,
    /// The page on which people decide. It asks for a sign-in: a caller decides nothing.
    decide_at: String,
}

pub(super) async fn answer(
    State(server): State<Arc<ServerState>>,
    Calling(caller): Calling,
    Extension(pass): Extension<Pass>,
    Traced(parent): Traced,
    Json(request): Json<AnswerRequest>,
) -> Result<Json<AnswerReply>, Problem> {
    let names = [
        ("session", &request.session),
        ("loop", &request.loop_id),
        ("idempotency_key", &request.idempotency_key),
    ];
    check_names(&names)?;
    let format = format_of(request.format.as_deref(), &request.message)?;
    let caller = in_session(&caller, request.session, request.loop_id);
    let mut options = AnswerOptions::default();
    options.repeats = Repeats::Once { turn: request.idempotency_key };
    options.approval_wait = request.wait_ms.map(|wait| Duration::from_millis(wait).min(WAIT_MAX));
    options.trace_parent = parent;
    let api = server.api()?;
    let runtime = api.runtime.clone();
    let seat = api.answering.take(&caller).ok_or_else(|| {
        Problem::busy(format!(
            "{OWN_AT_WORK_MAX} of your messages are at work, or {AT_WORK_MAX} of all callers"
        ))
        .suggest("post this one again once one of them has been answered")
    })?;
    let message = request.message;
    let server = Arc::clone(&server);
    // To its end, also where the loop breaks off: it posts the message again and hears how each call went. But
    // not beyond the key that it came with: nothing more begins, and what runs is cancelled.
    let answering = async move {
        let _seat = seat;
        tokio::select! {
            biased;
            () = server.guard.ended(&pass) => None,
            answered = runtime.answer_with(format, &message, caller, options) => Some(answered),
        }
    };
    match tokio::spawn(answering).await {
        Ok(Some(answered)) => Ok(Json(AnswerReply::new(format, answered?))),
        Ok(None) => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "the key or token of this message was taken back or its time is over; what ran was cancelled",
        )),
        Err(_) => Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "it broke off; post the same message again for what became of its calls",
        )),
    }
}

/// The format that is named, or the only one that fits.
fn format_of(named: Option<&str>, message: &Value) -> Result<Format, Problem> {
    match named {
        Some("openai-responses") => Ok(Format::OpenAi),
        Some(name) => name.parse().map_err(|error: UnknownFormat| Problem::bad(error.to_string())),
        None => Format::detect(message).ok_or_else(|| {
            let formats = Format::ALL.map(Format::as_str).join("`, `");
            Problem::bad(format!(
                "the message fits no provider's format, or several; name one as `format`: `{formats}`"
            ))
        }),
    }
}

impl AnswerReply {
    fn new(format: Format, answered: Answered) -> Self {
        let Answered { messages, calls, .. } = answered;
        let pending = calls.iter().filter_map(|(call, outcome)| WaitingCall::of(call, outcome)).collect();
        let calls: Vec<_> =
            calls.into_iter().map(|(call, outcome)| AnsweredCall::new(call, &outcome)).collect();
        Self { format: format.as_str(), done: calls.is_empty(), messages, calls, pending }
    }
}

impl AnsweredCall {
    fn new(call: ProviderCall, outcome: &Outcome) -> Self {
        let (status, error, approval_id) = match &outcome.status {
            Status::Done(output) if !output.is_failure => (AnsweredStatus::Done, None, None),
            Status::Done(output) => (AnsweredStatus::Failed, output.error(), None),
            Status::Failed(error) => (AnsweredStatus::Failed, Some(error.clone()), None),
            Status::Pending(pending) => (AnsweredStatus::Pending, None, Some(pending.approval_id)),
        };
        let (code, tool_code) =
            (error.as_ref().map(ToolError::code), error.as_ref().and_then(ToolError::own_code));
        Self {
            provider_id: call.id,
            call_id: outcome.call_id,
            tool: Arc::clone(&outcome.tool),
            status,
            code,
            tool_code: tool_code.cloned(),
            approval_id,
            replayed: outcome.replay_of.is_some(),
        }
    }
}

impl WaitingCall {
    fn of(call: &ProviderCall, outcome: &Outcome) -> Option<Self> {
        let Status::Pending(pending) = &outcome.status else { return None };
        let id = pending.approval_id;
        Some(Self {
            provider_id: call.id.clone(),
            approval_id: id,
            tool: Arc::clone(&outcome.tool),
            reasons: pending.reasons.clone(),
            look_at: format!("/v1/calls/{id}"),
            decide_at: format!("/approvals/{id}"),
        })
    }
}

impl From<FormatError> for Problem {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::TooLarge { .. } | FormatError::TooMany { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
            }
            other => Self::bad(other.to_string()),
        }
    }
}
