//! The names of events.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::OnFailure;

/// Longest name of an event.
const NAME_BYTES_MAX: usize = 64;

/// Something that happens and that hooks see. An agent may raise events that Helve does not know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum HookEvent {
    /// A tool is about to be called.
    PreToolUse,
    /// A tool has answered.
    PostToolUse,
    /// A tool has failed.
    PostToolUseFailure,
    /// Several calls of one turn have ended.
    PostToolBatch,
    /// A person would be asked.
    PermissionRequest,
    /// A call was denied.
    PermissionDenied,
    /// The user said something.
    UserPromptSubmit,
    /// A session begins.
    SessionStart,
    /// A session ends.
    SessionEnd,
    /// The agent is done.
    Stop,
    /// A sub-agent begins.
    SubagentStart,
    /// A sub-agent is done.
    SubagentStop,
    /// The conversation is about to be shortened.
    PreCompact,
    /// It was shortened.
    PostCompact,
    /// The agent tells the user something.
    Notification,
    /// The agent is set up.
    Setup,
    /// An MCP server asks the user something.
    Elicitation,
    /// The user has answered it.
    ElicitationResult,
    /// A task was made.
    TaskCreated,
    /// A task was done.
    TaskCompleted,
    /// The configuration has changed.
    ConfigChange,
    /// The agent works in another folder.
    CwdChanged,
    /// A file has changed.
    FileChanged,
    /// A folder was added to those the agent works in.
    DirectoryAdded,
    /// Instructions were read.
    InstructionsLoaded,
    /// An event that Helve does not know, by its name.
    Other(Arc<str>),
}

