//! Hides secrets before anything is recorded, logged or shown.

use std::borrow::Cow;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value};
use sha2::Sha256;

use super::Schema;
use super::graph::{at_path, children, distinct, field, in_place, items, targets};
use crate::json::{canonical, hex};

/// What stands in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Bytes of a keyed digest that a mark shows.
const MARK_BYTES: usize = 8;

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
    /// One bit a letter that some name begins with: most keys are ruled out by their first.
    firsts: u64,
    key: Option<MarkKey>,
}

/// Marks secrets, so that equal ones can be told from others.
#[derive(Clone)]
struct MarkKey([u8; 32]);

impl std::fmt::Debug for MarkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MarkKey(hidden)")
    }
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
        let firsts = names.iter().fold(0, |bits, name| bits | first_bit(name.chars().next()));
        Self { names, firsts, key: None }
    }

    /// Marks each secret with a keyed digest (HMAC-SHA-256): whoever reads the record can tell
    /// whether two are the same, and without the key nobody can find out what they are.
    pub fn with_key(mut self, key: [u8; 32]) -> Self {
        self.key = Some(MarkKey(key));
        self
    }

    /// What stands in place of a secret.
    fn mark(&self, secret: &Value) -> Value {
        let Some(MarkKey(key)) = &self.key else { return REDACTED.into() };
        let mut digest = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("a key may be of any length");
        match secret {
            Value::String(text) => digest.update(text.as_bytes()),
            other => digest.update(canonical(other).as_bytes()),
        }
        format!("{REDACTED} hmac:{}", hex(&digest.finalize().into_bytes()[..MARK_BYTES])).into()
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

    /// The same for arguments that do not fit their schema. Where that knows of secrets, only what
    /// it knows too is shown: a secret may stand under a misspelled name or in the wrong shape.
    pub fn redact_refused<'v>(&self, schema: &Schema, value: &'v Value) -> Cow<'v, Value> {
        let root = schema.json();
        if !self.guards(root, root) {
            return self.redact(Some(schema), value);
        }
        Cow::Owned(match value {
            Value::Object(fields) => {
                fields.iter().map(|(key, part)| (key.clone(), self.known(root, key, part))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                self.mark(value)
            }
        })
    }

    /// A field of refused arguments: shown only if the schema names it, and nothing in it is secret
    /// that the value's shape could hide.
    fn known(&self, root: &Value, key: &str, part: &Value) -> Value {
        let named: Vec<_> =
            in_place(root, root).into_iter().filter_map(|node| node.get("properties")?.get(key)).collect();
        let guarded = named.iter().any(|node| self.guards(root, node));
        let hidden = named.is_empty() || self.names_secret(key) || (guarded && !part.is_object());
        if hidden { self.mark(part) } else { self.copy(Some(root), &named, part) }
    }

    /// The secrets in a value: texts that must not stand anywhere else in its record either.
    pub fn secrets_in(&self, schema: Option<&Schema>, value: &Value) -> Vec<String> {
        let shown = self.redact(schema, value);
        let mut secrets = Vec::new();
        collect_hidden(value, &shown, &mut secrets);
        secrets
    }

    /// Whether the part at `path` is secret, by itself, as part of something secret, or because
    /// something secret is part of it.
    pub fn touches_secret(&self, schema: &Schema, path: &str) -> bool {
        let root = schema.json();
        self.hides(Some(schema), path) || at_path(root, path).into_iter().any(|node| self.guards(root, node))
    }

    /// Whether a schema, or any below it, marks or names a secret.
    fn guards(&self, root: &Value, schema: &Value) -> bool {
        let mut seen = vec![schema];
        let mut next = 0;
        while next < seen.len() {
            let node = seen[next];
            next += 1;
            let properties = node.get("properties").and_then(Value::as_object);
            if marks_secret(node)
                || properties.is_some_and(|fields| fields.keys().any(|key| self.names_secret(key)))
            {
                return true;
            }
            let below = children(node).into_iter().map(|(_, _, child)| child).chain(targets(root, node));
            for child in below {
                if !seen.iter().any(|other| std::ptr::eq(*other, child)) {
                    seen.push(child);
                }
            }
        }
        false
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
        self.firsts & first_bit(fold(key).next()) != 0
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
            return self.mark(value);
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
            Value::Array(parts) => {
                let below: Vec<_> = root
                    .map(|root| distinct(schemas.iter().flat_map(|schema| items(root, schema))))
                    .unwrap_or_default();
                parts.iter().map(|part| self.copy(root, &below, part)).collect()
            }
            Value::Object(fields) => {
                let entries = fields.iter().map(|(key, part)| {
                    if self.names_secret(key) {
                        return (key.clone(), self.mark(part));
                    }
                    let below: Vec<_> = root
                        .map(|root| distinct(schemas.iter().flat_map(|schema| field(root, schema, key))))
                        .unwrap_or_default();
                    (key.clone(), self.copy(root, &below, part))
                });
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

/// Whether a text stands in place of a secret.
fn is_mark(text: &str) -> bool {
    text.strip_prefix(REDACTED).is_some_and(|rest| rest.is_empty() || rest.starts_with(" hmac:"))
}

/// Shorter texts stand everywhere; removing them would only spoil the record.
const SECRET_BYTES_MIN: usize = 4;

/// Collects the texts of what `shown` has redacted.
fn collect_hidden(value: &Value, shown: &Value, secrets: &mut Vec<String>) {
    match (value, shown) {
        (Value::Object(fields), Value::Object(kept)) => {
            for (key, part) in fields {
                collect_hidden(part, kept.get(key).unwrap_or(&Value::Null), secrets);
            }
        }
        (Value::Array(parts), Value::Array(kept)) => {
            parts.iter().zip(kept).for_each(|(part, kept)| collect_hidden(part, kept, secrets));
        }
        (_, Value::String(text)) if is_mark(text) => collect_texts(value, secrets),
        _ => {}
    }
}

fn collect_texts(value: &Value, secrets: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::String(text) if text.len() >= SECRET_BYTES_MIN => secrets.push(text.clone()),
        Value::Number(number) if number.to_string().len() >= SECRET_BYTES_MIN => {
            secrets.push(number.to_string())
        }
        Value::String(_) | Value::Number(_) => {}
        Value::Array(parts) => parts.iter().for_each(|part| collect_texts(part, secrets)),
        Value::Object(fields) => fields.values().for_each(|part| collect_texts(part, secrets)),
    }
}

/// Removes secrets from every text in a value.
///
/// ```
/// use helve_core::schema::redact::scrub;
/// use serde_json::json;
/// let mut value = json!({ "said": "the pin is 7351-x" });
/// scrub(&mut value, &["7351-x".to_owned()]);
/// assert_eq!(value, json!({ "said": "the pin is [redacted]" }));
/// ```
pub fn scrub(value: &mut Value, secrets: &[String]) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => {
            if secrets.contains(&number.to_string()) {
                *value = REDACTED.into();
            }
        }
        Value::String(text) => {
            for secret in secrets {
                if text.contains(secret.as_str()) {
                    *text = text.replace(secret.as_str(), REDACTED);
                }
            }
        }
        Value::Array(parts) => parts.iter_mut().for_each(|part| scrub(part, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|part| scrub(part, secrets)),
    }
}

