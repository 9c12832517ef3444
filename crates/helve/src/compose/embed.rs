//! A schema as a part of another.

use serde_json::{Map, Value, json};

const DEFS: &str = "#/$defs/";

/// A part of the schema `root`, to stand within another schema whose definitions are `defs`. What
/// it refers to goes there too. Where that is not possible anything fits: the tool that it came
/// from checks again.
pub(super) fn embed(schema: &Value, root: &Value, defs: &mut Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("$defs");
        fields.remove("$schema");
    }
    let mut wanted = Vec::new();
    if !collect(&schema, &mut wanted) {
        return json!({});
    }
    let mut needed = Map::new();
    while let Some(name) = wanted.pop() {
        if needed.contains_key(&name) {
            continue;
        }
        let Some(definition) = root.get("$defs").and_then(|defs| defs.get(&name)) else { return json!({}) };
        match defs.get(&name) {
            // What it refers to came with it.
            Some(known) if known == definition => continue,
            Some(_) => return json!({}),
            None if !collect(definition, &mut wanted) => return json!({}),
            None => {}
        }
        needed.insert(name, definition.clone());
    }
    defs.extend(needed);
    schema
}

/// The definitions that a schema refers to. False where it refers to anything else.
fn collect(schema: &Value, wanted: &mut Vec<String>) -> bool {
    match schema {
        Value::Object(fields) => fields.iter().all(|(key, value)| match (key.as_str(), value) {
            ("$ref", Value::String(target)) => match target.strip_prefix(DEFS) {
                Some(name) if !name.contains(['/', '~', '%']) => {
                    wanted.push(name.to_owned());
                    true
                }
                Some(_) | None => false,
            },
            ("$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor", Value::String(_)) => false,
            (_, value) => collect(value, wanted),
        }),
        Value::Array(items) => items.iter().all(|item| collect(item, wanted)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
