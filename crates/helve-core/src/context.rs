//! What a running tool knows of its call, and what it can ask of the runtime.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::BoxFuture;
use crate::call::Call;
use crate::caller::Caller;
use crate::error::{ErrorCode, ToolError};
use crate::id::CallId;
use crate::memory::{Changed, MemoryChange, MemoryError, MemoryPlace, MemoryScope, Remembered};
use crate::name::ToolName;
use crate::outcome::{Outcome, Status};
use crate::ports::{Client, Host, JournalError, Memory};
use crate::run::{Part, Progress};

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
    has_own_key: bool,
    part: Option<Part>,
    degraded: Option<Arc<[String]>>,
    host: Option<Arc<dyn Host>>,
    client: Option<Arc<dyn Client>>,
    /// What takes back this call with others.
    outer_cancellation: Option<CancellationToken>,
    /// These are made when somebody first asks: most tools are done before anybody would.
    cancellation: OnceLock<CancellationToken>,
    made_key: OnceLock<String>,
    content: OnceLock<Arc<RawValue>>,
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
            has_own_key: false,
            part: None,
            degraded: None,
            host: None,
            client: None,
            outer_cancellation: None,
            cancellation: OnceLock::new(),
            made_key: OnceLock::new(),
            content: OnceLock::new(),
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

    /// Uses the call's own id as the key where nobody gave one: it is the same again when the call
    /// is taken up after a crash.
    pub fn with_own_key(mut self, has_own_key: bool) -> Self {
        self.inner().has_own_key = has_own_key;
        self
    }

    /// Says where the call stands within a bigger one.
    pub fn with_part(mut self, part: Option<Part>) -> Self {
        self.inner().part = part;
        self
    }

    /// Says which conditions do not hold.
    pub fn with_degraded(mut self, conditions: Option<Arc<[String]>>) -> Self {
        self.inner().degraded = conditions;
        self
    }

    /// Lets the tool ask for other tools and for memory.
    pub fn with_host(mut self, host: Arc<dyn Host>) -> Self {
        self.inner().host = Some(host);
        self
    }

    /// Lets the tool speak to whoever called.
    pub fn with_client(mut self, client: Arc<dyn Client>) -> Self {
        self.inner().client = Some(client);
        self
    }

    /// Lets `token` take back this call, as well as whatever else it takes back.
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.inner().outer_cancellation = Some(token);
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

    /// The run that this call belongs to: its own id, unless it is a part of a bigger one.
    pub fn run(&self) -> CallId {
        self.0.part.as_ref().map_or(self.0.call_id, |part| part.run)
    }

    /// Where this call stands within a bigger one.
    pub fn part(&self) -> Option<&Part> {
        self.0.part.as_ref()
    }

    /// The tool's full name.
    pub fn tool(&self) -> &ToolName {
        &self.0.tool
    }

    /// The runtime that runs the tool, if one does.
    pub fn host(&self) -> Option<&Arc<dyn Host>> {
        self.0.host.as_ref()
    }

    /// Who calls.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.0.caller
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// The key to pass on to systems that can recognise a repeated request. The same again when a
    /// run is taken up after a crash.
    pub fn idempotency_key(&self) -> Option<&str> {
        match (&self.0.idempotency_key, &self.0.part) {
            (Some(key), _) => Some(key),
            (None, Some(part)) => Some(self.0.made_key.get_or_init(|| format!("{}/{}", part.run, part.path))),
            (None, None) if self.0.has_own_key => {
                Some(self.0.made_key.get_or_init(|| self.0.call_id.to_string()))
            }
            (None, None) => None,
        }
    }

    /// Conditions that are not critical and do not hold: the tool should do what it can without.
    pub fn degraded(&self) -> &[String] {
        self.0.degraded.as_deref().unwrap_or_default()
    }

    /// When the tool must be done.
    pub fn deadline(&self) -> Instant {
        self.0.deadline
    }

    /// How long the tool still has.
    pub fn time_left(&self) -> Duration {
        self.0.deadline.saturating_duration_since(Instant::now())
    }

    /// What takes back this call with others, if anything does.
    pub fn outer_cancellation(&self) -> Option<&CancellationToken> {
        self.0.outer_cancellation.as_ref()
    }

    /// Whether the call was taken back or ran out of time.
    pub fn is_cancelled(&self) -> bool {
        let token = self.0.cancellation.get().or(self.0.outer_cancellation.as_ref());
        token.is_some_and(CancellationToken::is_cancelled)
    }

    /// Waits until the call is taken back or runs out of time.
    pub async fn cancelled(&self) {
        self.cancellation().cancelled().await;
    }

    /// The token behind [`Context::cancelled`], to hand to libraries.
    pub fn cancellation(&self) -> &CancellationToken {
        self.0.cancellation.get_or_init(|| match &self.0.outer_cancellation {
            Some(outer) => outer.child_token(),
            None => CancellationToken::new(),
        })
    }

    /// Whether anybody listens to [`report`](Self::report).
    pub fn is_heard(&self) -> bool {
        self.0.host.as_ref().is_some_and(|host| host.is_heard(self))
    }

    /// Tells how far the call has come.
    pub fn report(&self, progress: Progress) {
        if let Some(host) = &self.0.host {
            host.report(self, progress);
        }
    }

    /// Whoever called, where they can be spoken to.
    pub fn client(&self) -> Option<&Arc<dyn Client>> {
        self.0.client.as_ref()
    }

    /// Attaches the answer in a richer form than JSON values have: an MCP tool result with text,
    /// images, sound and links, for callers that can show these. Only the first counts.
    pub fn attach(&self, content: Arc<RawValue>) {
        // The one who is late is a tool that answers twice.
        let _late = self.0.content.set(content);
    }

    /// What was attached.
    pub fn attached(&self) -> Option<&Arc<RawValue>> {
        self.0.content.get()
    }

    /// Calls another tool as a part of this call: through the whole pipeline, as the same caller,
    /// and no longer than this call may take.
    ///
    /// `step` names the part. It must be the same each time, since after a crash it says which
    /// parts have finished; those are not run again. A cancellation that the call brings along
    /// should be a child of [`Context::cancellation`].
    pub fn call_part(
        &self,
        step: impl Into<Arc<str>>,
        call: impl Into<Box<Call>>,
    ) -> BoxFuture<'static, Outcome> {
        let call = call.into();
        match &self.0.host {
            Some(host) => Arc::clone(host).call_part(self, step.into(), call),
            None => {
                let error = ToolError::new(ErrorCode::Internal, "there is no runtime to call other tools");
                let outcome = Outcome::new(self.call_id(), call.tool, Status::Failed(error));
                Box::pin(std::future::ready(outcome))
            }
        }
    }

    /// The caller's memory.
    pub fn memory(&self) -> CallerMemory<'_> {
        CallerMemory { caller: &self.0.caller, host: self.0.host.as_deref() }
    }
}

