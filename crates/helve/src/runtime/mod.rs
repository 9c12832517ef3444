//! The runtime: a registry, a journal and settings, and the one way to call a tool.

mod deadline_ticker;
mod gate;
mod host;
mod memory;
mod providers;
mod served;
pub(crate) mod stop;

use std::sync::Arc;
use std::time::Duration;

use helve_core::cost::{CostTotal, Spending, totals};
use helve_core::hook::{Hook, HookEvent, HookInput};
use helve_core::json::JsonLimits;
use helve_core::limit::{CountBy, LimitRule};
use helve_core::memory::MemoryLimits;
use helve_core::ports::{
    Clock, Integrations, Keys, Ledger, LedgerFigures, Limiter, Policy, SystemClock, Tracer,
};
use helve_core::precondition::Check;
use helve_core::schema::Redactor;
use helve_core::{Call, Caller, DefinitionError, Layer, Outcome, Risk, Tool, ToolError};
use jiff::Timestamp;
use serde_json::Value;

use crate::approvals::{self, ApprovalSettings, Approvals, Questions};
use crate::bus::Subscription;
use crate::compose::{ComposedBuilder, Composition};
use crate::conditions::{ConditionReport, Conditions, ToolCheck};
use crate::hooks::{Behalf, Fired, HookSet, Hooks, Matcher, raise_limits};
use crate::limits::{BreakerSettings, Health, Limiters, LocalLimiter, RetryBudget};
use crate::permissions::{CanUseTool, PermissionOptions};
use crate::pipeline::{self, Origin};
use crate::registry::{Registry, RegistryError};
use crate::runs::ActiveRuns;
use crate::sessions::LabelSettings;
use crate::volatile::VolatileLedger;
use crate::workspace::{Toolish, WorkspaceBuilder, WorkspaceError};
pub(crate) use deadline_ticker::DeadlineTicker;
pub use gate::Anonymous;
pub(crate) use gate::{Judges, LivePolicy};
pub(crate) use host::ComposedHost;
pub use memory::RuntimeMemory;
pub use served::{Asks, Served};
pub use stop::Stopped;
pub(crate) use stop::{GoingOn, Stop};

/// Runs calls. Cheap to clone; clones are the same runtime.
#[derive(Clone)]
pub struct Runtime(Arc<Engine>);

/// What runs calls: the registry, the ledger, the gate, limits and the runs of this process.
pub(crate) struct Engine {
    pub(crate) registry: Registry,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) memory: RuntimeMemory,
    pub(crate) judges: Judges,
    pub(crate) conditions: Conditions,
    pub(crate) hooks: Hooks,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) limits: Limiters,
    pub(crate) deadline_ticker: DeadlineTicker,
    pub(crate) runs: ActiveRuns,
    pub(crate) stop: Stop,
    pub(crate) questions: Questions,
    pub(crate) tracer: Option<Arc<dyn Tracer>>,
}