/// Several letters share a bit, and what has none shares one with them.
fn first_bit(first: Option<char>) -> u64 {
    1 << (first.map_or(0, u32::from) % 64)
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
    fn refused_arguments_show_only_what_the_schema_knows() {
        let schema = Schema::compile(json!({ "type": "object", "properties": {
            "pin": { "type": "string", "writeOnly": true }, "note": { "type": "string" },
            "inner": { "type": "object", "properties": { "phrase": { "format": "password" } } } } }))
        .unwrap();
        let redactor = Redactor::default();
        for hidden in [
            json!({ "pni": "s3cret" }),
            json!(["s3cret"]),
            json!("s3cret"),
            json!({ "inner": "s3cret" }),
            json!({ "inner": ["s3cret"] }),
            json!({ "inner": { "phrase": "s3cret" } }),
            json!({ "arguments": { "pin": "s3cret" } }),
        ] {
            let shown = redactor.redact_refused(&schema, &hidden).to_string();
            assert!(!shown.contains("s3cret"), "{hidden} shows as {shown}");
        }
        assert_eq!(*redactor.redact_refused(&schema, &json!({ "note": 7 })), json!({ "note": 7 }));
        let open = Schema::compile(json!({ "type": "object", "properties": { "note": {} } })).unwrap();
        assert_eq!(*redactor.redact_refused(&open, &json!({ "nt": "x" })), json!({ "nt": "x" }));
    }

    #[test]
    fn secrets_are_found_where_they_were_given() {
        let schema =
            Schema::compile(json!({ "type": "object", "properties": { "pin": { "writeOnly": true } } }))
                .unwrap();
        let given = json!({ "pin": ["7351", 98765, "ab"], "token": "t0ken", "user": "adalovelace" });
        assert_eq!(Redactor::default().secrets_in(Some(&schema), &given), ["7351", "98765", "t0ken"]);
    }

    #[test]
    fn with_a_key_equal_secrets_look_equal_and_nothing_else_does() {
        let mark = |key: u8, secret: Value| {
            let redactor = Redactor::default().with_key([key; 32]);
            redactor.redact(None, &json!({ "token": secret }))["token"].as_str().unwrap().to_owned()
        };
        assert_eq!(mark(1, json!("t0ken")), mark(1, json!("t0ken")));
        assert_ne!(mark(1, json!("t0ken")), mark(1, json!("t0ken2")));
        assert_ne!(mark(1, json!("t0ken")), mark(2, json!("t0ken")));
        assert!(mark(1, json!("t0ken")).starts_with("[redacted] hmac:"));
        let redactor = Redactor::default().with_key([1; 32]);
        assert_eq!(redactor.secrets_in(None, &json!({ "token": "t0ken" })), ["t0ken"]);
        assert!(!format!("{redactor:?}").contains("1, 1"));
        // RFC 4231, test case 2: what everybody else computes.
        let mut digest = <Hmac<Sha256> as KeyInit>::new_from_slice(b"Jefe").unwrap();
        digest.update(b"what do ya want for nothing?");
        assert!(hex(&digest.finalize().into_bytes()).starts_with("5bdcc146bf60754e"));
    }

    #[test]
    fn a_value_without_secrets_is_not_copied() {
        let value = json!({ "a": [1, { "b": "c" }] });
        assert!(matches!(Redactor::default().redact(None, &value), Cow::Borrowed(_)));
    }
}
