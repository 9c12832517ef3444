//! How much work a recursive schema makes of one value.
//!
//! A schema that refers to itself through two branches does twice the work at every level of the
//! value. The validator cannot be stopped once it runs, so its visits are counted first.

use serde_json::Value;

use super::graph::{Edge, children, own_field, own_items, targets};

/// Most visits of a schema to a part of a value. Takes a few milliseconds.
const VISITS_MAX: u32 = 200_000;

/// Most of them where errors are made: one that holds those of all alternatives takes memory at each.
const ERROR_VISITS_MAX: u32 = 20_000;

/// Whether a value can be checked.
pub(super) fn affordable(root: &Value, value: &Value) -> bool {
    let mut left = VISITS_MAX;
    visit(root, root, value, &mut left)
}

/// Whether all that is wrong with a value can be listed.
pub(super) fn explicable(root: &Value, value: &Value) -> bool {
    let mut left = ERROR_VISITS_MAX;
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
