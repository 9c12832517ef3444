//! Whether and how a failed attempt is repeated.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, ToolError};
use crate::tool_code::ToolCode;

/// When to try again, how often, and how long to wait.
///
/// ```
/// use helve_core::retry::RetryPolicy;
/// use helve_core::{ErrorCode, ToolError};
/// let policy = RetryPolicy::standard();
/// let offline = ToolError::new(ErrorCode::Network, "no route to host");
/// assert!(policy.allows(&offline, 1));
/// assert_eq!(policy.backoff.delay(2, 0.5).as_millis(), 2_000);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// How many attempts may follow the first.
    pub retries_max: u32,
    /// How long to wait between attempts.
    pub backoff: Backoff,
    /// Codes worth another attempt.
    pub retryable_codes: Vec<RetryableCode>,
    /// Codes never worth another attempt. They win over `retryable_codes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub never_codes: Vec<RetryableCode>,
    /// Repeat even though nobody knows whether the last attempt had its effect. Without this, a tool
    /// that is neither read-only nor idempotent is repeated only after errors that say that
    /// nothing was done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry_unknown: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::none()
    }
}

impl RetryPolicy {
    /// A policy of one attempt.
    pub fn none() -> Self {
        Self {
            retries_max: 0,
            backoff: Backoff::None {},
            retryable_codes: Vec::new(),
            never_codes: Vec::new(),
            retry_unknown: false,
        }
    }

    /// Three more attempts, a second apart.
    pub fn quick() -> Self {
        Self {
            retries_max: 3,
            backoff: Backoff::Fixed { delay_ms: 1_000 },
            retryable_codes: vec![RetryableCode::Timeout, RetryableCode::RateLimit, RetryableCode::Network],
            ..Self::none()
        }
    }

    /// Three more attempts after 1, 2 and 4 seconds.
    pub fn standard() -> Self {
        Self {
            retries_max: 3,
            backoff: Backoff::Exponential { base_ms: 1_000, max_ms: 30_000, multiplier: 2.0 },
            retryable_codes: vec![
                RetryableCode::Timeout,
                RetryableCode::RateLimit,
                RetryableCode::Network,
                RetryableCode::ServerError,
            ],
            ..Self::none()
        }
    }

    /// Five more attempts with growing, jittered waits.
    pub fn aggressive() -> Self {
        let base = Backoff::Exponential { base_ms: 500, max_ms: 60_000, multiplier: 2.0 };
        let mut policy = Self::standard();
        policy.retries_max = 5;
        policy.backoff = Backoff::Jittered { base: Box::new(base), jitter: 0.1 };
        policy.retryable_codes.push(RetryableCode::Lock);
        policy
    }

    /// Whether attempt number `attempt` (from 1), which ended in `error`, may be followed by another.
    pub fn allows(&self, error: &ToolError, attempt: u32) -> bool {
        attempt <= self.retries_max && self.covers(error)
    }

    /// Whether `error` is of the sort that is repeated, however many attempts there were.
    pub fn covers(&self, error: &ToolError) -> bool {
        let is_in = |codes: &[RetryableCode]| codes.iter().any(|code| code.is_of(error));
        // The maker of the error may know that a repeat cannot help, as with a bad certificate. An error with a code
        // of its own always says so.
        let says_so = error.code().retryable() || error.tool_code().is_some();
        let ruled_out = says_so && !error.is_retryable();
        !ruled_out && is_in(&self.retryable_codes) && !is_in(&self.never_codes)
    }
}

/// The codes that a retry policy may name.
///
/// In a file: `timeout`, `rate_limit`, `network`, `server_error`, `lock`, `mcp_connection`, `execution_failed`, in small or
/// capital letters, or a tool's own code, such as `SCRAPE_FAILED`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RetryableCode {
    /// The tool took too long: [`ErrorCode::Timeout`].
    Timeout,
    /// A limit was reached: [`ErrorCode::RateLimit`].
    RateLimit,
    /// No connection, or one that broke: [`ErrorCode::Network`].
    Network,
    /// A server answered that it failed: [`ErrorCode::ServerError`].
    ServerError,
    /// Another holds a lock: [`ErrorCode::Lock`].
    Lock,
    /// The MCP server cannot be reached: [`ErrorCode::McpConnection`].
    McpConnection,
    /// The tool itself failed: [`ErrorCode::ExecutionFailed`].
    ExecutionFailed,
    /// A tool's own code.
    Own(ToolCode),
}

impl RetryableCode {
    /// Those that are not a tool's own.
    const KNOWN: [Self; 7] = [
        Self::Timeout,
        Self::RateLimit,
        Self::Network,
        Self::ServerError,
        Self::Lock,
        Self::McpConnection,
        Self::ExecutionFailed,
    ];

