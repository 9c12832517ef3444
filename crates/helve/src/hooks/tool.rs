//! A hook that is a tool: its result is the answer.

use std::borrow::Cow;
use std::sync::Arc;

use helve_core::hook::{Hook, HookContext, HookFailure, HookInput, HookOutput};
use helve_core::{BoxFuture, Call, Status};
use serde_json::{Map, Value, json};

/// Calls a tool, which may be one of an MCP server, and takes its result as the answer: an object as
/// hooks answer, or such an object as text.
///
/// The tool gets the event's input as its arguments; or, with [`ToolHook::input`], arguments in which
/// `${tool_input.path}` and the like stand for parts of that.
#[derive(Debug, Clone)]
pub struct ToolHook {
    tool: String,
    input: Option<Map<String, Value>>,
}

impl ToolHook {
    /// A hook that calls this tool.
    pub fn new(tool: impl Into<String>) -> Self {
        Self { tool: tool.into(), input: None }
    }

    /// Sets the arguments. A text that is wholly `${field}` becomes the value itself; within a text
    /// its value as text.
    pub fn input(mut self, input: Map<String, Value>) -> Self {
        self.input = Some(input);
        self
    }
}

impl Hook for ToolHook {
    fn fire(
        &self,
        input: Arc<HookInput>,
        context: HookContext,
    ) -> BoxFuture<'_, Result<HookOutput, HookFailure>> {
        Box::pin(async move {
            let event = serde_json::to_value(&*input).map_err(|error| HookFailure::new(error.to_string()))?;
            let arguments = match &self.input {
                None => event,
                Some(input) => fill(&Value::Object(input.clone()), &event),
            };
            let outcome = context.call_tool(Call::new(self.tool.as_str(), arguments)).await;
            let value = match outcome.status {
                Status::Done(output) if !output.is_failure => output.value,
                Status::Done(_) => return Err(HookFailure::new(format!("`{}` failed", outcome.tool))),
                Status::Failed(error) => {
                    return Err(HookFailure::new(format!("`{}` failed: {}", outcome.tool, error.message())));
                }
                Status::Pending(_) => {
                    return Err(HookFailure::new(format!("`{}` waits for a person", outcome.tool)));
                }
            };
            read(&input, value).map_err(|error| HookFailure::new(error.to_string()))
        })
    }

    fn label(&self) -> Cow<'_, str> {
        Cow::Owned(format!("tool {}", self.tool))
    }
}

fn read(input: &HookInput, value: Value) -> Result<HookOutput, helve_core::hook::OutputError> {
    match value {
        Value::Null => Ok(HookOutput::none()),
        // A tool of an MCP server says it as text.
        Value::String(text) if text.trim_start().starts_with('{') => {
            HookOutput::from_json(&input.event, text.as_bytes())
        }
        Value::String(text) if input.event.takes_text() && !text.is_empty() => Ok(HookOutput::context(text)),
        Value::String(_) => Ok(HookOutput::none()),
        value => HookOutput::from_value(&input.event, value),
    }
}

/// A template with the parts of an event in it.
fn fill(template: &Value, event: &Value) -> Value {
    match template {
        Value::String(text) => fill_text(text, event),
        Value::Array(items) => items.iter().map(|item| fill(item, event)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), fill(value, event))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    }
}

fn fill_text(text: &str, event: &Value) -> Value {
    let part =
        |path: &str| event.pointer(&format!("/{}", path.replace('.', "/"))).cloned().unwrap_or(json!(null));
    if let Some(path) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
        && !path.contains(['$', '{', '}'])
    {
        return part(path);
    }
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((path, after)) = after.split_once('}') else { break };
        filled.push_str(before);
        match part(path) {
            Value::String(value) => filled.push_str(&value),
            Value::Null => {}
            other => filled.push_str(&other.to_string()),
        }
        rest = after;
    }
    filled.push_str(rest);
    Value::String(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_take_parts_of_the_event_and_never_of_each_other() {
        let event = json!({ "tool_name": "Write", "tool_input": { "path": "${tool_name}", "n": 3 } });
        let template = json!({ "a": "${tool_input.path}", "b": "see ${tool_input.path} ${tool_input.n}${gone}",
            "c": ["${tool_input}"], "d": 1, "e": "${open" });
        assert_eq!(
            fill(&template, &event),
            json!({ "a": "${tool_name}", "b": "see ${tool_name} 3", "c": [event["tool_input"]], "d": 1,
                "e": "${open" })
        );
    }
}
