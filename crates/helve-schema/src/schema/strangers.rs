//! What of a stranger's schema Helve holds values to.
//!
//! A server or an API checks what it gets by a schema of its own. Helve checks it before, so that a model hears of a
//! mistake at once and what cannot be meant is never sent. What Helve does not match in bounded time it leaves out, and
//! the stranger still checks it.

use serde_json::{Map, Value};

use super::graph::NAMED;
use super::patterns::is_unmatched;

/// Keywords whose values are values, and no schemas.
const VALUES: [&str; 5] = ["const", "enum", "default", "example", "examples"];

/// Leaves out patterns that look around or back. What remains accepts all that the whole accepted: where something was
/// left out, `not`, `if` and `maxContains` go as well, and of `oneOf` one or more may fit, because each of these could
/// refuse a value once a part of it accepts more.
///
/// ```
/// use helve_schema::schema::leave_out_unmatched;
/// use serde_json::json;
///
/// let mut schema = json!({ "type": "string", "format": "email", "pattern": r"^(?!\.)\S+$" });
/// leave_out_unmatched(&mut schema);
/// assert_eq!(schema, json!({ "type": "string", "format": "email" }));
/// ```
pub fn leave_out_unmatched(schema: &mut Value) {
    let mut leaves_out = false;
    each_schema(schema, &mut |fields| leaves_out |= leave_out(fields));
    if leaves_out {
        each_schema(schema, &mut loosen);
    }
}

fn each_schema(value: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_schema(item, visit)),
        Value::Object(fields) => {
            visit(fields);
            for (keyword, value) in
                fields.iter_mut().filter(|(keyword, _)| !VALUES.contains(&keyword.as_str()))
            {
                match value {
                    Value::Object(named) if NAMED.contains(&keyword.as_str()) => {
                        named.values_mut().for_each(|schema| each_schema(schema, visit));
                    }
                    value => each_schema(value, visit),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Leaves out the patterns of one schema. Whether it had some.
fn leave_out(fields: &mut Map<String, Value>) -> bool {
    let is_own = fields.get("pattern").and_then(Value::as_str).is_some_and(is_unmatched);
    if is_own {
        fields.shift_remove("pattern");
    }
    let Some(Value::Object(names)) = fields.get_mut("patternProperties") else { return is_own };
    let before = names.len();
    names.retain(|name, _| !is_unmatched(name));
    let is_of_names = names.len() < before;
    if is_of_names {
        // Any name may be one of theirs, and then it is none that nothing else speaks of.
        names.entry("").or_insert(Value::Bool(true));
    }
    is_own || is_of_names
}

fn loosen(fields: &mut Map<String, Value>) {
    for keyword in ["not", "if", "maxContains"] {
        fields.shift_remove(keyword);
    }
    if let Some(one) = fields.shift_remove("oneOf") {
        fields.entry("anyOf").or_insert(one);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Schema;
    use super::*;

    fn accepts(mut schema: Value, value: &Value) -> bool {
        leave_out_unmatched(&mut schema);
        Schema::compile(schema).unwrap().accepts(value)
    }

    #[test]
    fn what_a_stranger_accepts_is_never_refused() {
        let looks = "^(?!-).*$";
        let text = json!({ "type": "string", "pattern": looks });
        for (schema, value) in [
            (text.clone(), json!("x")),
            (json!({ "not": { "type": "string", "pattern": "^(?=a)" } }), json!("b")),
            (
                json!({ "not": { "$ref": "#/$defs/t" }, "$defs": { "t": { "pattern": "^(?=a)" } } }),
                json!("b"),
            ),
            (json!({ "if": text, "then": { "minLength": 3 } }), json!("-")),
            (json!({ "oneOf": [{ "pattern": "^(?=a)" }, { "pattern": "^(?!a)" }] }), json!("a")),
            (json!({ "contains": text, "maxContains": 1 }), json!(["x", "-"])),
            (
                json!({ "patternProperties": { "^(?=a)": { "type": "integer" } }, "additionalProperties": false }),
                json!({ "a": 1 }),
            ),
            (
                json!({ "allOf": [{ "patternProperties": { "^(?=a)": true } }], "unevaluatedProperties": false }),
                json!({ "a": 1 }),
            ),
        ] {
            assert!(accepts(schema.clone(), &value), "{schema} {value}");
        }
    }

    #[test]
    fn all_else_is_checked() {
        let email = json!({ "type": "string", "maxLength": 20, "pattern": "^(?!\\.)" });
        let schema = json!({ "type": "object", "required": ["to"], "properties": {
            "to": email, "pattern": { "type": "string", "pattern": "^[a-z]+$" }, "not": { "type": "integer" } } });
        for (value, fits) in [
            (json!({ "to": ".x" }), true),
            (json!({ "to": 7 }), false),
            (json!({ "to": "x".repeat(21) }), false),
            (json!({}), false),
            (json!({ "to": "x", "pattern": "A" }), false),
            (json!({ "to": "x", "not": "a field's name" }), false),
        ] {
            assert_eq!(accepts(schema.clone(), &value), fits, "{value}");
        }
        let untouched = json!({ "not": { "pattern": "^a" }, "default": { "pattern": "(?=a)" } });
        let mut schema = untouched.clone();
        leave_out_unmatched(&mut schema);
        assert_eq!(schema, untouched);
    }
}
