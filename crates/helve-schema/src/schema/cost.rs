//! How much work a schema makes of one value.
//!
//! A schema that refers to itself through two branches does twice the work at every level of the
//! value, and one with many alternatives does all of it for every item of a list. The validator cannot
//! be stopped once it runs, so its visits are counted first.
//!
//! A budget that counts while the validator runs would make this file unnecessary, but the jsonschema crate (0.60) has no
//! place for one: a keyword of our own is evaluated after all others of its schema (its priority is the lowest), so that
//! a tree of alternatives whose leaves fail by `type` never reaches it, and nothing else is called back meanwhile.

use serde_json::{Map, Value};

use super::Budget;
use super::graph::{
    Document, Kinds, has_unevaluated, own_alternatives, own_always, own_dependents, own_field, own_in_place,
    own_items,
};

/// What may be done with one value.
pub(super) struct Limits {
    /// Visits of a schema to a part of a value.
    visits: usize,
    /// What is compared at them: fields, names of required fields, listed values, and how long the
    /// part is.
    looks: usize,
    /// How deep visits may be within each other: each takes room on the stack.
    levels: usize,
    /// What errors may hold, as [`weigh`] counts it. Without it none are made.
    held: Option<usize>,
}

/// To check a value. Takes some milliseconds.
pub(super) const CHECK: Limits = Limits { visits: 200_000, looks: 5_000_000, levels: 1_000, held: None };

/// To check one against a schema that is not recursive: its work grows with the value alone.
pub(super) const CHECK_PLAIN: Limits = Limits { visits: 2_000_000, looks: 10_000_000, ..CHECK };

/// To say what is wrong: all errors are made before the first is seen, and need more of the stack.
pub(super) const EXPLAIN: Limits =
    Limits { visits: 30_000, looks: 1_000_000, levels: 500, held: Some(HELD_MAX) };

/// To say it where the schema is not recursive.
pub(super) const EXPLAIN_PLAIN: Limits = Limits { visits: 200_000, looks: 5_000_000, ..EXPLAIN };

/// What all errors for one value may hold: 128 MB.
const HELD_MAX: usize = (128 << 20) / WEIGHT_BYTES;

/// What an error holds, without the value and the way to it.
const ERROR_WEIGHT: usize = 4;

/// How many bytes of a text are as much work as one value without any, and take as much room.
const WEIGHT_BYTES: usize = 64;

impl Limits {
    /// Whether so much work for each part of a value is within the limits whatever it holds.
    /// Of what is matched by trying that cannot be said.
    pub(super) fn allow(&self, work: Option<u64>, value: &Value) -> bool {
        let Some(work) = work else { return false };
        let most = self.visits / usize::try_from(work.max(1)).unwrap_or(usize::MAX);
        weigh(value, most) <= most
    }

    /// Whether a value is within the limits.
    pub(super) fn admit(&self, document: &Document, value: &Value) -> bool {
        let meter = Meter {
            document,
            visits: Budget::new(self.visits),
            looks: Budget::new(self.looks),
            levels: self.levels,
            held: Budget::new(self.held.unwrap_or_default()),
        };
        let errors = if self.held.is_some() { Errors::Lent } else { Errors::None };
        meter.visit(document.json(), value, At { level: 0, path_bytes: 0, errors })
    }
}

/// How many values there are in one, long texts counting more; counting ends soon after `most`.
fn weigh(value: &Value, most: usize) -> usize {
    let mut sum = 1;
    let mut add = |part: &Value, key: &str| {
        sum += weight(key) + weigh(part, most.saturating_sub(sum));
        sum <= most
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => sum += weight(text),
        Value::Array(items) => drop(items.iter().all(|part| add(part, ""))),
        Value::Object(fields) => drop(fields.iter().all(|(key, part)| add(part, key))),
    }
    sum
}

fn weight(text: &str) -> usize {
    text.len() / WEIGHT_BYTES
}