impl Runtime {
    /// Starts a runtime with no tools, default settings and a ledger in memory.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder {
            registry: Registry::default(),
            ledger: None,
            policy: None,
            permissions: PermissionOptions::default(),
            conditions: Conditions::default(),
            hooks: HookSet::default(),
            clock: Arc::new(SystemClock),
            limiter: None,
            tracer: None,
            settings: Settings::default(),
        }
    }

    /// Runs a call through the whole pipeline. However it ends, it ends in an outcome and in one
    /// record in the journal; also when the returned future is dropped.
    #[inline]
    pub fn call(&self, call: Call) -> impl Future<Output = Outcome> + Send {
        // On the heap before anything else: futures would copy it from one to the next.
        self.run(Box::new(call), None)
    }

    /// The same for a call whose tool was looked up in this registry just now. A caller that has waited since then looks it
    /// up again, because meanwhile it may have been replaced or taken away.
    #[inline]
    pub fn call_found(&self, tool: Tool, call: Call) -> impl Future<Output = Outcome> + Send {
        self.run(Box::new(call), Some(tool))
    }

    async fn run(&self, mut call: Box<Call>, tool: Option<Tool>) -> Outcome {
        if let Some(by) = self.0.stop.by() {
            return Box::pin(pipeline::refuse(&self.0, *call, stop::refused(by))).await;
        }
        let wait = &self.0.settings.approvals.wait;
        if call.approval_wait.is_none() && !wait.is_zero() {
            call.approval_wait = Some(*wait);
        }
        match call.approval_wait {
            None => pipeline::run_call(&self.0, call, Origin::Outside(tool)).await,
            Some(wait) => Box::pin(self.call_and_wait(call, tool, wait)).await,
        }
    }

    async fn call_and_wait(&self, call: Box<Call>, tool: Option<Tool>, wait: Duration) -> Outcome {
        let until = tokio::time::Instant::now() + wait;
        let outcome = pipeline::run_call(&self.0, call.clone(), Origin::Outside(tool)).await;
        approvals::go_on(&self.0, outcome, until, &call).await
    }

    /// Questions to people: what is asked, and deciding it.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals(&self.0)
    }

    /// API keys: who may come in over HTTP.
    pub fn keys(&self) -> &dyn Keys {
        &*self.0.ledger
    }

    /// Whether calls can be recorded, without which none runs.
    pub fn check_journal(&self) -> Result<(), helve_core::ports::JournalError> {
        self.0.ledger.check()
    }

    /// How the ledger is doing, for people who watch it. Absent: it keeps no figures.
    pub async fn ledger_figures(&self) -> Result<Option<LedgerFigures>, helve_core::ports::JournalError> {
        self.0.ledger.figures().await
    }

    /// What calls cost since then, added up by tool, caller or session; the largest first.
    pub async fn costs(
        &self,
        since: Timestamp,
        by: CountBy,
        of: impl Fn(&Spending) -> bool,
    ) -> Result<Vec<CostTotal>, helve_core::ports::JournalError> {
        let spent = self.0.ledger.spending(since).await?;
        Ok(totals(spent.into_iter().filter(of), by))
    }

    /// How many tools are left alone because they kept failing.
    pub fn open_breakers(&self) -> usize {
        self.0.limits.health.open_breakers()
    }

    /// Records a call that cannot be run because it could not even be read, such as one whose
    /// arguments are no JSON.
    pub async fn refuse(&self, call: Call, error: ToolError) -> Outcome {
        pipeline::refuse(&self.0, call, error).await
    }

    /// The runtime of this engine.
    pub(crate) fn of(engine: &Arc<Engine>) -> Self {
        Self(Arc::clone(engine))
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0
    }

    /// Whether a tool could run now for this caller: what it needs, and whether that is so.
    /// Nothing is run but the checks themselves.
    ///
    /// Without arguments the checks get none. Fails where there is no such tool for the caller, or
    /// where the arguments do not fit it.
    pub async fn check_tool(
        &self,
        name: &str,
        caller: impl Into<Arc<Caller>>,
        arguments: Option<Value>,
    ) -> Result<Vec<ConditionReport>, ToolError> {
        let call = Call::new(name, arguments.unwrap_or(Value::Null)).by(caller);
        pipeline::report(&self.0, call).await
    }

    /// Tells the hooks of an event, and what they say together. The pipeline tells of calls by itself;
    /// this is for all else that happens to an agent, and for calls that do not come by here.
    /// What hooks call is called as the principal `hook`: for events from outside, there is
    /// [`Runtime::raise`].
    pub async fn fire(&self, input: HookInput) -> Fired {
        self.tell(input, &Behalf::Helve).await
    }

    /// The same while everything goes on: nobody hears what they say. [`Hooks::settle`] waits for it.
    pub fn fire_in_background(&self, input: HookInput) {
        // Others set it off, as often as they like: it takes no room from the hooks of calls.
        let Ok(room) = Arc::clone(self.0.hooks.raised_background()).try_acquire_owned() else {
            tracing::warn!(event = %input.event, "hooks were not told: too many run in the background");
            return;
        };
        let runtime = self.clone();
        tokio::spawn(async move {
            runtime.fire(input).await;
            drop(room);
        });
    }

    /// The hooks. They can be replaced while calls run.
    pub fn hooks(&self) -> &Hooks {
        &self.0.hooks
    }

    /// What callers remember.
    pub fn memory(&self) -> &RuntimeMemory {
        &self.0.memory
    }

    /// The tools that can be called, by layer.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// The settings that it was built with.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Learns of calls and of changes to the registry as they happen.
    pub fn subscribe(&self) -> Subscription {
        self.0.registry.subscribe()
    }

    /// How many calls traces do not have, because more came than the exporter could take. None
    /// where nobody does.
    pub fn dropped_traces(&self) -> Option<u64> {
        self.0.tracer.as_ref().map(|tracer| tracer.dropped())
    }

    /// Waits until the exporter of traces has got all calls so far, but not for longer than this.
    pub async fn flush_traces(&self, at_most: Duration) {
        if let Some(tracer) = &self.0.tracer
            && tokio::time::timeout(at_most, tracer.flush()).await.is_err()
        {
            tracing::warn!("the last calls may be missing from the traces: the collector took too long");
        }
    }

    /// Waits until everything recorded so far is on disk.
    pub async fn flush(&self) -> Result<(), helve_core::ports::JournalError> {
        self.0.ledger.flush().await
    }
}

