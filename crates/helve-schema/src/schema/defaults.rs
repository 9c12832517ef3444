//! Defaults that a schema declares, laid out so that a schema without any costs nothing.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Budget;
use super::graph::Document;

/// Most bytes of defaults that are filled into one value: a few short objects may want a long default
/// each.
const BYTES_MAX: usize = 4 << 20;

/// Defaults of all objects that a schema describes.
#[derive(Default)]
pub(super) struct Defaults(Vec<Fields>);

/// Defaults of an object's fields, and of the objects within it.
#[derive(Default)]
struct Fields {
    /// With the bytes that each takes.
    values: Vec<(String, Value, usize)>,
    /// Which of all says what is within a field. An object that stands within itself is there once.
    nested: HashMap<String, usize>,
}

impl Defaults {
    pub(super) fn of(document: &Document) -> Self {
        let mut all = vec![Fields::default()];
        let mut places = HashMap::from([(std::ptr::from_ref(document.json()), 0)]);
        let mut queue = vec![document.json()];
        let mut next = 0;
        while next < queue.len() {
            let properties = queue[next].get("properties").and_then(Value::as_object);
            for (key, field) in properties.into_iter().flatten() {
                let field = follow(document, field);
                if let Some(default) = field.get("default") {
                    let bytes = key.len() + crate::json::size(default);
                    all[next].values.push((key.clone(), default.clone(), bytes));
                }
                if field.get("properties").is_some() {
                    let place = *places.entry(std::ptr::from_ref(field)).or_insert_with(|| {
                        all.push(Fields::default());
                        queue.push(field);
                        queue.len() - 1
                    });
                    all[next].nested.insert(key.clone(), place);
                }
            }
            next += 1;
        }
        let has_some = all.iter().any(|fields| !fields.values.is_empty());
        Self(if has_some { all } else { Vec::new() })
    }

    pub(super) fn top_level(&self) -> impl Iterator<Item = (&str, &Value)> {
        let top = self.0.first().into_iter().flat_map(|top| &top.values);
        top.map(|(key, value, _)| (key.as_str(), value))
    }

    /// Fills them in where fields are absent. False where there was no room for all of them.
    pub(super) fn apply(&self, value: &mut Value) -> bool {
        let Some(top) = self.0.first() else { return true };
        let bytes = Budget::new(BYTES_MAX);
        self.fill(top, value, &bytes);
        !bytes.is_spent()
    }

    fn fill(&self, defaults: &Fields, value: &mut Value, bytes: &Budget) {
        let Value::Object(fields) = value else { return };
        if bytes.is_spent() {
            return;
        }
        defaults.add_absent(fields, bytes);
        // Values are small and schemas may be wide.
        for (key, value) in fields.iter_mut().filter(|(_, value)| value.is_object()) {
            if let Some(nested) = defaults.nested.get(key).and_then(|place| self.0.get(*place)) {
                self.fill(nested, value, bytes);
            }
        }
    }
}

impl Fields {
    fn add_absent(&self, fields: &mut Map<String, Value>, bytes: &Budget) {
        for (key, default, size) in &self.values {
            if fields.contains_key(key) {
                continue;
            }
            if !bytes.spend(*size) {
                return;
            }
            fields.insert(key.clone(), default.clone());
        }
    }
}

/// A field that is only a reference declares what its target declares. A default that stands
/// next to the reference wins.
fn follow<'a>(document: &'a Document, field: &'a Value) -> &'a Value {
    match field.get("$ref").and_then(Value::as_str) {
        Some(reference) if field.get("default").is_none() => document.target(reference).unwrap_or(field),
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

    #[test]
    fn a_schema_within_itself_has_its_defaults_at_every_depth() {
        let mut fields: serde_json::Map<_, _> =
            (0..30).map(|n| (format!("a{n}"), json!({ "$ref": "#" }))).collect();
        fields.insert("n".to_owned(), json!({ "default": 1 }));
        let schema = Schema::compile(json!({ "type": "object", "properties": fields })).unwrap();
        let mut value = (0..20).fold(json!({ "n": 2 }), |inner, _| json!({ "a7": inner }));
        schema.apply_defaults(&mut value);
        let expected = (0..20).fold(json!({ "n": 2 }), |inner, _| json!({ "a7": inner, "n": 1 }));
        assert_eq!(value, expected);
    }

    #[test]
    fn defaults_do_not_grow_beyond_bounds() {
        let field = json!({ "type": "object", "properties": { "text": { "default": "x".repeat(100_000) } } });
        let fields: serde_json::Map<_, _> =
            (0..1_000).map(|n| (format!("a{n}"), json!({ "$ref": "#/$defs/f" }))).collect();
        let schema =
            Schema::compile(json!({ "type": "object", "properties": fields, "$defs": { "f": field } }))
                .unwrap();
        let mut value: serde_json::Value =
            (0..1_000).map(|n| (format!("a{n}"), json!({}))).collect::<serde_json::Map<_, _>>().into();
        assert!(!schema.apply_defaults(&mut value));
        assert!(crate::json::size(&value) < 5 << 20);
    }
}
