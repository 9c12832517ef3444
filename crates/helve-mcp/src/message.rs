//! JSON-RPC messages as raw text: only the envelope is read, the rest passes through as it came.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use helve::ports::AskError;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// JSON text that is passed on as it is.
pub type Raw = Box<RawValue>;

/// The largest message unless a configuration says otherwise.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// A message of JSON-RPC, in either direction.
#[derive(Debug, Clone)]
pub enum Message {
    /// A question that wants an answer.
    Request(Request),
    /// A message that no answer follows.
    Notification(Notification),
    /// The answer to a request.
    Response(Response),
}

/// A question that wants an answer.
#[derive(Debug, Clone)]
pub struct Request {
    /// Joins question and answer.
    pub id: Id,
    /// What is asked.
    pub method: String,
    /// The parameters, as they came.
    pub params: Option<Raw>,
}

/// A message that no answer follows.
#[derive(Debug, Clone)]
pub struct Notification {
    /// What the notification is about: `notifications/progress`.
    pub method: String,
    /// The parameters, as they came.
    pub params: Option<Raw>,
}

impl Notification {
    /// A notification whose parameters are written out here.
    pub fn new(method: impl Into<String>, params: &impl Serialize) -> Self {
        Self { method: method.into(), params: Some(raw(params)) }
    }

    /// A notification without parameters.
    pub fn bare(method: impl Into<String>) -> Self {
        Self { method: method.into(), params: None }
    }
}

/// The answer to a request: its result, or why there is none.
#[derive(Debug, Clone)]
pub struct Response {
    /// The question's id. None where the question could not be read.
    pub id: Option<Id>,
    /// What came of it.
    pub result: Result<Raw, RpcError>,
}

/// What joins question and answer: a number or a text, as its sender wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A whole number.
    Number(i64),
    /// Text of any form.
    Text(Arc<str>),
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Why a question has no result, in JSON-RPC's form.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// The error code of JSON-RPC.
    pub code: i64,
    /// What went wrong, for people.
    pub message: String,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Raw>,
}

impl RpcError {
    /// Text that is not JSON.
    pub const PARSE: i64 = -32700;
    /// JSON that is no message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// A method that nobody knows.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Parameters that do not fit.
    pub const INVALID_PARAMS: i64 = -32602;
    /// A failure of ours.
    pub const INTERNAL: i64 = -32603;
    /// A resource that is not there, in the session era.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Header and body say different things.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client lacks what the request needs.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// A version that is not spoken here.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// A page must be visited first, in the session era.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;

    /// An error without more words.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Adds what else there is to say.
    pub fn with_data(mut self, data: &impl Serialize) -> Self {
        self.data = Some(raw(data));
        self
    }

    /// Nobody knows this method here.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// The parameters do not fit.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }
}

impl From<AskError> for RpcError {
    fn from(error: AskError) -> Self {
        Self { code: error.code, message: error.message, data: error.data }
    }
}

impl From<RpcError> for AskError {
    fn from(error: RpcError) -> Self {
        Self { code: error.code, message: error.message, data: error.data }
    }
}