/// A runtime in the making.
#[must_use = "a builder does nothing until `build`"]
pub struct RuntimeBuilder {
    registry: Registry,
    ledger: Option<Arc<dyn Ledger>>,
    policy: Option<Arc<dyn Policy>>,
    permissions: PermissionOptions,
    conditions: Conditions,
    hooks: HookSet,
    clock: Arc<dyn Clock>,
    limiter: Option<Arc<dyn Limiter>>,
    tracer: Option<Arc<dyn Tracer>>,
    settings: Settings,
}

/// A tool that could not be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddToolError {
    /// It is broken.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A namespace makes a name that is none.
    #[error(transparent)]
    Workspace(WorkspaceError),
    /// The registry refuses it.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl From<WorkspaceError> for AddToolError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Definition(error) => Self::Definition(error),
            WorkspaceError::Name(_) => Self::Workspace(error),
        }
    }
}

impl RuntimeBuilder {
    /// Adds a tool to the project's layer.
    pub fn tool(self, tool: impl Into<Toolish>) -> Result<Self, AddToolError> {
        let workspace = WorkspaceBuilder::default().tool(tool).build()?;
        self.registry.register_workspace(Layer::Project, workspace)?;
        Ok(self)
    }

    /// Adds a tool made of those that are there already.
    pub fn compose<S: Into<Composition>>(self, tool: ComposedBuilder<S>) -> Result<Self, AddToolError> {
        let tool = tool.build(&self.registry)?;
        self.tool(tool)
    }

    /// Uses a registry that was filled before.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Keeps calls, runs and memory in this ledger instead of in memory.
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Asks this for connected accounts.
    pub fn integrations(mut self, integrations: Arc<dyn Integrations>) -> Self {
        self.conditions.integrations = integrations;
        self
    }

    /// Lets this say what callers may do. Without one, everybody may call everything, also a caller who does not say who
    /// they are, unless [`Settings::require_authentication`] is set; [`Runtime::anonymous`] tells.
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Adds a hook.
    pub fn hook(mut self, event: HookEvent, matcher: Matcher, hook: impl Hook) -> Self {
        self.hooks = self.hooks.on(event, matcher, hook);
        self
    }

    /// Uses these hooks, in place of any that were added before.
    pub fn hooks(mut self, hooks: HookSet) -> Self {
        self.hooks = hooks;
        self
    }

