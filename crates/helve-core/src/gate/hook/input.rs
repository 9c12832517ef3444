//! What hooks are told.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::HookEvent;

/// What hooks are told: the same for every event, and then what the event brings.
///
/// ```
/// use helve_core::hook::{HookEvent, HookInput};
/// use serde_json::json;
/// let input = HookInput::new(HookEvent::Notification).with("message", "done").in_session("s-1");
/// assert_eq!(
///     serde_json::to_value(&input).unwrap(),
///     json!({ "hook_event_name": "Notification", "session_id": "s-1", "transcript_path": "", "cwd": "",
///         "message": "done" })
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[non_exhaustive]
pub struct HookInput {
    /// The name of the event.
    #[serde(rename = "hook_event_name")]
    #[schemars(with = "String", regex(pattern = r"^[A-Za-z0-9_.:-]{1,64}$"))]
    pub event: HookEvent,
    /// The agent's session.
    #[serde(default)]
    pub session_id: String,
    /// Where the conversation is kept; empty where Helve does not know.
    #[serde(default)]
    pub transcript_path: Arc<str>,
    /// The folder that the agent works in.
    #[serde(default)]
    pub cwd: Arc<str>,
    /// Which prompt of the user it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
    /// The session's permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<Cow<'static, str>>,
    /// The agent that raised the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// What sort of agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// The tool, where the event is about one. These three have places of their own: every call of a
    /// tool that a hook looks at has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The arguments of that tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_input: Option<Value>,
    /// The id of the call, which joins the events of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// What else the event brings, by the names of the reference: `prompt`, `reason`.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl HookInput {
    /// An event without anything more.
    pub fn new(event: HookEvent) -> Self {
        Self {
            event,
            session_id: String::new(),
            transcript_path: Arc::default(),
            cwd: Arc::default(),
            prompt_id: None,
            permission_mode: None,
            agent_id: None,
            agent_type: None,
            tool_name: None,
            tool_input: None,
            tool_use_id: None,
            fields: Map::new(),
        }
    }

    /// Adds a field.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        let (name, value) = (name.into(), value.into());
        match (name.as_str(), value) {
            ("tool_name", Value::String(text)) => self.tool_name = Some(text),
            ("tool_input", value) => self.tool_input = Some(value),
            ("tool_use_id", Value::String(text)) => self.tool_use_id = Some(text),
            (_, value) => drop(self.fields.insert(name, value)),
        }
        self
    }

    /// Sets the session.
    pub fn in_session(mut self, id: impl Into<String>) -> Self {
        self.session_id = id.into();
        self
    }

    /// A field that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match name {
            "tool_name" => self.tool_name.as_deref(),
            "tool_use_id" => self.tool_use_id.as_deref(),
            _ => self.fields.get(name).and_then(Value::as_str),
        }
    }

    /// The tool's name; empty where the event is not about one.
    pub fn tool_name(&self) -> &str {
        self.tool_name.as_deref().unwrap_or_default()
    }

    /// The tool's arguments; null where the event is not about a tool.
    pub fn tool_input(&self) -> &Value {
        self.tool_input.as_ref().unwrap_or(&Value::Null)
    }

    /// What the matcher of a hook is held against. None: every hook is told.
    pub fn subject(&self) -> Option<&str> {
        match self.event.matched_field()? {
            // Of a file, matchers mean its name.
            "file_path" => self.text("file_path").map(|path| path.rsplit('/').next().unwrap_or(path)),
            "agent_type" => self.agent_type.as_deref().or(Some("")),
            field => Some(self.text(field).unwrap_or_default()),
        }
    }
}
