//! Makes arguments that would have been right, to show a model next to what it sent.

use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::{Map, Value, json};

use super::graph::{in_place, target};
use super::{Redactor, Schema};

const DEPTH_MAX: usize = 6;
const ROUNDS_MAX: usize = 4;

/// Corrects `sent` where the errors say how, or makes fresh arguments. `None` where neither fits.
pub fn corrected(schema: &Schema, sent: &Value, redactor: &Redactor) -> Option<Value> {
    let mut candidate = redactor.redact(Some(schema), sent).into_owned();
    if !candidate.is_object() {
        candidate = json!({});
    }
    for _ in 0..ROUNDS_MAX {
        if schema.accepts(&candidate) {
            return Some(candidate);
        }
        let fixes: Vec<_> = schema.errors(&candidate).iter().filter_map(|error| fix(schema, error)).collect();
        if fixes.is_empty() {
            break;
        }
        for (path, replacement) in fixes {
            set(&mut candidate, &path, replacement);
        }
    }
    if schema.accepts(&candidate) {
        return Some(candidate);
    }
    let fresh = sample(schema.json(), schema.json(), DEPTH_MAX)?;
    schema.accepts(&fresh).then_some(fresh)
}

/// Where to put what; nothing means "remove".
fn fix(schema: &Schema, error: &jsonschema::ValidationError<'_>) -> Option<(String, Option<Value>)> {
    let path = error.instance_path().as_str();
    let here = |root: &Value| {
        let nodes = super::graph::at_path(root, path);
        nodes.first().and_then(|node| sample(root, node, DEPTH_MAX))
    };
    let root = schema.json();
    match error.kind() {
        Kind::Required { property } => {
            let at = format!("{path}/{}", crate::json::escape_pointer(property.as_str()?));
            let nodes = super::graph::at_path(root, &at);
            let value = nodes.first().and_then(|node| sample(root, node, DEPTH_MAX))?;
            Some((at, Some(value)))
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let key = unexpected.first()?;
            Some((format!("{path}/{}", crate::json::escape_pointer(key)), None))
        }
        Kind::Minimum { limit } | Kind::Maximum { limit } => Some((path.to_owned(), Some(limit.clone()))),
        Kind::Constant { expected_value } => Some((path.to_owned(), Some(expected_value.as_ref().clone()))),
        _ if !path.is_empty() => Some((path.to_owned(), Some(here(root)?))),
        _ => None,
    }
}

fn set(value: &mut Value, path: &str, replacement: Option<Value>) {
    let Some((parent, key)) = path.rsplit_once('/') else { return };
    let key = key.replace("~1", "/").replace("~0", "~");
    match (value.pointer_mut(parent), replacement) {
        (Some(Value::Object(fields)), Some(new)) => {
            fields.insert(key, new);
        }
        (Some(Value::Object(fields)), None) => {
            fields.remove(&key);
        }
        (Some(Value::Array(items)), Some(new)) => {
            if let Some(item) = key.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                *item = new;
            }
        }
        _ => {}
    }
}

/// A small value that a schema probably accepts: its own examples and defaults first.
fn sample(root: &Value, schema: &Value, depth: usize) -> Option<Value> {
    if depth == 0 {
        return None;
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return sample(root, target(root, reference)?, depth - 1);
    }
    let declared = [
        schema.get("examples").and_then(|list| list.get(0)),
        schema.get("example"),
        schema.get("default"),
        schema.get("const"),
        schema.get("enum").and_then(|list| list.get(0)),
    ];
    if let Some(value) = declared.into_iter().flatten().next() {
        return Some(value.clone());
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = schema.get(key).and_then(Value::as_array) {
            return options.iter().find_map(|option| sample(root, option, depth - 1));
        }
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first()?.as_str()?,
        _ => in_place(root, schema).into_iter().find_map(|node| node.get("type").and_then(Value::as_str))?,
    };
    match kind {
        "string" => sample_text(schema),
        "integer" | "number" => Some(sample_number(schema)),
        "boolean" => Some(json!(true)),
        "null" => Some(Value::Null),
        "array" => {
            let count = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(0, 3);
            let item = schema
                .get("items")
                .and_then(|items| sample(root, items, depth - 1))
                .unwrap_or_else(|| json!("…"));
            Some(Value::Array((0..count).map(|_| item.clone()).collect()))
        }
        "object" => {
            let required = schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            let fields: Option<Map<_, _>> = required
                .map(|key| {
                    let field = schema.get("properties")?.get(key)?;
                    Some((key.to_owned(), sample(root, field, depth - 1)?))
                })
                .collect();
            fields.map(Value::Object)
        }
        _ => None,
    }
}

fn sample_text(schema: &Value) -> Option<Value> {
    let text = match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2026-01-31",
        Some("date-time") => "2026-01-31T09:00:00Z",
        Some("time") => "09:00:00Z",
        Some("email") => "name@example.com",
        Some("uri" | "url" | "iri") => "https://example.com/",
        Some("uuid") => "123e4567-e89b-12d3-a456-426614174000",
        Some("ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        Some("hostname") => "example.com",
        Some("duration") => "PT15M",
        _ => "text",
    };
    let shortest = usize::try_from(schema.get("minLength").and_then(Value::as_u64).unwrap_or(0)).ok()?;
    let longest = usize::try_from(schema.get("maxLength").and_then(Value::as_u64).unwrap_or(1_000)).ok()?;
    if shortest > 200 {
        return None;
    }
    let mut text = text.to_owned();
    while text.len() < shortest {
        text.push('x');
    }
    text.truncate(longest);
    Some(text.into())
}

fn sample_number(schema: &Value) -> Value {
    let bound = |key| schema.get(key).and_then(Value::as_f64);
    let low = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|low| low + 1.0));
    let high = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|high| high - 1.0));
    let number = low.or(high.map(|high| high.min(1.0))).unwrap_or(1.0);
    if number.fract() == 0.0 && number.abs() < 9e15 { json!(number as i64) } else { json!(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corrected_example_keeps_what_was_right() {
        let schema = Schema::compile(json!({ "type": "object", "additionalProperties": false, "required": ["startDate", "to"], "properties": {
            "startDate": { "type": "string", "format": "date" },
            "to": { "type": "array", "minItems": 1, "items": { "type": "string", "format": "email" } },
            "limit": { "type": "integer", "minimum": 1, "maximum": 50 }, "note": { "type": "string" } } }))
        .unwrap();
        let sent = json!({ "limit": 900, "note": "keep me", "bogus": 1, "to": [7] });
        let example = corrected(&schema, &sent, &Redactor::default()).unwrap();
        assert_eq!(
            example,
            json!({ "startDate": "2026-01-31", "to": ["name@example.com"], "limit": 50, "note": "keep me" })
        );
    }

    #[test]
    fn an_example_never_repeats_a_secret() {
        let schema = Schema::compile(json!({ "type": "object", "required": ["n"], "properties": {
            "n": { "type": "integer" }, "password": { "type": "string" } } }))
        .unwrap();
        let example = corrected(&schema, &json!({ "password": "hunter2" }), &Redactor::default()).unwrap();
        assert_eq!(example, json!({ "n": 1, "password": "[redacted]" }));
    }

    #[test]
    fn no_example_is_better_than_a_wrong_one() {
        let schema = Schema::compile(json!({ "type": "object", "required": ["code"], "properties": {
            "code": { "type": "string", "pattern": "^[A-Z]{3}-[0-9]{9}$" } } }))
        .unwrap();
        assert_eq!(corrected(&schema, &json!({}), &Redactor::default()), None);
    }
}
