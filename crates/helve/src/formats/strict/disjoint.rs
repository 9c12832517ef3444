//! Whether no value can fit two schemas at once, so that "exactly one of" may be written "any of".

use serde_json::{Map, Value};

use crate::formats::schema::definition;

/// References are followed this far; a longer chain counts as not known.
const HOPS_MAX: usize = 8;

/// True only where it can be shown.
pub(super) fn disjoint(root: &Map<String, Value>, a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (resolve(root, a), resolve(root, b)) else { return false };
    if let (Some(of_a), Some(of_b)) = (kinds(a), kinds(b))
        && !of_a.iter().any(|kind| of_b.contains(kind))
    {
        return true;
    }
    if values_apart(a, b) {
        return true;
    }
    let both_objects = [a, b].iter().all(|schema| kinds(schema).is_some_and(|kinds| kinds == ["object"]));
    both_objects && (objects_apart(root, a, b) || objects_apart(root, b, a))
}

fn resolve<'a>(root: &'a Map<String, Value>, mut schema: &'a Value) -> Option<&'a Value> {
    for _ in 0..HOPS_MAX {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => schema = definition(root, reference)?,
            None => return Some(schema),
        }
    }
    None
}

/// The JSON types that may fit, where the schema says; integers are numbers.
fn kinds(schema: &Value) -> Option<Vec<&str>> {
    let normal = |kind| if kind == "integer" { "number" } else { kind };
    match schema.get("type") {
        Some(Value::String(one)) => Some(vec![normal(one)]),
        Some(Value::Array(many)) => many.iter().map(|one| one.as_str().map(normal)).collect(),
        _ => options(schema).map(|options| options.into_iter().map(kind_of).collect()),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The only values that fit, where the schema lists them.
fn options(schema: &Value) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(only), _) => Some(vec![only]),
        (None, Some(Value::Array(many))) => Some(many.iter().collect()),
        _ => None,
    }
}

fn values_apart(a: &Value, b: &Value) -> bool {
    match (options(a), options(b)) {
        (Some(a), Some(b)) => !a.iter().any(|a| b.iter().any(|b| same(a, b))),
        _ => false,
    }
}

/// Equal as JSON Schema sees it, where 1 and 1.0 are one number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// Whether `a` demands a field that `b` forbids, or that `b` wants with other values.
fn objects_apart(root: &Map<String, Value>, a: &Value, b: &Value) -> bool {
    let closed =
        b.get("additionalProperties") == Some(&Value::Bool(false)) && b.get("patternProperties").is_none();
    required(a).any(|name| match (field(a, name), field(b, name)) {
        (Some(of_a), Some(of_b)) => match (resolve(root, of_a), resolve(root, of_b)) {
            (Some(of_a), Some(of_b)) => values_apart(of_a, of_b),
            _ => false,
        },
        (_, None) => closed,
        (None, Some(_)) => false,
    })
}

fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
