//! Who makes a call, and what they may use.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::ToolName;

/// Who calls, and what they may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Caller {
    /// Who answers for the call. Absent: nobody said, and where authentication is on, no tool runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// What sort of principal they are.
    #[serde(default, skip_serializing_if = "PrincipalKind::is_user")]
    pub kind: PrincipalKind,
    /// What they are to this runtime, such as `approver`; policies ask for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The way the call came in.
    #[serde(default, skip_serializing_if = "Channel::is_rust")]
    pub channel: Channel,
    /// The agent that acts for the principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Which session of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether the caller named that session, or it is a connection's own.
    #[serde(default, skip_serializing_if = "SessionKind::is_named")]
    pub session_kind: SessionKind,
    /// Which loop of that session.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub loop_id: Option<String>,
    /// What they may use.
    #[serde(default, skip_serializing_if = "Access::is_all")]
    pub access: Access,
    /// What they were granted, besides what the runtime grants their principal: `browser:automate`,
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

    /// A principal, who answers for their calls.
    pub fn principal(name: impl Into<String>) -> Self {
        Self { principal: Some(name.into()), ..Self::anonymous() }
    }

    /// An agent that answers for its own calls.
    pub fn agent(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            principal: Some(name.clone()),
            kind: PrincipalKind::Agent,
            agent: Some(name),
            ..Self::anonymous()
        }
    }

    /// Nobody in particular.
    pub fn anonymous() -> Self {
        Self {
            principal: None,
            kind: PrincipalKind::User,
            roles: Vec::new(),
            channel: Channel::Rust,
            agent: None,
            session: None,
            session_kind: SessionKind::Named,
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

    /// Sets the session to one that a connection made for itself: it ends with the connection, and the same client
    /// has another the next time.
    pub fn session_of_connection(mut self, id: impl Into<String>) -> Self {
        self.session = Some(id.into());
        self.session_kind = SessionKind::Connection;
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

    /// Sets what sort of principal they are.
    pub fn kind(mut self, kind: PrincipalKind) -> Self {
        self.kind = kind;
        self
    }

    /// Adds roles to those that they have already.
    pub fn roles<S: Into<String>>(mut self, roles: impl IntoIterator<Item = S>) -> Self {
        self.roles.extend(roles.into_iter().map(Into::into));
        self
    }

    /// Whether they have a role.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|own| own == role)
    }

    /// Sets the way the call came in.
    pub fn channel(mut self, channel: Channel) -> Self {
        self.channel = channel;
        self
    }

    /// Grants permissions: `browser:automate`, `browser:*`, `*`.
    pub fn granted<S: Into<String>>(mut self, grants: impl IntoIterator<Item = S>) -> Self {
        self.grants.extend(grants.into_iter().map(Into::into));
        self
    }
}

/// Where a session's id comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionKind {
    /// The caller named it, and can come back to it.
    #[default]
    Named,
    /// A connection made it, and nobody can.
    Connection,
}

impl SessionKind {
    fn is_named(&self) -> bool {
        *self == Self::Named
    }
}

/// An allow-list of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Every tool that is registered.
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

/// The sorts of principal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalKind {
    /// A person. What nobody declared otherwise counts as one.
    #[default]
    User,
    /// A model with tools.
    Agent,
    /// A program without a model.
    Service,
}

impl PrincipalKind {
    /// Every kind, in the order of the declaration.
    pub const ALL: [Self; 3] = [Self::User, Self::Agent, Self::Service];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::Service => "service",
        }
    }

    fn is_user(&self) -> bool {
        *self == Self::User
    }
}

/// The way a call came in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// From the program that Helve is part of.
    #[default]
    Rust,
    /// From the command line, by the person at this machine.
    Cli,
    /// From an MCP client that Helve was started by, over its standard input.
    Stdio,
    /// Over HTTP: the API, or MCP.
    Http,
}

impl Channel {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Cli => "cli",
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }

    fn is_rust(&self) -> bool {
        *self == Self::Rust
    }
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
