//! Answers to clients, written as text around what a backend gave.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::outlet::id_text;
use crate::era::Era;
use crate::message::{Id, Raw, RpcError, raw};

/// The answer to one request.
#[derive(Debug)]
pub struct RpcAnswer {
    /// The id of the request. None if the request could not be read.
    pub id: Option<Id>,
    /// In which era's way it is written.
    pub era: Era,
    /// What came of it.
    pub result: Result<Arc<RawValue>, RpcError>,
    /// Whether the client took the request back, so that it waits for no answer.
    pub is_withdrawn: bool,
}

impl RpcAnswer {
    /// Writes an answer in the words of an era.
    pub(super) fn new(id: Id, era: Era, result: Result<Arc<RawValue>, RpcError>) -> Self {
        Self { id: Some(id), era, result, is_withdrawn: false }
    }

    /// A refusal of something that could not be read as a request.
    pub fn refusal(error: RpcError) -> Self {
        Self { id: None, era: Era::Session, result: Err(error), is_withdrawn: false }
    }

    /// The answer as one message.
    pub fn to_text(&self) -> String {
        let id = self.id.as_ref().map_or_else(|| "null".to_owned(), id_text);
        match &self.result {
            Err(error) => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, raw(error)),
            Ok(result) => {
                let mut text = String::with_capacity(result.get().len() + id.len() + 64);
                text.push_str(r#"{"jsonrpc":"2.0","id":"#);
                text.push_str(&id);
                text.push_str(r#","result":"#);
                push_result(&mut text, result.get(), self.era);
                text.push('}');
                text
            }
        }
    }

    /// The HTTP status that goes with it. The stateless era has some of its own.
    pub fn http_status(&self) -> u16 {
        match (self.era, self.result.as_ref().err().map(|error| error.code)) {
            (_, Some(RpcError::PARSE | RpcError::INVALID_REQUEST)) => 400,
            (Era::Session, _) | (Era::Stateless, None) => 200,
            (Era::Stateless, Some(RpcError::METHOD_NOT_FOUND)) => 404,
            (
                Era::Stateless,
                Some(
                    RpcError::INVALID_PARAMS
                    | RpcError::HEADER_MISMATCH
                    | RpcError::MISSING_CAPABILITY
                    | RpcError::UNSUPPORTED_VERSION,
                ),
            ) => 400,
            (Era::Stateless, Some(_)) => 200,
        }
    }
}

/// In the stateless era every result says what it is. One that comes from a server of the session
/// era does not, so it is said for it.
fn push_result(text: &mut String, result: &str, era: Era) {
    let inside = result.trim_start().strip_prefix('{');
    match (era, inside) {
        (Era::Stateless, Some(inside)) if !says_its_type(result) => {
            text.push_str(r#"{"resultType":"complete""#);
            if !inside.trim_start().starts_with('}') {
                text.push(',');
            }
            text.push_str(inside);
        }
        (Era::Stateless | Era::Session, _) => text.push_str(result),
    }
}

fn says_its_type(result: &str) -> bool {
    #[derive(Deserialize)]
    struct Head {
        #[serde(rename = "resultType")]
        result_type: Option<IgnoredAny>,
    }
    // Most results do not even contain the word, and looking for it is cheap.
    result.contains(r#""resultType""#)
        && serde_json::from_str::<Head>(result).is_ok_and(|head| head.result_type.is_some())
}

/// The empty result, `{}`.
pub(super) fn nothing() -> Arc<RawValue> {
    let nothing: Raw = crate::message::empty();
    nothing.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(era: Era, result: &str) -> String {
        let result: Raw = RawValue::from_string(result.to_owned()).unwrap();
        RpcAnswer::new(Id::Number(1), era, Ok(result.into())).to_text()
    }

    #[test]
    fn results_of_the_stateless_era_say_their_type_once() {
        let around = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        for (given, expected) in [
            ("{}", r#"{"resultType":"complete"}"#),
            (r#"{"content":[ ]}"#, r#"{"resultType":"complete","content":[ ]}"#),
            (r#"{ "a":1}"#, r#"{"resultType":"complete", "a":1}"#),
            (r#"{"resultType":"input_required"}"#, r#"{"resultType":"input_required"}"#),
            (
                r#"{"content":[{"text":"\"resultType\""}],"x":{"resultType":"y"}}"#,
                r#"{"resultType":"complete","content":[{"text":"\"resultType\""}],"x":{"resultType":"y"}}"#,
            ),
        ] {
            assert_eq!(written(Era::Stateless, given), around(expected));
            assert_eq!(written(Era::Session, given), around(given));
        }
    }

    #[test]
    fn a_text_id_is_escaped() {
        let answer = RpcAnswer::new(Id::Text("a\"b".into()), Era::Session, Ok(nothing()));
        assert_eq!(answer.to_text(), r#"{"jsonrpc":"2.0","id":"a\"b","result":{}}"#);
    }
}
