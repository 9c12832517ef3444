//! What hooks answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::HookEvent;
use crate::permission::PermissionUpdate;

/// Longest text in an answer that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// What a hook answers. An empty answer means: nothing to say.
///
/// ```
/// use helve_core::hook::{HookEvent, HookOutput, PermissionDecision};
/// let text = br#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}"#;
/// let output = HookOutput::from_json(&HookEvent::PreToolUse, text).unwrap();
/// assert_eq!(output.decision(), Some(PermissionDecision::Deny));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HookOutput {
    /// Whether the agent goes on; false beats all else.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub goes_on: Option<bool>,
    /// Whether to keep the hook's own output from the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_output: Option<bool>,
    /// Why the agent does not go on, for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Yes or no, for events without a better word for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<HookVerdict>,
    /// Something for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    /// Why the hook decided so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What only some events know.
    #[serde(rename = "hookSpecificOutput", default, skip_serializing_if = "Option::is_none")]
    pub specific: Option<Box<SpecificOutput>>,
    /// The hook goes on by itself, and has no say.
    #[serde(flatten)]
    pub background: Background,
    /// What a command wrote to stderr besides its answer. It says nothing to a call; a person who tests the
    /// hook sees by it that a guard broke and let everything through.
    #[serde(skip)]
    pub stderr: Option<String>,
}

/// Whether a hook goes on by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Background {
    /// Whether the hook goes on in the background.
    #[serde(rename = "async", default, skip_serializing_if = "Option::is_none")]
    pub is_async: Option<bool>,
    /// For how many milliseconds at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub async_timeout: Option<u64>,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookVerdict {
    /// The call goes on.
    Approve,
    /// The call does not go on.
    Block,
}

/// What a hook says to a call. The strictest wins, so the order matters.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PermissionDecision {
    /// It may run.
    Allow,
    /// A person must decide.
    Ask,
    /// The decision comes later; here a person makes it.
    Defer,
    /// It must not run.
    Deny,
}

impl PermissionDecision {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Defer => "defer",
            Self::Deny => "deny",
        }
    }
}

/// What a hook says in place of the person who would be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "behavior", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum PermissionAnswer {
    /// The call may run.
    Allow {
        /// With these arguments instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        updated_input: Option<Map<String, Value>>,
        /// And these changes of permissions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        updated_permissions: Option<Vec<PermissionUpdate>>,
    },
    /// It may not.
    Deny {
        /// Why the hook decided so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Whether the agent should stop altogether.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interrupt: Option<bool>,
    },
}

/// What a hook answers to an MCP server's question in place of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Elicited {
    /// Yes, with the content.
    Accept,
    /// The person declined.
    Decline,
    /// The person closed the question without an answer.
    Cancel,
}

/// What only some events know. Each has a few of these fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SpecificOutput {
    /// The event that this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_event_name: Option<String>,
    /// What to do with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_decision: Option<PermissionDecision>,
    /// Why the hook decided so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_decision_reason: Option<String>,
    /// Arguments that take the place of the whole object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Map<String, Value>>,
    /// Something for the model to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_context: Option<String>,
    /// A result that takes the tool's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_tool_output: Option<Value>,
    /// The same for tools of MCP servers.
    #[serde(rename = "updatedMCPToolOutput", default, skip_serializing_if = "Option::is_none")]
    pub updated_mcp_tool_output: Option<Value>,
    /// In place of the person who would be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<PermissionAnswer>,
    /// Whether a denied call may be tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
    /// In place of the user whom an MCP server asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Elicited>,
    /// What goes with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    /// A title for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    /// What the user is taken to have said first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_user_message: Option<String>,
    /// Whether the user's own words are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_original_prompt: Option<bool>,
    /// Files whose changes the agent should tell of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_paths: Option<Vec<String>>,
}

/// An answer that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// It is not what hooks answer.
    #[error("the answer is not a hook's answer: {0}")]
    Shape(String),
    /// It answers something else.
    #[error("the answer is for `{0}`, which was not asked")]
    OtherEvent(String),
}