/// A caller's own memory.
#[derive(Clone, Copy)]
pub struct CallerMemory<'a> {
    caller: &'a Caller,
    host: Option<&'a dyn Host>,
}

impl CallerMemory<'_> {
    /// Reads a value.
    pub async fn read(&self, scope: MemoryScope, key: &str) -> Result<Option<Remembered>, MemoryError> {
        self.port()?.read(self.place(scope, key)).await
    }

    /// Changes a value.
    pub async fn change(
        &self,
        scope: MemoryScope,
        key: &str,
        change: MemoryChange,
    ) -> Result<Changed, MemoryError> {
        self.port()?.change(self.place(scope, key), change).await
    }

    /// Values whose keys start with `prefix`, by key, at most `limit`.
    pub async fn list(
        &self,
        scope: MemoryScope,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<(String, Remembered)>, MemoryError> {
        self.port()?.list(scope, scope.owner(self.caller), prefix.to_owned(), limit).await
    }

    fn place(&self, scope: MemoryScope, key: &str) -> MemoryPlace {
        MemoryPlace::of(self.caller, scope, key)
    }

    fn port(&self) -> Result<&dyn Memory, MemoryError> {
        let none = || MemoryError::Unavailable(JournalError::new("there is no runtime to remember anything"));
        self.host.map(Host::memory).ok_or_else(none)
    }
}
