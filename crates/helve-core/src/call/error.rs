//! The one error a call can end in: a stable code, a message that a model can act on, and a
//! private source for the log.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use helve_schema::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tool_code::ToolCode;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $text:literal $kind:ident $retry:ident;)*) => {
        /// What went wrong, in a word that never changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code as it stands in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Whose move it is.
            pub fn kind(self) -> ErrorKind {
                match self { $(Self::$variant => ErrorKind::$kind,)* }
            }

            /// Whether calling again can help: at once after a correction, or later.
            pub fn retryable(self) -> bool {
                match self { $(Self::$variant => codes!(@$retry),)* }
            }
        }
    };
    (@again) => { true };
    (@never) => { false };
}

codes! {
    /// No tool has this name.
    ToolNotFound "tool_not_found" Caller never;
    /// The caller may not use this tool.
    NotAuthorized "not_authorized" Denied never;
    /// The arguments do not fit the input schema.
    ValidationFailed "validation_failed" Caller again;
    /// A hook said no.
    HookDenied "hook_denied" Denied never;
    /// An account that the tool needs is not connected.
    IntegrationMissing "integration_missing" Setup never;
    /// Something that must hold before the tool runs does not.
    PreconditionFailed "precondition_failed" Setup again;
    /// A person said no.
    ApprovalDenied "approval_denied" Denied never;
    /// Nobody answered in time.
    ApprovalExpired "approval_expired" Denied never;
    /// What was approved has changed since; it has to be asked about again.
    ApprovalStale "approval_stale" Denied never;
    /// A rule, a mode or the caller's own decision said no.
    PermissionDenied "permission_denied" Denied never;
    /// The tool did not finish before its deadline.
    Timeout "timeout" Transient again;
    /// The caller took the call back.
    Cancelled "cancelled" Caller never;
    /// Too many calls; later ones may pass.
    RateLimit "rate_limit" Transient again;
    /// A host could not be reached, or the connection broke.
    Network "network" Transient again;
    /// The other side failed.
    ServerError "server_error" Transient again;
    /// Another holds what the tool needs.
    Lock "lock" Transient again;
    /// The tool ran and failed. Journals from before may say `max_retries_exceeded`; a call that was repeated in vain
    /// ends with the last attempt's own code.
    #[serde(alias = "max_retries_exceeded")]
    ExecutionFailed "execution_failed" Tool never;
    /// The program did what its box forbids.
    SandboxViolation "sandbox_violation" Denied never;
    /// The tool's answer does not fit its output schema.
    OutputInvalid "output_invalid" Tool never;
    /// The tool's answer is larger than allowed.
    OutputTooLarge "output_too_large" Tool never;
    /// An effect could not be applied.
    EffectFailed "effect_failed" Tool never;
    /// No branch of a conditional fits.
    NoBranchMatched "no_branch_matched" Tool never;
    /// The MCP server behind the tool is not there.
    McpConnection "mcp_connection" Transient again;
    /// An earlier call with the same idempotency key started and nobody knows how it ended.
    OutcomeUnknown "outcome_unknown" Setup never;
    /// The call cannot be recorded, so it does not run.
    JournalUnavailable "journal_unavailable" Setup again;
    /// The process is about to end, and takes no new calls.
    Stopping "stopping" Transient again;
    /// A defect in Helve.
    Internal "internal" Internal never;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whose move it is after an error. Edges map this to exit codes and HTTP statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The caller's: the request was wrong or taken back.
    Caller,
    /// Nobody's: it is forbidden.
    Denied,
    /// The operator's: something must be set up or repaired.
    Setup,
    /// Time's: the same call may pass later.
    Transient,
    /// The tool author's.
    Tool,
    /// Helve's own defect.
    Internal,
}

