//! What carries messages to one server and back.

use std::time::Duration;

use helve::{BoxFuture, ErrorCode, ToolError};
use tokio::time::Instant;

use crate::message::{Notification, Raw, RpcError};

/// One way to one server.
pub(crate) trait Link: Send + Sync + 'static {
    /// Sends a question and waits for its answer. Dropped, the server is told that nobody waits.
    fn request(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<RpcResult, LinkError>>;

    /// Sends a message that no answer follows.
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), LinkError>>;

    /// What the greeting came to, for links that say it with every message.
    fn greeted(&self, _version: &str, _stateless: bool) {}

    /// Starts to hear what the server says unasked, where the link does not by itself.
    fn listen(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Why it is closed, if it is.
    fn closed(&self) -> Option<String>;

    /// Waits until it is closed.
    fn wait_closed(&self) -> BoxFuture<'_, ()>;

    /// Ends it in good order: what was started is stopped.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What came of a question: a result, or an error of the server's.
pub(crate) type RpcResult = Result<Raw, RpcError>;

/// A question on its way.
pub(crate) struct Outgoing {
    /// Joins question and answer; never used twice on a link.
    pub(crate) id: i64,
    pub(crate) method: String,
    pub(crate) params: Option<Raw>,
    /// Headers that streamable HTTP of the stateless era adds: name and value.
    pub(crate) headers: Vec<(String, String)>,
    /// When nobody will wait any longer, whatever happens.
    pub(crate) deadline: Instant,
}

/// What comes without being asked for, and where it is heard.
pub(crate) trait Receiver: Send + Sync + 'static {
    /// Something was told. `of` is the question of ours that it belongs to, where the link knows.
    fn notified(&self, notification: Notification, of: Option<i64>);

    /// Something is asked of us.
    fn asked(
        &self,
        method: String,
        params: Option<Raw>,
        of: Option<i64>,
    ) -> BoxFuture<'static, Result<Raw, RpcError>>;

    /// The server wrote something that is no message.
    fn noise(&self, text: &str);
}

/// Why a link gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The link is gone. Whether the server had seen the question is not known unless `unsent`.
    #[error("{reason}")]
    Closed {
        /// What went wrong, in words for the user.
        reason: String,
        /// The question cannot have reached the server.
        unsent: bool,
    },
    /// The server has forgotten our session; a new one can be begun.
    #[error("the server has ended the session")]
    SessionGone,
    /// The server wants to know who we are.
    #[error("the server asks for authorization (HTTP {status})")]
    Unauthorized {
        /// 401 or 403.
        status: u16,
        /// What its `WWW-Authenticate` header says.
        challenge: Option<String>,
    },
    /// The caller has no credentials there, and those of others are not used for it.
    #[error("{}", no_credentials(.principal.as_deref()))]
    NoCredentials {
        /// Who, where that is known.
        principal: Option<String>,
    },
    /// An HTTP status that is no answer.
    #[error("the server answered HTTP {status}{}", .detail.as_deref().map(|text| format!(": {text}")).unwrap_or_default())]
    Status {
        /// The status of the response.
        status: u16,
        /// The beginning of what it said, cleaned.
        detail: Option<String>,
    },
    /// The server is somewhere else.
    #[error("it redirects to `{to}`; use that address")]
    Redirected {
        /// Where, cleaned and without its query.
        to: String,
    },
    /// The server does not keep to the protocol.
    #[error("the server does not keep to the protocol: {0}")]
    Protocol(String),
    /// A message is larger than allowed.
    #[error("the server sent a message of more than {limit} bytes")]
    TooLarge {
        /// How many bytes are allowed.
        limit: usize,
    },
    /// No answer in time.
    #[error("the server did not answer within {:.1} s{}", .after.as_secs_f32(), .asked.map(|method| format!(" (`{method}`)")).unwrap_or_default())]
    TimedOut {
        /// How long we waited.
        after: Duration,
        /// What was asked, where that is not plain.
        asked: Option<&'static str>,
    },
    /// Nobody wants the answer any more.
    #[error("the call was taken back")]
    Cancelled,
}

impl LinkError {
    pub(crate) fn closed(reason: impl Into<String>) -> Self {
        Self::Closed { reason: reason.into(), unsent: false }
    }

