//! What a running tool knows of its call, and what it can ask of the runtime.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::BoxFuture;
use crate::approval::Approved;
use crate::call::Call;
use crate::caller::Caller;
use crate::cost::Amount;
use crate::error::{ErrorCode, ToolError};
use crate::id::CallId;
use crate::label::Reads;
use crate::memory::{Changed, MemoryChange, MemoryError, MemoryPlace, MemoryScope, Remembered};
use crate::name::ToolName;
use crate::outcome::{Outcome, Status};
use crate::ports::{Client, JournalError, Memory, ToolHost};
use crate::run::{Part, Progress};

/// What a running tool knows of its call. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    parts: ContextParts,
    /// These are made at the first use: most tools never ask.
    cancellation: OnceLock<CancellationToken>,
    made_key: OnceLock<String>,
    content: OnceLock<Arc<RawValue>>,
    shortfall: OnceLock<Arc<Shortfall>>,
    /// What the tool says that the call cost, in millionths.
    charged: AtomicU64,
}

/// How an answer is less than was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// What is missing, one line each: of a composition, the steps that failed. They stay in the journal for good, so
    /// they hold nothing of arguments and results.
    pub lines: Vec<String>,
    /// Whether the call counts as failed, although it has a result.
    pub is_failure: bool,
}

/// What a context is made of.
///
/// ```
/// use helve_core::{CallId, Caller, Context, ContextParts, ToolName};
/// use std::time::{Duration, Instant};
/// let deadline = Instant::now() + Duration::from_secs(30);
/// let parts = ContextParts::new(CallId::new(jiff::Timestamp::now()), ToolName::new("greet")?, Caller::local(), deadline);
/// let context = Context::from(ContextParts { attempt: 2, ..parts });
/// assert_eq!(context.attempt(), 2);
/// # Ok::<(), helve_core::NameError>(())
/// ```
#[derive(Clone)]
pub struct ContextParts {
    /// The call's id, the same in every attempt.
    pub call_id: CallId,
    /// The tool's full name.
    pub tool: ToolName,
    /// Who made the call.
    pub caller: Arc<Caller>,
    /// When the tool must be done.
    pub deadline: Instant,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The key that makes repeating this call safe.
    pub idempotency_key: Option<Arc<str>>,
    /// Whether the call's own id is the key where nobody gave one: it is the same again when the call is resumed
    /// after a crash.
    pub has_own_key: bool,
    /// Where the call stands within a bigger one.
    pub part: Option<Part>,
    /// The approval by which this call runs.
    pub approved: Option<Arc<Approved>>,
    /// Conditions that are not critical and do not hold.
    pub degraded: Option<Arc<[String]>>,
    /// Lets the tool ask for other tools and for memory.
    pub host: Option<Arc<dyn ToolHost>>,
    /// Lets the tool speak to the caller.
    pub client: Option<Arc<dyn Client>>,
    /// What takes back this call with others.
    pub cancellation: Option<CancellationToken>,
    /// What the call counts as reading, where its tool tells calls apart.
    pub reads: Reads,
}

impl ContextParts {
    /// The parts of a call by `caller` that must be done by `deadline`, and nothing beyond that.
    pub fn new(call_id: CallId, tool: ToolName, caller: Arc<Caller>, deadline: Instant) -> Self {
        Self {
            call_id,
            tool,
            caller,
            deadline,
            attempt: 1,
            idempotency_key: None,
            has_own_key: false,
            part: None,
            approved: None,
            degraded: None,
            host: None,
            client: None,
            cancellation: None,
            reads: Reads::default(),
        }
    }
}

impl From<ContextParts> for Context {
    fn from(parts: ContextParts) -> Self {
        let (cancellation, made_key, content) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self(Arc::new(Inner {
            parts,
            cancellation,
            made_key,
            content,
            shortfall: OnceLock::new(),
            charged: AtomicU64::new(0),
        }))
    }
}

impl Context {
    /// The context of a call by `caller` that must be done by `deadline`.
    pub fn new(call_id: CallId, tool: ToolName, caller: Arc<Caller>, deadline: Instant) -> Self {
        ContextParts::new(call_id, tool, caller, deadline).into()
    }

    /// This call's id.
    pub fn call_id(&self) -> CallId {
        self.0.parts.call_id
    }

    /// The run that this call belongs to: its own id, unless it is a part of a bigger one.
    pub fn run(&self) -> CallId {
        self.0.parts.part.as_ref().map_or(self.0.parts.call_id, |part| part.run)
    }

    /// Where this call stands within a bigger one.
    pub fn part(&self) -> Option<&Part> {
        self.0.parts.part.as_ref()
    }

    /// The tool's full name.
    pub fn tool(&self) -> &ToolName {
        &self.0.parts.tool
    }

    /// The runtime that runs the tool, for who knows which it is. To all others it is what this context makes of it.
    pub fn host_as<H: ToolHost>(&self) -> Option<&H> {
        let host: &dyn Any = &**self.0.parts.host.as_ref()?;
        host.downcast_ref()
    }