/// Text that is no message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Not JSON, nested too deep, or an envelope with a key twice or values of other types.
    #[error("{}: {}", if .0.is_data() { NO_MESSAGE } else { "not valid JSON" }, in_words(.0))]
    Syntax(#[from] serde_json::Error),
    /// Bytes that are no text.
    #[error("not valid UTF-8")]
    NotText,
    /// Text with a mark before its first character, which JSON does not have.
    #[error("not valid JSON: it begins with a byte order mark")]
    ByteOrderMark,
    /// Several messages in one, which the protocol gave up.
    #[error("a batch; send one message at a time")]
    Batch,
    /// JSON, but no message.
    #[error("{NO_MESSAGE}: {0}")]
    NotAMessage(&'static str),
}

const NO_MESSAGE: &str = "not a JSON-RPC 2.0 message";

impl Message {
    /// Reads one message.
    ///
    /// ```
    /// use helve_mcp::message::Message;
    /// let message = Message::parse(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap();
    /// assert!(matches!(message, Message::Request(request) if request.method == "ping"));
    /// assert!(Message::parse(b"[]").is_err());
    /// ```
    pub fn parse(text: &[u8]) -> Result<Self, MessageError> {
        if text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return Err(MessageError::Batch);
        }
        let envelope: Envelope<'_> =
            serde_json::from_slice(text).map_err(|error| Self::unread(text, error))?;
        envelope.into_message()
    }

    /// Why a text could not be read.
    fn unread(text: &[u8], error: serde_json::Error) -> MessageError {
        match std::str::from_utf8(text) {
            Err(_) => MessageError::NotText,
            Ok(text) if text.starts_with('\u{feff}') => MessageError::ByteOrderMark,
            Ok(_) => MessageError::Syntax(error),
        }
    }

    /// The message as JSON text. [`push_line`] makes a line of it.
    pub fn to_text(&self) -> String {
        // Nothing in an envelope can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Makes the answer to the request with this id.
    pub fn answer(id: Id, result: Result<Raw, RpcError>) -> Self {
        Self::Response(Response { id: Some(id), result })
    }
}

/// Appends a message as one line.
///
/// INVARIANT: every message on a stream of lines is written by this. JSON allows line ends between its parts, and raw
/// parts of a message keep theirs. Written as they are, they would end the message early, and a line between them could
/// pass for its own message that a stranger wrote. Within texts JSON has none, so a space says the same.
pub fn push_line(out: &mut Vec<u8>, message: &str) {
    out.extend_from_slice(one_line(message).as_bytes());
    out.push(b'\n');
}

/// The same message without line ends, for streams whose lines mean something.
pub fn one_line(message: &str) -> Cow<'_, str> {
    match message.contains(['\n', '\r']) {
        true => Cow::Owned(message.replace(['\n', '\r'], " ")),
        false => Cow::Borrowed(message),
    }
}

/// A message as it is on the wire.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present_id")]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(default, deserialize_with = "present")]
    params: Option<Raw>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Raw>,
    error: Option<RpcError>,
}

/// A field that is `null` is there all the same.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Raw>, D::Error> {
    Raw::deserialize(deserializer).map(Some)
}

fn present_id<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

impl Envelope<'_> {
    fn into_message(self) -> Result<Message, MessageError> {
        use MessageError::NotAMessage;
        if self.jsonrpc.as_deref() != Some("2.0") {
            return Err(NotAMessage("`jsonrpc` must be \"2.0\""));
        }
        let id = match self.id.map(RawValue::get) {
            None => None,
            Some("null") if self.method.is_none() => None,
            // Nearly all are, and serde tries one kind after the other.
            Some(text) => match text.parse() {
                Ok(number) => Some(Id::Number(number)),
                Err(_) => {
                    let id = serde_json::from_str(text);
                    Some(id.map_err(|_| NotAMessage("`id` must be a text or a whole number"))?)
                }
            },
        };
        match (self.method, id, self.result, self.error) {
            (Some(method), Some(id), None, None) => {
                Ok(Message::Request(Request { id, method, params: self.params }))
            }
            (Some(method), None, None, None) => {
                Ok(Message::Notification(Notification { method, params: self.params }))
            }
            (None, Some(id), Some(result), None) => Ok(Message::answer(id, Ok(result))),
            (None, id, None, Some(error)) => Ok(Message::Response(Response { id, result: Err(error) })),
            (Some(_), ..) => Err(NotAMessage("a request has neither `result` nor `error`")),
            (None, _, None, None) => Err(NotAMessage("there is no `method`, no `result` and no `error`")),
            (None, _, Some(_), Some(_)) => Err(NotAMessage("an answer has `result` or `error`, not both")),
            (None, None, Some(_), None) => Err(NotAMessage("an answer has the `id` of its question")),
        }
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Out<'a> {
            jsonrpc: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a Id>,
            #[serde(skip_serializing_if = "Option::is_none")]
            method: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            params: Option<&'a RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            result: Option<&'a RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            error: Option<&'a RpcError>,
        }
        let empty = Out { jsonrpc: "2.0", id: None, method: None, params: None, result: None, error: None };
        match self {
            Self::Request(Request { id, method, params }) => {
                Out { id: Some(id), method: Some(method), params: params.as_deref(), ..empty }
            }
            Self::Notification(Notification { method, params }) => {
                Out { method: Some(method), params: params.as_deref(), ..empty }
            }
            Self::Response(Response { id, result }) => {
                Out { id: id.as_ref(), result: result.as_deref().ok(), error: result.as_ref().err(), ..empty }
            }
        }
        .serialize(serializer)
    }
}

