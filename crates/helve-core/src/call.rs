//! One request to run one tool.

pub mod caller;
pub mod context;
pub mod error;
pub mod event;
pub mod outcome;
pub mod tool_code;
pub mod trace;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::ports::Client;
use crate::trace::SpanContext;

/// One request to run one tool.
///
/// ```
/// use helve_core::{Call, Caller};
/// use serde_json::json;
/// let call = Call::new("mail/send", json!({ "to": "ada@example.com" }))
///     .by(Caller::agent("assistant").session("s-1"))
///     .idempotency_key("order-17");
/// assert_eq!(call.tool, "mail/send");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// Full name, alias or provider name.
    pub tool: String,
    /// Arguments, not yet checked.
    pub arguments: Value,
    /// Who calls, and what they may use.
    pub caller: Arc<Caller>,
    /// What the calling agent decided about this call, if it decides such things.
    pub advice: Option<Advice>,
    /// Makes repeating this call safe: a key that has finished returns its outcome.
    pub idempotency_key: Option<Arc<str>>,
    /// Less time than the tool allows.
    pub timeout: Option<Duration>,
    /// Joins this call with others in logs and journal.
    pub correlation_id: Option<String>,
    /// The caller's own span, where their traces go on here. Parts of a run belong to their run.
    pub trace_parent: Option<SpanContext>,
    /// Takes the call back.
    pub cancellation: Option<CancellationToken>,
    /// The caller's client, where it can be spoken to while the call runs.
    pub client: Option<Arc<dyn Client>>,
    /// How long to wait for a person, where one must decide. Absent: the call ends as pending, and
    /// is made again once they have.
    pub approval_wait: Option<Duration>,
    /// Whether to ask a person once more although they said no a moment ago.
    pub asks_again: bool,
}

impl Call {
    /// A call by the local user.
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        Self::made_by(Caller::local(), tool, arguments)
    }

    /// A call by a caller who is known already.
    pub fn made_by(caller: Arc<Caller>, tool: impl Into<String>, arguments: Value) -> Self {
        Self {
            tool: tool.into(),
            arguments,
            caller,
            advice: None,
            idempotency_key: None,
            timeout: None,
            correlation_id: None,
            trace_parent: None,
            cancellation: None,
            client: None,
            approval_wait: None,
            asks_again: false,
        }
    }

    /// Sets who calls.
    pub fn by(mut self, caller: impl Into<Arc<Caller>>) -> Self {
        self.caller = caller.into();
        self
    }

    /// Sets what the calling agent decided.
    pub fn advised(mut self, advice: Advice) -> Self {
        self.advice = Some(advice);
        self
    }

    /// Sets the key that makes repeating safe.
    pub fn idempotency_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Allows less time than the tool does.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Joins this call with others in logs and journal.
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Makes the call a part of the caller's own trace.
    pub fn trace_parent(mut self, parent: SpanContext) -> Self {
        self.trace_parent = Some(parent);
        self
    }

    /// Lets `token` take the call back.
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = Some(token);
        self
    }

    /// Waits for a person where one must decide, and goes on as soon as they have.
    pub fn wait_for_approval(mut self, at_most: Duration) -> Self {
        self.approval_wait = Some(at_most);
        self
    }

    /// Asks a person once more although they said no a moment ago.
    pub fn ask_again(mut self) -> Self {
        self.asks_again = true;
        self
    }

    /// Lets the tool speak to `client` while it runs.
    pub fn client(mut self, client: Arc<dyn Client>) -> Self {
        self.client = Some(client);
        self
    }
}

/// What the calling agent decided about its own call. It can make the gate stricter, never laxer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// What to do.
    pub action: AdvisedAction,
    /// How sure it is, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Why, for the person who is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

impl Advice {
    /// Advice without more words.
    pub fn new(action: AdvisedAction) -> Self {
        Self { action, confidence: None, reasoning: None }
    }

    /// Adds the reason that the agent gives for its decision.
    pub fn because(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = Some(reasoning.into());
        self
    }

    /// Says how sure it is, from 0 to 1.
    pub fn confidence(mut self, confidence: f64) -> Self {
        self.confidence = Some(confidence);
        self
    }

    /// How sure it is in words, such as ` (90% sure)`; nothing where it did not say, or said what makes no sense.
    pub fn sureness(&self) -> String {
        let sure = self.confidence.filter(|confidence| (0.0..=1.0).contains(confidence));
        sure.map(|sure| format!(" ({:.0}% sure)", sure * 100.0)).unwrap_or_default()
    }

    /// For a person: what it decided, how sure it was and why.
    pub fn words(&self) -> String {
        let action = match self.action {
            AdvisedAction::Execute => "run it",
            AdvisedAction::RequestApproval => "ask a person",
            AdvisedAction::Deny => "do not run it",
        };
        let why = self.reasoning.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("{action}{}{why}", self.sureness())
    }
}

/// What an agent can decide about its own call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdvisedAction {
    /// Run it, if nothing else objects.
    Execute,
    /// Ask a person.
    RequestApproval,
    /// Do not run it.
    Deny,
}
