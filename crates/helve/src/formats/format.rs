//! The formats by name.

use std::fmt;
use std::str::FromStr;

/// A provider's way of writing tools, calls and results.
///
/// ```
/// use helve::formats::Format;
/// assert_eq!("openai-chat".parse::<Format>()?, Format::OpenAiChat);
/// # Ok::<(), helve::formats::UnknownFormat>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Responses API.
    OpenAi,
    /// OpenAI's Chat Completions API, which many others speak too.
    OpenAiChat,
    /// Google's Gemini API.
    Gemini,
    /// The Model Context Protocol.
    Mcp,
    /// Plain JSON for a prompt of one's own: name, description, when to use, examples, parameters.
    Llm,
}

impl Format {
    /// Every format, in the order of the declaration.
    pub const ALL: [Self; 6] =
        [Self::Anthropic, Self::OpenAi, Self::OpenAiChat, Self::Gemini, Self::Mcp, Self::Llm];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiChat => "openai-chat",
            Self::Gemini => "gemini",
            Self::Mcp => "mcp",
            Self::Llm => "llm",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .into_iter()
            .find(|format| format.as_str() == text)
            .ok_or_else(|| UnknownFormat { text: text.chars().take(64).collect() })
    }
}

/// A word that names no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no format is called `{}`; there are `anthropic`, `openai`, `openai-chat`, `gemini`, `mcp` and `llm`",
    text.escape_debug()
)]
pub struct UnknownFormat {
    text: String,
}