/// The one table of stages.
macro_rules! stages {
    ($($(#[$doc:meta])* $variant:ident $text:literal;)*) => {
        /// The pipeline's stages, in order.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Stage {
            $($(#[$doc])* $variant,)*
        }

        impl Stage {
            /// Every stage, in order.
            pub const ALL: [Self; [$(Self::$variant,)*].len()] = [$(Self::$variant,)*];

            /// The stage as it stands in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

stages! {
    /// Name to tool.
    Resolve "resolve";
    /// May this caller use it?
    Authorize "authorize";
    /// Defaults, repairs, validation.
    Prepare "prepare";
    /// Hooks before the tool.
    HooksBefore "hooks_before";
    /// Integrations and preconditions.
    Ready "ready";
    /// Allow, deny or ask.
    Decide "decide";
    /// The tool itself.
    Execute "execute";
    /// Schema and size of the answer.
    CheckOutput "check_output";
    /// What the tool changes.
    Effects "effects";
    /// Hooks after the tool.
    HooksAfter "hooks_after";
    /// Journal and events.
    Record "record";
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a call did not end in a result.
///
/// `Display` prints the message for the model; [`std::error::Error::source`] holds what is for
/// the log alone.
///
/// ```
/// use helve_core::{ErrorCode, ToolError};
/// let error = ToolError::new(ErrorCode::ExecutionFailed, "the printer is out of paper")
///     .suggest("load paper, then call again")
///     .retryable(true);
/// assert_eq!(error.code().as_str(), "execution_failed");
/// assert!(error.is_retryable());
/// ```
#[derive(Clone)]
pub struct ToolError(Box<Detail>);

#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
struct Detail {
    /// What went wrong, in a word that never changes.
    code: ErrorCode,
    /// The tool's own code for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_code: Option<ToolCode>,
    /// Where it went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stage: Option<Stage>,
    /// What went wrong, for the model.
    message: String,
    /// Whether calling again can help.
    retryable: bool,
    /// The tool may have done its work, and nobody knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    may_have_happened: bool,
    /// It is known that the tool did nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    nothing_done: bool,
    /// When calling again can help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// What could be done about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<String>,
    /// What is wrong with which argument.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    field_errors: Vec<FieldError>,
    /// Arguments that would have been right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    example: Option<Value>,
    #[serde(skip)]
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl ToolError {
    /// An error with the code's own idea of whether a retry helps.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Detail {
            code,
            tool_code: None,
            stage: None,
            message: message.into(),
            retryable: code.retryable(),
            may_have_happened: code == ErrorCode::OutcomeUnknown,
            // A limit and a lock turn a call away before it begins.
            nothing_done: matches!(code, ErrorCode::RateLimit | ErrorCode::Lock),
            retry_after_ms: None,
            suggestions: Vec::new(),
            field_errors: Vec::new(),
            example: None,
            source: None,
        }))
    }

    /// The tool ran and failed: what most handlers return.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ExecutionFailed, message)
    }

    /// The tool failed for a reason that has its own name, and calling again can help, at once after a
    /// correction or later: `FILE_EXISTS`. Retry policies can name it.
    ///
    /// ```
    /// use helve_core::ToolError;
    /// let error = ToolError::recoverable("FILE_EXISTS", "`a.txt` already exists").suggest("set overwrite: true");
    /// assert_eq!((error.tool_code(), error.is_retryable()), (Some("FILE_EXISTS"), true));
    /// ```
    pub fn recoverable(code: &str, message: impl Into<String>) -> Self {
        Self::failed(message).retryable(true).with_tool_code(code)
    }

    /// The same where calling again cannot help: `WRITE_FAILED`.
    pub fn unrecoverable(code: &str, message: impl Into<String>) -> Self {
        Self::failed(message).retryable(false).with_tool_code(code)
    }

    /// Adds the tool's own code, such as `SCRAPE_FAILED`: capital letters, digits and `_`, 64 at most. What is no such
    /// code is left out.
    pub fn with_tool_code(mut self, code: &str) -> Self {
        self.0.tool_code = ToolCode::new(code);
        self
    }

    /// Keeps `source` for the log. Models and journals never see it.
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Adds a next step for the model.
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.0.suggestions.push(suggestion.into());
        self
    }

    /// Overrules the code's idea of whether a retry helps.
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.0.retryable = retryable;
        self
    }

    /// Says that the tool may have done its work although no answer came: nobody should call again before they
    /// know. Whatever the code, a retry is ruled out.
    pub fn in_doubt(mut self) -> Self {
        self.0.may_have_happened = true;
        self.0.nothing_done = false;
        self.0.retryable = false;
        self.0.retry_after_ms = None;
        self
    }

    /// Says that the tool did something, or a part of it, and that it is known what.
    pub fn something_done(mut self) -> Self {
        self.0.may_have_happened = false;
        self.0.nothing_done = false;
        self
    }

    /// Says that the tool did nothing: the request never left, or the other side turned it away.
    pub fn nothing_done(mut self) -> Self {
        self.0.nothing_done = true;
        self.0.may_have_happened = false;
        self
    }

    /// Says how long to wait before the next try.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Attaches what is wrong with which argument.
    pub fn with_fields(mut self, field_errors: Vec<FieldError>) -> Self {
        self.0.field_errors = field_errors;
        self
    }

    /// Attaches arguments that would have been right.
    pub fn with_example(mut self, example: Value) -> Self {
        self.0.example = Some(example);
        self
    }

    /// Marks where in the pipeline it happened. The first mark stays.
    pub fn at(mut self, stage: Stage) -> Self {
        self.0.stage.get_or_insert(stage);
        self
    }

    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The tool's own code for it, where it has one.
    pub fn tool_code(&self) -> Option<&str> {
        self.0.tool_code.as_ref().map(ToolCode::as_str)
    }

    /// The same, as a code.
    pub fn own_code(&self) -> Option<&ToolCode> {
        self.0.tool_code.as_ref()
    }

    /// The name of what went wrong, for people and models: the tool's own code, else the stable one.
    pub fn name(&self) -> &str {
        self.tool_code().unwrap_or(self.0.code.as_str())
    }

    /// Whose move it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.code.kind()
    }

    /// Where in the pipeline it happened.
    pub fn stage(&self) -> Option<Stage> {
        self.0.stage
    }

    /// One line for the model.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether calling again can help.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// Whether the tool may have done its work, and nobody knows.
    pub fn may_have_happened(&self) -> bool {
        self.0.may_have_happened
    }

    /// Whether it is known that the tool did nothing.
    pub fn did_nothing(&self) -> bool {
        self.0.nothing_done
    }

    /// How long to wait before the next try, where known.
    pub fn retry_after_hint(&self) -> Option<Duration> {
        self.0.retry_after_ms.map(Duration::from_millis)
    }

    /// Next steps for the model.
    pub fn suggestions(&self) -> &[String] {
        &self.0.suggestions
    }

    /// What is wrong with which argument.
    pub fn field_errors(&self) -> &[FieldError] {
        &self.0.field_errors
    }

    /// Arguments that would have been right, where they could be made.
    pub fn example(&self) -> Option<&Value> {
        self.0.example.as_ref()
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, " (source: {source})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ToolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// An error as it stands in JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Wire<'a> {
    /// Whose move it is.
    kind: ErrorKind,
    #[serde(flatten)]
    detail: &'a Detail,
}

impl schemars::JsonSchema for ToolError {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ToolError".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Wire::json_schema(generator)
    }
}

