//! How much work a schema makes of one value.
//!
//! A schema that refers to itself through two branches does twice the work at every level of the
//! value, and one with many alternatives does all of it for every item of a list. The validator cannot
//! be stopped once it runs, so its visits are counted first.

use serde_json::Value;

use super::Budget;
use super::graph::{Document, own_field, own_in_place, own_items};

/// What may be done with one value.
pub(super) struct Limits {
    /// Visits of a schema to a part of a value.
    visits: usize,
    /// What is compared at them: fields, names of required fields, listed values.
    looks: usize,
}

/// To check a value. Takes some milliseconds.
pub(super) const CHECK: Limits = Limits { visits: 200_000, looks: 5_000_000 };

/// To check one against a schema that is not recursive: its work grows with the value alone.
pub(super) const CHECK_PLAIN: Limits = Limits { visits: 2_000_000, looks: 10_000_000 };

/// To say what is wrong: an error that holds those of all alternatives takes memory at each.
pub(super) const EXPLAIN: Limits = Limits { visits: 20_000, looks: 1_000_000 };

/// To say it where the schema is not recursive.
pub(super) const EXPLAIN_PLAIN: Limits = Limits { visits: 200_000, looks: 5_000_000 };

/// How deep visits may be within each other: each takes room on the stack.
const LEVELS_MAX: usize = 1_000;

impl Limits {
    /// Whether so much work for each part of a value is within the limits whatever it holds.
    pub(super) fn allow(&self, work: u64, value: &Value) -> bool {
        let most = self.visits as u64 / work.max(1);
        count(value, most) <= most
    }

    /// Whether a value is within the limits.
    pub(super) fn admit(&self, document: &Document, value: &Value) -> bool {
        let meter = Meter { document, visits: Budget::new(self.visits), looks: Budget::new(self.looks) };
        meter.visit(document.json(), value, LEVELS_MAX)
    }
}

/// How many values there are in one; counting ends soon after `most`.
fn count(value: &Value, most: u64) -> u64 {
    let mut sum = 1;
    let mut parts: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return sum,
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
    };
    while let Some(part) = parts.next().filter(|_| sum <= most) {
        sum += count(part, most - sum.min(most));
    }
    sum
}

/// How much a schema itself compares with a value, whatever that is.
pub(super) fn width(schema: &Value) -> usize {
    let listed = ["required", "enum"].iter().filter_map(|key| schema.get(*key)?.as_array()).map(Vec::len);
    let named = ["properties", "dependentRequired"].iter().filter_map(|key| schema.get(*key)?.as_object());
    listed.chain(named.map(serde_json::Map::len)).sum()
}

/// How much it compares with this one: other values than objects have no fields.
fn compared(schema: &Value, value: &Value) -> usize {
    match value {
        Value::Object(_) => width(schema),
        _ => schema.get("enum").and_then(Value::as_array).map_or(0, Vec::len),
    }
}

struct Meter<'a> {
    document: &'a Document,
    visits: Budget,
    looks: Budget,
}

impl Meter<'_> {
    /// Counts as the worst case goes: every alternative is tried, and the same one as often as it is
    /// referred to. Ends because no schema refers to itself without descending.
    fn visit(&self, schema: &Value, value: &Value, levels: usize) -> bool {
        if levels == 0 || !self.visits.spend(1) || !self.looks.spend(compared(schema, value)) {
            return false;
        }
        let mut in_place = own_in_place(schema).chain(self.document.targets(schema));
        if !in_place.all(|other| self.visit(other, value, levels - 1)) {
            return false;
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            Value::Array(parts) => {
                parts.iter().all(|part| own_items(schema).all(|schema| self.visit(schema, part, levels - 1)))
            }
            Value::Object(fields) => {
                self.looks.spend(fields.len())
                    && fields.iter().all(|(key, part)| {
                        own_field(schema, key).all(|schema| self.visit(schema, part, levels - 1))
                    })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Schema;
    use serde_json::{Value, json};

    #[test]
    fn work_that_doubles_at_every_level_is_refused_quickly() {
        let schema = Schema::compile(json!({ "type": "object", "properties": {
            "a": { "anyOf": [{ "$ref": "#" }, { "allOf": [{ "$ref": "#" }] }, { "type": "array", "items": { "$ref": "#" } }] },
            "b": { "oneOf": [{ "$ref": "#" }, { "$ref": "#/$defs/again" }] },
        }, "$defs": { "again": { "type": "object", "properties": { "b": { "$ref": "#/properties/b" } } } } })).unwrap();
        let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "b": inner }));
        let errors = schema.validate(&deep(60)).unwrap_err();
        assert!(errors[0].message.contains("too deeply nested"), "{errors:?}");
    }

    #[test]
    fn the_same_reference_twice_is_twice_the_work() {
        let schema = Schema::compile(json!({ "type": "object", "required": ["x"], "properties": {
            "x": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] } } }))
        .unwrap();
        let deep = (0..60).fold(json!(7), |inner, _| json!({ "x": inner }));
        assert!(!schema.accepts(&deep));
    }

    /// A schema of lists that refers to itself in two ways, with a secret in it.
    fn doubling() -> Schema {
        let list = json!({ "type": "array", "items": { "$ref": "#/$defs/n" } });
        Schema::compile(json!({ "type": "object", "properties": {
            "x": { "$ref": "#/$defs/n" }, "key": { "type": "string", "writeOnly": true } },
            "$defs": { "n": { "anyOf": [{ "type": "string" }, list, list] } } }))
        .unwrap()
    }

    #[test]
    fn what_is_wrong_is_told_redacted_and_mended_in_bounded_time() {
        use super::super::{Redactor, example::corrected, repair::repair};
        let (schema, redactor) = (doubling(), Redactor::default());
        for levels in [8, 12, 16, 20, 40, 60] {
            let mut value =
                json!({ "x": (0..levels).fold(json!(1), |inner, _| json!([inner])), "key": "k3y" });
            let errors = schema.validate(&value).unwrap_err();
            assert!(!errors.is_empty());
            assert!(!redactor.redact(Some(&schema), &value).to_string().contains("k3y"));
            assert!(!redactor.redact_refused(&schema, &value).to_string().contains("k3y"));
            let path = format!("/x{}", "/0".repeat(levels));
            assert!(!redactor.touches_secret(&schema, &path) && !schema.at(&path).is_empty());
            repair(&schema, &mut value);
            corrected(&schema, &value, &redactor);
        }
    }

    #[test]
    fn errors_take_little_memory_where_alternatives_double() {
        let schema = Schema::compile(json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "$dynamicAnchor": "n",
            "type": "object", "properties": {
                "x": { "anyOf": [{ "$dynamicRef": "#n" }, { "$dynamicRef": "#n" }, { "type": "string" }] } } }))
        .unwrap();
        for levels in [6, 12, 16, 24, 60] {
            let deep = (0..levels).fold(json!(1), |inner, _| json!({ "x": inner }));
            assert!(!schema.validate(&deep).unwrap_err().is_empty());
        }
    }

    #[test]
    fn an_ordinary_tree_is_affordable() {
        let schema = Schema::compile(json!({ "type": "object", "properties": {
            "children": { "type": "array", "items": { "$ref": "#" } } } }))
        .unwrap();
        let wide: Vec<Value> = (0..1_000).map(|_| json!({ "children": [] })).collect();
        assert!(schema.accepts(&json!({ "children": wide })));
    }
}