    pub(crate) fn unsent(reason: impl Into<String>) -> Self {
        Self::Closed { reason: reason.into(), unsent: true }
    }

    pub(crate) fn timed_out(after: Duration) -> Self {
        Self::TimedOut { after, asked: None }
    }

    /// The same error with what was asked, where it is that no answer came.
    pub(crate) fn asking(self, method: &'static str) -> Self {
        match self {
            Self::TimedOut { after, .. } => Self::TimedOut { after, asked: Some(method) },
            other => other,
        }
    }

    /// The same error once a question was handed over: whatever went wrong since, the server may have begun
    /// what was asked.
    pub(crate) fn once_sent(self) -> Self {
        match self.is_unsent() {
            true => Self::closed(self.to_string()),
            false => self,
        }
    }

    /// Whether the server cannot have begun what was asked.
    pub fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Closed { unsent: true, .. }
                | Self::SessionGone
                | Self::Unauthorized { .. }
                | Self::NoCredentials { .. }
        )
    }

    /// Whether the server has done nothing for what was asked: it was not asked, or turned it away.
    pub(crate) fn did_nothing(&self) -> bool {
        let turned_away = matches!(
            self,
            Self::Redirected { .. }
                | Self::Status { status: 401 | 403 | 404 | 405 | 406 | 413 | 415 | 429, .. }
        );
        self.is_unsent() || turned_away
    }

    /// What to do about it, where that is known. `principal` is who calls, where each has their own
    /// credentials.
    pub(crate) fn advice(&self, server: &str, principal: Option<&str>) -> Option<String> {
        match (self, principal) {
            (Self::Closed { .. } | Self::SessionGone | Self::Status { .. }, _) => {
                Some(format!("see `helve mcp status {server}` and `helve mcp logs {server}`"))
            }
            (Self::NoCredentials { principal: None }, _) => {
                Some("call with a key or a token, so that you have a name here".to_owned())
            }
            (Self::Unauthorized { .. } | Self::NoCredentials { .. }, Some(principal)) => {
                let principal = crate::text::one_line(principal, 200);
                Some(format!(
                    "run `helve mcp login {server} --as {principal}`, or write their credentials into \
                     `[mcp.servers.{server}.callers.\"{principal}\"]`"
                ))
            }
            (Self::Unauthorized { .. } | Self::NoCredentials { .. }, None) => {
                Some(format!("run `helve mcp login {server}`"))
            }
            (Self::TimedOut { .. }, _) => Some(format!(
                "`timeout_s` and `timeout_total_s` in `[mcp.servers.{server}]` allow more time, up to \
                 `execution.max_timeout_ms`"
            )),
            (Self::TooLarge { .. }, _) => {
                Some(format!("`limits.message_bytes` in `[mcp.servers.{server}]` allows more"))
            }
            (Self::Redirected { .. } | Self::Protocol(_) | Self::Cancelled, _) => None,
        }
    }

    /// The error as a caller of the tool sees it.
    pub(crate) fn into_tool_error(self, server: &str, principal: Option<&str>) -> ToolError {
        let code = match self {
            Self::Closed { .. } | Self::SessionGone | Self::Status { .. } | Self::Redirected { .. } => {
                ErrorCode::McpConnection
            }
            Self::Unauthorized { .. } | Self::NoCredentials { .. } => ErrorCode::IntegrationMissing,
            Self::Protocol(_) => ErrorCode::ExecutionFailed,
            Self::TooLarge { .. } => ErrorCode::OutputTooLarge,
            Self::TimedOut { .. } => ErrorCode::Timeout,
            Self::Cancelled => ErrorCode::Cancelled,
        };
        let error = ToolError::new(code, format!("MCP server `{server}`: {self}"));
        let error = if self.did_nothing() { error.nothing_done() } else { error };
        match self.advice(server, principal) {
            Some(advice) => error.suggest(advice),
            None => error,
        }
    }
}

fn no_credentials(principal: Option<&str>) -> String {
    match principal {
        Some(principal) => {
            format!("`{}` has no credentials of their own there", crate::text::one_line(principal, 200))
        }
        None => "it takes each caller's own credentials, and the call has no principal".to_owned(),
    }
}