    /// Starts with these rules and modes, and keeps changes to them.
    pub fn permissions(mut self, permissions: PermissionOptions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Asks this before a person is asked.
    pub fn can_use_tool(mut self, program: impl CanUseTool) -> Self {
        self.permissions.can_use_tool = Some(Arc::new(program));
        self
    }

    /// Declares a resource that tools can need, and how to find out whether it is at hand. An error
    /// counts as "not at hand", and its message is the reason.
    pub fn resource(mut self, name: impl Into<String>, check: impl Check) -> Self {
        self.conditions.resources.insert(name.into(), Arc::new(check));
        self
    }

    /// Declares a check that tools can ask for by its id.
    pub fn check(mut self, id: impl Into<String>, check: impl Check) -> Self {
        self.conditions.checks.insert(id.into(), Arc::new(check).into());
        self
    }

    /// Declares a check that calls a tool, which must only read, and looks at its result.
    pub fn check_by_tool(mut self, id: impl Into<String>, check: ToolCheck) -> Self {
        self.conditions.checks.insert(id.into(), check.into());
        self
    }

    /// Grants permissions to a principal, or to everybody where that is `*`. A permission may hold
    /// `*` for any text: `browser:*`.
    pub fn grant<S: Into<String>>(
        mut self,
        principal: impl Into<String>,
        permissions: impl IntoIterator<Item = S>,
    ) -> Self {
        let granted = self.conditions.grants.entry(principal.into()).or_default();
        granted.extend(permissions.into_iter().map(Into::into));
        self
    }

    /// Takes the time from this clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Lets this count calls for the rules in [`Settings::limits`], instead of counting in this
    /// process alone.
    pub fn limiter(mut self, limiter: Arc<dyn Limiter>) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Tells this of every call that ends, for traces.
    pub fn tracer(mut self, tracer: Arc<dyn Tracer>) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// Uses these settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Makes the runtime.
    pub fn build(self) -> Runtime {
        let limiter = self.limiter.unwrap_or_else(|| Arc::new(LocalLimiter::default()));
        let volatile = || VolatileLedger::new(Arc::clone(&self.clock), MemoryLimits::default());
        let ledger = self.ledger.unwrap_or_else(|| Arc::new(volatile()));
        let (labels, clock) = (self.settings.labels.clone(), Arc::clone(&self.clock));
        let judges = Judges::new(self.policy, self.permissions, labels, Arc::clone(&ledger), clock);
        let keep = self.settings.approvals.keep;
        let questions = Questions::new(Arc::clone(&ledger), Arc::clone(&self.clock), keep);
        let health = Health::new(&self.settings.breaker, &self.settings.retry_budget);
        Runtime(Arc::new(Engine {
            registry: self.registry,
            memory: RuntimeMemory::new(Arc::clone(&ledger), Arc::clone(&self.clock)),
            ledger,
            judges,
            conditions: self.conditions,
            hooks: Hooks::new(self.hooks),
            clock: self.clock,
            limits: Limiters::new(&self.settings.limits, &raise_limits(), health, limiter),
            settings: self.settings,
            deadline_ticker: DeadlineTicker::default(),
            runs: ActiveRuns::default(),
            stop: Stop::default(),
            questions,
            tracer: self.tracer,
        }))
    }
}

/// How calls are run. The defaults are safe.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a tool that does not say may run.
    pub timeout_default: Duration,
    /// How long any tool may run.
    pub timeout_max: Duration,
    /// How long a cancelled tool has to finish by itself before it is stopped.
    pub cancel_grace: Duration,
    /// How long the check of a precondition may take.
    pub precondition_timeout: Duration,
    /// Whether to mend what models often get wrong in arguments.
    pub repair: bool,
    /// Bounds on arguments.
    pub arguments: JsonLimits,
    /// Largest result, as JSON.
    pub result_bytes_max: usize,
    /// Largest arguments that the journal keeps of a call that starts nothing; of larger ones it keeps size,
    /// digest and beginning. Of a call that is refused it keeps 4 KiB at most.
    pub journal_argument_bytes_max: usize,
    /// Largest result that the journal keeps; of larger ones it keeps the size.
    pub journal_result_bytes_max: usize,
    /// The same within a run, which may need the results of its parts after a crash.
    pub run_result_bytes_max: usize,
    /// Whether callers must say who they are. Not by default: [`Runtime::anonymous`] tells what those may do who do not.
    pub require_authentication: bool,
    /// The lowest risk at which a person is asked.
    pub ask_from: Risk,
    /// How sessions are labelled with what they have touched.
    pub labels: LabelSettings,
    /// How questions to people are handled.
    pub approvals: ApprovalSettings,
    /// Which records are waited for.
    pub durability: Durability,
    /// What is hidden before anything is recorded.
    pub redactor: Redactor,
    /// How often callers may call, and how many calls may run at once. A rule with a
    /// [problem](LimitRule::problem) limits nothing.
    pub limits: Vec<LimitRule>,
    /// When a tool that keeps failing is left alone.
    pub breaker: BreakerSettings,
    /// How many failed attempts are repeated while a tool keeps failing.
    pub retry_budget: RetryBudget,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout_default: Duration::from_secs(30),
            timeout_max: Duration::from_secs(300),
            cancel_grace: Duration::from_millis(500),
            precondition_timeout: Duration::from_secs(5),
            repair: true,
            arguments: JsonLimits::default(),
            result_bytes_max: 16 << 20,
            journal_argument_bytes_max: 16 << 10,
            journal_result_bytes_max: 16 << 10,
            run_result_bytes_max: 1 << 20,
            require_authentication: false,
            ask_from: Risk::High,
            labels: LabelSettings::default(),
            approvals: ApprovalSettings::default(),
            durability: Durability::Changes,
            redactor: Redactor::default(),
            limits: Vec::new(),
            breaker: BreakerSettings::default(),
            retry_budget: RetryBudget::default(),
        }
    }
}

/// Which records a call waits for until they would survive a power cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Those of calls that may change the world. Others are written within milliseconds.
    #[default]
    Changes,
    /// Those of every call, also of calls that only read.
    All,
}
