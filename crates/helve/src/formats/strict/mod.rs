//! Schemas in a provider's strict subset, where that loses nothing.
//!
//! A schema is rewritten only if every value that the strict schema accepts is accepted by the
//! tool's own schema too, once nulls that stand for absent optional fields are dropped. Otherwise
//! there is a reason, and the tool is exported as it is, not strict.

mod absent;
mod dialect;
mod disjoint;
mod rewrite;
mod tally;

use serde_json::Value;

use super::format::Format;

pub use absent::drop_absent;
pub(super) use tally::Tally;

/// A schema in a strict subset, and what it uses of the provider's limits.
pub(super) struct Strict {
    pub(super) schema: Value,
    pub(super) tally: Tally,
}

/// Rewrites a schema for OpenAI.
pub(super) fn openai(schema: &Value) -> Result<Strict, String> {
    rewrite::rewrite(schema, &dialect::OPENAI)
}

/// Rewrites a schema for Anthropic.
pub(super) fn anthropic(schema: &Value) -> Result<Strict, String> {
    rewrite::rewrite(schema, &dialect::ANTHROPIC)
}

/// Why an input schema cannot be strict with a provider, or nothing where it can.
///
/// ```
/// use helve::formats::{strict_refusal, Format};
/// use serde_json::json;
/// let schema = json!({ "type": "object", "properties": { "at": { "type": "string", "minLength": 1 } } });
/// let reason = strict_refusal(Format::OpenAi, &schema).unwrap();
/// assert_eq!(reason, "`/properties/at`: `minLength` has no place in OpenAI's strict schemas");
/// ```
pub fn strict_refusal(format: Format, schema: &Value) -> Option<String> {
    match format {
        Format::Anthropic => anthropic(schema).err(),
        Format::OpenAi | Format::OpenAiChat => openai(schema).err(),
        Format::Gemini | Format::Mcp | Format::Llm => Some(format!("`{format}` has no strict mode")),
    }
}