    fn stable(&self) -> Option<ErrorCode> {
        match self {
            Self::Timeout => Some(ErrorCode::Timeout),
            Self::RateLimit => Some(ErrorCode::RateLimit),
            Self::Network => Some(ErrorCode::Network),
            Self::ServerError => Some(ErrorCode::ServerError),
            Self::Lock => Some(ErrorCode::Lock),
            Self::McpConnection => Some(ErrorCode::McpConnection),
            Self::ExecutionFailed => Some(ErrorCode::ExecutionFailed),
            Self::Own(_) => None,
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Own(code) => code.as_str(),
            known => known.stable().map_or("", ErrorCode::as_str),
        }
    }

    /// Whether an error has this code.
    fn is_of(&self, error: &ToolError) -> bool {
        match self {
            Self::Own(code) => error.tool_code() == Some(code.as_str()),
            known => known.stable() == Some(error.code()),
        }
    }
}

impl From<RetryableCode> for String {
    fn from(code: RetryableCode) -> Self {
        code.as_str().to_owned()
    }
}

impl TryFrom<String> for RetryableCode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_known = |code: &Self| {
            let word = code.as_str();
            text == word || text == word.to_ascii_uppercase()
        };
        if let Some(known) = Self::KNOWN.into_iter().find(is_known) {
            return Ok(known);
        }
        ToolCode::new(&text).map(Self::Own).ok_or_else(|| {
            let known: Vec<_> = Self::KNOWN.iter().map(|code| format!("`{}`", code.as_str())).collect();
            let known = known.join(", ");
            format!(
                "unknown code `{}`: expected one of {known}, or a tool's own code such as `FILE_EXISTS`",
                text.escape_debug()
            )
        })
    }
}

impl JsonSchema for RetryableCode {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RetryableCode".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let known: Vec<_> = Self::KNOWN.iter().map(Self::as_str).collect();
        let own = format!("^[A-Z][A-Z0-9_]{{0,{}}}$", ToolCode::CHARS_MAX - 1);
        schemars::json_schema!({
            "description": "A code worth another attempt: one of these, or a tool's own.",
            "anyOf": [{ "enum": known }, { "type": "string", "pattern": own }],
        })
    }
}

/// How long to wait between attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    /// Not at all. With braces: of a variant without, serde ignores what else is said.
    None {},
    /// Always the same time.
    Fixed {
        /// How long to wait, in milliseconds.
        delay_ms: u64,
    },
    /// A little longer each time.
    Linear {
        /// The first wait, in milliseconds.
        base_ms: u64,
        /// What each later wait adds.
        increment_ms: u64,
    },
    /// Many times longer each time, up to a bound.
    Exponential {
        /// The first wait, in milliseconds.
        base_ms: u64,
        /// The longest wait.
        max_ms: u64,
        /// How many times longer.
        multiplier: f64,
    },
    /// Another backoff, spread so that callers do not return all at once.
    Jittered {
        /// The other backoff.
        base: Box<Backoff>,
        /// By which part, up and down: 0.1 is ten per cent.
        jitter: f64,
    },
}

impl Backoff {
    /// No wait is longer than a day, whatever was configured.
    const DELAY_MS_MAX: f64 = 86_400_000.0;