/// How much a schema itself compares with a value, whatever that is, for each of [`WEIGHT_BYTES`] of its texts.
pub(super) fn breadth(document: &Document, schema: &Value) -> usize {
    width(schema).saturating_add(document.patterns().most_looks(schema, WEIGHT_BYTES))
}

/// How much of it are fields and listed values.
fn width(schema: &Value) -> usize {
    let listed = ["required", "enum"].iter().filter_map(|key| schema.get(*key)?.as_array()).map(Vec::len);
    let named = schema.get("properties").and_then(Value::as_object).map_or(0, Map::len);
    let dependents: usize = own_dependents(schema).map(|(_, names)| 1 + names.len()).sum();
    listed.sum::<usize>() + named + dependents
}

/// How much it compares with this one: other values than objects have no fields.
fn compared(document: &Document, schema: &Value, kinds: Kinds, value: &Value) -> usize {
    if !kinds.compares {
        return span(value);
    }
    let options = || schema.get("enum").and_then(Value::as_array);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => options().map_or(0, Vec::len),
        Value::String(text) => {
            let plain = options().map_or(0, Vec::len) + weight(text);
            plain.saturating_add(document.patterns().looks(schema, text.len()))
        }
        Value::Array(_) => {
            let is_unique = schema.get("uniqueItems") == Some(&Value::Bool(true));
            let alike = usize::from(is_unique) + listed(schema).filter(|one| one.is_array()).count();
            let options = options().map_or(0, Vec::len);
            options + span(value) + if alike == 0 { 0 } else { alike * weigh(value, usize::MAX) }
        }
        Value::Object(fields) => {
            let alike = listed(schema).filter(|one| one.is_object()).count();
            let whole = if alike == 0 { 0 } else { alike * weigh(value, usize::MAX) };
            let matched = |name: &String| document.patterns().looks_at_name(schema, name.len());
            let names = fields.keys().map(matched).fold(0, usize::saturating_add);
            names.saturating_add(width(schema) + span(value) + whole)
        }
    }
}

/// How long a value is by itself, whatever is in its parts.
fn span(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => weight(text),
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.keys().map(|key| 1 + weight(key)).sum(),
    }
}

/// The values that a schema lists, each of which is compared to its end.
fn listed(schema: &Value) -> impl Iterator<Item = &Value> {
    let options = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    options.chain(schema.get("const"))
}

/// Where a visit takes place.
#[derive(Clone, Copy)]
struct At {
    /// How many it is within.
    level: usize,
    /// How long the way to this part of the value is. Every error holds it.
    path_bytes: usize,
    errors: Errors,
}

/// What is made of a value that does not fit.
#[derive(Clone, Copy, PartialEq)]
enum Errors {
    /// Nothing: it is only asked whether it fits.
    None,
    /// Errors that borrow the value.
    Lent,
    /// Errors that hold a copy of it each, as those of alternatives do.
    Copied,
}

impl At {
    fn deeper(self) -> Self {
        Self { level: self.level + 1, ..self }
    }

    fn below(self, key: &str) -> Self {
        Self { path_bytes: self.path_bytes + key.len(), ..self.deeper() }
    }

    fn with(self, errors: Errors) -> Self {
        Self { errors, ..self }
    }

    /// What one error here holds of the way to it, through the value and through the schema.
    fn weight(self) -> usize {
        ERROR_WEIGHT + 2 * self.path_bytes / WEIGHT_BYTES + self.level / 2
    }
}

struct Meter<'a> {
    document: &'a Document,
    visits: Budget,
    looks: Budget,
    levels: usize,
    held: Budget,
}

