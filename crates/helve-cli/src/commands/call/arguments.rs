//! Arguments as people type them: JSON, `key=value` pairs, a file, standard input.

use std::io::Read;

use helve::json::{JsonError, JsonLimits, escape_pointer, parse};
use helve::{ErrorCode, Schema, ToolError};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// Why a call has no arguments.
#[derive(Debug)]
pub(super) enum Unread {
    /// The command line is wrong, and there is no call.
    Usage(Failure),
    /// What was given cannot be used: a call, which is refused and recorded.
    Refused(ToolError),
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Self {
        Self::Usage(failure)
    }
}

impl From<ToolError> for Unread {
    fn from(error: ToolError) -> Self {
        Self::Refused(error)
    }
}

/// Reads the arguments of a call. `schema` is the tool's, where there is such a tool.
pub(super) fn read(words: &[String], schema: Option<&Schema>, limits: JsonLimits) -> Result<Value, Unread> {
    match words {
        [] => Ok(Value::Object(Map::new())),
        [one] if one == "-" => from_reader(std::io::stdin().lock(), "standard input", limits),
        [one] if one.starts_with('@') => from_file(&one[1..], limits),
        [one] if is_json(one) => Ok(from_json(one.as_bytes(), "the arguments", limits)?),
        pairs => from_pairs(pairs, schema, limits),
    }
}

fn is_json(word: &str) -> bool {
    word.trim_start().starts_with(['{', '['])
}

fn from_file(path: &str, limits: JsonLimits) -> Result<Value, Unread> {
    let file = std::fs::File::open(path)
        .map_err(|error| Failure::usage(format!("cannot read `{path}`")).because(&error))?;
    from_reader(file, &format!("`{path}`"), limits)
}

fn from_reader(reader: impl Read, what: &str, limits: JsonLimits) -> Result<Value, Unread> {
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know that it is too much.
    reader
        .take(limits.bytes as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("cannot read {what}")).because(&error))?;
    // Some editors put a byte order mark first. It is no part of the text.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    Ok(from_json(text, what, limits)?)
}

fn from_json(text: &[u8], what: &str, limits: JsonLimits) -> Result<Value, ToolError> {
    parse(text, limits).map_err(|error| {
        let hint = match &error {
            JsonError::TooLarge { .. } => "`limits.arguments_bytes` in helve.toml raises the limit",
            JsonError::TooMany { .. } => "`limits.arguments_values` in helve.toml raises the limit",
            JsonError::TooDeep { .. } => "`limits.arguments_depth` in helve.toml raises the limit",
            _ => "give one JSON object, as in '{\"text\": \"Hello\"}', or pairs, as in text=Hello",
        };
        refused(what, error).suggest(hint)
    })
}

fn refused(what: &str, why: impl std::fmt::Display) -> ToolError {
    ToolError::new(ErrorCode::ValidationFailed, format!("{what} cannot be used: {why}"))
}

fn from_pairs(pairs: &[String], schema: Option<&Schema>, limits: JsonLimits) -> Result<Value, Unread> {
    let is_whole =
        |word: &&String| is_json(word) || *word == "-" || word.starts_with('@') && !word.contains('=');
    if let Some(whole) = pairs.iter().find(is_whole) {
        let whole: String = whole.chars().take(40).collect();
        return Err(Failure::usage(format!(
            "`{whole}` gives all arguments at once and does not mix with others"
        ))
        .hint("give one JSON object, @file or -, or else only key=value and key:=json")
        .into());
    }
    let mut arguments = Value::Object(Map::new());
    for pair in pairs {
        let Pair { key, text, raw } = split(pair)?;
        let pointer = pointer(key, schema);
        let shown: String = key.chars().take(64).collect();
        let value = if raw {
            from_json(text.as_bytes(), &format!("the JSON after `{shown}:=`"), limits)?
        } else {
            typed(text, &pointer, schema)
        };
        // Only the key is named: the value may be a secret, and this is recorded.
        put(&mut arguments, &pointer, value, schema).map_err(|why| refused(&format!("`{shown}`"), why))?;
    }
    helve::json::check(&arguments, limits).map_err(|error| refused("the arguments", error))?;
    Ok(arguments)
}

struct Pair<'a> {
    key: &'a str,
    text: &'a str,
    raw: bool,
}

fn split(pair: &str) -> Result<Pair<'_>, Failure> {
    let wrong = || {
        let short: String = pair.chars().take(80).collect();
        Failure::usage(format!("`{short}` is not an argument"))
            .hint("write key=value, key:=json, one JSON object, @file, or - for standard input")
    };
    let (key, text) = pair.split_once('=').ok_or_else(wrong)?;
    let (key, raw) = key.strip_suffix(':').map_or((key, false), |key| (key, true));
    if key.is_empty() { Err(wrong()) } else { Ok(Pair { key, text, raw }) }
}

/// A dot goes one level down, unless the schema has a field with the dot in its name.
fn pointer(key: &str, schema: Option<&Schema>) -> String {
    let whole = format!("/{}", escape_pointer(key));
    let is_field = |schema: &Schema| {
        let nodes = schema.at("");
        nodes.iter().any(|node| node.get("properties").and_then(|fields| fields.get(key)).is_some())
    };
    if schema.is_some_and(is_field) {
        return whole;
    }
    key.split('.').map(|step| format!("/{}", escape_pointer(step))).collect()
}