impl Serialize for ToolError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Wire { kind: self.kind(), detail: &self.0 }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolError {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Box::new(Detail::deserialize(deserializer)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_never_leaves_through_json_or_display() {
        let secret = std::io::Error::other("token=hunter2");
        let error = ToolError::failed("the upload failed").with_source(secret);
        assert!(!serde_json::to_string(&error).unwrap().contains("hunter2"));
        assert!(!error.to_string().contains("hunter2"));
        assert!(format!("{error:?}").contains("hunter2"));
    }

    #[test]
    fn what_may_have_happened_is_not_tried_again_whatever_the_code() {
        for code in ErrorCode::ALL {
            let error = ToolError::new(*code, "no answer").retry_after(Duration::from_secs(1)).in_doubt();
            assert!(!error.is_retryable() && error.retry_after_hint().is_none() && !error.did_nothing());
            let json = serde_json::to_value(&error).unwrap();
            assert_eq!((&json["may_have_happened"], &json["retryable"]), (&true.into(), &false.into()));
            assert!(serde_json::from_value::<ToolError>(json).unwrap().may_have_happened());
        }
        let refused = ToolError::new(ErrorCode::Network, "refused").nothing_done();
        assert!(refused.is_retryable() && refused.did_nothing() && !refused.may_have_happened());
        assert!(!ToolError::new(ErrorCode::Network, "broke off").did_nothing());
    }

    #[test]
    fn a_tool_names_its_own_code_and_what_is_none_is_left_out() {
        let error = ToolError::recoverable("FILE_EXISTS", "there");
        let json = serde_json::to_value(&error).unwrap();
        assert_eq!((&json["code"], &json["tool_code"]), (&"execution_failed".into(), &"FILE_EXISTS".into()));
        assert_eq!((error.name(), error.kind()), ("FILE_EXISTS", ErrorKind::Tool));
        assert_eq!(serde_json::from_value::<ToolError>(json).unwrap().tool_code(), Some("FILE_EXISTS"));
        for wrong in ["", "file_exists", "A B", "1A", "_A", "É", &"A".repeat(65)] {
            let error = ToolError::unrecoverable(wrong, "no");
            assert_eq!((error.tool_code(), error.name()), (None, "execution_failed"), "{wrong}");
        }
    }

    #[test]
    fn a_code_of_older_journals_is_still_read() {
        let code: ErrorCode = serde_json::from_str("\"max_retries_exceeded\"").unwrap();
        assert_eq!(code, ErrorCode::ExecutionFailed);
        assert!(ErrorCode::ALL.iter().all(|code| code.as_str() != "max_retries_exceeded"));
    }

    #[test]
    fn errors_survive_a_round_trip_through_json() {
        let error = ToolError::new(ErrorCode::RateLimit, "slow down")
            .retry_after(Duration::from_secs(2))
            .at(Stage::Execute)
            .at(Stage::Record);
        let back: ToolError = serde_json::from_value(serde_json::to_value(&error).unwrap()).unwrap();
        assert_eq!(back.code(), ErrorCode::RateLimit);
        assert_eq!(back.stage(), Some(Stage::Execute));
        assert_eq!(back.retry_after_hint(), Some(Duration::from_secs(2)));
    }
}
