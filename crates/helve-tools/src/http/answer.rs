//! Makes a result or an error of a response.
//!
//! | status | error |
//! |---|---|
//! | 401 | `integration_missing`: the operator must renew the credentials |
//! | 403 | `not_authorized`: the account may not do this; `rate_limit` where the headers say so |
//! | 408, 504 | `timeout` |
//! | 423 | `lock` |
//! | 429 | `rate_limit`, with the wait that `Retry-After` asks for |
//! | 5xx | `server_error` |
//! | any other that is not 2xx | `execution_failed`, with the start of the answer |

use std::time::Duration;

use helve::json::{JsonLimits, parse};
use helve::{ErrorCode, ToolError};
use helve_net::header::RETRY_AFTER;
use helve_net::{NetError, Response};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::config::ResponseFormat;
use super::plan::RequestPlan;
use super::secrets::Secrets;

/// How much of an answer an error shows.
const EXCERPT_CHARS: usize = 600;
/// The longest wait that a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// The result of a call, or why there is none.
pub(super) fn read(plan: &RequestPlan, response: &Response, secrets: &Secrets) -> Result<Value, ToolError> {
    if !response.status.is_success() {
        return Err(status_error(plan, response, secrets));
    }
    let content = content(plan, response, secrets)?;
    let picked = match &plan.response.pick {
        None => content,
        Some(pointer) => content
            .pointer(pointer)
            .cloned()
            .ok_or_else(|| ToolError::failed(format!("the answer has nothing at `{pointer}`")))?,
    };
    if plan.response.fields.is_empty() {
        return Ok(picked);
    }
    let fields = |value: &Value| -> Value {
        let field = |(name, pointer): (&String, &String)| {
            (name.clone(), value.pointer(pointer).cloned().unwrap_or_default())
        };
        Value::Object(plan.response.fields.iter().map(field).collect::<Map<_, _>>())
    };
    Ok(match &picked {
        Value::Array(items) => items.iter().map(fields).collect(),
        _ => fields(&picked),
    })
}

fn content(plan: &RequestPlan, response: &Response, secrets: &Secrets) -> Result<Value, ToolError> {
    if response.body.is_empty() {
        return Ok(Value::Null);
    }
    let media_type = response.content_type();
    let says_json = media_type == "application/json" || media_type.ends_with("+json");
    let is_json = match plan.response.format {
        ResponseFormat::Auto => says_json,
        ResponseFormat::Json => true,
        ResponseFormat::Text => false,
    };
    if is_json {
        let limits = JsonLimits { bytes: plan.response_bytes_max(), ..JsonLimits::default() };
        return parse(&response.body, limits).map_err(|error| {
            // The reason can quote the answer, too.
            let (reason, start) = (excerpt(&error.to_string(), secrets), excerpt(&response.text(), secrets));
            let message = format!("the answer cannot be used: {reason}; it begins: {start}");
            ToolError::new(ErrorCode::OutputInvalid, message)
        });
    }
    let text = std::str::from_utf8(&response.body).map_err(|_| {
        let media_type = excerpt(&media_type, secrets);
        ToolError::failed(format!("the answer is neither JSON nor text, but `{media_type}`"))
    })?;
    Ok(Value::from(text))
}

fn status_error(plan: &RequestPlan, response: &Response, secrets: &Secrets) -> ToolError {
    let status = response.status.as_u16();
    let wait = retry_after(response);
    let code = match status {
        401 => ErrorCode::IntegrationMissing,
        403 if wait.is_some() || exhausted(response) => ErrorCode::RateLimit,
        403 => ErrorCode::NotAuthorized,
        408 | 504 => ErrorCode::Timeout,
        423 => ErrorCode::Lock,
        429 => ErrorCode::RateLimit,
        500..=599 => ErrorCode::ServerError,
        _ => ErrorCode::ExecutionFailed,
    };
    let host = response.url.host_str().unwrap_or_default();
    let reason = response.status.canonical_reason().unwrap_or("an unknown status");
    let mut message = format!("`{host}` answered {status} ({reason})");
    let excerpt = excerpt(&response.text(), secrets);
    if !excerpt.is_empty() {
        message = format!("{message}: {excerpt}");
    }
    let mut error = ToolError::new(code, message);
    if let Some(wait) = wait {
        error = error.retry_after(wait);
    }
    match status {
        401 => error.suggest(renew(plan)),
        403 if code == ErrorCode::NotAuthorized => {
            error.suggest("tell the user that the connected account may not do this")
        }
        _ => error,
    }
}

fn renew(plan: &RequestPlan) -> String {
    let names: Vec<_> = plan.secret_variables().into_iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return "tell the user that this tool needs credentials that its configuration does not send"
            .to_owned();
    }
    format!("tell the user to renew the credentials in {}", names.join(", "))
}

/// Redacts first and cuts then: the other way round half a secret could remain at the cut.
pub(crate) fn excerpt(text: &str, secrets: &Secrets) -> String {
    let redacted = secrets.redact(text.to_owned());
    let line = redacted.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = line.chars().filter(|c| !c.is_control()).take(EXCERPT_CHARS).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// Some APIs say 403 for too many requests, and only a header tells.
fn exhausted(response: &Response) -> bool {
    ["x-ratelimit-remaining", "ratelimit-remaining"].iter().any(|name| response.header(*name) == Some("0"))
}

/// The wait that a server asks for: seconds, or a date.
pub(crate) fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.header(RETRY_AFTER)?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            // A date in the past means now.
            Duration::try_from(date.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO)
        }
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

/// An error of the network as an error of the tool.
pub(crate) fn network_error(error: NetError) -> ToolError {
    let (code, retryable) = sort(&error);
    let unsent = error.is_unsent();
    let error = ToolError::new(code, error.to_string()).retryable(retryable).with_source(error);
    if unsent { error.nothing_done() } else { error }
}

/// The code of an error of the network, and whether trying again can help.
fn sort(error: &NetError) -> (ErrorCode, bool) {
    match error {
        NetError::Forbidden { .. } | NetError::Denied { .. } => (ErrorCode::PermissionDenied, false),
        NetError::Timeout { .. } => (ErrorCode::Timeout, true),
        NetError::TooLarge { .. } => (ErrorCode::OutputTooLarge, false),
        NetError::BadUrl { .. } | NetError::BadHeader { .. } | NetError::Redirect { .. } => {
            (ErrorCode::ExecutionFailed, false)
        }
        // Trying again makes no certificate valid.
        NetError::Tls { .. } => (ErrorCode::Network, false),
        NetError::Redirected { source } => sort(source),
        _ => (ErrorCode::Network, true),
    }
}
