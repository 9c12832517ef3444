//! The gate's words: what was asked, who said what, and what came of it.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::caller::Caller;
use crate::label::LabelSet;
use crate::tool::Tool;

/// What somebody says to a call. The strictest wins, so the order matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stance {
    /// It may run.
    Allow,
    /// A person must decide.
    Ask,
    /// It must not run.
    Deny,
}

impl Stance {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Stance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One that has a say: a policy, a rule, a hook, the tool's risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Voice {
    /// Who: `policy no-mail`, `rule deny mail/*`, `hook 2`, `risk`, `labels`.
    pub by: Arc<str>,
    /// What it says.
    pub stance: Stance,
    /// Why, for the person who is asked and for whoever called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Voice {
    /// A voice without more words.
    pub fn new(by: impl Into<Arc<str>>, stance: Stance) -> Self {
        Self { by: by.into(), stance, reason: None }
    }

    /// Says why.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// What somebody wants to do, as policies know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// See that a tool is there, and what it takes.
    List,
    /// Call a tool.
    Call,
    /// Read a resource of an MCP server.
    ReadResource,
    /// Use a prompt of an MCP server.
    GetPrompt,
    /// Decide a question to a person.
    Approve,
    /// Look at runs, questions and the audit trail of others.
    Inspect,
    /// Change what this runtime is: servers, keys, rules.
    Administer,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 7] = [
        Self::List,
        Self::Call,
        Self::ReadResource,
        Self::GetPrompt,
        Self::Approve,
        Self::Inspect,
        Self::Administer,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Call => "call",
            Self::ReadResource => "read_resource",
            Self::GetPrompt => "get_prompt",
            Self::Approve => "approve",
            Self::Inspect => "inspect",
            Self::Administer => "administer",
        }
    }
}

/// What a policy is asked.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRequest<'a> {
    /// Who.
    pub caller: &'a Caller,
    /// Wants to do what.
    pub action: Action,
    /// With what.
    pub resource: PolicyResource<'a>,
    /// The arguments of a call, once they fit the tool.
    pub arguments: Option<&'a Value>,
    /// What the session has touched so far.
    pub labels: LabelSet,
    /// When.
    pub now: Timestamp,
}

/// What a policy is asked about.
#[derive(Debug, Clone, Copy)]
pub enum PolicyResource<'a> {
    /// A tool.
    Tool(&'a Tool),
    /// A resource or a prompt of an MCP server: the server, and its address or name.
    Served {
        /// The server.
        server: &'a str,
        /// The address or name.
        name: &'a str,
    },
    /// This runtime as a whole.
    Runtime,
}
