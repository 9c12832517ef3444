//! What a policy is asked, from a command or a file of cases.

use helve::{
    Action, Caller, Channel, Label, LabelSet, PolicyRequest, PolicyResource, PrincipalKind, Registry, Tool,
};
use helve_host::suggest;
use serde_json::Value;

use crate::commands::tools::find;
use crate::failure::Failure;

/// A question to the policies, with all that it is about.
pub(super) struct PolicyQuestion {
    pub(super) caller: Caller,
    pub(super) action: Action,
    pub(super) about: About,
    pub(super) arguments: Value,
    pub(super) labels: LabelSet,
    pub(super) now: jiff::Timestamp,
}

/// What it is about.
pub(super) enum About {
    Tool(Tool),
    Served { server: String, name: String },
    Runtime,
}

impl About {
    /// What an action can be about: a tool, `server/address`, or nothing in particular.
    pub(super) fn find(action: Action, what: Option<&str>, registry: &Registry) -> Result<Self, Failure> {
        match (action, what) {
            (Action::List | Action::Call, None) => {
                Err(Failure::usage(format!("`{}` is about a tool, and none is named", action.as_str())))
            }
            (Action::ReadResource | Action::GetPrompt, Some(what)) => {
                let (server, name) = what.split_once('/').ok_or_else(|| {
                    Failure::usage(format!("`{what}` is not `SERVER/NAME`"))
                        .hint("such as `docs/file:///readme.md`")
                })?;
                Ok(Self::Served { server: server.to_owned(), name: name.to_owned() })
            }
            (Action::ReadResource | Action::GetPrompt, None) => Err(Failure::usage(format!(
                "`{}` is about `SERVER/NAME`, and nothing is named",
                action.as_str()
            ))),
            (_, Some(tool)) => Ok(Self::Tool(find(registry, tool)?.tool)),
            (Action::Approve | Action::Inspect | Action::Administer, None) => Ok(Self::Runtime),
        }
    }
}

impl PolicyQuestion {
    pub(super) fn request(&self) -> PolicyRequest<'_> {
        PolicyRequest {
            caller: &self.caller,
            action: self.action,
            resource: match &self.about {
                About::Tool(tool) => PolicyResource::Tool(tool),
                About::Served { server, name } => PolicyResource::Served { server, name },
                About::Runtime => PolicyResource::Runtime,
            },
            arguments: (self.action == Action::Call).then_some(&self.arguments),
            labels: self.labels,
            now: self.now,
        }
    }

    /// Why the arguments are none that policies would ever see: before they are asked, arguments
    /// are checked against the tool's schema.
    pub(super) fn misfit(&self) -> Option<String> {
        let About::Tool(tool) = &self.about else { return None };
        if self.action != Action::Call {
            return None;
        }
        let error = tool.input().validate(&self.arguments).err()?.into_iter().next()?;
        Some(format!("the arguments do not fit `{}`: {}", tool.name(), error.message))
    }
}

/// `agent:planner`, `service:cron`, `ada`, or `anonymous`.
pub(super) fn caller(text: &str) -> Result<Caller, Failure> {
    match text.split_once(':') {
        Some((kind, name)) => {
            let kind = word("kind of principal", kind, &PrincipalKind::ALL, PrincipalKind::as_str)?;
            Ok(if kind == PrincipalKind::Agent {
                Caller::agent(name)
            } else {
                Caller::principal(name).kind(kind)
            })
        }
        None if text == "anonymous" => Ok(Caller::anonymous()),
        None => Ok(Caller::principal(text)),
    }
}

pub(super) fn action(text: &str) -> Result<Action, Failure> {
    word("action", text, &Action::ALL, Action::as_str)
}

pub(super) fn label(text: &str) -> Result<Label, Failure> {
    word("label", text, &Label::ALL, Label::as_str)
}

pub(super) fn channel(text: &str) -> Result<Channel, Failure> {
    let all = [Channel::Rust, Channel::Cli, Channel::Stdio, Channel::Http];
    word("channel", text, &all, Channel::as_str)
}

/// One of our words, or what was probably meant.
fn word<T: Copy>(what: &str, text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, Failure> {
    all.iter().copied().find(|one| name(*one) == text).ok_or_else(|| {
        let words: Vec<_> = all.iter().map(|one| name(*one)).collect();
        Failure::usage(format!("there is no {what} `{text}`")).hint(
            match suggest::nearest(text, words.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("there are {}", words.join(", ")),
            },
        )
    })
}
