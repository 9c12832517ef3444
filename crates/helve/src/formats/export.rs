//! Tools as a provider wants them in a request.

use serde_json::{Value, json};

use super::format::Format;
use super::{anthropic, gemini, llm, mcp, openai, openai_chat};
use crate::{Risk, Settings, Tool};

/// How tools are written.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// Whether the provider is asked to hold the model to the schema.
    pub strictness: Strictness,
    /// Longest description, in characters, where a gateway sets a bound; some refuse more than
    /// 1,024. Examples are left out first, then the text is cut.
    pub description_chars_max: Option<usize>,
    /// The lowest risk at which a person is asked, for formats that tell models of it.
    pub ask_from: Risk,
}

impl Default for ExportOptions {
    fn default() -> Self {
        let (strictness, description_chars_max) = (Strictness::default(), None);
        Self { strictness, description_chars_max, ask_from: Settings::default().ask_from }
    }
}

/// Whether a provider is asked to hold the model to the schema while it writes a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strictness {
    /// OpenAI where allowed, Anthropic off: its limits hold for a whole request, and what counts
    /// against them besides our tools we cannot see.
    #[default]
    Usual,
    /// The provider is never asked to.
    Off,
    /// Wherever the schema can be written in the provider's strict subset without accepting
    /// anything that the tool would refuse.
    WhereAllowed,
}

/// Writes tools as the `tools` of a request (MCP: of a `tools/list` result).
///
/// Anthropic's limits on strict tools hold for the request as a whole: the first tools that fit
/// are strict, the rest are not.
pub fn export<'a>(
    tools: impl IntoIterator<Item = &'a Tool>,
    format: Format,
    options: &ExportOptions,
) -> Value {
    let mut budget = anthropic::StrictBudget::default();
    let entries: Value = tools.into_iter().map(|tool| entry(tool, format, options, &mut budget)).collect();
    match format {
        Format::Gemini if entries == json!([]) => entries,
        Format::Gemini => {
            // Moved into place: `json!` would copy the whole list.
            let mut tool = json!({});
            tool["functionDeclarations"] = entries;
            Value::Array(vec![tool])
        }
        Format::Anthropic | Format::OpenAi | Format::OpenAiChat | Format::Mcp | Format::Llm => entries,
    }
}

/// Writes one tool: an entry of [`export`]'s list, or one of Gemini's `functionDeclarations`.
pub fn export_one(tool: &Tool, format: Format, options: &ExportOptions) -> Value {
    entry(tool, format, options, &mut anthropic::StrictBudget::default())
}

fn entry(
    tool: &Tool,
    format: Format,
    options: &ExportOptions,
    budget: &mut anthropic::StrictBudget,
) -> Value {
    match format {
        Format::Anthropic => anthropic::tool(tool, options, budget),
        Format::OpenAi => openai::tool(tool, options),
        Format::OpenAiChat => openai_chat::tool(tool, options),
        Format::Gemini => gemini::tool(tool, options),
        Format::Mcp => mcp::tool(tool, options),
        Format::Llm => llm::tool(tool, options),
    }
}
