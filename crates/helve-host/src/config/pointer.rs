//! Places in a configuration: JSON pointers, as people write them, and every value with its own.

use helve::json::escape_pointer;
use serde_json::Value;

/// Visits everything but objects with fields. A list is one value.
pub(super) fn leaves<'v>(value: &'v Value, pointer: String, visit: &mut impl FnMut(String, &'v Value)) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                leaves(field, format!("{pointer}/{}", escape_pointer(key)), visit);
            }
        }
        other => visit(pointer, other),
    }
}

/// A pointer as people write keys: `tool.http[0].url`.
pub(super) fn dotted(pointer: &str) -> String {
    let mut key = String::new();
    for step in pointer.split('/').skip(1) {
        if step.parse::<usize>().is_ok() {
            key.push_str(&format!("[{step}]"));
            continue;
        }
        if !key.is_empty() {
            key.push('.');
        }
        key.push_str(&step.replace("~1", "/").replace("~0", "~"));
    }
    key
}
