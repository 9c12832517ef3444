//! Exit codes. They mean something: scripts and agents branch on them.

use helve::{ErrorCode, Outcome, Status};

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command did what it was asked to.
    Done,
    /// The tool failed, or a check found something.
    Failed,
    /// Wrong use: bad arguments, an unknown tool, a broken configuration.
    Usage,
    /// A person must approve first.
    Waiting,
    /// It is forbidden.
    Denied,
    /// As the program that was run.
    Program(u8),
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Waiting => 3,
            Exit::Denied => 4,
            Exit::Program(code) => code,
        })
    }
}

impl From<&Outcome> for Exit {
    fn from(outcome: &Outcome) -> Self {
        match &outcome.status {
            Status::Done(output) if output.is_failure => Self::Failed,
            Status::Done(_) => Self::Done,
            Status::Pending(_) => Self::Waiting,
            Status::Failed(error) => match error.code() {
                ErrorCode::ToolNotFound | ErrorCode::ValidationFailed => Self::Usage,
                ErrorCode::NotAuthorized
                | ErrorCode::HookDenied
                | ErrorCode::ApprovalDenied
                | ErrorCode::ApprovalExpired
                | ErrorCode::ApprovalStale
                | ErrorCode::PermissionDenied
                | ErrorCode::SandboxViolation => Self::Denied,
                ErrorCode::IntegrationMissing
                | ErrorCode::PreconditionFailed
                | ErrorCode::Timeout
                | ErrorCode::Cancelled
                | ErrorCode::RateLimit
                | ErrorCode::Network
                | ErrorCode::ServerError
                | ErrorCode::Lock
                | ErrorCode::ExecutionFailed
                | ErrorCode::OutputInvalid
                | ErrorCode::OutputTooLarge
                | ErrorCode::EffectFailed
                | ErrorCode::NoBranchMatched
                | ErrorCode::McpConnection
                | ErrorCode::OutcomeUnknown
                | ErrorCode::JournalUnavailable
                | ErrorCode::Stopping
                | ErrorCode::Internal => Self::Failed,
            },
        }
    }
}