/// The fields of a JSON object in their order, each as it came: for changing one and keeping the
/// others.
///
/// ```
/// use helve_mcp::message::{Fields, raw};
/// let mut fields: Fields = serde_json::from_str(r#"{"name":"echo","x": 1.0}"#).unwrap();
/// fields.set("name", raw(&"demo__echo"));
/// assert_eq!(fields.to_raw().get(), r#"{"name":"demo__echo","x":1.0}"#);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<(String, Raw)>);

impl Fields {
    /// The fields of `raw`; none where it is absent.
    pub fn read(raw: Option<&RawValue>) -> Result<Self, RpcError> {
        read(raw)
    }

    /// The value of one field, as it was sent.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// A field that is a text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(|value| serde_json::from_str(value.get()).ok())
    }

    /// Sets a field, in its place or at the end.
    pub fn set(&mut self, name: &str, value: Raw) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Takes a field out.
    pub fn remove(&mut self, name: &str) -> Option<Raw> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// The object again.
    pub fn to_raw(&self) -> Raw {
        raw(self)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some((name, value)) = map.next_entry::<String, Raw>()? {
                    // Two readers could take different ones of two equal keys.
                    if fields.get(&name).is_some() {
                        return Err(serde::de::Error::custom(format!("the key `{name}` is there twice")));
                    }
                    fields.0.push((name, value));
                    if fields.0.len() > FIELDS_MAX {
                        return Err(serde::de::Error::custom(format!("more than {FIELDS_MAX} fields")));
                    }
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// How many fields an object may have whose fields we look at one by one.
const FIELDS_MAX: usize = 256;

/// Writes a value of ours as raw JSON.
///
/// # Panics
/// Never: our own types have text keys and no failing serializers.
pub fn raw(value: &impl Serialize) -> Raw {
    to_raw_value(value).unwrap_or_else(|_| empty())
}

/// The empty object, `{}`.
pub fn empty() -> Raw {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| unreachable!("`{{}}` is JSON"))
}

/// Reads the object `raw` as `T`, or as one without fields where it is absent.
pub fn read<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<T, RpcError> {
    // Serde would take a list for an object, field by field.
    if raw.is_some_and(|raw| !is_object(raw)) {
        return Err(RpcError::invalid_params("invalid params: they must be a JSON object"));
    }
    serde_json::from_str(raw.map_or("{}", RawValue::get))
        .map_err(|error| RpcError::invalid_params(format!("invalid params: {}", in_words(&error))))
}

/// What is wrong with JSON text, in the words of JSON: serde names the types that we read it as.
pub(crate) fn in_words(error: &serde_json::Error) -> String {
    const EXPECTED: &str = ", expected ";
    let text = error.to_string();
    let Some((found, rest)) = text.rsplit_once(EXPECTED) else { return text };
    let (expected, place) = rest.split_at(rest.rfind(" at line ").unwrap_or(rest.len()));
    let expected = match expected {
        "a map" => "an object",
        "a sequence" => "a list",
        "f64" => "a number",
        "i64" | "u64" | "u32" | "usize" => "a whole number",
        structure if structure.starts_with("struct ") => "an object",
        other => other,
    };
    let found = match found.strip_prefix("invalid type: ") {
        Some("map") => "invalid type: object",
        Some("sequence") => "invalid type: list",
        _ => found,
    };
    format!("{found}{EXPECTED}{expected}{place}")
}

/// What to say of an answer that belongs to no question.
pub(crate) fn unasked(id: Option<&Id>) -> String {
    match id {
        Some(Id::Number(id)) => format!("an answer with the `id` {id}, which no open question has"),
        Some(Id::Text(id)) => {
            let id = crate::text::one_line(id, 64);
            format!("an answer with the `id` \"{id}\", a text, where all questions have numbers")
        }
        None => "an answer without an `id`: which question it answers cannot be told".to_owned(),
    }
}

/// Whether `raw` is a JSON object.
pub fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Whether text is JSON at all, without building it.
pub fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Message, MessageError> {
        Message::parse(text.as_bytes())
    }

    #[test]
    fn what_passes_through_stays_as_it_was() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x", "b":1e400,"a":12345678901234567890123}}"#,
            r#"{"jsonrpc":"2.0","id":"7","method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1.50}}"#,
            r#"{"jsonrpc":"2.0","id":-3,"result":{"content":[],"_meta":{"x/y":null}}}"#,
            r#"{"jsonrpc":"2.0","id":4,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"no","data":{"z":[1 ,2]}}}"#,
        ] {
            assert_eq!(parsed(text).unwrap().to_text(), text);
        }
    }

    #[test]
    fn a_message_is_one_line_and_no_part_of_it_another() {
        let forged = "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":\"pay\"}}";
        for end in ["\n", "\r\n", "\r"] {
            let text = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{{\"a\\n\":{end}{forged}{end}}}}}"
            );
            let message = parsed(&text).unwrap();
            let mut line = Vec::new();
            push_line(&mut line, &message.to_text());
            assert_eq!(line.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count(), 1, "{end:?}");
            assert_eq!(line.last(), Some(&b'\n'));
            let (Message::Request(sent), Message::Request(read)) = (message, Message::parse(&line).unwrap())
            else {
                panic!("a request is read as one");
            };
            let value =
                |request: Request| serde_json::from_str::<serde_json::Value>(request.params.unwrap().get());
            assert_eq!(value(read).unwrap(), value(sent).unwrap(), "it means the same");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for text in [
            "",
            "1",
            "null",
            "{}",
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"1.0","method":"x"}"#,
            r#"{"id":1,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":{"a":1},"params":{"a":2}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
        assert!(matches!(parsed(r#" [{"jsonrpc":"2.0","method":"x"}]"#), Err(MessageError::Batch)));
        assert!(matches!(Message::parse(b"{\"jsonrpc\":\"\xff\"}"), Err(MessageError::NotText)));
        let deep = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{}}}"#, "[".repeat(100_000));
        assert!(parsed(&deep).is_err());
    }

    #[test]
    fn why_it_is_none_is_said_in_the_words_of_the_protocol() {
        for (text, wanted) in [
            ("\u{feff}{}", "not valid JSON: it begins with a byte order mark"),
            ("{", "not valid JSON: EOF while parsing an object at line 1 column 1"),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":"E1","message":"no"}}"#,
                "not a JSON-RPC 2.0 message: invalid type: string \"E1\", expected a whole number at line 1 column 44",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
                "not a JSON-RPC 2.0 message: invalid type: string \"no\", expected an object at line 1 column 36",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":""}}"#,
                "not a JSON-RPC 2.0 message: an answer has `result` or `error`, not both",
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
                "not a JSON-RPC 2.0 message: an answer has the `id` of its question",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#,
                "not a JSON-RPC 2.0 message: `id` must be a text or a whole number",
            ),
        ] {
            assert_eq!(parsed(text).unwrap_err().to_string(), wanted);
        }
    }
}
