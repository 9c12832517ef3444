//! A schema as a part of another.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

const DEFS: &str = "#/$defs/";

/// A part of the schema `root`, to stand within another schema whose definitions are `defs`. What
/// it refers to goes there too. Where that is not possible anything fits: the tool that it came
/// from checks again.
pub(super) fn embed(schema: &Value, root: &Value, defs: &mut Map<String, Value>) -> Value {
    Embedding::new(root, defs).embed(schema).unwrap_or_else(|| json!({}))
}

/// Puts parts of one schema into another.
pub(super) struct Embedding<'a> {
    /// The definitions of the one, as far as they can be taken over, with those that each refers to.
    own: HashMap<&'a str, (&'a Value, Vec<String>)>,
    /// The definitions of the other.
    defs: &'a mut Map<String, Value>,
    /// Those of the one that are among them, with all that they refer to.
    settled: HashSet<String>,
}

impl<'a> Embedding<'a> {
    pub(super) fn new(root: &'a Value, defs: &'a mut Map<String, Value>) -> Self {
        let mut own = HashMap::new();
        for (name, definition) in root.get("$defs").and_then(Value::as_object).into_iter().flatten() {
            let is_other = defs.get(name).is_some_and(|known| known != definition);
            if let Some(wanted) = wanted(definition).filter(|_| !is_other) {
                own.insert(name.as_str(), (definition, wanted));
            }
        }
        drop_broken(&mut own);
        Self { own, defs, settled: HashSet::new() }
    }

    /// The part as it stands in the other, or nothing where what it refers to means something else
    /// there.
    pub(super) fn embed(&mut self, schema: &Value) -> Option<Value> {
        let mut schema = schema.clone();
        if let Some(fields) = schema.as_object_mut() {
            fields.remove("$defs");
            fields.remove("$schema");
        }
        let mut wanted = wanted(&schema)?;
        if !wanted.iter().all(|name| self.own.contains_key(name.as_str())) {
            return None;
        }
        while let Some(name) = wanted.pop() {
            if let Some((definition, others)) =
                self.own.get(name.as_str()).filter(|_| !self.settled.contains(&name))
            {
                wanted.extend(others.iter().cloned());
                self.defs.entry(name.as_str()).or_insert_with(|| (*definition).clone());
                self.settled.insert(name);
            }
        }
        Some(schema)
    }
}

/// Drops definitions that refer to a missing one, until each has all that it refers to: the
/// same words mean something else where one of those does.
fn drop_broken(own: &mut HashMap<&str, (&Value, Vec<String>)>) {
    let mut users: HashMap<String, Vec<&str>> = HashMap::new();
    for (user, (_, wanted)) in own.iter() {
        wanted.iter().for_each(|name| users.entry(name.clone()).or_default().push(user));
    }
    let mut gone: Vec<String> =
        users.keys().filter(|name| !own.contains_key(name.as_str())).cloned().collect();
    while let Some(name) = gone.pop() {
        for user in users.remove(&name).into_iter().flatten() {
            if own.remove(user).is_some() {
                gone.push(user.to_owned());
            }
        }
    }
}

/// The definitions that a schema refers to; nothing where it refers to anything else.
fn wanted(schema: &Value) -> Option<Vec<String>> {
    let mut wanted = Vec::new();
    collect(schema, &mut wanted).then_some(wanted)
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
