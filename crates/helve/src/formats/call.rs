//! Calls as they come back from a provider.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::format::Format;
use super::{anthropic, gemini, llm, mcp, openai, openai_chat};
use crate::json::{self, JsonError, JsonLimits, brief};
use crate::{Call, Caller, ErrorCode, Stage, ToolError};

/// Longest name that is passed on; no tool has a longer one.
const NAME_BYTES_MAX: usize = 1_024;
const ID_BYTES_MAX: usize = 512;
/// Bounds on what is kept with the call, such as a signature.
const EXTRA_LIMITS: JsonLimits = JsonLimits { bytes: 256 << 10, values: 256, depth: 8 };

/// Bounds on what a provider, or a server that poses as one, may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    /// Most calls in one answer.
    pub calls: usize,
    /// Bounds on the arguments of one call.
    pub arguments: JsonLimits,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self { calls: 128, arguments: JsonLimits::default() }
    }
}

/// One call in a provider's answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProviderCall {
    /// What the result must refer to. Gemini and MCP may leave it out.
    pub id: Option<String>,
    /// The tool's name as the provider knows it.
    pub name: String,
    /// The arguments, or why they could not be read: give that back as the call's failure, so
    /// that the model can mend it.
    pub arguments: Result<Value, ToolError>,
    /// What else the provider wants kept with the call, such as Gemini's `thoughtSignature`.
    pub extra: Map<String, Value>,
}

impl ProviderCall {
    /// The call for the runtime, which knows tools by their provider names too. The provider's id
    /// becomes the correlation id; it is no idempotency key, because some servers count from one in
    /// every answer.
    pub fn to_call(&self, caller: impl Into<Arc<Caller>>) -> Result<Call, ToolError> {
        let call = Call::new(self.name.clone(), self.arguments.clone()?).by(caller);
        Ok(match &self.id {
            Some(id) => call.correlation_id(id.clone()),
            None => call,
        })
    }
}

/// An answer that breaks the provider's own format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Neither a call nor anything that holds calls.
    #[error("this is not an answer in the format `{format}`: {found}")]
    Unrecognized {
        /// The format asked for.
        format: Format,
        /// What came instead.
        found: String,
    },
    /// Calls in the format of another provider.
    #[error("this is not an answer in the format `{format}`: it is one in the format `{fits}`")]
    Another {
        /// The format asked for.
        format: Format,
        /// The one that fits.
        fits: Format,
    },
    /// A whole conversation.
    #[error("this is a conversation, whose calls may have been answered; give the model's last answer alone")]
    History,
    /// A field that a call cannot be without.
    #[error("a `{item}` needs a non-empty string as `{field}`; it has {found}")]
    Field {
        /// The kind of block or item.
        item: &'static str,
        /// The name of the field.
        field: &'static str,
        /// What stands there.
        found: String,
    },
    /// A field that is too large to be honest.
    #[error("the `{field}` of a `{item}` is larger than {limit} bytes")]
    TooLarge {
        /// The kind of block or item.
        item: &'static str,
        /// The name of the field.
        field: &'static str,
        /// How large it may be.
        limit: usize,
    },
    /// More calls than one answer may hold.
    #[error("the answer holds more than {limit} calls")]
    TooMany {
        /// How many calls there may be.
        limit: usize,
    },
}