/// The text as the type that the schema asks for. What does not fit stays text, and the pipeline
/// says what was expected.
fn typed(text: &str, pointer: &str, schema: Option<&Schema>) -> Value {
    let kinds = kinds(pointer, schema);
    let wants = |kind: &str| kinds.iter().any(|one| one == kind);
    let json = || parse(text.as_bytes(), JsonLimits::default()).ok();
    if wants("string") {
        return Value::from(text);
    }
    let fits = |value: &Value| match value {
        Value::Number(_) => wants("number") || wants("integer"),
        Value::Bool(_) => wants("boolean"),
        Value::Null => wants("null"),
        Value::Array(_) => wants("array"),
        Value::Object(_) => wants("object"),
        Value::String(_) => false,
    };
    if let Some(value) = json().filter(|value| kinds.is_empty() && !value.is_string() || fits(value)) {
        return value;
    }
    if wants("array") {
        return Value::Array(vec![typed(text, &format!("{pointer}/0"), schema)]);
    }
    Value::from(text)
}

fn kinds(pointer: &str, schema: Option<&Schema>) -> Vec<String> {
    let mut kinds = Vec::new();
    for node in schema.map(|schema| schema.at(pointer)).unwrap_or_default() {
        match node.get("type") {
            Some(Value::String(kind)) => kinds.push(kind.clone()),
            Some(Value::Array(names)) => {
                kinds.extend(names.iter().filter_map(Value::as_str).map(str::to_owned))
            }
            _ => {}
        }
        // Words to choose from say their type by themselves.
        let words = node.get("enum").and_then(Value::as_array).into_iter().flatten().chain(node.get("const"));
        if words.clone().any(Value::is_string) {
            kinds.push("string".to_owned());
        }
    }
    kinds
}

fn put(root: &mut Value, pointer: &str, value: Value, schema: Option<&Schema>) -> Result<(), String> {
    let mut steps =
        pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).peekable();
    let mut current = root;
    while let Some(step) = steps.next() {
        let Value::Object(fields) = current else {
            return Err("a value was given for what holds it".to_owned());
        };
        if steps.peek().is_some() {
            current = fields.entry(step).or_insert_with(|| Value::Object(Map::new()));
            continue;
        }
        let is_list = kinds(pointer, schema).iter().any(|kind| kind == "array");
        match (fields.get_mut(&step), value) {
            (None, value) => {
                fields.insert(step, value);
            }
            (Some(Value::Array(items)), Value::Array(more)) if is_list => items.extend(more),
            (Some(_), _) => return Err("the key stands twice".to_owned()),
        }
        return Ok(());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::compile(json!({ "type": "object", "properties": {
            "n": { "type": "integer" }, "s": { "type": "string" }, "on": { "type": "boolean" },
            "list": { "type": "array", "items": { "type": "integer" } },
            "either": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/size" }] },
            "at": { "type": "object", "properties": { "x": { "type": "number" } } },
            "a.b": { "type": "integer" }, "free": {} },
            "$defs": { "size": { "type": "number" } } }))
        .unwrap()
    }

    fn check(words: &[&str], expected: Result<Value, &str>) {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let said = |unread| match unread {
            Unread::Usage(failure) => failure.message,
            Unread::Refused(error) => error.message().to_owned(),
        };
        let read = read(&words, Some(&schema()), JsonLimits::default()).map_err(said);
        assert_eq!(read, expected.map_err(str::to_owned), "{words:?}");
    }

    #[test]
    fn pairs_are_typed_by_the_schema() {
        check(&[], Ok(json!({})));
        check(&["n=7", "s=7", "on=true"], Ok(json!({ "n": 7, "s": "7", "on": true })));
        check(&["n=seven"], Ok(json!({ "n": "seven" })));
        check(&["either=1.5"], Ok(json!({ "either": 1.5 })));
        check(&["either=null"], Ok(json!({ "either": null })));
        check(&["s="], Ok(json!({ "s": "" })));
        check(&["s=a=b"], Ok(json!({ "s": "a=b" })));
        check(&["free=3", "other=x"], Ok(json!({ "free": 3, "other": "x" })));
    }

    #[test]
    fn lists_levels_and_raw_json() {
        check(&["list=1", "list=2"], Ok(json!({ "list": [1, 2] })));
        check(&["list=[1,2]"], Ok(json!({ "list": [1, 2] })));
        check(&["at.x=1", "a.b=2"], Ok(json!({ "at": { "x": 1 }, "a.b": 2 })));
        check(&["s:=[1]"], Ok(json!({ "s": [1] })));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        check(&["n=1", "n=2"], Err("`n` cannot be used: the key stands twice"));
        check(&["at=1", "at.x=1"], Err("`at.x` cannot be used: a value was given for what holds it"));
        check(&["hello"], Err("`hello` is not an argument"));
        check(
            &["n:={"],
            Err(
                "the JSON after `n:=` cannot be used: not valid JSON: EOF while parsing an object at line 1 column 1",
            ),
        );
        check(
            &["s=a\0b"],
            Err("the arguments cannot be used: the string at `/s` contains a NUL character; remove it"),
        );
    }

    #[test]
    fn json_and_pairs_do_not_mix() {
        for (words, whole) in [
            ([r#"{"s":"a"}"#, "n=1"], r#"{"s":"a"}"#),
            (["n=1", r#"{"s":"a=b"}"#], r#"{"s":"a=b"}"#),
            (["@file", "n=1"], "@file"),
            (["n=1", "-"], "-"),
        ] {
            let said = format!("`{whole}` gives all arguments at once and does not mix with others");
            check(&words, Err(&said));
        }
        check(&["@type=x", "n=1"], Ok(json!({ "@type": "x", "n": 1 })));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        let text = "\u{feff}{\"n\": 1}";
        let read = from_reader(text.as_bytes(), "a file", JsonLimits::default());
        assert_eq!(read.unwrap(), json!({ "n": 1 }));
    }
}
