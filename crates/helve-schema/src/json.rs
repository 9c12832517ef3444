//! JSON from outside: strict reading with limits, canonical writing, digests.

mod size;

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

pub use size::{SizeBounds, size, size_bounds};

/// Bounds on JSON that comes from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonLimits {
    /// Longest text, and most bytes of strings and keys in a value.
    pub bytes: usize,
    /// Most values, counted at every level.
    pub values: usize,
    /// Deepest nesting of objects and lists.
    pub depth: usize,
}

impl Default for JsonLimits {
    fn default() -> Self {
        Self { bytes: 4 << 20, values: 200_000, depth: 64 }
    }
}

/// JSON that was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// More bytes than allowed.
    #[error("the JSON is larger than {limit} bytes; send less, or send a reference to the data")]
    TooLarge {
        /// The limit that was exceeded.
        limit: usize,
    },
    /// More values than allowed.
    #[error("the JSON holds more than {limit} values")]
    TooMany {
        /// The limit that was exceeded.
        limit: usize,
    },
    /// Nested deeper than allowed.
    #[error("the JSON is nested deeper than {limit} levels")]
    TooDeep {
        /// The limit that was exceeded.
        limit: usize,
    },
    /// A string with a NUL character, which programs and databases cut off at.
    #[error("the string at `{path}` contains a NUL character; remove it")]
    Nul {
        /// Where it stands, as a JSON Pointer.
        path: String,
    },
    /// Not JSON, or a key twice, or a number that would be changed.
    #[error("not valid JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// An integer that does not fit in 64 bits, which reading would silently change.
    #[error("the integer `{digits}` does not fit in 64 bits; send it as a string")]
    Integer {
        /// Its first digits; `…` stands for those that are left out.
        digits: String,
    },
}

/// Reads JSON as policy must see it: no key twice, no integer that changes on the way, nothing
/// beyond the limits.
///
/// ```
/// use helve_schema::json::{parse, JsonLimits};
/// assert!(parse(br#"{"to": "a"}"#, JsonLimits::default()).is_ok());
/// assert!(parse(br#"{"to": "a", "to": "b"}"#, JsonLimits::default()).is_err());
/// ```
pub fn parse(text: &[u8], limits: JsonLimits) -> Result<Value, JsonError> {
    if text.len() > limits.bytes {
        return Err(JsonError::TooLarge { limit: limits.bytes });
    }
    check_integers(text)?;
    let count = Count { limits, values: Cell::new(0), nul: Cell::new(false), refused: Cell::new(None) };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Strict { count: &count, depth: 0 }
        .deserialize(&mut reader)
        .map_err(|error| count.refused.take().unwrap_or(JsonError::Syntax(error)))?;
    reader.end().map_err(JsonError::Syntax)?;
    // The path is only worth its cost once something is wrong.
    match count.nul.get() {
        true => Err(JsonError::Nul { path: find_nul(&value, String::new()).unwrap_or_default() }),
        false => Ok(value),
    }
}

/// Checks a value that is already in memory against the limits, and its strings for NUL.
pub fn check(value: &Value, limits: JsonLimits) -> Result<(), JsonError> {
    let mut meter = Meter { limits, bytes: 0, values: 0 };
    meter.visit(value, 0).map_err(|error| match error {
        // The path is only worth its cost once something is wrong.
        JsonError::Nul { .. } => JsonError::Nul { path: find_nul(value, String::new()).unwrap_or_default() },
        other => other,
    })
}

struct Meter {
    limits: JsonLimits,
    bytes: usize,
    values: usize,
}

