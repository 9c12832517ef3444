//! Whole numbers that were written with a point, as in `5.0`: for JSON Schema they are integers, and
//! for Rust's types they are not.

use serde_json::{Number, Value};

use super::Budget;
use super::graph::{Document, in_place, own_field, own_items};

/// Beyond this a float no longer stands for one whole number: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Most looks at the schema for one value; what is beyond stays as it was sent.
const LOOKS_MAX: usize = 1_000_000;

/// Writes them as integers, where the schema says that they are.
pub(super) fn write_whole(document: &Document, value: &mut Value) {
    // Nearly all values have none, and then no schema is looked at.
    if has_whole_float(value) {
        let writer = Writer { document, budget: Budget::new(LOOKS_MAX) };
        writer.visit(&in_place(document, [document.json()], &writer.budget), value);
    }
}

struct Writer<'a> {
    document: &'a Document,
    budget: Budget,
}

impl<'a> Writer<'a> {
    /// All of `schemas` apply to the value.
    fn visit(&self, schemas: &[&'a Value], value: &mut Value) {
        if !self.budget.spend(schemas.len()) {
            return;
        }
        match value {
            Value::Number(number) => {
                if let Some(whole) = whole(number).filter(|_| schemas.iter().any(|schema| is_integer(schema)))
                {
                    *number = whole.into();
                }
            }
            Value::Array(items) => {
                let items_are = schemas.iter().flat_map(|schema| own_items(schema));
                let below = in_place(self.document, items_are, &self.budget);
                items.iter_mut().for_each(|item| self.visit(&below, item));
            }
            Value::Object(fields) => {
                for (key, field) in fields.iter_mut().filter(|(_, field)| has_whole_float(field)) {
                    if !self.budget.spend(schemas.len()) {
                        return;
                    }
                    let field_is = schemas.iter().flat_map(|schema| own_field(schema, key));
                    self.visit(&in_place(self.document, field_is, &self.budget), field);
                }
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
}

fn has_whole_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => whole(number).is_some(),
        Value::Array(items) => items.iter().any(has_whole_float),
        Value::Object(fields) => fields.values().any(has_whole_float),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|float| number.is_f64() && float.abs() <= EXACT_MAX)?;
    (float.fract() == 0.0).then_some(float as i64)
}

fn is_integer(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == "integer",
        Some(Value::Array(many)) => many.iter().any(|one| one == "integer"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Schema;
    use super::*;
    use serde_json::json;

    fn write_whole(schema: &Value, value: &mut Value) {
        Schema::compile(schema.clone()).unwrap().write_whole(value);
    }

    #[test]
    fn only_what_the_schema_calls_an_integer_is_written_as_one() {
        let schema = json!({ "type": "object", "$defs": { "n": { "type": "integer" } }, "properties": {
            "plain": { "type": "integer" },
            "maybe": { "type": ["integer", "null"] },
            "either": { "anyOf": [{ "$ref": "#/$defs/n" }, { "type": "string" }] },
            "list": { "type": "array", "items": { "type": "object", "additionalProperties": { "$ref": "#/$defs/n" } } },
            "ratio": { "type": "number" },
            "any": true,
        } });
        let mut value = json!({
            "plain": -5.0, "maybe": 1e3, "either": 2.0, "list": [{ "a": 0.0 }, { "b": 7, "c": 9007199254740992.0 }],
            "ratio": 2.0, "any": 3.0, "unknown": [4.0],
        });
        write_whole(&schema, &mut value);
        let expected = r#"{"plain":-5,"maybe":1000,"either":2,"list":[{"a":0},{"b":7,"c":9007199254740992}],"ratio":2.0,"any":3.0,"unknown":[4.0]}"#;
        assert_eq!(value.to_string(), expected);
    }

    #[test]
    fn what_is_no_exact_whole_number_stays() {
        let schema = json!({ "type": "array", "items": { "type": "integer" } });
        let mut value = json!([1.5, 1e16, -1e300, 9007199254740994.0, u64::MAX, "5.0", null]);
        let before = value.to_string();
        write_whole(&schema, &mut value);
        assert_eq!(value.to_string(), before);
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        let schema = json!({ "type": "object", "properties": {
            "n": { "type": "integer" }, "next": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] },
        } });
        let mut value = json!({ "n": 1.0, "next": { "n": 2.0, "next": { "n": 3.0 } } });
        write_whole(&schema, &mut value);
        assert_eq!(value.to_string(), r#"{"n":1,"next":{"n":2,"next":{"n":3}}}"#);
    }
}