/// Finds the calls in a provider's answer: a single block or item, a list of these, a message, or
/// a whole response. Text, thinking and whatever else is no call is passed over.
///
/// Of several choices or candidates only the first counts: the others are alternatives to it, not
/// more to do. Arguments that cannot be read do not spoil the other calls; see
/// [`ProviderCall::arguments`].
///
/// ```
/// use helve::formats::{parse_calls, Format, ParseLimits};
/// use serde_json::json;
/// let item = json!({ "type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"a\": 1" });
/// let calls = parse_calls(Format::OpenAi, &item, &ParseLimits::default())?;
/// assert!(calls[0].arguments.is_err());
/// # Ok::<(), helve::formats::FormatError>(())
/// ```
pub fn parse_calls(
    format: Format,
    answer: &Value,
    limits: &ParseLimits,
) -> Result<Vec<ProviderCall>, FormatError> {
    let (shapes, find) = finder(format);
    let recognized = match answer {
        Value::Array(_) => true,
        Value::Object(fields) => shapes.iter().any(|key| fields.contains_key(*key)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if !recognized {
        return Err(FormatError::Unrecognized { format, found: brief(answer) });
    }
    if is_history(format, answer) {
        return Err(FormatError::History);
    }
    let mut found = CallCollector { limits, calls: Vec::new() };
    find(answer, &mut found)?;
    match other_format(format, answer).filter(|_| found.calls.is_empty()) {
        Some(fits) => Err(FormatError::Another { format, fits }),
        None => Ok(found.calls),
    }
}

/// Another format in which there are calls: a loop that names the wrong one would take the model's calls for its
/// last word.
fn other_format(named: Format, answer: &Value) -> Option<Format> {
    let fits = Format::detect(answer).filter(|fits| *fits != named)?;
    let mut found = CallCollector { limits: &ParseLimits::default(), calls: Vec::new() };
    let read = finder(fits).1(answer, &mut found);
    (read.is_err() || !found.calls.is_empty()).then_some(fits)
}

/// The fields that answers in a format have, and what finds the calls in one.
fn finder(format: Format) -> (&'static [&'static str], Find) {
    match format {
        Format::Anthropic => (anthropic::SHAPES, anthropic::find),
        Format::OpenAi => (openai::SHAPES, openai::find),
        Format::OpenAiChat => (openai_chat::SHAPES, openai_chat::find),
        Format::Gemini => (gemini::SHAPES, gemini::find),
        Format::Mcp => (mcp::SHAPES, mcp::find),
        Format::Llm => (llm::SHAPES, llm::find),
    }
}

type Find = fn(&Value, &mut CallCollector<'_>) -> Result<(), FormatError>;

/// Whether this is a conversation: its calls were answered long ago and must not run again.
fn is_history(format: Format, answer: &Value) -> bool {
    let Value::Array(items) = answer else { return false };
    match format {
        Format::Anthropic | Format::OpenAiChat | Format::Gemini => {
            items.iter().any(|item| item.get("role").is_some())
        }
        Format::OpenAi => items.iter().any(|item| item["type"] == "function_call_output"),
        Format::Mcp | Format::Llm => false,
    }
}

/// Where the providers' readers put what they find.
pub(super) struct CallCollector<'l> {
    limits: &'l ParseLimits,
    calls: Vec<ProviderCall>,
}

/// The parts of one call, still as they came.
pub(super) struct RawCall<'a> {
    /// The kind of block or item, for errors.
    pub(super) item: &'static str,
    pub(super) id: RawId<'a>,
    pub(super) name: Option<&'a Value>,
    pub(super) arguments: Option<&'a Value>,
    /// Fields to keep, as far as they are there.
    pub(super) extra: &'a [(&'static str, Option<&'a Value>)],
}

pub(super) enum RawId<'a> {
    Required(&'static str, Option<&'a Value>),
    Optional(&'static str, Option<&'a Value>),
    Absent,
}

impl CallCollector<'_> {
    pub(super) fn add(&mut self, raw: RawCall<'_>) -> Result<(), FormatError> {
        if self.calls.len() == self.limits.calls {
            return Err(FormatError::TooMany { limit: self.limits.calls });
        }
        let item = raw.item;
        let id = match raw.id {
            RawId::Absent | RawId::Optional(_, None | Some(Value::Null)) => None,
            RawId::Optional(field, id) | RawId::Required(field, id) => {
                Some(text(item, field, id, ID_BYTES_MAX)?)
            }
        };
        let name = text(item, "name", raw.name, NAME_BYTES_MAX)?;
        let mut extra = Map::new();
        for (key, value) in raw.extra {
            let Some(value) = value.filter(|value| !value.is_null()) else { continue };
            json::check(value, EXTRA_LIMITS).map_err(|_| FormatError::TooLarge {
                item,
                field: key,
                limit: EXTRA_LIMITS.bytes,
            })?;
            extra.insert((*key).to_owned(), value.clone());
        }
        let arguments = read_arguments(raw.arguments, self.limits.arguments).map_err(unreadable);
        self.calls.push(ProviderCall { id, name, arguments, extra });
        Ok(())
    }
}

fn text(
    item: &'static str,
    field: &'static str,
    value: Option<&Value>,
    limit: usize,
) -> Result<String, FormatError> {
    match value {
        Some(Value::String(text)) if text.len() > limit => Err(FormatError::TooLarge { item, field, limit }),
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        other => {
            Err(FormatError::Field { item, field, found: other.map_or_else(|| "none".to_owned(), brief) })
        }
    }
}

/// Arguments as a string of JSON or as JSON itself; nothing at all means no arguments.
fn read_arguments(arguments: Option<&Value>, limits: JsonLimits) -> Result<Value, JsonError> {
    match arguments {
        None | Some(Value::Null) => Ok(Value::Object(Map::new())),
        // A length first: a blank text may be huge too.
        Some(Value::String(text)) if text.len() <= limits.bytes && text.trim().is_empty() => {
            Ok(Value::Object(Map::new()))
        }
        Some(Value::String(text)) => match json::parse(text.as_bytes(), limits)? {
            Value::Null => Ok(Value::Object(Map::new())),
            value => Ok(value),
        },
        Some(value) => {
            json::check(value, limits)?;
            Ok(value.clone())
        }
    }
}

fn unreadable(error: JsonError) -> ToolError {
    ToolError::new(ErrorCode::ValidationFailed, format!("the arguments could not be read: {error}"))
        .suggest("send the arguments as one complete JSON object, each key once")
        .at(Stage::Prepare)
}
