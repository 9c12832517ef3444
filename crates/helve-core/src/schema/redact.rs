//! Hides secrets before anything is recorded, logged or shown.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Schema;
use super::graph::{at_path, field, in_place, items};

/// What stands in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Whether a schema says that its value is secret: `writeOnly`, or the format `password`.
pub(super) fn marks_secret(schema: &Value) -> bool {
    schema.get("writeOnly") == Some(&Value::Bool(true))
        || schema.get("format") == Some(&Value::from("password"))
}

/// Hides values by what the schema says of them and by the names of their fields.
///
/// ```
/// use helve_core::schema::Redactor;
/// use helve_core::Schema;
/// use serde_json::json;
/// let schema = Schema::compile(json!({ "type": "object",
///     "properties": { "pin": { "type": "string", "writeOnly": true } } })).unwrap();
/// let value = json!({ "pin": "1234", "api-key": "k", "user": "ada" });
/// let shown = Redactor::default().redact(Some(&schema), &value);
/// assert_eq!(*shown, json!({ "pin": "[redacted]", "api-key": "[redacted]", "user": "ada" }));
/// ```
#[derive(Debug, Clone)]
pub struct Redactor {
    names: Vec<String>,
    /// One bit a length that some name has: nearly every key is ruled out by its length.
    lengths: u128,
}

/// Field names that are secret everywhere unless configured otherwise.
pub const SECRET_NAMES: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "client_secret",
    "token",
    "access_token",
    "refresh_token",
    "id_token",
    "api_key",
    "apikey",
    "authorization",
    "cookie",
    "private_key",
];

impl Default for Redactor {
    fn default() -> Self {
        Self::new(SECRET_NAMES)
    }
}

impl Redactor {
    /// Hides fields with these names; case, `-` and `_` make no difference.
    pub fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let names: Vec<String> = names.into_iter().map(|name| fold(name.as_ref()).collect()).collect();
        let lengths = names.iter().fold(0, |bits, name| bits | length_bit(name.chars().count()));
        Self { names, lengths }
    }

    /// The value without its secrets; borrowed where there are none.
    pub fn redact<'v>(&self, schema: Option<&Schema>, value: &'v Value) -> Cow<'v, Value> {
        let schema = schema.filter(|schema| schema.0.has_secrets).map(Schema::json);
        if schema.is_none() && !self.finds(value) {
            return Cow::Borrowed(value);
        }
        let roots: Vec<_> = schema.into_iter().collect();
        Cow::Owned(self.copy(schema, &roots, value))
    }

    /// Whether the part at `path` is secret, by itself or as part of something secret.
    pub fn hides(&self, schema: Option<&Schema>, path: &str) -> bool {
        let mut prefix = String::new();
        path.split('/').skip(1).any(|step| {
            prefix.push('/');
            prefix.push_str(step);
            self.names_secret(step)
                || schema.is_some_and(|schema| {
                    let root = schema.json();
                    schema.0.has_secrets
                        && at_path(root, &prefix)
                            .into_iter()
                            .any(|node| in_place(root, node).into_iter().any(marks_secret))
                })
        })
    }

    fn names_secret(&self, key: &str) -> bool {
        self.lengths & length_bit(fold(key).count()) != 0
            && self.names.iter().any(|name| name.chars().eq(fold(key)))
    }

    fn finds(&self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
            Value::Array(parts) => parts.iter().any(|part| self.finds(part)),
            Value::Object(fields) => {
                fields.iter().any(|(key, part)| self.names_secret(key) || self.finds(part))
            }
        }
    }

    fn copy(&self, root: Option<&Value>, schemas: &[&Value], value: &Value) -> Value {
        let nested = |pick: &dyn Fn(&'_ Value) -> bool| {
            root.is_some_and(|root| schemas.iter().any(|schema| in_place(root, schema).into_iter().any(pick)))
        };
        if nested(&marks_secret) {
            return Value::from(REDACTED);
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
            Value::Array(parts) => {
                let below: Vec<_> = root
                    .map(|root| schemas.iter().flat_map(|schema| items(root, schema)).collect())
                    .unwrap_or_default();
                parts.iter().map(|part| self.copy(root, &below, part)).collect()
            }
            Value::Object(fields) => {
                let entries = fields.iter().map(|(key, part)| {
                    if self.names_secret(key) {
                        return (key.clone(), Value::from(REDACTED));
                    }
                    let below: Vec<_> = root
                        .map(|root| schemas.iter().flat_map(|schema| field(root, schema, key)).collect())
                        .unwrap_or_default();
                    (key.clone(), self.copy(root, &below, part))
                });
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

/// Lengths beyond the last bit share it.
fn length_bit(chars: usize) -> u128 {
    1 << chars.min(127)
}

fn fold(key: &str) -> impl Iterator<Item = char> + '_ {
    key.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_found_through_references_arrays_and_recursion() {
        let schema = Schema::compile(json!({ "type": "object",
            "properties": {
                "login": { "allOf": [{ "$ref": "#/$defs/login" }] },
                "others": { "type": "array", "items": { "$ref": "#/$defs/login" } },
                "extra": { "additionalProperties": { "type": "string", "format": "password" } },
            },
            "$defs": { "login": { "type": "object", "properties": {
                "pin": { "type": "string", "writeOnly": true }, "next": { "$ref": "#/$defs/login" } } } } }))
        .unwrap();
        let value = json!({
            "login": { "pin": "s3cret", "next": { "next": { "pin": "s3cret" } } },
            "others": [{ "pin": "s3cret", "user": "ada" }],
            "extra": { "x": "s3cret" },
            "nested": { "API_KEY": "s3cret", "Access-Token": ["s3cret"] },
        });
        let redactor = Redactor::default();
        let shown = redactor.redact(Some(&schema), &value).to_string();
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("ada"));
        for path in ["/login/next/next/pin", "/others/0/pin", "/extra/x", "/nested/Access-Token/0"] {
            assert!(redactor.hides(Some(&schema), path), "{path}");
        }
        assert!(!redactor.hides(Some(&schema), "/others/0/user"));
    }

    #[test]
    fn a_value_without_secrets_is_not_copied() {
        let value = json!({ "a": [1, { "b": "c" }] });
        assert!(matches!(Redactor::default().redact(None, &value), Cow::Borrowed(_)));
    }
}
