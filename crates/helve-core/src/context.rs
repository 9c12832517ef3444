//! What a running tool knows of its call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::call::Caller;
use crate::id::CallId;
use crate::name::ToolName;

/// What a running tool knows of its call. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    call_id: CallId,
    tool: ToolName,
    caller: Arc<Caller>,
    deadline: Instant,
    attempt: u32,
    idempotency_key: Option<Arc<str>>,
    cancellation: CancellationToken,
}

impl Context {
    /// The context of a call by `caller` that must be done by `deadline`.
    pub fn new(call_id: CallId, tool: ToolName, caller: Arc<Caller>, deadline: Instant) -> Self {
        Self {
            call_id,
            tool,
            caller,
            deadline,
            attempt: 1,
            idempotency_key: None,
            cancellation: CancellationToken::new(),
        }
    }

    /// Sets which attempt this is, from 1.
    pub fn with_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Passes on the key that makes repeating this call safe.
    pub fn with_idempotency_key(mut self, key: Option<Arc<str>>) -> Self {
        self.idempotency_key = key;
        self
    }

    /// Uses a token that somebody else holds too.
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = token;
        self
    }

    /// This call's id.
    pub fn call_id(&self) -> CallId {
        self.call_id
    }

    /// The tool's full name.
    pub fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// Who calls.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The key to pass on to systems that can recognise a repeated request.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    /// When the tool must be done.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How long the tool still has.
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether the call was taken back or ran out of time.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Waits until the call is taken back or runs out of time.
    pub async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }

    /// The token behind [`Context::cancelled`], to hand to libraries.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }
}
