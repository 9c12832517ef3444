//! Hides secrets before anything is recorded, logged or shown.

use std::borrow::Cow;
use std::collections::HashSet;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value};
use sha2::Sha256;

use super::graph::{Document, Way, at_path, children, in_place, own_field, own_items};
use super::{Budget, Schema};
use crate::json::{canonical, hex};

/// What stands in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Most looks at a schema for one value. What is beyond counts as secret.
const LOOKS_MAX: usize = 1_000_000;

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
    /// Without what makes no difference.
    names: Vec<String>,
    /// One bit a letter that some name begins with, and one a length: most keys are ruled out by these.
    firsts: u64,
    lengths: u64,
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
        let names: Vec<String> = names
            .into_iter()
            .map(|name| name.as_ref().replace(['-', '_'], "").to_ascii_lowercase())
            .collect();
        let firsts = names.iter().fold(0, |bits, name| bits | first_bit(name.bytes().next()));
        let lengths = names.iter().fold(0, |bits, name| bits | length_bit(name.len()));
        Self { names, firsts, lengths, key: None }
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
        if !self.has_secret(schema, value) {
            return Cow::Borrowed(value);
        }
        let schema = schema.filter(|schema| schema.0.has_secrets);
        let Some(schema) = schema else { return Cow::Owned(self.copy(value)) };
        let document = schema.document();
        let reader = Reader { redactor: self, document, budget: Budget::new(LOOKS_MAX) };
        Cow::Owned(reader.copy(&reader.all([document.json()]), value))
    }

    /// Whether a value holds what its schema, or a name, calls a secret. Texts are not looked into.
    pub fn has_secret(&self, schema: Option<&Schema>, value: &Value) -> bool {
        schema.is_some_and(|schema| schema.0.has_secrets) || self.finds(value)
    }

    /// Arguments that do not fit their schema without their secrets. Where that knows of any, only what
    /// it knows too is shown: a secret may stand under a misspelled name or in the wrong shape.
    pub fn redact_refused<'v>(&self, schema: &Schema, value: &'v Value) -> Cow<'v, Value> {
        let document = schema.document();
        let reader = Reader { redactor: self, document, budget: Budget::new(LOOKS_MAX) };
        if !reader.guards([document.json()]) {
            return self.redact(Some(schema), value);
        }
        let Value::Object(fields) = value else { return Cow::Owned(self.mark(value)) };
        let top = reader.all([document.json()]);
        let known = |(key, part): (&String, &Value)| (key.clone(), reader.known(&top, key, part));
        Cow::Owned(fields.iter().map(known).collect())
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
        let way = at_path(schema.document(), path);
        let reader = Reader { redactor: self, document: schema.document(), budget: Budget::new(LOOKS_MAX) };
        self.hides(Some(schema), path) || way.budget.is_spent() || reader.guards(way.here)
    }

    /// Whether the part at `path` is secret, by itself or as part of something secret.
    pub fn hides(&self, schema: Option<&Schema>, path: &str) -> bool {
        let marked = schema.filter(|schema| schema.0.has_secrets);
        let mut way = marked.map(|schema| Way::new(schema.document()));
        path.split('/').skip(1).any(|step| {
            let is_marked = way.as_mut().is_some_and(|way| {
                way.go(step);
                way.all().into_iter().any(marks_secret) || way.budget.is_spent()
            });
            is_marked || self.names_secret(step)
        })
    }

    fn names_secret(&self, key: &str) -> bool {
        self.firsts & first_bit(fold(key).next()) != 0
            && self.lengths & length_bit(fold(key).count()) != 0
            && self.names.iter().any(|name| name.bytes().eq(fold(key)))
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

    /// A value without what is secret by its name.
    fn copy(&self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
            Value::Array(parts) => parts.iter().map(|part| self.copy(part)).collect(),
            Value::Object(fields) => {
                let entries = fields.iter().map(|(key, part)| {
                    let is_secret = self.names_secret(key);
                    (key.clone(), if is_secret { self.mark(part) } else { self.copy(part) })
                });
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

/// Reads a schema for one value. INVARIANT: what there was no budget left to look at is secret.
struct Reader<'a> {
    redactor: &'a Redactor,
    document: &'a Document,
    budget: Budget,
}

impl<'a> Reader<'a> {
    /// All schemas that apply where these do.
    fn all(&self, schemas: impl IntoIterator<Item = &'a Value>) -> Vec<&'a Value> {
        in_place(self.document, schemas, &self.budget)
    }

    /// A value without its secrets, where all of `schemas` apply to it.
    fn copy(&self, schemas: &[&'a Value], value: &Value) -> Value {
        if !self.budget.spend(schemas.len()) || schemas.iter().any(|schema| marks_secret(schema)) {
            return self.redactor.mark(value);
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
            Value::Array(parts) => {
                let below = self.all(schemas.iter().flat_map(|schema| own_items(schema)));
                parts.iter().map(|part| self.copy(&below, part)).collect()
            }
            Value::Object(fields) => {
                let entries = fields.iter().map(|(key, part)| {
                    if self.redactor.names_secret(key) || !self.budget.spend(schemas.len()) {
                        return (key.clone(), self.redactor.mark(part));
                    }
                    let below = self.all(schemas.iter().flat_map(|schema| own_field(schema, key)));
                    (key.clone(), self.copy(&below, part))
                });
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    /// A field of refused arguments: shown only if one of the schemas at the top names it, and nothing
    /// in it is secret that the value's shape could hide.
    fn known(&self, top: &[&'a Value], key: &str, part: &Value) -> Value {
        let is_affordable = self.budget.spend(top.len());
        let named: Vec<_> = top.iter().filter_map(|node| node.get("properties")?.get(key)).collect();
        let hidden = !is_affordable
            || named.is_empty()
            || self.redactor.names_secret(key)
            || (!part.is_object() && self.guards(named.iter().copied()));
        if hidden { self.redactor.mark(part) } else { self.copy(&self.all(named), part) }
    }

    /// Whether any of these schemas, or any below them, marks or names a secret.
    fn guards(&self, schemas: impl IntoIterator<Item = &'a Value>) -> bool {
        let mut queue: Vec<&Value> = schemas.into_iter().collect();
        let mut seen: HashSet<_> = queue.iter().map(|schema| std::ptr::from_ref(*schema)).collect();
        while let Some(schema) = queue.pop() {
            let properties = schema.get("properties").and_then(Value::as_object);
            let names_one =
                |fields: &Map<String, Value>| fields.keys().any(|key| self.redactor.names_secret(key));
            if !self.budget.spend(1) || marks_secret(schema) || properties.is_some_and(names_one) {
                return true;
            }
            let below = children(schema).into_iter().map(|child| child.schema);
            let below = below.chain(self.document.targets(schema));
            queue.extend(below.filter(|schema| seen.insert(std::ptr::from_ref(*schema))));
        }
        false
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
fn first_bit(first: Option<u8>) -> u64 {
    1 << (first.unwrap_or(0) % 64)
}

/// Lengths that are 64 apart share a bit.
fn length_bit(bytes: usize) -> u64 {
    1 << (bytes % 64)
}

/// A key without what makes no difference. As bytes: to read letters costs more than all the rest.
fn fold(key: &str) -> impl Iterator<Item = u8> + '_ {
    key.bytes().filter(|byte| !matches!(byte, b'-' | b'_')).map(|byte| byte.to_ascii_lowercase())
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
