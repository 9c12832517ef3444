//! Input schemas as providers accept them when they are not strict.
//!
//! One tool that a provider refuses fails the whole request, so what is known to be refused is
//! written another way that means the same, or moved into the description. The runtime checks
//! arguments against the tool's own schema in any case.

use serde_json::{Map, Value, json};

/// Longest rule that is copied into a description.
const NOTE_BYTES_MAX: usize = 2_000;

/// A schema for a provider, and what had to be said in words.
pub(super) struct Written {
    pub(super) schema: Value,
    pub(super) note: Option<String>,
}

/// Anthropic refuses these at the top level.
pub(super) fn for_anthropic(schema: &Value) -> Written {
    lift(schema.clone(), &["oneOf", "anyOf", "allOf"])
}

/// OpenAI refuses more of them, objects at the top without `properties`, and arrays without
/// `items`.
pub(super) fn for_openai(schema: &Value) -> Written {
    let mut written = lift(schema.clone(), &["oneOf", "anyOf", "allOf", "enum", "not"]);
    fill_items(&mut written.schema);
    if let Some(fields) = written.schema.as_object_mut() {
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    written
}

/// Gemini refuses arrays without `items`.
pub(super) fn for_gemini(schema: &Value) -> Value {
    let mut schema = schema.clone();
    fill_items(&mut schema);
    schema
}

/// `items: {}` says what leaving it out says: anything.
fn fill_items(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let is_array = match fields.get("type") {
        Some(Value::String(one)) => one == "array",
        Some(Value::Array(many)) => many.iter().any(|one| one == "array"),
        _ => false,
    };
    if is_array {
        fields.entry("items").or_insert_with(|| json!({}));
    }
    for (key, value) in fields {
        match key.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(fill_items);
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                value.as_array_mut().into_iter().flatten().for_each(fill_items);
            }
            "items"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "contains"
            | "not"
            | "if"
            | "then"
            | "else" => fill_items(value),
            _ => {}
        }
    }
}

/// Takes `refused` keywords off the top level. The fields that they describe become plain
/// optional fields, and the rule itself goes into a note for the model.
fn lift(schema: Value, refused: &[&str]) -> Written {
    let Value::Object(mut fields) = schema else { return Written { schema, note: None } };
    let lifted: Map<_, _> = refused.iter().filter_map(|key| fields.remove_entry(*key)).collect();
    if lifted.is_empty() {
        return Written { schema: fields.into(), note: None };
    }
    // Where the top level is closed, fields of a branch alone would never be accepted.
    if fields.get("additionalProperties") != Some(&json!(false)) {
        let found = fields_of_branches(&fields, &lifted);
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            for (name, field) in found {
                properties.entry(name).or_insert(field);
            }
        }
    }
    let rule = Value::from(lifted).to_string();
    let note = if rule.len() <= NOTE_BYTES_MAX {
        format!("The arguments must also fit this JSON Schema: {rule}")
    } else {
        "Not every combination of arguments is allowed; a wrong one is refused with the reason.".to_owned()
    };
    Written { schema: fields.into(), note: Some(note) }
}

/// The fields that the branches of unions describe; one that several describe fits any of them.
fn fields_of_branches(root: &Map<String, Value>, lifted: &Map<String, Value>) -> Map<String, Value> {
    let mut found: Map<String, Value> = Map::new();
    let branches = ["oneOf", "anyOf", "allOf"]
        .iter()
        .filter_map(|key| lifted.get(*key).and_then(Value::as_array))
        .flatten();
    for branch in branches {
        let target = branch.get("$ref").and_then(Value::as_str).and_then(|text| definition(root, text));
        let described = target.unwrap_or(branch).get("properties").and_then(Value::as_object);
        for (name, field) in described.into_iter().flatten() {
            match found.get_mut(name) {
                None => {
                    found.insert(name.clone(), json!({ "anyOf": [field] }));
                }
                Some(known) => {
                    if let Some(options) = known["anyOf"].as_array_mut()
                        && !options.contains(field)
                    {
                        options.push(field.clone());
                    }
                }
            }
        }
    }
    for field in found.values_mut() {
        if let Some([only]) = field["anyOf"].as_array().map(Vec::as_slice) {
            *field = only.clone();
        }
    }
    found
}

/// What `#/$defs/name` points to.
pub(super) fn definition<'a>(root: &'a Map<String, Value>, reference: &str) -> Option<&'a Value> {
    let (container, name) = definition_name(reference)?;
    root.get(container)?.get(name)
}

/// The two steps of a reference to a definition; one whose name needs escaping counts as none.
pub(super) fn definition_name(reference: &str) -> Option<(&str, &str)> {
    let (container, name) = reference.strip_prefix("#/")?.split_once('/')?;
    let plain = matches!(container, "$defs" | "definitions") && !name.contains(['/', '%', '~']);
    plain.then_some((container, name))
}
