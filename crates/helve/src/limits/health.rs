//! Which tools fail, and what follows from it: a circuit breaker and a retry budget for each.
//!
//! The breaker counts calls: after several in a row that found the tool unwell, it is left alone
//! for a while. The budget counts attempts: while many fail, they are not repeated, because
//! repeating is what turns a short outage into a long one.
//!
//! A tool that is well has no entry here, so nearly every call costs one look at a counter.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use helve_core::{ErrorCode, ToolError, ToolName, pattern};
use tokio::time::Instant;

use super::breaker::{Breaker, Entrance, Shut};
use super::{shown, whole_ms};

/// Most tools that are watched at a time. Beyond that, tools are called as if they were well.
const TOOLS_MAX: usize = 4_096;

/// After so long without a failure a tool starts afresh.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// No tool is left alone for longer than this, whatever was configured.
const COOL_DOWN_MAX: Duration = Duration::from_secs(86_400);

/// When a tool that keeps failing is left alone.
#[derive(Debug, Clone, PartialEq)]
pub struct BreakerSettings {
    /// Whether any tool ever is.
    pub enabled: bool,
    /// After so many calls in a row that found it unwell: `network`, `server_error`, `timeout`,
    /// `mcp_connection`.
    pub failures: u32,
    /// How long it is left alone. Then one call is let through, and its end decides.
    pub cool_down: Duration,
    /// Patterns of tools that are never left alone, such as one that fetches any address: a dead
    /// address says nothing about the next.
    pub without: Vec<String>,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { enabled: true, failures: 5, cool_down: Duration::from_secs(30), without: Vec::new() }
    }
}

/// How many failed attempts are repeated while a tool keeps failing.
///
/// Each tool has a bucket of tokens. A failed attempt that its policy would repeat takes one, a
/// call that succeeds gives a part of one back, and attempts are repeated only while more than half are
/// there. The first attempt of a call is always made.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryBudget {
    /// Whether there is one.
    pub enabled: bool,
    /// How many tokens. The default lets one call make all attempts of any preset.
    pub tokens: u32,
    /// Which part of a token a success gives back.
    pub per_success: f64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { enabled: true, tokens: 20, per_success: 0.1 }
    }
}

/// What a call found out about its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It answered, if only to say no.
    Well,
    /// It, or what it stands for, is in trouble.
    Unwell,
    /// The call says nothing about the tool.
    Unknown,
}

impl Verdict {
    /// What an error says about the tool.
    pub(crate) fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::Network | ErrorCode::ServerError | ErrorCode::Timeout => Self::Unwell,
            // A server that died in the middle of many calls may be back for the next one. The MCP
            // client itself waits longer after each connection that cannot be made.
            ErrorCode::McpConnection => Self::Unknown,
            ErrorCode::RateLimit
            | ErrorCode::Lock
            | ErrorCode::ExecutionFailed
            | ErrorCode::OutputInvalid
            | ErrorCode::OutputTooLarge => Self::Well,
            ErrorCode::ToolNotFound
            | ErrorCode::NotAuthorized
            | ErrorCode::ValidationFailed
            | ErrorCode::HookDenied
            | ErrorCode::IntegrationMissing
            | ErrorCode::PreconditionFailed
            | ErrorCode::ApprovalDenied
            | ErrorCode::ApprovalExpired
            | ErrorCode::ApprovalStale
            | ErrorCode::PermissionDenied
            | ErrorCode::Cancelled
            | ErrorCode::SandboxViolation
            | ErrorCode::EffectFailed
            | ErrorCode::NoBranchMatched
            | ErrorCode::OutcomeUnknown
            | ErrorCode::JournalUnavailable
            | ErrorCode::Stopping
            | ErrorCode::Internal => Self::Unknown,
        }
    }
}

/// The tools that failed lately.
pub(crate) struct Health {
    breaker: BreakerSettings,
    budget: Budget,
    tools: ArcSwap<HashMap<ToolName, Arc<Mutex<State>>>>,
    /// How many there are: all that a call looks at while every tool is well.
    watched: AtomicUsize,
    /// Held while a tool is added or removed, or a failure noted.
    writer: Mutex<()>,
}

/// The budget in whole thousandths, which do not drift as sums of 0.1 do.
struct Budget {
    enabled: bool,
    tokens_milli: u64,
    per_success_milli: u64,
}

#[derive(Debug)]
struct State {
    breaker: Breaker,
    spent_milli: u64,
    last_failure: Instant,
}

impl Health {
    pub(crate) fn new(breaker: &BreakerSettings, budget: &RetryBudget) -> Self {
        Self {
            breaker: BreakerSettings { cool_down: breaker.cool_down.min(COOL_DOWN_MAX), ..breaker.clone() },
            budget: Budget {
                enabled: budget.enabled,
                tokens_milli: u64::from(budget.tokens) * 1_000,
                // A cast from a float saturates, and makes zero of what is no number.
                per_success_milli: (budget.per_success * 1_000.0) as u64,
            },
            tools: ArcSwap::default(),
            watched: AtomicUsize::new(0),
            writer: Mutex::new(()),
        }
    }

    /// How many tools are left alone.
    pub(crate) fn open_breakers(&self) -> usize {
        self.tools.load().values().filter(|state| lock(state).breaker.is_open()).count()
    }