impl Meter {
    fn visit(&mut self, value: &Value, depth: usize) -> Result<(), JsonError> {
        self.values += 1;
        if self.values > self.limits.values {
            return Err(JsonError::TooMany { limit: self.limits.values });
        }
        if depth > self.limits.depth {
            return Err(JsonError::TooDeep { limit: self.limits.depth });
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter().try_for_each(|item| self.visit(item, depth + 1)),
            Value::Object(fields) => fields.iter().try_for_each(|(key, item)| {
                self.text(key)?;
                self.visit(item, depth + 1)
            }),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), JsonError> {
        self.bytes += text.len();
        if self.bytes > self.limits.bytes {
            return Err(JsonError::TooLarge { limit: self.limits.bytes });
        }
        if text.as_bytes().contains(&0) { Err(JsonError::Nul { path: String::new() }) } else { Ok(()) }
    }
}

fn find_nul(value: &Value, path: String) -> Option<String> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
        Value::String(text) => text.contains('\0').then_some(path),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| find_nul(item, format!("{path}/{index}")))
        }
        Value::Object(fields) => fields.iter().find_map(|(key, item)| {
            if key.contains('\0') {
                return Some(path.clone());
            }
            find_nul(item, format!("{path}/{}", escape_pointer(key)))
        }),
    }
}

/// Most characters of an integer that are told.
const INTEGER_SHOWN_MAX: usize = 24;

/// serde_json turns 2^64 into a float; find such integers in the text before it does.
fn check_integers(text: &[u8]) -> Result<(), JsonError> {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => at = skip_string(text, at + 1),
            b'-' | b'0'..=b'9' => {
                let start = at;
                at += 1;
                while at < text.len() && matches!(text[at], b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') {
                    at += 1;
                }
                check_integer(&text[start..at])?;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

fn check_integer(token: &[u8]) -> Result<(), JsonError> {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    if digits.len() < 19 || !digits.iter().all(u8::is_ascii_digit) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(token);
    if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return Ok(());
    }
    let mut digits: String = text.chars().take(INTEGER_SHOWN_MAX).collect();
    if digits.len() < text.len() {
        digits.push('…');
    }
    Err(JsonError::Integer { digits })
}

fn skip_string(text: &[u8], mut at: usize) -> usize {
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// What was read so far. Counted while a value grows, and not when it is there: a text of small values takes
/// fifty times its size in memory.
struct Count {
    limits: JsonLimits,
    values: Cell<usize>,
    /// Whether a string has a NUL character.
    nul: Cell<bool>,
    /// Why reading was given up; serde would make a text of it.
    refused: Cell<Option<JsonError>>,
}

impl Count {
    fn value<E: serde::de::Error>(&self, depth: usize) -> Result<(), E> {
        let values = self.values.get() + 1;
        self.values.set(values);
        let JsonLimits { values: values_max, depth: depth_max, bytes: _ } = self.limits;
        if values > values_max {
            return self.refuse(JsonError::TooMany { limit: values_max });
        }
        if depth > depth_max {
            return self.refuse(JsonError::TooDeep { limit: depth_max });
        }
        Ok(())
    }

    /// Strings are never longer than their text, which was measured first.
    fn text(&self, text: &str) {
        if text.as_bytes().contains(&0) {
            self.nul.set(true);
        }
    }

    fn refuse<E: serde::de::Error>(&self, error: JsonError) -> Result<(), E> {
        self.refused.set(Some(error));
        Err(E::custom("beyond the limits"))
    }
}

/// Deserializes a value within the limits, and refuses a key that stands twice in one object.
#[derive(Clone, Copy)]
struct Strict<'c> {
    count: &'c Count,
    depth: usize,
}

impl Strict<'_> {
    fn below(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count.value(self.depth)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        self.count.text(&value);
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self.below())? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(serde::de::Error::custom(format_args!("the key `{key}` stands twice")));
            }
            self.count.text(&key);
            let value = fields.next_value_seed(self.below())?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// One text for equal values: keys sorted, no white space. What digests are made of.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            // serde_json's map is sorted unless some crate in the build turns `preserve_order` on.
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, item)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write_canonical(item, text);
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

