//! What can go wrong between us and a server.

use helve::{ErrorCode, ToolError};

/// Why a server did not do what it was asked.
///
/// A message says what happened in words for people and never holds a secret or text of a mail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The server cannot be reached, or stopped answering. Nothing was done.
    #[error("{0}")]
    Unreachable(String),
    /// The server does not accept the login any more.
    #[error("{0}")]
    Login(String),
    /// The server refuses, and would refuse again.
    #[error("{0}")]
    Refused(String),
    /// A message is marked as deleted, and the server cannot take it away alone.
    #[error("{0}")]
    Marked(String),
    /// What was asked for is not there, or no longer.
    #[error("{0}")]
    Gone(String),
    /// The request was sent and no answer came: it may have been done, or not.
    #[error("{0}")]
    Unknown(String),
    /// What came back is not what the protocol says, or more than we take.
    #[error("{0}")]
    Nonsense(String),
}

impl Fault {
    /// The same as an answer to a model.
    pub fn for_model(&self) -> ToolError {
        let text = self.to_string();
        match self {
            Self::Unreachable(_) => ToolError::new(ErrorCode::Network, text).nothing_done(),
            Self::Login(_) => ToolError::unrecoverable("LOGIN_REFUSED", text)
                .suggest("ask the user to run `helve connect` again"),
            Self::Refused(_) => ToolError::unrecoverable("REFUSED", text).nothing_done(),
            Self::Marked(_) => ToolError::unrecoverable("ONLY_MARKED", text),
            Self::Gone(_) => ToolError::recoverable("NOT_FOUND", text).nothing_done(),
            Self::Unknown(_) => ToolError::new(ErrorCode::OutcomeUnknown, text).in_doubt(),
            Self::Nonsense(_) => ToolError::unrecoverable("BAD_ANSWER", text),
        }
    }
}
