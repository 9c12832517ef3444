//! The way back from a strict call: null where a field is absent.

use helve_core::schema::Budget;
use serde_json::{Map, Value};

use crate::formats::schema::definition;

/// References are followed this far within one value's nesting.
const DEPTH_MAX: usize = 64;
/// Most schemas that are held against parts of one value. Where a schema refers to itself in two ways,
/// they double at every level; what is beyond stays as it was sent.
const LOOKS_MAX: usize = 100_000;

/// Drops the nulls that a strict export made a model write for optional fields it wanted to leave
/// out. A null that the tool's own schema accepts stays.
///
/// ```
/// use helve::formats::drop_absent;
/// use serde_json::json;
/// let schema = json!({ "type": "object", "properties": {
///     "query": { "type": "string" }, "limit": { "type": "integer" } }, "required": ["query"] });
/// let mut arguments = json!({ "query": "ada", "limit": null });
/// drop_absent(&schema, &mut arguments);
/// assert_eq!(arguments, json!({ "query": "ada" }));
/// ```
pub fn drop_absent(schema: &Value, arguments: &mut Value) {
    Dropper { root: schema, looks: Budget::new(LOOKS_MAX) }.visit(schema, arguments, DEPTH_MAX);
}

struct Dropper<'a> {
    root: &'a Value,
    looks: Budget,
}

impl<'a> Dropper<'a> {
    fn visit(&self, schema: &'a Value, value: &mut Value, depth: usize) {
        if depth == 0 {
            return;
        }
        match value {
            Value::Object(fields) => {
                let Some(schema) = self.object_schema(schema, fields, depth) else { return };
                let Some(properties) = properties(schema) else { return };
                fields.retain(|name, value| {
                    let Some(field) = properties.get(name) else { return true };
                    !value.is_null() || is_required(schema, name) || self.may_be_null(field, depth - 1)
                });
                for (name, value) in fields {
                    if let Some(field) = properties.get(name) {
                        self.visit(field, value, depth - 1);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(described) = self.item_schema(schema, items, depth) {
                    items.iter_mut().for_each(|item| self.visit(described, item, depth - 1));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// What the items of the branch are, that an array was written for: the first that can hold all.
    fn item_schema(&self, schema: &'a Value, items: &[Value], depth: usize) -> Option<&'a Value> {
        let described = self.options(schema, depth).into_iter().filter_map(|option| option.get("items"));
        described
            .filter(|described| described.is_object())
            .find(|described| items.iter().all(|item| self.can_hold(described, item, depth - 1)))
    }

    fn can_hold(&self, schema: &'a Value, value: &Value, depth: usize) -> bool {
        if depth == 0 {
            return false;
        }
        match value {
            Value::Object(fields) => self.object_schema(schema, fields, depth).is_some(),
            Value::Array(items) => self.item_schema(schema, items, depth).is_some(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.options(schema, depth).into_iter().any(|option| may_be(option, value))
            }
        }
    }

    /// The branch that an object was written for. A strict object has exactly the fields of its
    /// branch, so the names and the constants among them tell.
    fn object_schema(
        &self,
        schema: &'a Value,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Option<&'a Value> {
        let mut fitting: Vec<_> = self
            .options(schema, depth)
            .into_iter()
            .filter(|option| self.fits(option, fields, depth))
            .collect();
        fitting.sort_by_key(|option| properties(option).map_or(0, Map::len) != fields.len());
        fitting.first().copied()
    }

    fn fits(&self, option: &'a Value, fields: &Map<String, Value>, depth: usize) -> bool {
        let Some(properties) = properties(option) else { return false };
        fields.iter().all(|(name, value)| match properties.get(name) {
            Some(_) if value.is_null() && !is_required(option, name) => true,
            Some(field) => self.options(field, depth - 1).into_iter().any(|option| may_be(option, value)),
            None => false,
        })
    }

    /// The schemas of which one applies: the schema itself, what it refers to, its branches.
    fn options(&self, schema: &'a Value, depth: usize) -> Vec<&'a Value> {
        if depth == 0 || !self.looks.spend(1) {
            return Vec::new();
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = match reference {
                "#" => Some(self.root),
                other => self.root.as_object().and_then(|root| definition(root, other)),
            };
            return target.map(|target| self.options(target, depth - 1)).unwrap_or_default();
        }
        match schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            Some(branches) => branches.iter().flat_map(|branch| self.options(branch, depth - 1)).collect(),
            None => vec![schema],
        }
    }

    /// Also where nothing can be looked at any more: what is not known to be absent stays.
    fn may_be_null(&self, schema: &'a Value, depth: usize) -> bool {
        let options = self.options(schema, depth);
        depth == 0 || self.looks.is_spent() || options.into_iter().any(|option| may_be(option, &Value::Null))
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|n| n == name))
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

/// Whether a value can fit a schema, by its type and the values listed alone.
fn may_be(schema: &Value, value: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer" | "number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    let kind_fits = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is),
        Some(kind) => is(kind),
        None => true,
    };
    let listed = schema.get("enum").and_then(Value::as_array).is_none_or(|values| values.contains(value));
    kind_fits && listed && schema.get("const").is_none_or(|only| only == value)
}

#[cfg(test)]
mod tests {
    use super::drop_absent;
    use serde_json::json;

    #[test]
    fn a_schema_that_doubles_at_every_level_ends() {
        let list = json!({ "type": "array", "items": { "$ref": "#/$defs/n" } });
        let schema = json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/n" } },
            "$defs": { "n": { "anyOf": [{ "type": "string" }, list, list] } } });
        let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
        let mut arguments = json!({ "x": deep });
        drop_absent(&schema, &mut arguments);
        assert_eq!(arguments, json!({ "x": deep }));
    }

    #[test]
    fn a_null_stays_where_nothing_can_be_looked_at_any_more() {
        let fields: serde_json::Map<_, _> =
            (0..60_000).map(|n| (format!("a{n}"), json!({ "$ref": "#/$defs/maybe" }))).collect();
        let schema = json!({ "type": "object", "properties": fields,
            "$defs": { "maybe": { "type": ["string", "null"] } } });
        let nulls: serde_json::Map<_, _> =
            (0..60_000).map(|n| (format!("a{n}"), serde_json::Value::Null)).collect();
        let mut arguments = serde_json::Value::Object(nulls);
        let sent = arguments.clone();
        drop_absent(&schema, &mut arguments);
        assert!(arguments == sent);
    }

    #[test]
    fn the_branch_of_an_array_is_told_by_its_items() {
        let schema = json!({ "type": "object", "properties": { "a": { "anyOf": [
            { "type": "array", "items": { "type": "string" } },
            { "type": "array", "items": { "type": "object", "properties": { "next": { "type": "string" } } } },
        ] } } });
        let mut arguments = json!({ "a": [{ "next": null }, { "next": "x" }] });
        drop_absent(&schema, &mut arguments);
        assert_eq!(arguments, json!({ "a": [{}, { "next": "x" }] }));
    }
}