/// Equal, and `1` is `1.0`.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// A key as one step of a JSON Pointer.
pub fn escape_pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// SHA-256 as lowercase hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as lowercase hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)] as char, DIGITS[usize::from(byte & 15)] as char])
        .collect()
}

/// A value as one short line, for messages.
pub fn brief(value: &Value) -> String {
    const CHARS_MAX: usize = 60;
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => {
            let mut short: String = text.chars().take(CHARS_MAX).collect();
            if short.len() < text.len() {
                short.push('…');
            }
            Value::String(short).to_string()
        }
        Value::Array(items) => format!("array of {}", items.len()),
        Value::Object(fields) => format!("object with {} fields", fields.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn hostile_text_is_refused_with_a_reason() {
        let deep = "[".repeat(100_000);
        let nested = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        let cases: &[(&str, &str)] = &[
            (r#"{"a": 1, "a": 2}"#, "stands twice"),
            (r#"{"a": {"b": 1, "b": 1}}"#, "stands twice"),
            ("18446744073709551616", "`18446744073709551616` does not fit in 64 bits"),
            ("1234567890123456789012345", "`123456789012345678901234…`"),
            ("-9223372036854775809", "64 bits"),
            ("[1e999]", "out of range"),
            (r#"{"a": ["x", "b\u0000c"]}"#, "`/a/1` contains a NUL"),
            ("{\"a\0\": 1}", "not valid JSON"),
            (&deep, "deeper than 64"),
            (&nested, "deeper than 64"),
            ("{\"a\": 1} x", "trailing"),
            ("", "EOF"),
        ];
        for (text, expected) in cases {
            let error = parse(text.as_bytes(), JsonLimits::default()).unwrap_err();
            let chain = format!("{error}");
            assert!(chain.contains(expected), "{text:.40}: {chain}");
        }
    }

    #[test]
    fn large_but_honest_numbers_pass() {
        for text in
            ["18446744073709551615", "-9223372036854775808", "6.02214076e23", "\"18446744073709551616\""]
        {
            assert!(parse(text.as_bytes(), JsonLimits::default()).is_ok(), "{text}");
        }
    }

    #[test]
    fn limits_hold_for_values_in_memory() {
        let limits = JsonLimits { bytes: 1_000, values: 10, depth: 3 };
        assert!(matches!(check(&json!("x".repeat(1_001)), limits), Err(JsonError::TooLarge { .. })));
        assert!(matches!(check(&json!(vec![0; 10]), limits), Err(JsonError::TooMany { .. })));
        assert!(matches!(check(&json!([[[[0]]]]), limits), Err(JsonError::TooDeep { .. })));
        assert!(check(&json!([[[0]]]), limits).is_ok());
    }

    #[test]
    fn reading_stops_at_the_limit_and_not_at_the_end() {
        let limits = JsonLimits { bytes: 1_000, values: 10, depth: 3 };
        let refused = |text: &str| parse(text.as_bytes(), limits).unwrap_err();
        assert!(matches!(refused("[0,0,0,0,0,0,0,0,0,0 and no JSON"), JsonError::TooMany { limit: 10 }));
        assert!(matches!(refused("[[[[ and no JSON"), JsonError::TooDeep { limit: 3 }));
        assert!(parse(b"[0,0,0,0,0,0,0,0,[]]", limits).is_ok());
        assert!(parse(b"[[[0]]]", limits).is_ok());
    }

    proptest! {
        #[test]
        fn strict_reading_agrees_with_serde_json(text in r#"(\{"a":[0-9]{1,18}(\.[0-9]{1,3})?\}|\["\\?\\n[a-z]*",null,true\])"#) {
            let ours = parse(text.as_bytes(), JsonLimits::default()).ok();
            prop_assert_eq!(ours, serde_json::from_str::<Value>(&text).ok());
        }

        #[test]
        fn parse_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes, JsonLimits::default());
        }
    }
}
