//! How much work a recursive schema makes of one value.
//!
//! A schema that refers to itself through two branches does twice the work at every level of the
//! value. The validator cannot be stopped once it runs, so its visits are counted first.

use serde_json::Value;

use super::graph::{field, in_place, items};

/// Most visits of a schema to a part of a value. Takes a few milliseconds.
const VISITS_MAX: u32 = 200_000;

pub(super) fn affordable(root: &Value, value: &Value) -> bool {
    let mut left = VISITS_MAX;
    visit(root, root, value, &mut left)
}

fn visit(root: &Value, schema: &Value, value: &Value, left: &mut u32) -> bool {
    let here = u32::try_from(in_place(root, schema).len()).unwrap_or(u32::MAX);
    match left.checked_sub(here) {
        Some(rest) => *left = rest,
        None => return false,
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(parts) => {
            let schemas = items(root, schema);
            parts.iter().all(|part| schemas.iter().all(|schema| visit(root, schema, part, left)))
        }
        Value::Object(fields) => fields
            .iter()
            .all(|(key, part)| field(root, schema, key).iter().all(|schema| visit(root, schema, part, left))),
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
        assert!(schema.validate(&deep(3)).is_err() || schema.accepts(&deep(3)));
        let errors = schema.validate(&deep(60)).unwrap_err();
        assert!(errors[0].message.contains("too deeply nested"), "{errors:?}");
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
