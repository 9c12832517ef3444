//! Anthropic's Messages API.

use serde_json::{Value, json};

use super::call::{CallCollector, FormatError, RawCall, RawId};
use super::describe::Description;
use super::export::{ExportOptions, Strictness};
use super::result::AnsweredCall;
use super::{schema, strict};
use crate::{Example, Tool};

/// What a request may hold of strict tools.
const STRICT_TOOLS_MAX: usize = 20;
const STRICT_OPTIONAL_MAX: usize = 24;
const STRICT_UNIONS_MAX: usize = 16;

/// What is left of a request's limits on strict tools.
pub(super) struct StrictBudget {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl Default for StrictBudget {
    fn default() -> Self {
        Self { tools: STRICT_TOOLS_MAX, optional: STRICT_OPTIONAL_MAX, unions: STRICT_UNIONS_MAX }
    }
}

impl StrictBudget {
    fn take(&mut self, tally: &strict::Tally) -> bool {
        let fits = self.tools > 0 && tally.optional <= self.optional && tally.unions <= self.unions;
        if fits {
            self.tools -= 1;
            self.optional -= tally.optional;
            self.unions -= tally.unions;
        }
        fits
    }
}

pub(super) fn tool(tool: &Tool, options: &ExportOptions, budget: &mut StrictBudget) -> Value {
    let mut description = Description::of(tool, tool.provider_name());
    let input_schema = &tool.definition().input_schema;
    let strict = match options.strictness {
        Strictness::Usual | Strictness::Off => None,
        Strictness::WhereAllowed => strict::anthropic(input_schema).ok(),
    };
    let strict = strict.filter(|strict| budget.take(&strict.tally));
    let mut entry = json!({ "name": tool.provider_name() });
    if let Some(strict) = strict {
        // No examples: they fit the tool's own schema, which may be wider than the strict one.
        entry["strict"] = true.into();
        entry["input_schema"] = strict.schema;
    } else {
        let written = schema::for_anthropic(input_schema);
        if let Some(note) = written.note {
            description.note(note);
        }
        entry["input_schema"] = written.schema;
        let examples = input_examples(tool);
        if !examples.is_empty() {
            entry["input_examples"] = examples.into();
        }
    }
    entry["description"] = description.into_text(options).into();
    entry
}

fn input_examples(tool: &Tool) -> Vec<Value> {
    let arguments = |example: &Example| match example {
        Example::Arguments { arguments, .. } => Some(arguments.clone()),
        Example::Text(_) => None,
    };
    tool.definition().examples.iter().filter_map(arguments).collect()
}

pub(super) const SHAPES: &[&str] = &["content", "type"];

pub(super) fn find(answer: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    match answer {
        Value::Array(blocks) => blocks.iter().try_for_each(|block| call(block, found)),
        // A message; what other blocks hold as their content is not a call.
        _ if answer.get("type").is_none_or(|kind| kind == "message") => {
            let blocks = answer.get("content").and_then(Value::as_array).into_iter().flatten();
            blocks.into_iter().try_for_each(|block| call(block, found))
        }
        block => call(block, found),
    }
}

fn call(block: &Value, found: &mut CallCollector<'_>) -> Result<(), FormatError> {
    if block["type"] != "tool_use" {
        return Ok(());
    }
    found.add(RawCall {
        item: "tool_use",
        id: RawId::Required("id", block.get("id")),
        name: block.get("name"),
        arguments: block.get("input"),
        extra: &[("caller", block.get("caller")), ("toolset_name", block.get("toolset_name"))],
    })
}

pub(super) fn results(answers: &[AnsweredCall<'_>]) -> Value {
    let mut message = json!({ "role": "user" });
    message["content"] = answers.iter().map(result).collect();
    message
}

fn result(answer: &AnsweredCall<'_>) -> Value {
    let mut block = json!({
        "type": "tool_result",
        "tool_use_id": answer.call.id.as_deref().unwrap_or_default(),
        "content": answer.text,
        "is_error": answer.is_error,
    });
    if let Some(toolset) = answer.call.extra.get("toolset_name") {
        block["toolset_name"] = toolset.clone();
    }
    block
}
