//! A schema as a graph: which sub-schemas apply to the same value, and which to its parts.

use std::collections::HashSet;

use serde_json::Value;

/// How a sub-schema relates to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    /// Applies to the same value: `allOf`, `$ref`, `not`, …
    InPlace,
    /// Applies to a part of the value: `properties`, `items`, …
    Descends,
    /// Applies only where something refers to it: `$defs`.
    Defines,
}

const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const DESCENDS: [&str; 6] = [
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "additionalItems",
    "unevaluatedItems",
    "contains",
];
const DESCENDS_MAPS: [&str; 2] = ["properties", "patternProperties"];
const DEFINES: [&str; 2] = ["$defs", "definitions"];
pub(super) const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The sub-schemas that stand directly in `schema`, with the path from it. References are not
/// followed; see [`target`].
pub(super) fn children(schema: &Value) -> Vec<(Edge, String, &Value)> {
    let Value::Object(fields) = schema else { return Vec::new() };
    let mut found = Vec::new();
    for (key, value) in fields {
        let key = key.as_str();
        let mut each =
            |edge: Edge| match value {
                Value::Array(items) => {
                    found.extend(
                        items.iter().enumerate().map(|(index, item)| (edge, format!("/{key}/{index}"), item)),
                    );
                }
                Value::Object(map) => found.extend(map.iter().map(|(name, item)| {
                    (edge, format!("/{key}/{}", crate::json::escape_pointer(name)), item)
                })),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            };
        if IN_PLACE_LISTS.contains(&key) || key == "dependentSchemas" {
            each(Edge::InPlace);
        } else if DESCENDS_MAPS.contains(&key) || key == "prefixItems" || (key == "items" && value.is_array())
        {
            each(Edge::Descends);
        } else if DEFINES.contains(&key) {
            each(Edge::Defines);
        } else if IN_PLACE.contains(&key) {
            found.push((Edge::InPlace, format!("/{key}"), value));
        } else if DESCENDS.contains(&key) || key == "items" {
            found.push((Edge::Descends, format!("/{key}"), value));
        }
    }
    found
}

/// What the references of `schema` point to, within `root`.
pub(super) fn targets<'a>(root: &'a Value, schema: &'a Value) -> impl Iterator<Item = &'a Value> {
    REFERENCES
        .iter()
        .filter_map(|key| schema.get(*key).and_then(Value::as_str))
        .filter_map(move |reference| target(root, reference))
}

/// Resolves a reference within the document: `#`, `#/pointer` or `#anchor`.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    if fragment.is_empty() {
        return Some(root);
    }
    if fragment.starts_with('/') {
        return root.pointer(&percent_decode(fragment));
    }
    find_anchor(root, fragment)
}

fn find_anchor<'a>(schema: &'a Value, anchor: &str) -> Option<&'a Value> {
    let here = ["$anchor", "$dynamicAnchor"]
        .iter()
        .any(|key| schema.get(*key).and_then(Value::as_str) == Some(anchor));
    if here {
        return Some(schema);
    }
    children(schema).into_iter().find_map(|(_, _, child)| find_anchor(child, anchor))
}

/// Pointers in fragments may be percent-encoded.
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The schema and all that apply to the same value with it, references followed.
pub(super) fn in_place<'a>(root: &'a Value, start: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![start];
    let mut seen = HashSet::from([std::ptr::from_ref(start)]);
    let mut next = 0;
    while next < found.len() {
        let schema = found[next];
        next += 1;
        let nested = children(schema)
            .into_iter()
            .filter(|(edge, _, _)| *edge == Edge::InPlace)
            .map(|(_, _, child)| child);
        for child in nested.chain(targets(root, schema)) {
            if seen.insert(std::ptr::from_ref(child)) {
                found.push(child);
            }
        }
    }
    found
}

/// Each schema once: where one refers to itself in two ways, they would double at every level.
pub(super) fn distinct<'a>(schemas: impl IntoIterator<Item = &'a Value>) -> Vec<&'a Value> {
    let mut seen = HashSet::new();
    schemas.into_iter().filter(|schema| seen.insert(std::ptr::from_ref(*schema))).collect()
}

/// The schemas that apply to the field `key` of a value to which `schema` applies.
pub(super) fn field<'a>(root: &'a Value, schema: &'a Value, key: &str) -> Vec<&'a Value> {
    in_place(root, schema).into_iter().flat_map(|node| own_field(node, key)).collect()
}

/// The schemas that apply to the items of an array to which `schema` applies.
pub(super) fn items<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    in_place(root, schema).into_iter().flat_map(own_items).collect()
}

/// What `schema` itself, and none that it refers to, says of the field `key`.
///
/// Patterns are not matched: every one counts, so that what is asked of the answer ("may this be
/// secret?") errs on the safe side.
pub(super) fn own_field<'a>(schema: &'a Value, key: &str) -> Vec<&'a Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(key));
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    let patterns = patterns.into_iter().flat_map(|map| map.values());
    let others = ["additionalProperties", "unevaluatedProperties"].iter().filter_map(|k| schema.get(*k));
    let others = others.filter(|_| named.is_none());
    named.into_iter().chain(patterns).chain(others).collect()
}

/// What `schema` itself, and none that it refers to, says of the items of an array.
pub(super) fn own_items(schema: &Value) -> Vec<&Value> {
    let lists = ["prefixItems", "items"].iter().filter_map(|k| schema.get(*k).and_then(Value::as_array));
    let single = ["items", "additionalItems", "unevaluatedItems", "contains"]
        .iter()
        .filter_map(|k| schema.get(*k))
        .filter(|value| !value.is_array());
    lists.flatten().chain(single).collect()
}

/// The schemas that apply to the part of a value that `path` points to.
pub(super) fn at_path<'a>(root: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut current = vec![root];
    for step in path.split('/').skip(1) {
        let key = step.replace("~1", "/").replace("~0", "~");
        let is_index = key.parse::<usize>().is_ok();
        let mut next = Vec::new();
        for schema in current {
            next.extend(field(root, schema, &key));
            if is_index {
                next.extend(items(root, schema));
            }
        }
        current = distinct(next);
    }
    current
}