impl Meter<'_> {
    /// Counts as the worst case goes: every alternative is tried, and the same one as often as it is
    /// referred to. Ends because no schema refers to itself without descending.
    fn visit(&self, schema: &Value, value: &Value, at: At) -> bool {
        let (kinds, here) = (Kinds::of(schema), at.deeper());
        self.spend(compared(self.document, schema, kinds, value), at)
            && (!kinds.compares || self.document.patterns().come_to_an_end(schema, value))
            && self.hold(schema, kinds, value, at)
            && (!kinds.always || own_always(schema).all(|other| self.visit(other, value, here)))
            && (!kinds.references
                || self.document.targets(schema).all(|other| self.visit(other, value, here)))
            && (!kinds.alternatives || own_alternatives(schema).all(|other| self.try_out(other, value, here)))
            && (!kinds.parts
                || self.visit_parts(schema, value, at)
                    && (!has_unevaluated(schema) || self.mark(schema, value, here)))
    }

    fn spend(&self, looks: usize, at: At) -> bool {
        at.level < self.levels && self.visits.spend(1) && self.looks.spend(looks)
    }

    /// An alternative is checked first, and its errors are made only if none fits.
    fn try_out(&self, schema: &Value, value: &Value, at: At) -> bool {
        let fits = self.visit(schema, value, at.with(Errors::None));
        fits && (at.errors == Errors::None || self.visit(schema, value, at.with(Errors::Copied)))
    }

    fn visit_parts(&self, schema: &Value, value: &Value, at: At) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            Value::Array(parts) => {
                let items: Vec<_> = own_items(schema).collect();
                items.is_empty()
                    || parts
                        .iter()
                        .all(|part| items.iter().all(|schema| self.visit(schema, part, at.deeper())))
            }
            Value::Object(fields) => {
                let names = schema.get("propertyNames");
                fields.iter().all(|(key, part)| {
                    own_field(schema, key).all(|schema| self.visit(schema, part, at.below(key)))
                        && names.is_none_or(|names| self.visit(names, &key.as_str().into(), at.deeper()))
                })
            }
        }
    }

    /// Finds out which parts of a value were looked at: all that applies to it is checked again, and then
    /// asked the same.
    fn mark(&self, schema: &Value, value: &Value, at: At) -> bool {
        let at = at.with(Errors::None);
        let marks: &[&str] = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return true,
            Value::Array(_) => &["contains", "unevaluatedItems"],
            Value::Object(_) => &["unevaluatedProperties"],
        };
        let visit_marked = |part: &Value, at: At| {
            marks.iter().filter_map(|key| schema.get(*key)).all(|schema| self.visit(schema, part, at))
        };
        self.spend(compared(self.document, schema, Kinds::of(schema), value), at)
            && self.document.targets(schema).all(|other| self.mark(other, value, at.deeper()))
            && own_in_place(schema)
                .all(|other| self.visit(other, value, at.deeper()) && self.mark(other, value, at.deeper()))
            && match value {
                Value::Array(parts) => parts.iter().all(|part| visit_marked(part, at.deeper())),
                Value::Object(fields) => fields.iter().all(|(key, part)| visit_marked(part, at.below(key))),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            }
    }

    /// What errors hold that this schema itself may make of a value.
    fn hold(&self, schema: &Value, kinds: Kinds, value: &Value, at: At) -> bool {
        if at.errors == Errors::None {
            return true;
        }
        let many = if kinds.compares || kinds.parts { many_errors(schema, value) } else { 0 };
        let errors = match at.errors {
            Errors::None | Errors::Lent => (1 + many) * at.weight(),
            Errors::Copied => {
                let keywords = schema.as_object().map_or(1, Map::len);
                (keywords + many).saturating_mul(at.weight() + weigh(value, usize::MAX))
            }
        };
        // Some say again what the schema says.
        let said = |key: &str| schema.get(key).map_or(0, |said| weigh(said, usize::MAX));
        let forbidden = if kinds.always { said("not") } else { 0 };
        let pattern = if kinds.compares { said("pattern") } else { 0 };
        self.held.spend(errors.saturating_add(forbidden + pattern))
    }
}

/// How many errors a schema may make of a value besides one for each keyword: there is one for every
/// field that is missing and for every name that does not fit.
fn many_errors(schema: &Value, value: &Value) -> usize {
    let Value::Object(fields) = value else { return 0 };
    let absent = |names: &Vec<Value>| {
        names.iter().filter_map(Value::as_str).filter(|name| !fields.contains_key(*name)).count()
    };
    let required = schema.get("required").and_then(Value::as_array).map_or(0, absent);
    let dependents = own_dependents(schema).filter(|(field, _)| fields.contains_key(*field));
    let names = schema.get("propertyNames").map_or(0, |_| fields.len());
    required + dependents.map(|(_, names)| absent(names)).sum::<usize>() + names
}