impl HookOutput {
    /// Nothing to say.
    pub fn none() -> Self {
        Self::default()
    }

    /// A tool may be called.
    pub fn allow() -> Self {
        Self::decided(PermissionDecision::Allow, None)
    }

    /// A tool may not be called.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::decided(PermissionDecision::Deny, Some(reason.into()))
    }

    /// A person must decide.
    pub fn ask(reason: impl Into<String>) -> Self {
        Self::decided(PermissionDecision::Ask, Some(reason.into()))
    }

    fn decided(decision: PermissionDecision, reason: Option<String>) -> Self {
        Self::none().specific(|specific| {
            specific.permission_decision = Some(decision);
            specific.permission_decision_reason = reason;
        })
    }

    /// Whatever the event is about must not happen.
    pub fn block(reason: impl Into<String>) -> Self {
        Self { decision: Some(HookVerdict::Block), reason: Some(reason.into()), ..Self::default() }
    }

    /// The agent should stop.
    pub fn stop(reason: impl Into<String>) -> Self {
        Self { goes_on: Some(false), stop_reason: Some(reason.into()), ..Self::default() }
    }

    /// Something for the model to know.
    pub fn context(text: impl Into<String>) -> Self {
        Self::none().and_context(text)
    }

    /// The same besides what is said already.
    pub fn and_context(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.specific(|specific| specific.additional_context = Some(text))
    }

    /// Other arguments for the tool.
    pub fn and_input(self, input: Map<String, Value>) -> Self {
        self.specific(|specific| specific.updated_input = Some(input))
    }

    /// Another result than the tool's.
    pub fn replace_output(value: Value) -> Self {
        Self::none().specific(|specific| specific.updated_tool_output = Some(value))
    }

    /// An answer in place of the person who would be asked.
    pub fn answer(answer: PermissionAnswer) -> Self {
        Self::none().specific(|specific| specific.decision = Some(answer))
    }

    fn specific(mut self, change: impl FnOnce(&mut SpecificOutput)) -> Self {
        change(self.specific.get_or_insert_default());
        self
    }

    /// Reads an answer to an event. Fields that nobody knows are left out; one of a wrong type makes
    /// the whole answer wrong.
    pub fn from_json(event: &HookEvent, text: &[u8]) -> Result<Self, OutputError> {
        let value = crate::json::parse(text, crate::json::JsonLimits::default())
            .map_err(|error| OutputError::Shape(error.to_string()))?;
        Self::from_value(event, value)
    }

    /// The same for an answer that was read already.
    pub fn from_value(event: &HookEvent, value: Value) -> Result<Self, OutputError> {
        let mut output: Self =
            serde_json::from_value(value).map_err(|error| OutputError::Shape(error.to_string()))?;
        if let Some(specific) = &output.specific
            && let Some(other) = specific.hook_event_name.as_deref().filter(|name| *name != event.as_str())
        {
            return Err(OutputError::OtherEvent(cut(other.to_owned(), 64)));
        }
        output.shorten();
        Ok(output)
    }

    /// Texts no longer than a model should get to read.
    fn shorten(&mut self) {
        let specific = self.specific.as_deref_mut();
        let more = specific
            .map(|specific| [&mut specific.permission_decision_reason, &mut specific.additional_context]);
        let own = [&mut self.stop_reason, &mut self.system_message, &mut self.reason];
        for text in own.into_iter().chain(more.into_iter().flatten()).flatten() {
            *text = cut(std::mem::take(text), TEXT_BYTES_MAX);
        }
    }

    /// What it says to a call, in the words of a permission.
    pub fn decision(&self) -> Option<PermissionDecision> {
        let said = self.specific.as_ref().and_then(|specific| specific.permission_decision);
        said.or(self.decision.map(|verdict| match verdict {
            HookVerdict::Approve => PermissionDecision::Allow,
            HookVerdict::Block => PermissionDecision::Deny,
        }))
    }

    /// Why it says that.
    pub fn why(&self) -> Option<&str> {
        let said = self.specific.as_ref().and_then(|specific| specific.permission_decision_reason.as_deref());
        said.or(self.reason.as_deref()).filter(|reason| !reason.is_empty())
    }

    /// Whether it has no say.
    pub fn is_async(&self) -> bool {
        self.background.is_async == Some(true)
    }
}

fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(event: HookEvent, answer: Value) -> Result<HookOutput, OutputError> {
        HookOutput::from_json(&event, answer.to_string().as_bytes())
    }

    /// The answers of the reference, event by event.
    #[test]
    fn answers_pass_as_the_reference_writes_them() {
        use HookEvent as E;
        let specific = |event: &HookEvent, mut fields: Value| {
            fields["hookEventName"] = json!(event.as_str());
            json!({ "hookSpecificOutput": fields })
        };
        for (event, fields) in [
            (
                E::PreToolUse,
                json!({ "permissionDecision": "ask", "permissionDecisionReason": "why",
                "updatedInput": { "a": 1 }, "additionalContext": "x" }),
            ),
            (E::PreToolUse, json!({ "permissionDecision": "defer" })),
            (
                E::PostToolUse,
                json!({ "additionalContext": "x", "updatedToolOutput": [1],
                "updatedMCPToolOutput": { "content": [] } }),
            ),
            (E::PostToolUseFailure, json!({ "additionalContext": "x" })),
            (E::PostToolBatch, json!({ "additionalContext": "x" })),
            (
                E::PermissionRequest,
                json!({ "decision": { "behavior": "allow", "updatedInput": { "a": 1 },
                "updatedPermissions": [{ "type": "setMode", "mode": "plan", "destination": "session" }] } }),
            ),
            (
                E::PermissionRequest,
                json!({ "decision": { "behavior": "deny", "message": "no", "interrupt": true } }),
            ),
            (E::PermissionDenied, json!({ "retry": true })),
            (
                E::UserPromptSubmit,
                json!({ "additionalContext": "x", "sessionTitle": "t", "suppressOriginalPrompt": true }),
            ),
            (
                E::SessionStart,
                json!({ "additionalContext": "x", "initialUserMessage": "hi", "sessionTitle": "t",
                "watchPaths": ["/a"] }),
            ),
            (E::Stop, json!({ "additionalContext": "x" })),
            (E::Elicitation, json!({ "action": "accept", "content": { "name": "Ada" } })),
            (E::ElicitationResult, json!({ "action": "decline" })),
        ] {
            let answer = specific(&event, fields);
            let output = read(event, answer.clone()).unwrap();
            assert_eq!(serde_json::to_value(&output).unwrap(), answer);
        }
        for answer in [
            json!({ "continue": false, "stopReason": "enough", "suppressOutput": true, "decision": "block",
                "systemMessage": "hello", "reason": "why" }),
            json!({ "async": true, "asyncTimeout": 5_000 }),
            json!({}),
        ] {
            let output = read(E::Stop, answer.clone()).unwrap();
            assert_eq!(serde_json::to_value(&output).unwrap(), answer);
        }
    }

    #[test]
    fn what_nobody_knows_is_left_out_and_what_is_wrong_is_refused() {
        let read = |answer| read(HookEvent::PreToolUse, answer);
        assert_eq!(read(json!({ "unknown": 1, "reason": null })), Ok(HookOutput::none()));
        for wrong in [
            json!([]),
            json!("deny"),
            json!({ "continue": "no" }),
            json!({ "decision": "deny" }),
            json!({ "hookSpecificOutput": "deny" }),
            json!({ "hookSpecificOutput": { "permissionDecision": "Deny" } }),
            json!({ "hookSpecificOutput": { "updatedInput": "x" } }),
            json!({ "hookSpecificOutput": { "hookEventName": "PostToolUse" } }),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
        let twice = br#"{"decision": "block", "decision": "approve"}"#;
        assert!(HookOutput::from_json(&HookEvent::PreToolUse, twice).is_err());
    }

    #[test]
    fn long_words_are_cut() {
        let output = read(HookEvent::Stop, json!({ "reason": "ä".repeat(100_000) })).unwrap();
        assert!(output.why().unwrap().len() < TEXT_BYTES_MAX + 8);
    }
}
