//! The names by which hooks know tools.
//!
//! Hooks that people already have were written for Claude Code: they match `Bash` and read
//! `tool_input.command`. So the tools that ship with Helve also answer to those names, and a hook that
//! matched one sees the call in those words.

use std::borrow::Cow;

use helve_core::permission::{COUNTERPARTS, Counterpart};
use helve_core::{Source, Tool};
use serde_json::{Map, Value};

use super::Matcher;

/// The words in which a hook sees a call.
#[derive(Clone, Copy)]
pub(crate) enum Spoken {
    /// Helve's own name for the tool.
    Own,
    /// The name that Claude Code gives to tools of MCP servers: `mcp__server__tool`.
    Mcp,
    /// Those of Claude Code, under this name.
    Theirs(&'static str, &'static Counterpart),
}

impl Spoken {
    /// Whether two hooks can be told the same.
    pub(crate) fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Own, Self::Own) | (Self::Mcp, Self::Mcp) => true,
            (Self::Theirs(one, _), Self::Theirs(two, _)) => one == two,
            (Self::Own | Self::Mcp | Self::Theirs(..), _) => false,
        }
    }

    /// Arguments as the hook knows them.
    pub(crate) fn input(self, arguments: &Value) -> Value {
        match (self, arguments) {
            (Self::Theirs(_, counterpart), Value::Object(fields)) => {
                Value::Object(renamed(counterpart, fields.clone(), |(ours, theirs)| (*ours, *theirs)))
            }
            (Self::Own | Self::Mcp | Self::Theirs(..), arguments) => arguments.clone(),
        }
    }

    /// Arguments from a hook, as the tool knows them.
    pub(crate) fn arguments(self, input: Map<String, Value>) -> Map<String, Value> {
        match self {
            Self::Own | Self::Mcp => input,
            Self::Theirs(_, counterpart) => renamed(counterpart, input, |(ours, theirs)| (*theirs, *ours)),
        }
    }
}

fn renamed(
    counterpart: &Counterpart,
    mut fields: Map<String, Value>,
    way: impl Fn(&(&'static str, &'static str)) -> (&'static str, &'static str),
) -> Map<String, Value> {
    for (from, to) in counterpart.fields.iter().map(way) {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
    fields
}

/// The names of one tool.
pub(crate) struct Names<'t> {
    tool: &'t Tool,
}

impl<'t> Names<'t> {
    pub(crate) fn of(tool: &'t Tool) -> Self {
        Self { tool }
    }

    /// Whether a matcher means the tool, and in which words it does.
    pub(crate) fn matched(&self, matcher: &Matcher) -> Option<Spoken> {
        let name = self.tool.name().as_str();
        if matcher.matches(name) {
            return Some(Spoken::Own);
        }
        if let Some(counterpart) = self.counterpart()
            && let Some(theirs) = counterpart.names.iter().find(|theirs| matcher.matches(theirs))
        {
            return Some(Spoken::Theirs(theirs, counterpart));
        }
        if self.mcp_name().is_some_and(|name| matcher.matches(&name)) {
            return Some(Spoken::Mcp);
        }
        let aliases = self.tool.definition().aliases.iter().map(String::as_str);
        let mut others = aliases.chain([self.tool.provider_name()]);
        others.any(|other| matcher.matches(other)).then_some(Spoken::Own)
    }

    /// The tool's name in a hook's words.
    pub(crate) fn name(&self, spoken: Spoken) -> Cow<'t, str> {
        let own = self.tool.name().as_str();
        match spoken {
            Spoken::Own => Cow::Borrowed(own),
            Spoken::Mcp => self.mcp_name().map_or(Cow::Borrowed(own), Cow::Owned),
            Spoken::Theirs(theirs, _) => Cow::Borrowed(theirs),
        }
    }

    /// The server, where the tool is one of an MCP server: by where it comes from, not by its name.
    pub(crate) fn server(&self) -> Option<&'t str> {
        let is_served = self.tool.definition().source == Source::Mcp;
        is_served.then(|| self.tool.name().namespace().unwrap_or_default())
    }

    fn mcp_name(&self) -> Option<String> {
        let server = self.server()?;
        Some(format!("mcp__{}__{}", server.replace('/', "__"), self.tool.name().simple()))
    }

    /// Only for tools that ship with Helve: another of that name takes other arguments.
    fn counterpart(&self) -> Option<&'static Counterpart> {
        let definition = self.tool.definition();
        let is_ours = definition.source == Source::Builtin;
        COUNTERPARTS.iter().find(|one| is_ours && one.tool == definition.name.as_str())
    }
}
