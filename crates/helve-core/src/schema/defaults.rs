//! Defaults that a schema declares, laid out so that a schema without any costs nothing.

use serde_json::{Map, Value};

use super::graph::target;

/// Defaults of an object's fields, and of the objects within it.
#[derive(Default)]
pub(super) struct Defaults {
    values: Vec<(String, Value)>,
    nested: Vec<(String, Defaults)>,
}

/// References may be recursive; defaults deeper than this are not looked for.
const DEPTH_MAX: usize = 8;

impl Defaults {
    pub(super) fn of(root: &Value) -> Self {
        Self::collect(root, root, DEPTH_MAX)
    }

    fn collect(root: &Value, schema: &Value, depth: usize) -> Self {
        let mut found = Self::default();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (key, field) in properties.into_iter().flatten() {
            let field = follow(root, field);
            if let Some(default) = field.get("default") {
                found.values.push((key.clone(), default.clone()));
            }
            if depth > 0 {
                let nested = Self::collect(root, field, depth - 1);
                if !nested.is_empty() {
                    found.nested.push((key.clone(), nested));
                }
            }
        }
        found
    }

    fn is_empty(&self) -> bool {
        self.values.is_empty() && self.nested.is_empty()
    }

    pub(super) fn top_level(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub(super) fn apply(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        let Value::Object(fields) = value else { return };
        self.fill(fields);
    }

    fn fill(&self, fields: &mut Map<String, Value>) {
        for (key, default) in &self.values {
            if !fields.contains_key(key) {
                fields.insert(key.clone(), default.clone());
            }
        }
        for (key, nested) in &self.nested {
            if let Some(value) = fields.get_mut(key) {
                nested.apply(value);
            }
        }
    }
}

/// A field that is only a reference declares what its target declares. A default that stands
/// beside the reference wins.
fn follow<'a>(root: &'a Value, field: &'a Value) -> &'a Value {
    match field.get("$ref").and_then(Value::as_str) {
        Some(reference) if field.get("default").is_none() => target(root, reference).unwrap_or(field),
        _ => field,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Schema;
    use serde_json::json;

    #[test]
    fn absent_fields_get_their_defaults_at_every_level() {
        let schema = Schema::compile(json!({ "type": "object", "properties": {
            "limit": { "type": "integer", "default": 5 },
            "page": { "$ref": "#/$defs/page" },
        }, "$defs": { "page": { "type": "object", "properties": { "size": { "default": 20 } } } } }))
        .unwrap();
        let mut value = json!({ "page": {} });
        schema.apply_defaults(&mut value);
        assert_eq!(value, json!({ "limit": 5, "page": { "size": 20 } }));
        let mut given = json!({ "limit": 1 });
        schema.apply_defaults(&mut given);
        assert_eq!(given, json!({ "limit": 1 }));
    }

    #[test]
    fn a_default_that_does_not_fit_is_refused() {
        let refused = Schema::compile(
            json!({ "type": "object", "properties": { "n": { "type": "integer", "default": "x" } } }),
        );
        assert_eq!(refused.unwrap_err()[0].at, "/properties/n/default");
    }
}