#[cfg(test)]
mod tests {
    use super::super::Schema;
    use serde_json::{Value, json};

    #[test]
    fn work_that_doubles_at_every_level_is_refused_quickly() {
        let schema = Schema::compile(json!({ "type": "object", "properties": {
            "a": { "anyOf": [{ "$ref": "#" }, { "allOf": [{ "$ref": "#" }] }, { "type": "array", "items": { "$ref": "#" } }] },
            "b": { "oneOf": [{ "$ref": "#" }, { "$ref": "#/$defs/again" }] },
        }, "$defs": { "again": { "type": "object", "properties": { "b": { "$ref": "#/properties/b" } } } } })).unwrap();
        let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "b": inner }));
        let errors = schema.validate(&deep(60)).unwrap_err();
        assert!(errors[0].message.contains("too deeply nested"), "{errors:?}");
    }

    #[test]
    fn the_same_reference_twice_is_twice_the_work() {
        let schema = Schema::compile(json!({ "type": "object", "required": ["x"], "properties": {
            "x": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] } } }))
        .unwrap();
        let deep = (0..60).fold(json!(7), |inner, _| json!({ "x": inner }));
        assert!(!schema.accepts(&deep));
    }

    /// A schema of lists that refers to itself in two ways, with a secret in it.
    fn doubling() -> Schema {
        let list = json!({ "type": "array", "items": { "$ref": "#/$defs/n" } });
        Schema::compile(json!({ "type": "object", "properties": {
            "x": { "$ref": "#/$defs/n" }, "key": { "type": "string", "writeOnly": true } },
            "$defs": { "n": { "anyOf": [{ "type": "string" }, list, list] } } }))
        .unwrap()
    }

    #[test]
    fn what_is_wrong_is_told_redacted_and_mended_in_bounded_time() {
        use super::super::{Redactor, example::corrected, repair::repair};
        let (schema, redactor) = (doubling(), Redactor::default());
        for levels in [8, 12, 16, 20, 40, 60] {
            let mut value =
                json!({ "x": (0..levels).fold(json!(1), |inner, _| json!([inner])), "key": "k3y" });
            let errors = schema.validate(&value).unwrap_err();
            assert!(!errors.is_empty());
            assert!(!redactor.redact(Some(&schema), &value).to_string().contains("k3y"));
            assert!(!redactor.redact_refused(&schema, &value).to_string().contains("k3y"));
            let path = format!("/x{}", "/0".repeat(levels));
            assert!(!redactor.touches_secret(&schema, &path) && !schema.at(&path).is_empty());
            repair(&schema, &mut value);
            corrected(&schema, &value, &[], &redactor);
        }
    }

    #[test]
    fn errors_take_little_memory_where_alternatives_double() {
        let schema = Schema::compile(json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "$dynamicAnchor": "n",
            "type": "object", "properties": {
                "x": { "anyOf": [{ "$dynamicRef": "#n" }, { "$dynamicRef": "#n" }, { "type": "string" }] } } }))
        .unwrap();
        for levels in [6, 12, 16, 24, 60] {
            let deep = (0..levels).fold(json!(1), |inner, _| json!({ "x": inner }));
            assert!(!schema.validate(&deep).unwrap_err().is_empty());
        }
    }

    #[test]
    fn an_ordinary_tree_is_affordable() {
        let schema = Schema::compile(json!({ "type": "object", "properties": {
            "children": { "type": "array", "items": { "$ref": "#" } } } }))
        .unwrap();
        let wide: Vec<Value> = (0..1_000).map(|_| json!({ "children": [] })).collect();
        assert!(schema.accepts(&json!({ "children": wide })));
    }
}