    /// Who made the call, and what they may use.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.0.parts.caller
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.parts.attempt
    }

    /// The key to pass on to systems that can recognise a repeated request. The same again when a
    /// run is resumed after a crash.
    pub fn idempotency_key(&self) -> Option<&str> {
        match (&self.0.parts.idempotency_key, &self.0.parts.part) {
            (Some(key), _) => Some(key),
            (None, Some(part)) => Some(self.0.made_key.get_or_init(|| format!("{}/{}", part.run, part.path))),
            (None, None) if self.0.parts.has_own_key => {
                Some(self.0.made_key.get_or_init(|| self.0.parts.call_id.to_string()))
            }
            (None, None) => None,
        }
    }

    /// The approval by which this very call runs, and what the person saw. None where nobody was asked: a rule, a mode
    /// or the tool's low risk lets it run.
    pub fn approved(&self) -> Option<&Approved> {
        self.0.parts.approved.as_deref()
    }

    /// Refuses where a person has approved this call for something else than what it is about to use. `fingerprint` is
    /// the one that the tool's [preview](crate::Preview::fingerprint) would have now.
    ///
    /// Where the call runs by no approval there is nothing to compare, and it may go on. An approval without a
    /// fingerprint fits none.
    ///
    /// ```
    /// use helve_core::{Approved, ApprovalId, CallId, Caller, Context, ContextParts, ErrorCode, ToolName};
    /// use std::sync::Arc;
    /// let now = jiff::Timestamp::now();
    /// let deadline = std::time::Instant::now();
    /// let parts = ContextParts::new(CallId::new(now), ToolName::new("send")?, Caller::local(), deadline);
    /// assert!(Context::from(parts.clone()).still_approved("v2").is_ok());
    /// let seen = Approved { approval_id: ApprovalId::new(now), fingerprint: Some("v1".to_owned()) };
    /// let context = Context::from(ContextParts { approved: Some(Arc::new(seen)), ..parts });
    /// assert!(context.still_approved("v1").is_ok());
    /// assert_eq!(context.still_approved("v2").unwrap_err().code(), ErrorCode::ApprovalStale);
    /// # Ok::<(), helve_core::NameError>(())
    /// ```
    pub fn still_approved(&self, fingerprint: &str) -> Result<(), ToolError> {
        let Some(approved) = self.approved() else { return Ok(()) };
        if approved.fingerprint.as_deref() == Some(fingerprint) {
            return Ok(());
        }
        let message = format!(
            "what was approved has changed: `{}` would not use what the person saw who approved it ({}), so nothing \
             was done",
            self.tool(),
            approved.approval_id
        );
        // The approval is used up, also for a caller that repeats the call under its key.
        let again = match self.0.parts.idempotency_key {
            Some(_) => "make the call again under a new idempotency key",
            None => "make the call again",
        };
        Err(ToolError::new(ErrorCode::ApprovalStale, message)
            .nothing_done()
            .suggest(format!("{again}; a person is asked about it as it is now")))
    }

    /// Conditions that are not critical and do not hold: the tool should do what it can without.
    pub fn degraded(&self) -> &[String] {
        self.0.parts.degraded.as_deref().unwrap_or_default()
    }

    /// What the call counts as reading. Its session was labelled by that, so a tool that told calls apart
    /// ([`ToolBuilder::tells_reads`](crate::ToolBuilder::tells_reads)) reads nothing private where this is public.
    pub fn reads(&self) -> Reads {
        self.0.parts.reads
    }

    /// When the tool must be done.
    pub fn deadline(&self) -> Instant {
        self.0.parts.deadline
    }

    /// How long the tool still has.
    pub fn time_left(&self) -> Duration {
        self.0.parts.deadline.saturating_duration_since(Instant::now())
    }

    /// What takes back this call with others, if anything does.
    pub fn outer_cancellation(&self) -> Option<&CancellationToken> {
        self.0.parts.cancellation.as_ref()
    }

    /// Whether the call was taken back or ran out of time.
    pub fn is_cancelled(&self) -> bool {
        let token = self.0.cancellation.get().or(self.0.parts.cancellation.as_ref());
        token.is_some_and(CancellationToken::is_cancelled)
    }

    /// Waits until the call is taken back or runs out of time.
    pub async fn cancelled(&self) {
        self.cancellation().cancelled().await;
    }

    /// The token behind [`Context::cancelled`], to hand to libraries.
    pub fn cancellation(&self) -> &CancellationToken {
        self.0.cancellation.get_or_init(|| match &self.0.parts.cancellation {
            Some(outer) => outer.child_token(),
            None => CancellationToken::new(),
        })
    }

    /// Whether anybody listens to [`report`](Self::report).
    pub fn is_heard(&self) -> bool {
        self.0.parts.host.as_ref().is_some_and(|host| host.is_heard(self))
    }

    /// Tells how far the call has come.
    pub fn report(&self, progress: Progress) {
        if let Some(host) = &self.0.parts.host {
            host.report(self, progress);
        }
    }

    /// The caller, where they can be spoken to.
    pub fn client(&self) -> Option<&Arc<dyn Client>> {
        self.0.parts.client.as_ref()
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

    /// Says that the answer is less than was asked for. Only the first word counts.
    pub fn fall_short(&self, shortfall: Shortfall) {
        let _late = self.0.shortfall.set(Arc::new(shortfall));
    }

    /// How the answer is less than was asked for.
    pub fn shortfall(&self) -> Option<&Arc<Shortfall>> {
        self.0.shortfall.get()
    }

    /// Reports what the call cost, in the unit of the tool's [`Price`](crate::cost::Price). Several amounts add up. A tool
    /// that declares no price costs nothing, whatever it reports.
    pub fn charge(&self, amount: Amount) {
        let add = |sum: u64| Some(Amount::from_micros(sum).plus(amount).micros());
        let _former = self.0.charged.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// What was reported so far.
    pub fn charged(&self) -> Amount {
        Amount::from_micros(self.0.charged.load(Ordering::Relaxed))
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
        match &self.0.parts.host {
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
        CallerMemory { caller: &self.0.parts.caller, host: self.0.parts.host.as_deref() }
    }
}

/// A caller's own memory.
#[derive(Clone, Copy)]
pub struct CallerMemory<'a> {
    caller: &'a Caller,
    host: Option<&'a dyn ToolHost>,
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
        self.host.map(ToolHost::memory).ok_or_else(none)
    }
}