    /// The wait after attempt number `attempt` (from 1). `random` is in 0..1.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let ms = self.delay_ms(attempt, random);
        Duration::from_millis(if ms.is_finite() { ms.clamp(0.0, Self::DELAY_MS_MAX) as u64 } else { 0 })
    }

    fn delay_ms(&self, attempt: u32, random: f64) -> f64 {
        let earlier = attempt.saturating_sub(1);
        match self {
            Self::None {} => 0.0,
            Self::Fixed { delay_ms } => *delay_ms as f64,
            Self::Linear { base_ms, increment_ms } => {
                *base_ms as f64 + *increment_ms as f64 * f64::from(earlier)
            }
            Self::Exponential { base_ms, max_ms, multiplier } => {
                (*base_ms as f64 * multiplier.powf(f64::from(earlier))).min(*max_ms as f64)
            }
            Self::Jittered { base, jitter } => {
                base.delay_ms(attempt, random) * (1.0 + jitter * (2.0 * random - 1.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_takes_what_is_its_own_and_nothing_else() {
        let read = |json: &str| serde_json::from_str::<Backoff>(json);
        assert_eq!(read(r#"{"type":"none"}"#).unwrap(), Backoff::None {});
        assert!(read(r#"{"type":"none","delay_ms":5}"#).is_err());
        assert!(read(r#"{"type":"fixed","delay_ms":5,"base_ms":5}"#).is_err());
        assert_eq!(serde_json::to_string(&Backoff::None {}).unwrap(), r#"{"type":"none"}"#);
    }

    #[test]
    fn waits_follow_the_seeds_numbers() {
        let waits = |backoff: &Backoff| -> Vec<u128> {
            (1..=6).map(|attempt| backoff.delay(attempt, 0.5).as_millis()).collect()
        };
        assert_eq!(waits(&RetryPolicy::quick().backoff), [1_000; 6]);
        assert_eq!(waits(&RetryPolicy::standard().backoff), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000]);
        assert_eq!(waits(&Backoff::Linear { base_ms: 5, increment_ms: 10 }), [5, 15, 25, 35, 45, 55]);
        let aggressive = RetryPolicy::aggressive().backoff;
        assert_eq!(aggressive.delay(1, 0.0).as_millis(), 450);
        assert_eq!(aggressive.delay(1, 1.0).as_millis(), 550);
    }

    #[test]
    fn a_code_that_is_never_repeated_wins() {
        let error = |code| ToolError::new(code, "it failed");
        let policy = RetryPolicy { never_codes: vec![RetryableCode::Network], ..RetryPolicy::standard() };
        assert!(!policy.allows(&error(ErrorCode::Network), 1));
        assert!(policy.allows(&error(ErrorCode::Timeout), 1));
        assert!(!policy.allows(&error(ErrorCode::Timeout), 4), "three retries, no more");
    }

    #[test]
    fn an_error_that_rules_a_repeat_out_is_believed() {
        let certificate = ToolError::new(ErrorCode::Network, "the certificate has expired").retryable(false);
        assert!(!RetryPolicy::standard().allows(&certificate, 1));
        // Of this code errors do not say so by themselves: naming it in a policy is enough.
        let own =
            RetryPolicy { retryable_codes: vec![RetryableCode::ExecutionFailed], ..RetryPolicy::standard() };
        assert!(own.allows(&ToolError::failed("no luck"), 1));
    }

    #[test]
    fn a_policy_can_name_a_tools_own_codes() {
        let read = |codes: &str| {
            let json =
                format!(r#"{{"retries_max":1,"backoff":{{"type":"none"}},"retryable_codes":{codes}}}"#);
            serde_json::from_str::<RetryPolicy>(&json)
        };
        let policy = read(r#"["SCRAPE_FAILED","TIMEOUT"]"#).unwrap();
        assert_eq!(policy.retryable_codes[1], RetryableCode::Timeout, "the seeds write codes in capitals");
        assert!(policy.allows(&ToolError::recoverable("SCRAPE_FAILED", "no page"), 1));
        assert!(!policy.allows(&ToolError::unrecoverable("SCRAPE_FAILED", "no page"), 1), "not recoverable");
        assert!(!policy.allows(&ToolError::recoverable("FILE_EXISTS", "there"), 1), "not named");
        let network = ToolError::new(ErrorCode::Network, "cut").with_tool_code("SCRAPE_FAILED");
        assert!(policy.allows(&network, 1), "by either code");
        let never = RetryPolicy { never_codes: policy.retryable_codes.clone(), ..RetryPolicy::standard() };
        assert!(!never.allows(&network, 1) && never.allows(&ToolError::new(ErrorCode::Network, "cut"), 1));
        for wrong in [r#"["timout"]"#, r#"[""]"#, r#"["A B"]"#, r#"["É"]"#] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("`timeout`") && error.contains("FILE_EXISTS"), "{error}");
        }
    }

    #[test]
    fn policies_written_before_there_were_more_keys_still_read_and_print_the_same() {
        let old = serde_json::json!({ "retries_max": 1, "backoff": { "type": "none" },
            "retryable_codes": ["timeout"] });
        let policy: RetryPolicy = serde_json::from_value(old.clone()).unwrap();
        assert!(policy.never_codes.is_empty() && !policy.retry_unknown);
        assert_eq!(serde_json::to_value(&policy).unwrap(), old, "a tool's digest must not change");
    }

    #[test]
    fn a_hostile_multiplier_stays_bounded() {
        let wild = Backoff::Exponential { base_ms: u64::MAX, max_ms: u64::MAX, multiplier: f64::INFINITY };
        assert!(wild.delay(400, 0.5) <= Duration::from_secs(86_400));
        let odd = Backoff::Jittered { base: Box::new(wild), jitter: f64::NAN };
        assert_eq!(odd.delay(3, 0.5), Duration::ZERO);
    }
}
