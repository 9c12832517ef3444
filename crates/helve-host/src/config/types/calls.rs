//! How calls are bounded: their time and number, tools that keep failing, what is mended in arguments.

use std::time::Duration;

use helve::Settings;
use helve::limit::LimitRule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long tools may run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Execution {
    /// Time for a tool that names none of its own, in milliseconds.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub default_timeout_ms: u64,
    /// The most time that any tool or call may ask for, in milliseconds.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub max_timeout_ms: u64,
    /// How long a cancelled tool has to finish by itself before it is stopped, in milliseconds.
    #[schemars(range(max = 60_000))]
    pub(crate) cancel_grace_ms: u64,
    /// How long the check of a precondition may take, in milliseconds. No answer counts as no.
    #[schemars(range(min = 1, max = 300_000))]
    pub(crate) precondition_timeout_ms: u64,
    /// How long calls that run may go on once `helve up` or `helve mcp serve` is told to stop (SIGTERM, Ctrl-C), in
    /// milliseconds. Then each is cancelled, and runs are left for the next process. A second signal ends it sooner.
    #[schemars(range(max = 86_400_000))]
    pub stop_grace_ms: u64,
}

impl Default for Execution {
    fn default() -> Self {
        let settings = Settings::default();
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            default_timeout_ms: ms(settings.timeout_default),
            max_timeout_ms: ms(settings.timeout_max),
            cancel_grace_ms: ms(settings.cancel_grace),
            precondition_timeout_ms: ms(settings.precondition_timeout),
            stop_grace_ms: 15_000,
        }
    }
}

/// The set of tools.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegistrySection {
    /// Most tools, all layers together.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub tools_max: usize,
}

impl Default for RegistrySection {
    fn default() -> Self {
        Self { tools_max: helve::registry::TOOLS_MAX }
    }
}

/// Bounds on what goes in and out of a call, and on how many there are.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest arguments of a call, in bytes of JSON.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    pub arguments_bytes: usize,
    /// Most values in the arguments of a call, counted at every level.
    #[schemars(range(min = 1))]
    pub arguments_values: usize,
    /// Deepest nesting of arguments.
    #[schemars(range(min = 1, max = 100))]
    pub arguments_depth: usize,
    /// Largest result of a tool, in bytes of JSON. A larger one is the error `output_too_large`.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    pub result_bytes: usize,
    /// How often callers may call tools, and how many calls may run at once. Each rule is a
    /// `[[limits.calls]]` of its own, and all that match hold.
    pub calls: Vec<LimitRule>,
}

impl Default for Limits {
    fn default() -> Self {
        let Settings { arguments, result_bytes_max, .. } = Settings::default();
        Self {
            arguments_bytes: arguments.bytes,
            arguments_values: arguments.values,
            arguments_depth: arguments.depth,
            result_bytes: result_bytes_max,
            calls: Vec::new(),
        }
    }
}

/// Tools that keep failing are left alone for a while.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Breaker {
    /// Whether a tool that keeps failing is left alone.
    pub enabled: bool,
    /// How many calls to a tool in a row must end in `network`, `server_error` or `timeout`
    /// before it is left alone.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub failures: u32,
    /// How long a tool is left alone, in milliseconds. Then one call is let through, and its end
    /// decides.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub(crate) cool_down_ms: u64,
    /// Patterns of tools that are never left alone, such as one that fetches any address.
    pub without: Vec<String>,
}

impl Default for Breaker {
    fn default() -> Self {
        let Settings { breaker, .. } = Settings::default();
        Self {
            enabled: breaker.enabled,
            failures: breaker.failures,
            cool_down_ms: u64::try_from(breaker.cool_down.as_millis()).unwrap_or(u64::MAX),
            without: breaker.without,
        }
    }
}

/// How many failed attempts are repeated while a tool keeps failing.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RetryBudget {
    /// Whether repeats are bounded while a tool keeps failing.
    pub enabled: bool,
    /// How many tokens a tool has.
    #[schemars(range(max = 1_000_000))]
    pub tokens: u32,
    /// Which part of a token a success gives back.
    #[schemars(range(min = 0, max = 1_000))]
    pub(crate) per_success: f64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        let Settings { retry_budget, .. } = Settings::default();
        Self {
            enabled: retry_budget.enabled,
            tokens: retry_budget.tokens,
            per_success: retry_budget.per_success,
        }
    }
}

/// Mending of arguments that models often get wrong.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Repair {
    /// Whether numbers in strings, JSON in strings and near-miss field names are mended. Each
    /// repair is recorded.
    pub enabled: bool,
}

impl Default for Repair {
    fn default() -> Self {
        Self { enabled: true }
    }
}
