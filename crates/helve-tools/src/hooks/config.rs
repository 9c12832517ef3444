//! Hooks as they stand in a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use helve::Problem;
use helve::hook::OnFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::program::Reach;

/// Hooks that see the same events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookGroup {
    /// Which tools, or what else, they see. Absent, empty or `*`: all. Only letters, digits,
    /// `_`, `-`, spaces, `,` and `|`: these names exactly. Anything else: a regular expression that may
    /// match anywhere in a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matcher: Option<String>,
    /// The hooks. All are told at once.
    pub hooks: Vec<HookConfig>,
    /// How long each may take, in seconds; 600 unless said, 30 for `UserPromptSubmit` and 1.5 for
    /// `SessionEnd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout: Option<u64>,
    /// What it means when one fails or takes too long: `block` or `continue`. Unless said, `block` for
    /// `PreToolUse` and `PermissionRequest`, and `continue` for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// The same as `on_failure`, as the Agent SDK writes it.
    #[serde(default, rename = "onFailure", skip_serializing_if = "Option::is_none")]
    pub on_failure_of_sdk: Option<OnFailure>,
}

/// The forms of a hook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    /// A command in a box: the event as JSON on its stdin, the answer on its stdout.
    #[default]
    Command,
    /// A request: the event is posted as JSON, the answer is the response.
    Http,
    /// A tool of Helve's: its result is the answer.
    Tool,
    /// A tool of an MCP server.
    McpTool,
}

/// A hook, as an entry of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookConfig {
    /// Its form: `command`, `http`, `tool` or `mcp_tool`.
    #[serde(rename = "type")]
    pub kind: HookKind,
    /// How long it may take, in seconds, where the others of its group may take longer or less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout: Option<u64>,
    /// Whether nobody waits for it. It can then neither block nor say anything.
    #[serde(default, rename = "async", skip_serializing_if = "std::ops::Not::not")]
    pub in_background: bool,

    /// `command`: a line for the shell; or, with `args`, a program that no shell starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// `command`: the program's arguments, word by word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// `command`: the shell that reads the line; `sh` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<PathBuf>,
    /// `command`: its environment: plain values, or `${env:NAME}` for a variable of Helve's own.
    /// `PATH`, `HOME`, `CLAUDE_PROJECT_DIR`, `HELVE_PROJECT_DIR` and `HELVE_HOOK_EVENT` are set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// `command`: what it may reach.
    #[serde(flatten)]
    pub reach: Reach,

    /// `http`: where the event is posted to. `[net]` says what can be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `http`: what goes with it. `${env:NAME}` in a value stands for a variable of Helve's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,

    /// `mcp_tool`: the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// `tool`, `mcp_tool`: the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// `tool`, `mcp_tool`: its arguments, in which `${tool_input.path}` and the like stand for parts of
    /// the event. Unless said, the event itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Map<String, Value>>,
}

impl HookGroup {
    /// What a failure means, where it says.
    pub fn on_failure(&self) -> Option<OnFailure> {
        self.on_failure.or(self.on_failure_of_sdk)
    }

    /// What is wrong with it that its types do not show.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut refuse = |at: String, message: String| problems.push(Problem { at, message });
        if self.hooks.is_empty() {
            refuse("hooks".to_owned(), "there is none".to_owned());
        }
        if let (Some(one), Some(other)) = (self.on_failure, self.on_failure_of_sdk)
            && one != other
        {
            refuse("onFailure".to_owned(), "`on_failure` says otherwise".to_owned());
        }
        for (index, hook) in self.hooks.iter().enumerate() {
            if let Err((field, message)) = hook.check() {
                refuse(format!("hooks/{index}/{field}"), message);
            }
        }
        problems
    }
}

impl HookConfig {
    /// What people call it.
    pub fn label(&self) -> String {
        match self.kind {
            HookKind::Command => self.command.clone().unwrap_or_default(),
            HookKind::Http => format!("POST {}", self.url.as_deref().unwrap_or_default()),
            HookKind::Tool | HookKind::McpTool => format!("tool {}", self.tool_name()),
        }
    }

    /// The tool that it calls, if it calls one.
    pub fn tool_called(&self) -> Option<String> {
        matches!(self.kind, HookKind::Tool | HookKind::McpTool).then(|| self.tool_name())
    }

    pub(super) fn tool_name(&self) -> String {
        let tool = self.tool.clone().unwrap_or_default();
        match &self.server {
            Some(server) => format!("{server}/{tool}"),
            None => tool,
        }
    }

    /// A form has what it needs, and nothing that only others know: a typing error must not leave a
    /// hook weaker than it was meant.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let own: &[&str] = match self.kind {
            HookKind::Command => &["command", "args", "shell", "env", "read", "write", "network", "confined"],
            HookKind::Http => &["url", "headers"],
            HookKind::Tool => &["tool", "input"],
            HookKind::McpTool => &["server", "tool", "input"],
        };
        let given = [
            ("command", self.command.is_some()),
            ("args", self.args.is_some()),
            ("shell", self.shell.is_some()),
            ("env", !self.env.is_empty()),
            ("read", !self.reach.read.is_empty()),
            ("write", !self.reach.write.is_empty()),
            ("network", !self.reach.network.is_empty()),
            ("confined", !self.reach.confined),
            ("url", self.url.is_some()),
            ("headers", !self.headers.is_empty()),
            ("server", self.server.is_some()),
            ("tool", self.tool.is_some()),
            ("input", self.input.is_some()),
        ];
        if let Some((field, _)) = given.iter().find(|(field, given)| *given && !own.contains(field)) {
            return Err((field, "a hook of this type has no such field".to_owned()));
        }
        let needed: &[(&'static str, &Option<String>)] = match self.kind {
            HookKind::Command => &[("command", &self.command)],
            HookKind::Http => &[("url", &self.url)],
            HookKind::Tool => &[("tool", &self.tool)],
            HookKind::McpTool => &[("server", &self.server), ("tool", &self.tool)],
        };
        match needed.iter().find(|(_, value)| value.as_deref().is_none_or(|text| text.trim().is_empty())) {
            Some((field, _)) => Err((field, "a hook of this type needs it".to_owned())),
            None if self.args.is_some() && self.shell.is_some() => {
                Err(("shell", "with `args` no shell reads the command".to_owned()))
            }
            None if self.args.is_none() && self.shell.is_none() => self.check_line(),
            None => Ok(()),
        }
    }

    /// A line that `sh` reads has no words of bash's: `sh` takes `if [[ … ]]` for a command that is not
    /// there, which is false, and the guard behind it lets everything through.
    fn check_line(&self) -> Result<(), (&'static str, String)> {
        let line = self.command.as_deref().unwrap_or_default();
        let bash = line.split_whitespace().find_map(|word| match word {
            "[[" | "((" => Some(word),
            _ => ["<<<", "<(", ">("].into_iter().find(|sign| word.starts_with(sign)),
        });
        let Some(word) = bash else { return Ok(()) };
        let message = format!(
            "`{word}` is bash's, and `sh` would read this line; say `shell = \"bash\"`, or `shell = \"sh\"` \
             if that is what you mean"
        );
        Err(("command", message))
    }
}
