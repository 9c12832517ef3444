//! Makes arguments that would have been right, to show a model next to what it sent.

use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::{Map, Value, json};

use super::graph::{Document, at_path, in_place};
use super::{Budget, Redactor, Schema};

const DEPTH_MAX: usize = 6;
/// Most looks at the schema for one example, and most values in what is made by them.
const LOOKS_MAX: usize = 20_000;
/// Most bytes of a value that the schema declares, for it to be repeated.
const DECLARED_BYTES_MAX: usize = 4_000;
const ROUNDS_MAX: usize = 4;

/// Corrects `sent` where the errors say how, or makes fresh arguments. `None` where neither fits. `known` are arguments
/// that are right: what stands there is taken before anything is made up, because a schema knows what is text, and not
/// which text works.
pub fn corrected(schema: &Schema, sent: &Value, known: &[&Value], redactor: &Redactor) -> Option<Value> {
    let mut candidate = redactor.redact(Some(schema), sent).into_owned();
    if !candidate.is_object() {
        candidate = json!({});
    }
    let sampler = Sampler { document: schema.document(), known, budget: Budget::new(LOOKS_MAX) };
    for _ in 0..ROUNDS_MAX {
        if schema.accepts(&candidate) {
            return Some(candidate);
        }
        let fixes: Vec<_> = schema.errors(&candidate).iter().filter_map(|error| sampler.fix(error)).collect();
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
    let of_author =
        known.iter().find(|known| schema.accepts(known)).and_then(|known| sampler.declared(known));
    let fresh = of_author.or_else(|| sampler.sample(schema.json(), DEPTH_MAX))?;
    schema.accepts(&fresh).then_some(fresh)
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

struct Sampler<'a> {
    document: &'a Document,
    known: &'a [&'a Value],
    budget: Budget,
}

impl<'a> Sampler<'a> {
    /// Where to put what; nothing means "remove".
    fn fix(&self, error: &jsonschema::ValidationError<'_>) -> Option<(String, Option<Value>)> {
        let path = error.instance_path().as_str();
        match error.kind() {
            Kind::Required { property } => {
                let at = format!("{path}/{}", crate::json::escape_pointer(property.as_str()?));
                let value = self.at(&at)?;
                Some((at, Some(value)))
            }
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                let key = unexpected.first()?;
                Some((format!("{path}/{}", crate::json::escape_pointer(key)), None))
            }
            Kind::Minimum { limit } | Kind::Maximum { limit } => Some((path.to_owned(), Some(limit.clone()))),
            Kind::Constant { expected_value } => {
                Some((path.to_owned(), Some(self.declared(expected_value)?)))
            }
            _ if !path.is_empty() => Some((path.to_owned(), Some(self.at(path)?))),
            _ => None,
        }
    }

    /// What could stand at `path`.
    fn at(&self, path: &str) -> Option<Value> {
        let known = self.known.iter().find_map(|known| self.declared(known.pointer(path)?));
        known.or_else(|| self.made_up(path))
    }

    fn made_up(&self, path: &str) -> Option<Value> {
        at_path(self.document, path).here.first().and_then(|schema| self.sample(schema, DEPTH_MAX))
    }

    /// A value that the schema itself gives, unless it is long.
    fn declared(&self, value: &Value) -> Option<Value> {
        let bytes = crate::json::size(value);
        (bytes <= DECLARED_BYTES_MAX && self.budget.spend(1 + bytes / 64)).then(|| value.clone())
    }

    /// A small value that a schema probably accepts: its own examples and defaults first.
    fn sample(&self, schema: &'a Value, depth: usize) -> Option<Value> {
        if depth == 0 || !self.budget.spend(1) {
            return None;
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.sample(self.document.target(reference)?, depth - 1);
        }
        let declared = [
            schema.get("examples").and_then(|list| list.get(0)),
            schema.get("example"),
            schema.get("default"),
            schema.get("const"),
            schema.get("enum").and_then(|list| list.get(0)),
        ];
        if let Some(value) = declared.into_iter().flatten().next() {
            return self.declared(value);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(options) = schema.get(key).and_then(Value::as_array) {
                return options.iter().find_map(|option| self.sample(option, depth - 1));
            }
        }
        let kind = match schema.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => kinds.first()?.as_str()?,
            _ => in_place(self.document, [schema], &self.budget)
                .into_iter()
                .find_map(|node| node.get("type").and_then(Value::as_str))?,
        };
        match kind {
            "string" => sample_text(schema),
            "integer" | "number" => Some(sample_number(schema)),
            "boolean" => Some(json!(true)),
            "null" => Some(Value::Null),
            "array" => {
                let count = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(0, 3);
                // Each is made anew, so that each is paid for.
                let items = (0..count).map(|_| {
                    let item = schema.get("items").and_then(|items| self.sample(items, depth - 1));
                    item.unwrap_or_else(|| json!("…"))
                });
                Some(Value::Array(items.collect()))
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
                        Some((key.to_owned(), self.sample(field, depth - 1)?))
                    })
                    .collect();
                fields.map(Value::Object)
            }
            _ => None,
        }
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
        let example = corrected(&schema, &sent, &[], &Redactor::default()).unwrap();
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
        let example =
            corrected(&schema, &json!({ "password": "hunter2" }), &[], &Redactor::default()).unwrap();
        assert_eq!(example, json!({ "n": 1, "password": "[redacted]" }));
    }

    #[test]
    fn what_is_known_to_be_right_comes_before_what_is_made_up() {
        let schema = Schema::compile(
            json!({ "type": "object", "additionalProperties": false, "required": ["expression"],
            "properties": { "expression": { "type": "string" }, "digits": { "type": "integer" } } }),
        )
        .unwrap();
        let known = json!({ "expression": "2 * 3" });
        let example =
            |sent: Value, known: &[&Value]| corrected(&schema, &sent, known, &Redactor::default()).unwrap();
        assert_eq!(example(json!({}), &[]), json!({ "expression": "text" }));
        assert_eq!(example(json!({}), &[&known]), known);
        assert_eq!(
            example(json!({ "formula": 1, "digits": 7 }), &[&known]),
            json!({ "expression": "2 * 3", "digits": 7 })
        );
        assert_eq!(example(json!({ "expression": {} }), &[&known]), known);
        let wrong = json!({ "expression": 7 });
        assert_eq!(example(json!({}), &[&wrong, &known]), known, "what does not fit is not shown");
    }

    #[test]
    fn no_example_is_better_than_a_wrong_one() {
        let schema = Schema::compile(json!({ "type": "object", "required": ["code"], "properties": {
            "code": { "type": "string", "pattern": "^[A-Z]{3}-[0-9]{9}$" } } }))
        .unwrap();
        assert_eq!(corrected(&schema, &json!({}), &[], &Redactor::default()), None);
    }
}