    /// Lets a call through to its tool, or refuses it.
    pub(crate) fn enter(&self, tool: &ToolName) -> Result<Pass<'_>, ToolError> {
        let Some(state) = self.find(tool) else { return Ok(Pass::Free) };
        let now = Instant::now();
        let entered = lock(&state).breaker.enter(now);
        match entered {
            Ok(Entrance::Free) => Ok(Pass::Free),
            Ok(Entrance::Probe) => {
                Ok(Pass::Probe(Probe { health: self, tool: tool.clone(), decided: false }))
            }
            Err(shut) => Err(self.left_alone(tool, shut, now)),
        }
    }

    /// Notes how a call ended.
    pub(crate) fn ended(&self, tool: &ToolName, pass: Pass<'_>, verdict: Verdict) {
        let entrance = match &pass {
            Pass::Free => Entrance::Free,
            Pass::Probe(_) => Entrance::Probe,
        };
        match verdict {
            Verdict::Well => self.succeeded(tool, entrance),
            Verdict::Unwell => self.failed(tool, entrance),
            Verdict::Unknown => return,
        }
        if let Pass::Probe(mut probe) = pass {
            probe.decided = true;
        }
    }

    /// Takes a token for a failed attempt. Whether it may be repeated.
    pub(crate) fn spend(&self, tool: &ToolName) -> bool {
        let most = self.budget.tokens_milli;
        let left = self.budget.enabled.then(|| {
            self.note_failure(tool, |state| {
                state.spent_milli = (state.spent_milli + 1_000).min(most);
                most - state.spent_milli
            })
        });
        left.flatten().is_none_or(|left| left > most / 2)
    }

    fn succeeded(&self, tool: &ToolName, entrance: Entrance) {
        let Some(state) = self.find(tool) else { return };
        let is_well = {
            let mut state = lock(&state);
            state.breaker.succeeded(entrance);
            state.spent_milli = state.spent_milli.saturating_sub(self.budget.per_success_milli);
            state.is_well()
        };
        if is_well {
            self.forget(tool);
        }
    }

    fn failed(&self, tool: &ToolName, entrance: Entrance) {
        let BreakerSettings { enabled, failures, cool_down, without } = &self.breaker;
        if !enabled || without.iter().any(|pattern| pattern::matches(pattern, tool.as_str())) {
            return;
        }
        self.note_failure(tool, |state| {
            state.breaker.failed(entrance, *failures, *cool_down, state.last_failure);
        });
    }

    fn find(&self, tool: &ToolName) -> Option<Arc<Mutex<State>>> {
        if self.watched.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.tools.load().get(tool).cloned()
    }

    /// Nothing is noted where too many tools are watched already.
    fn note_failure<T>(&self, tool: &ToolName, note: impl FnOnce(&mut State) -> T) -> Option<T> {
        let now = Instant::now();
        let _turn = lock(&self.writer);
        let state = match self.find(tool) {
            Some(state) => state,
            None => self.watch(tool, now)?,
        };
        let mut state = lock(&state);
        if state.is_stale(now) {
            *state = State::new(now);
        }
        state.last_failure = now;
        Some(note(&mut state))
    }

    /// Only for the holder of `writer`.
    fn watch(&self, tool: &ToolName, now: Instant) -> Option<Arc<Mutex<State>>> {
        let mut tools = HashMap::clone(&self.tools.load());
        if tools.len() >= TOOLS_MAX {
            tools.retain(|_, state| !lock(state).is_stale(now));
        }
        if tools.len() >= TOOLS_MAX {
            return None;
        }
        let state = Arc::new(Mutex::new(State::new(now)));
        tools.insert(tool.clone(), Arc::clone(&state));
        self.replace(tools);
        Some(state)
    }

    fn forget(&self, tool: &ToolName) {
        let _turn = lock(&self.writer);
        // It may have failed again since.
        if self.find(tool).is_some_and(|state| lock(&state).is_well()) {
            let mut tools = HashMap::clone(&self.tools.load());
            tools.remove(tool);
            self.replace(tools);
        }
    }

    fn replace(&self, tools: HashMap<ToolName, Arc<Mutex<State>>>) {
        let count = tools.len();
        self.tools.store(Arc::new(tools));
        self.watched.store(count, Ordering::Release);
    }

    fn left_alone(&self, tool: &ToolName, shut: Shut, now: Instant) -> ToolError {
        let (since, wait) = (shown(now.saturating_duration_since(shut.since)), shown(shut.wait));
        let times = self.breaker.failures.max(1);
        let message = format!(
            "`{tool}` failed {times} times in a row and has been left alone for {since}; it is tried again in {wait}"
        );
        ToolError::new(ErrorCode::ServerError, message)
            .retry_after(whole_ms(shut.wait))
            .suggest(format!("call again in {wait}, or do without `{tool}` until then"))
    }
}

/// How a call came past the breaker.
#[must_use = "dropped, it says that nothing was found out"]
pub(crate) enum Pass<'h> {
    /// Like any other.
    Free,
    /// As the one call that finds out whether the tool is well again.
    Probe(Probe<'h>),
}

/// The one call that finds out. Dropped before it has, as when its caller went away, it makes room
/// for the next.
pub(crate) struct Probe<'h> {
    health: &'h Health,
    tool: ToolName,
    decided: bool,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if !self.decided
            && let Some(state) = self.health.find(&self.tool)
        {
            lock(&state).breaker.undecided(Instant::now());
        }
    }
}

impl State {
    fn new(now: Instant) -> Self {
        Self { breaker: Breaker::default(), spent_milli: 0, last_failure: now }
    }

    /// As good as one that was never watched.
    fn is_well(&self) -> bool {
        self.breaker == Breaker::default() && self.spent_milli == 0
    }

    /// What happened is too long ago to matter.
    fn is_stale(&self, now: Instant) -> bool {
        let over = match self.breaker {
            Breaker::Closed { .. } => true,
            Breaker::Open { until, .. } => until <= now,
            Breaker::Trying { .. } => false,
        };
        over && now.saturating_duration_since(self.last_failure) >= FORGOTTEN_AFTER
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
