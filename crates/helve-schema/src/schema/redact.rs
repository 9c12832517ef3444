//! Hides secrets before anything is recorded, logged or shown.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use sha2::Sha256;

use super::graph::{Document, Way, at_path, children, in_place, own_field, own_items};
use super::{Budget, Schema};
use crate::json::{canonical, hex};
use crate::secret::{self, Names, is_secret_name};

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
/// use helve_schema::schema::Redactor;
/// use helve_schema::Schema;
/// use serde_json::json;
/// let schema = Schema::compile(json!({ "type": "object",
///     "properties": { "pin": { "type": "string", "writeOnly": true } } })).unwrap();
/// let value = json!({ "pin": "1234", "api-key": "k", "user": "ada" });
/// let shown = Redactor::default().redact(Some(&schema), &value);
/// assert_eq!(*shown, json!({ "pin": "[redacted]", "api-key": "[redacted]", "user": "ada" }));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Names that are secret besides the usual ones.
    own: Names,
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

impl Redactor {
    /// Hides these names besides the usual ones ([`is_secret_name`]), and longer names that end with one of
    /// them; case, `-` and `_` make no difference.
    pub fn with_names<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { own: Names::of_words(names), key: None }
    }

    /// Marks each secret with a keyed digest (HMAC-SHA-256): a reader of the record can tell
    /// whether two are the same, and cannot find out what they are without the key.
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

    /// Whether a value holds what its schema, or a name, calls a secret. Of texts, addresses are looked into.
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
        self.collect_hidden(value, &shown, &mut secrets);
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
        is_secret_name(key) || self.own.matches(key)
    }

    /// Whether a field is secret by its name, or is the `value` of a pair whose `name` is secret. Switches
    /// never are, whatever they are called: `requires_password` tells nothing.
    fn hides_field(&self, fields: &Map<String, Value>, key: &str, part: &Value) -> bool {
        let is_switch = matches!(part, Value::Null | Value::Bool(_));
        let names = || ["name", "key", "header"].iter().filter_map(|name| fields.get(*name)?.as_str());
        !is_switch
            && (self.names_secret(key) || (key == "value" && names().any(|name| self.names_secret(name))))
    }

    fn finds(&self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => !self.in_text(text).is_empty(),
            Value::Array(parts) => parts.iter().any(|part| self.finds(part)),
            Value::Object(fields) => {
                fields.iter().any(|(key, part)| self.hides_field(fields, key, part) || self.finds(part))
            }
        }
    }

    /// A value without what is secret by its name.
    fn copy(&self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => self.copy_text(text),
            Value::Array(parts) => parts.iter().map(|part| self.copy(part)).collect(),
            Value::Object(fields) => {
                let entries = fields.iter().map(|(key, part)| {
                    let is_secret = self.hides_field(fields, key, part);
                    (key.clone(), if is_secret { self.mark(part) } else { self.copy(part) })
                });
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    /// Where secrets stand in a text: in the query and the password of addresses.
    fn in_text(&self, text: &str) -> Vec<Range<usize>> {
        secret::in_text(text, |name| self.names_secret(name))
    }

    fn copy_text(&self, text: &str) -> Value {
        let (mut shown, mut from) = (String::with_capacity(text.len()), 0);
        for range in self.in_text(text) {
            shown.push_str(&text[from..range.start]);
            shown.push_str(REDACTED);
            from = range.end;
        }
        shown.push_str(&text[from..]);
        shown.into()
    }

    /// Collects the texts of what `shown` has redacted.
    fn collect_hidden(&self, value: &Value, shown: &Value, secrets: &mut Vec<String>) {
        match (value, shown) {
            (Value::Object(fields), Value::Object(kept)) => {
                for (key, part) in fields {
                    self.collect_hidden(part, kept.get(key).unwrap_or(&Value::Null), secrets);
                }
            }
            (Value::Array(parts), Value::Array(kept)) => {
                parts.iter().zip(kept).for_each(|(part, kept)| self.collect_hidden(part, kept, secrets));
            }
            (_, Value::String(text)) if is_mark(text) => collect_texts(value, secrets),
            (Value::String(text), Value::String(_)) => {
                for range in self.in_text(text) {
                    collect_parameter(&text[range], secrets);
                }
            }
            _ => {}
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
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => self.redactor.copy_text(text),
            Value::Array(parts) => {
                let below = self.all(schemas.iter().flat_map(|schema| own_items(schema)));
                parts.iter().map(|part| self.copy(&below, part)).collect()
            }
            Value::Object(fields) => {
                let entries = fields.iter().map(|(key, part)| {
                    if self.redactor.hides_field(fields, key, part) || !self.budget.spend(schemas.len()) {
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

/// A secret out of an address, as it stands there and as it is meant.
fn collect_parameter(text: &str, secrets: &mut Vec<String>) {
    let decoded = percent_decode_str(text).decode_utf8().ok();
    let decoded = decoded.filter(|decoded| *decoded != text).map(Cow::into_owned);
    let long = [Some(text.to_owned()), decoded].into_iter().flatten();
    secrets.extend(long.filter(|text| text.len() >= SECRET_BYTES_MIN));
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
/// use helve_schema::schema::redact::scrub;
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
    fn texts_pairs_and_longer_names_are_looked_into() {
        let redactor = Redactor::with_names(["pin"]);
        let given = json!({
            "url": "https://x.example/?token=a%20b%20c&page=2",
            "pairs": [{ "name": "X-Api-Key", "value": "k3y4" }, { "name": "Accept", "value": "json" }],
            "requires_password": true, "door-pin": "1234", "spin": 1, "next_page_token": "p2",
        });
        assert_eq!(
            *redactor.redact(None, &given),
            json!({
                "url": "https://x.example/?token=[redacted]&page=2",
                "pairs": [{ "name": "X-Api-Key", "value": REDACTED }, { "name": "Accept", "value": "json" }],
                "requires_password": true, "door-pin": REDACTED, "spin": 1, "next_page_token": "p2",
            })
        );
        let secrets = redactor.secrets_in(None, &given);
        assert_eq!(secrets, ["a%20b%20c", "a b c", "k3y4", "1234"]);
    }

    #[test]
    fn a_value_without_secrets_is_not_copied() {
        let value = json!({ "a": [1, { "b": "c" }] });
        assert!(matches!(Redactor::default().redact(None, &value), Cow::Borrowed(_)));
    }
}
