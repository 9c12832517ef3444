//! The gate's words: what was asked, who said what, and what came of it.

pub mod approval;
pub mod hook;
pub mod label;
pub mod limit;
pub mod permission;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::caller::Caller;
use crate::error::ErrorCode;
use crate::label::LabelSet;
use crate::tool::Tool;

/// What a source says to a call. The strictest wins, so the order matters.
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

/// The one table of sources: each with its words, and the code of the error when it denies a call.
macro_rules! sources {
    ($($(#[$doc:meta])* $variant:ident $words:literal $denial:ident;)*) => {
        /// Who votes on a call. The gate decides by this, and never by a name: names come from
        /// configuration and from code, and anybody could call themselves `labels`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum VoteSource {
            $($(#[$doc])* $variant,)*
        }

        impl VoteSource {
            /// Every source, in the order of the declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The words for it where it has no name.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $words,)* }
            }

            /// The code of the error when it denies a call.
            pub fn denial(self) -> ErrorCode {
                match self { $(Self::$variant => ErrorCode::$denial,)* }
            }
        }
    };
}

sources! {
    /// The check that a caller says who they are.
    Authentication "authentication" NotAuthorized;
    /// The list of tools that the caller's key may use.
    AccessList "access list" NotAuthorized;
    /// What a role may do, where no policy says otherwise.
    Role "role" NotAuthorized;
    /// A Cedar policy, or one in Rust ([`Policy`](crate::ports::Policy)).
    Policy "policy" NotAuthorized;
    /// A person's trust in what came with a project.
    Trust "trust" PermissionDenied;
    /// A rule that allows, asks or denies.
    Rule "rule" PermissionDenied;
    /// The mode of permissions.
    Mode "mode" PermissionDenied;
    /// A hook before the call.
    Hook "hook" HookDenied;
    /// The program around Helve that is asked in place of a person.
    Program "can_use_tool" PermissionDenied;
    /// The calling agent itself.
    Agent "agent" PermissionDenied;
    /// The state of the session.
    Session "session" PermissionDenied;
    /// The labels of the session.
    Labels "labels" PermissionDenied;
    /// The tool's risk.
    Risk "risk" PermissionDenied;
    /// Completion of an argument, for which nobody is asked.
    Completion "completion" PermissionDenied;
    /// An event from outside, for which nobody is asked.
    Event "event" PermissionDenied;
    /// A person, by an approval or a rule made of one.
    Person "approval" ApprovalDenied;
    /// The decision before the run was cut short.
    Earlier "permitted before" PermissionDenied;
}

/// What one source says to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Vote {
    /// Whose vote it is. Decisions look at this.
    // `speaker` in JSON, which programs read.
    #[serde(rename = "speaker")]
    pub source: VoteSource,
    /// Whose vote it is, in words for people and the journal: `policy no-mail`, `rule deny mail/*`, `risk`.
    pub by: Arc<str>,
    /// What it says.
    pub stance: Stance,
    /// Why, for the person who is asked and for the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Vote {
    /// A vote under the source's own words.
    pub fn new(source: VoteSource, stance: Stance) -> Self {
        Self { source, by: source.as_str().into(), stance, reason: None }
    }

    /// A vote under words that begin with the source's own, such as `hook 2 (check.sh)`.
    pub fn named(source: VoteSource, by: impl Into<Arc<str>>, stance: Stance) -> Self {
        Self { source, by: by.into(), stance, reason: None }
    }

    /// What a policy of this name says; an empty name where it is no policy in particular.
    pub fn policy(name: &str, stance: Stance) -> Self {
        match name {
            "" => Self::new(VoteSource::Policy, stance),
            name => Self::named(VoteSource::Policy, format!("policy {name}"), stance),
        }
    }

    /// Adds the reason that people and models read.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// This vote as one that came from a [`Policy`](crate::ports::Policy): a policy speaks for itself and
    /// for what a person trusts, whatever it says that it is.
    pub fn from_policy(self) -> Self {
        match self.source {
            VoteSource::Policy | VoteSource::Trust => self,
            VoteSource::Authentication
            | VoteSource::AccessList
            | VoteSource::Role
            | VoteSource::Rule
            | VoteSource::Mode
            | VoteSource::Hook
            | VoteSource::Program
            | VoteSource::Agent
            | VoteSource::Session
            | VoteSource::Labels
            | VoteSource::Risk
            | VoteSource::Completion
            | VoteSource::Event
            | VoteSource::Person
            | VoteSource::Earlier => Self { reason: self.reason, ..Self::policy(&self.by, self.stance) },
        }
    }
}

/// What a caller wants to do, as policies know it.
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
    /// Every action, in the order of the declaration.
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
    /// Who makes the request.
    pub caller: &'a Caller,
    /// Wants to do what.
    pub action: Action,
    /// The tool or server that is used.
    pub resource: PolicyResource<'a>,
    /// The arguments of a call, once they fit the tool.
    pub arguments: Option<&'a Value>,
    /// What the session has touched so far.
    pub labels: LabelSet,
    /// When the request is judged.
    pub now: Timestamp,
}

/// What a policy is asked about.
#[derive(Debug, Clone, Copy)]
pub enum PolicyResource<'a> {
    /// A tool, with all that it says of itself.
    Tool(&'a Tool),
    /// A resource or a prompt of an MCP server: the server, and its address or name.
    Served {
        /// The server's name in the configuration.
        server: &'a str,
        /// The address or name.
        name: &'a str,
    },
    /// This runtime as a whole.
    Runtime,
}
