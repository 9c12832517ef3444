//! How much work a recursive schema makes of one value.
//!
//! A schema that refers to itself through two branches does twice the work at every level of the
//! value. The validator cannot be stopped once it runs, so its visits are counted first.

use serde_json::Value;

use super::graph::{Edge, children, own_field, own_items, targets};

/// Most visits of a schema to a part of a value. Takes a few milliseconds.
const VISITS_MAX: u32 = 200_000;

pub(super) fn affordable(root: &Value, value: &Value) -> bool {
    let mut left = VISITS_MAX;
    visit(root, root, value, &mut left)
}

/// Counts as the worst case goes: every alternative is tried, and the same one as often as it is
/// referred to. Ends because no schema refers to itself without descending.
fn visit(root: &Value, schema: &Value, value: &Value, left: &mut u32) -> bool {
    match left.checked_sub(1) {
        Some(rest) => *left = rest,
        None => return false,
    }
    let nested = children(schema).into_iter().filter(|(edge, _, _)| *edge == Edge::InPlace);
    let in_place = nested.map(|(_, _, child)| child).chain(targets(root, schema));
    for other in in_place {
        if !visit(root, other, value, left) {
            return false;
        }
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(parts) => {
            let schemas = own_items(schema);
            parts.iter().all(|part| schemas.iter().all(|schema| visit(root, schema, part, left)))
        }
        Value::Object(fields) => fields.iter().all(|(key, part)| {
            own_field(schema, key).into_iter().all(|schema| visit(root, schema, part, left))
        }),
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

    #[test]
    fn an_ordinary_tree_is_affordable() {
        let schema = Schema::compile(json!({ "type": "object", "properties": {
            "children": { "type": "array", "items": { "$ref": "#" } } } }))
        .unwrap();
        let wide: Vec<Value> = (0..1_000).map(|_| json!({ "children": [] })).collect();
        assert!(schema.accepts(&json!({ "children": wide })));
    }
}
