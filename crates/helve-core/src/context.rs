//! What a running tool knows of its call.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::call::Caller;
use crate::id::CallId;
use crate::name::ToolName;

/// What a running tool knows of its call. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    call_id: CallId,
    tool: ToolName,
    caller: Arc<Caller>,
    deadline: Instant,
    attempt: u32,
    idempotency_key: Option<Arc<str>>,
    /// Made when somebody first asks: most tools are done before anybody would.
    cancellation: OnceLock<CancellationToken>,
}

impl Context {
    /// The context of a call by `caller` that must be done by `deadline`.
    pub fn new(call_id: CallId, tool: ToolName, caller: Arc<Caller>, deadline: Instant) -> Self {
        Self(Arc::new(Inner {
            call_id,
            tool,
            caller,
            deadline,
            attempt: 1,
            idempotency_key: None,
            cancellation: OnceLock::new(),
        }))
    }

    /// Sets which attempt this is, from 1.
    pub fn with_attempt(mut self, attempt: u32) -> Self {
        self.inner().attempt = attempt;
        self
    }

    /// Passes on the key that makes repeating this call safe.
    pub fn with_idempotency_key(mut self, key: Option<Arc<str>>) -> Self {
        self.inner().idempotency_key = key;
        self
    }

    /// Uses a token that somebody else holds too.
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.inner().cancellation = token.into();
        self
    }

    /// A context is changed while it is being made, when nobody else has it yet.
    fn inner(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }

    /// This call's id.
    pub fn call_id(&self) -> CallId {
        self.0.call_id
    }

    /// The tool's full name.
    pub fn tool(&self) -> &ToolName {
        &self.0.tool
    }

    /// Who calls.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.0.caller
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// The key to pass on to systems that can recognise a repeated request.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.0.idempotency_key.as_deref()
    }

    /// When the tool must be done.
    pub fn deadline(&self) -> Instant {
        self.0.deadline
    }

    /// How long the tool still has.
    pub fn time_left(&self) -> Duration {
        self.0.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether the call was taken back or ran out of time.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancellation.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// Waits until the call is taken back or runs out of time.
    pub async fn cancelled(&self) {
        self.cancellation().cancelled().await;
    }

    /// The token behind [`Context::cancelled`], to hand to libraries.
    pub fn cancellation(&self) -> &CancellationToken {
        self.0.cancellation.get_or_init(CancellationToken::new)
    }
}