impl HookEvent {
    /// Every event with its own name here.
    pub const KNOWN: [Self; 25] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::PostToolBatch,
        Self::PermissionRequest,
        Self::PermissionDenied,
        Self::UserPromptSubmit,
        Self::SessionStart,
        Self::SessionEnd,
        Self::Stop,
        Self::SubagentStart,
        Self::SubagentStop,
        Self::PreCompact,
        Self::PostCompact,
        Self::Notification,
        Self::Setup,
        Self::Elicitation,
        Self::ElicitationResult,
        Self::TaskCreated,
        Self::TaskCompleted,
        Self::ConfigChange,
        Self::CwdChanged,
        Self::FileChanged,
        Self::DirectoryAdded,
        Self::InstructionsLoaded,
    ];

    /// The name that hooks and configuration use.
    pub fn as_str(&self) -> &str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::PostToolBatch => "PostToolBatch",
            Self::PermissionRequest => "PermissionRequest",
            Self::PermissionDenied => "PermissionDenied",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::Stop => "Stop",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::PreCompact => "PreCompact",
            Self::PostCompact => "PostCompact",
            Self::Notification => "Notification",
            Self::Setup => "Setup",
            Self::Elicitation => "Elicitation",
            Self::ElicitationResult => "ElicitationResult",
            Self::TaskCreated => "TaskCreated",
            Self::TaskCompleted => "TaskCompleted",
            Self::ConfigChange => "ConfigChange",
            Self::CwdChanged => "CwdChanged",
            Self::FileChanged => "FileChanged",
            Self::DirectoryAdded => "DirectoryAdded",
            Self::InstructionsLoaded => "InstructionsLoaded",
            Self::Other(name) => name,
        }
    }

    /// Whether it is about one call of a tool, so that matchers are held against the tool's name.
    pub fn is_of_tool(&self) -> bool {
        matches!(
            self,
            Self::PreToolUse
                | Self::PostToolUse
                | Self::PostToolUseFailure
                | Self::PermissionRequest
                | Self::PermissionDenied
        )
    }

    /// Whether only Helve can know that it happened, because it is about Helve's own calls, questions
    /// and configuration. Nobody else may tell hooks of it.
    pub fn is_own(&self) -> bool {
        match self {
            Self::PreToolUse
            | Self::PostToolUse
            | Self::PostToolUseFailure
            | Self::PostToolBatch
            | Self::PermissionRequest
            | Self::PermissionDenied
            | Self::Elicitation
            | Self::ElicitationResult
            | Self::ConfigChange => true,
            Self::UserPromptSubmit
            | Self::SessionStart
            | Self::SessionEnd
            | Self::Stop
            | Self::SubagentStart
            | Self::SubagentStop
            | Self::PreCompact
            | Self::PostCompact
            | Self::Notification
            | Self::Setup
            | Self::TaskCreated
            | Self::TaskCompleted
            | Self::CwdChanged
            | Self::FileChanged
            | Self::DirectoryAdded
            | Self::InstructionsLoaded
            | Self::Other(_) => false,
        }
    }

    /// The field that matchers are held against, where it is not about a tool. Of events without one
    /// every hook is told.
    pub fn matched_field(&self) -> Option<&'static str> {
        match self {
            Self::SessionStart | Self::ConfigChange => Some("source"),
            Self::SessionEnd => Some("reason"),
            Self::SubagentStart | Self::SubagentStop => Some("agent_type"),
            Self::PreCompact | Self::PostCompact | Self::Setup => Some("trigger"),
            Self::Notification => Some("notification_type"),
            Self::Elicitation | Self::ElicitationResult => Some("mcp_server_name"),
            Self::FileChanged => Some("file_path"),
            Self::InstructionsLoaded => Some("load_reason"),
            Self::PreToolUse
            | Self::PostToolUse
            | Self::PostToolUseFailure
            | Self::PermissionRequest
            | Self::PermissionDenied => Some("tool_name"),
            Self::PostToolBatch
            | Self::UserPromptSubmit
            | Self::Stop
            | Self::TaskCreated
            | Self::TaskCompleted
            | Self::CwdChanged
            | Self::DirectoryAdded
            | Self::Other(_) => None,
        }
    }

    /// How long a hook may take that does not say.
    pub fn timeout(&self) -> Duration {
        match self {
            Self::UserPromptSubmit => Duration::from_secs(30),
            Self::SessionEnd => Duration::from_millis(1_500),
            _ => Duration::from_secs(600),
        }
    }

    /// What a hook's failure means where nobody says: before a tool runs, no.
    pub fn on_failure(&self) -> OnFailure {
        match self {
            Self::PreToolUse | Self::PermissionRequest => OnFailure::Block,
            _ => OnFailure::Continue,
        }
    }

    /// Whether a text that is no JSON is something for the model to know.
    pub fn takes_text(&self) -> bool {
        matches!(self, Self::UserPromptSubmit | Self::SessionStart | Self::Setup | Self::SubagentStart)
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name that no event can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an event has a name of 1 to 64 letters, digits, `_`, `-`, `.` and `:`")]
pub struct EventError;

impl FromStr for HookEvent {
    type Err = EventError;

    fn from_str(name: &str) -> Result<Self, EventError> {
        if let Some(known) = Self::KNOWN.iter().find(|known| known.as_str() == name) {
            return Ok(known.clone());
        }
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
        match (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
            true => Ok(Self::Other(name.into())),
            false => Err(EventError),
        }
    }
}

impl TryFrom<String> for HookEvent {
    type Error = EventError;

    fn try_from(name: String) -> Result<Self, EventError> {
        name.parse()
    }
}

impl From<HookEvent> for String {
    fn from(event: HookEvent) -> String {
        event.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_events() {
        for event in HookEvent::KNOWN {
            assert_eq!(event.as_str().parse(), Ok(event));
        }
        assert_eq!("TeammateIdle".parse(), Ok(HookEvent::Other("TeammateIdle".into())));
        for bad in ["", "a b", "a\n", "ä", &"x".repeat(65)] {
            assert_eq!(bad.parse::<HookEvent>(), Err(EventError), "{bad:?}");
        }
    }
}
