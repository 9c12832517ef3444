//! Errors as the HTTP API tells them: `application/problem+json` (RFC 9457).

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use helve::approvals::DecideError;
use helve::ports::JournalError;
use helve::{CallId, ErrorCode, FieldError, ToolCode, ToolError};
use schemars::JsonSchema;
use serde::Serialize;

use crate::guard::json_response;
use crate::reading::BodyError;

/// When to come back for what cannot be had just now.
pub(crate) const RETRY_AFTER_S: u32 = 5;

/// Why there is no other answer. Boxed: it is rare, and large compared with everything else.
#[derive(Debug, Clone)]
pub(crate) struct Problem(Box<Details>);

/// What is said of a problem.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct Details {
    /// What sort of problem. Always `about:blank`: `code` says more.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What went wrong, for the caller.
    detail: String,
    /// What went wrong, in a word that never changes. Absent where the request did not get as far as
    /// a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<ErrorCode>,
    /// The tool's own code for it, as in `FILE_EXISTS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_code: Option<ToolCode>,
    /// Whether calling again can help.
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
    /// The tool may have done its work, and nobody knows: do not call again before you do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    may_have_happened: bool,
    /// It is known that the tool did nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    nothing_done: bool,
    /// What could be done about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    suggestions: Vec<String>,
    /// What is wrong with which argument: `path`, `expected`, `received`, `message`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    field_errors: Vec<FieldError>,
    /// Arguments that would have been right: what was sent, with what does not fit put right where that can
    /// be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<serde_json::Value>,
    /// Where to learn what became of the call, where that is not known now.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome_at: Option<String>,
    /// This is how an earlier call with the same idempotency key ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    replayed: bool,
    /// The call that it happened in.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<CallId>,
    /// After how many seconds to come back, in the header `Retry-After`.
    #[serde(skip)]
    retry_after_s: Option<u32>,
}

impl Problem {
    /// A problem with a request.
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Details {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            code: None,
            tool_code: None,
            retryable: None,
            may_have_happened: false,
            nothing_done: false,
            suggestions: Vec::new(),
            field_errors: Vec::new(),
            example: None,
            outcome_at: None,
            replayed: false,
            instance: None,
            retry_after_s: None,
        }))
    }

    /// There is no such thing, or it belongs to another: the caller cannot tell which.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such thing here")
    }

    /// The request is wrong.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The same visitor has as much at work as they may: it can be had later.
    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::TOO_MANY_REQUESTS, detail);
        problem.0.retry_after_s = Some(RETRY_AFTER_S);
        problem.0.retryable = Some(true);
        problem
    }

    /// It is not for this visitor.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// The HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What went wrong.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Says what could be done about it.
    pub(crate) fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.0.suggestions.push(suggestion.into());
        self
    }

    /// An error of a call.
    pub(crate) fn of(error: &ToolError, call: Option<CallId>) -> Self {
        let mut problem = Self::new(status_of(error.code()), error.message());
        problem.0.code = Some(error.code());
        problem.0.tool_code = error.own_code().cloned();
        problem.0.retryable = Some(error.is_retryable());
        problem.0.may_have_happened = error.may_have_happened();
        problem.0.nothing_done = error.did_nothing();
        problem.0.suggestions = error.suggestions().to_vec();
        problem.0.field_errors = error.field_errors().to_vec();
        problem.0.example = error.example().cloned();
        problem.0.instance = call;
        problem.0.retry_after_s = retry_after_s(error);
        if error.may_have_happened() {
            problem.0.outcome_at = call.map(|call| format!("/v1/calls/{call}"));
        }
        problem
    }

    /// Says that it is the end of an earlier call.
    pub(crate) fn of_earlier(mut self, earlier: Option<CallId>) -> Self {
        self.0.replayed = earlier.is_some();
        if earlier.is_some() {
            // It has ended, and stays as it ended.
            self.0.retry_after_s = None;
        }
        if let (Some(place), Some(earlier)) = (&mut self.0.outcome_at, earlier) {
            *place = format!("/v1/calls/{earlier}");
        }
        self
    }

    /// Makes the response that reports the problem.
    pub(crate) fn into_response(self) -> Response<Body> {
        let status = self.status();
        let place = self.0.outcome_at.as_deref().and_then(|place| HeaderValue::try_from(place).ok());
        let retry_after = self.0.retry_after_s.map(HeaderValue::from);
        let text = serde_json::to_string(&self.0).unwrap_or_default();
        let mut response = json_response(status, text);
        let media = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, media);
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if let Some(place) = place {
            response.headers_mut().insert(header::LOCATION, place);
            response.extensions_mut().insert(HasBegun);
        }
        response
    }
}

/// Marks a response to a call that has begun: nobody is told to come back and make it again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HasBegun;

impl axum::response::IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        Self::into_response(self)
    }
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Self {
        tracing::error!(%error, "the ledger cannot be used");
        // In the words that a call is refused with: the person who decides can do something about a full disk.
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
        problem.0.code = Some(ErrorCode::JournalUnavailable);
        problem
    }
}

impl From<DecideError> for Problem {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::NotFound(_) => Self::not_found(),
            DecideError::Already(_) => Self::new(StatusCode::CONFLICT, error.to_string()),
            DecideError::OwnCall(_) => Self::forbidden(error.to_string()),
            DecideError::ToolChanged(_) | DecideError::ToolUnknown(_) => {
                Self::new(StatusCode::CONFLICT, error.to_string())
            }
            DecideError::Invalid(error) => Self::of(&error, None),
            DecideError::Journal(error) => error.into(),
            other => Self::new(StatusCode::CONFLICT, other.to_string()),
        }
    }
}

/// After how many whole seconds the same call may pass: when the error says so, and always where there were too many.
fn retry_after_s(error: &ToolError) -> Option<u32> {
    let said = error
        .retry_after_hint()
        .map(|wait| u32::try_from(wait.as_secs_f64().ceil() as u64).unwrap_or(u32::MAX));
    match error.code() {
        _ if !error.is_retryable() => None,
        ErrorCode::RateLimit => Some(said.unwrap_or(RETRY_AFTER_S).max(1)),
        _ => said.map(|seconds| seconds.max(1)),
    }
}

/// The status of a call that ended so. The one place where codes become statuses.
fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::ToolNotFound => StatusCode::NOT_FOUND,
        ErrorCode::ValidationFailed => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::NotAuthorized
        | ErrorCode::HookDenied
        | ErrorCode::ApprovalDenied
        | ErrorCode::ApprovalExpired
        | ErrorCode::PermissionDenied
        | ErrorCode::SandboxViolation => StatusCode::FORBIDDEN,
        ErrorCode::IntegrationMissing | ErrorCode::PreconditionFailed => StatusCode::FAILED_DEPENDENCY,
        ErrorCode::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode::Cancelled | ErrorCode::OutcomeUnknown | ErrorCode::ApprovalStale => StatusCode::CONFLICT,
        ErrorCode::Lock => StatusCode::LOCKED,
        ErrorCode::RateLimit => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Network
        | ErrorCode::ServerError
        | ErrorCode::McpConnection
        | ErrorCode::ExecutionFailed
        | ErrorCode::OutputInvalid
        | ErrorCode::OutputTooLarge
        | ErrorCode::EffectFailed
        | ErrorCode::NoBranchMatched => StatusCode::BAD_GATEWAY,
        ErrorCode::JournalUnavailable | ErrorCode::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
