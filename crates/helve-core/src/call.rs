//! One request to run one tool, and who makes it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::name::ToolName;
use crate::ports::Client;

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
    /// Who calls.
    pub caller: Arc<Caller>,
    /// What the calling agent decided about this call, if it decides such things.
    pub advice: Option<Advice>,
    /// Makes repeating this call safe: a key that has finished returns its outcome.
    pub idempotency_key: Option<Arc<str>>,
    /// Less time than the tool allows.
    pub timeout: Option<Duration>,
    /// Joins this call with others in logs and journal.
    pub correlation_id: Option<String>,
    /// Takes the call back.
    pub cancellation: Option<CancellationToken>,
    /// Whoever calls, where they can be spoken to while the call runs.
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
        Self {
            tool: tool.into(),
            arguments,
            caller: Caller::local(),
            advice: None,
            idempotency_key: None,
            timeout: None,
            correlation_id: None,
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

/// Who calls, and what they may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Caller {
    /// Who answers for the call. Absent: nobody said, and where authentication is on, no tool runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Which agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Which session of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Which loop of that session.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub loop_id: Option<String>,
    /// What they may use.
    #[serde(default, skip_serializing_if = "Access::is_all")]
    pub access: Access,
    /// What they were granted, beside what the runtime grants their principal: `browser:automate`,
    /// or with `*` for any text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
}

impl Caller {
    /// The person at this machine, who may use everything.
    pub fn local() -> Arc<Self> {
        static LOCAL: std::sync::OnceLock<Arc<Caller>> = std::sync::OnceLock::new();
        Arc::clone(LOCAL.get_or_init(|| Arc::new(Self::principal("local"))))
    }

    /// Somebody who answers for their calls.
    pub fn principal(name: impl Into<String>) -> Self {
        Self { principal: Some(name.into()), ..Self::anonymous() }
    }

    /// An agent that answers for its own calls.
    pub fn agent(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { principal: Some(name.clone()), agent: Some(name), ..Self::anonymous() }
    }

    /// Nobody in particular.
    pub fn anonymous() -> Self {
        Self {
            principal: None,
            agent: None,
            session: None,
            loop_id: None,
            access: Access::All,
            grants: Vec::new(),
        }
    }

    /// Sets the session.
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.session = Some(id.into());
        self
    }

    /// Sets the loop.
    pub fn loop_id(mut self, id: impl Into<String>) -> Self {
        self.loop_id = Some(id.into());
        self
    }

    /// Allows only these tools and toolkits: `tool`, `ns/tool`, `ns/*`.
    pub fn allow_only<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.access = Access::Only(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Grants permissions: `browser:automate`, `browser:*`, `*`.
    pub fn granted<S: Into<String>>(mut self, grants: impl IntoIterator<Item = S>) -> Self {
        self.grants.extend(grants.into_iter().map(Into::into));
        self
    }
}

/// An allow-list of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Every tool.
    #[default]
    All,
    /// Only these: full names, or `ns/*` for a toolkit and all below it.
    Only(Vec<String>),
}

impl Access {
    /// Whether the list lets `tool` through.
    pub fn allows(&self, tool: &ToolName) -> bool {
        match self {
            Self::All => true,
            Self::Only(entries) => entries.iter().any(|entry| matches_entry(entry, tool.as_str())),
        }
    }

    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

fn matches_entry(entry: &str, name: &str) -> bool {
    match entry.strip_suffix("/*") {
        Some(toolkit) => name.strip_prefix(toolkit).is_some_and(|rest| rest.starts_with('/')),
        None => entry == name || entry == "*",
    }
}

/// What the calling agent decided about its own call. It can make the gate stricter, never laxer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

    /// Says why.
    pub fn because(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = Some(reasoning.into());
        self
    }
}

/// What an agent can decide about its own call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvisedAction {
    /// Run it, if nothing else objects.
    Execute,
    /// Ask a person.
    RequestApproval,
    /// Do not run it.
    Deny,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allow_lists_match_whole_names_and_toolkits() {
        let access = Access::Only(vec!["time-now".into(), "mail/*".into(), "acme/crm/find".into()]);
        let allows = |name: &str| access.allows(&ToolName::new(name).unwrap());
        assert!(
            allows("time-now") && allows("mail/send") && allows("mail/inbox/read") && allows("acme/crm/find")
        );
        for name in ["time-now2", "mail", "mailer/send", "acme/crm/delete", "x/time-now"] {
            assert!(!allows(name), "{name}");
        }
        assert!(!Access::Only(Vec::new()).allows(&ToolName::new("time-now").unwrap()));
    }
}
