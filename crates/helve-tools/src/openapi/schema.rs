//! Schemas of a document as JSON Schema 2020-12, with what they refer to under `$defs`.
//!
//! Only known keywords are taken over, so whatever else a document holds cannot mislead the
//! validator. Two changes on purpose: a `default` moves into the description, since the server
//! applies it and an explicit value can mean something else; and properties that a request may not
//! set (`readOnly`) are left out of inputs.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::document::{Document, fields, is_true, items, text};
use super::naming::{self, Names};

/// Most sub-schemas that one operation may need.
const PARTS_MAX: usize = 20_000;
/// Deepest nesting, references not counted.
const DEPTH_MAX: usize = 60;
const DESCRIPTION_CHARS_MAX: usize = 500;

const SCHEMAS: [&str; 10] = [
    "items",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
];
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const MAPS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
const NUMBERS: [&str; 13] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
];
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// Which way the values go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Input,
    Output,
}

/// How much of a schema is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Full,
    /// Without patterns and formats, which are what documents most often get wrong.
    Loose,
}

/// Converts the schemas of one operation.
pub(super) struct Converter<'d> {
    document: &'d Document,
    direction: Direction,
    detail: Detail,
    /// References that were met, with their names under `$defs`.
    names: BTreeMap<String, String>,
    taken: Names,
    waiting: Vec<String>,
    parts: usize,
}

impl<'d> Converter<'d> {
    pub(super) fn new(document: &'d Document, direction: Direction, detail: Detail) -> Self {
        Self {
            document,
            direction,
            detail,
            names: BTreeMap::new(),
            taken: Names::default(),
            waiting: Vec::new(),
            parts: 0,
        }
    }

    pub(super) fn convert(&mut self, schema: &Value) -> Result<Value, String> {
        self.at_depth(schema, 0)
    }

    /// Whether a property does not go this way.
    pub(super) fn leaves_out(&self, property: &Value) -> bool {
        let key = match self.direction {
            Direction::Input => "readOnly",
            Direction::Output => "writeOnly",
        };
        is_true(property, key) || self.document.resolve(property).is_ok_and(|target| is_true(target, key))
    }

    /// Everything that was referred to, for `$defs`.
    pub(super) fn definitions(mut self) -> Result<Map<String, Value>, String> {
        let mut definitions = Map::new();
        while let Some(reference) = self.waiting.pop() {
            let name = self.names[&reference].clone();
            let target = self.document.target(&reference)?;
            definitions.insert(name, self.at_depth(target, 0)?);
        }
        Ok(definitions)
    }

    fn at_depth(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(format!("its schemas have more than {PARTS_MAX} parts"));
        }
        if depth > DEPTH_MAX {
            return Err(format!("its schemas are nested deeper than {DEPTH_MAX} levels"));
        }
        let Value::Object(source) = schema else {
            return Ok(if schema.is_boolean() { schema.clone() } else { json!({}) });
        };
        if let Some(Value::String(reference)) = source.get("$ref") {
            return Ok(self.reference(reference, schema));
        }
        let mut out = Map::new();
        for (key, value) in source {
            self.keyword(&mut out, source, key, value, depth)?;
        }
        bounds(&mut out, source);
        self.describe(&mut out, schema);
        Ok(if is_true(schema, "nullable") { nullable(out) } else { Value::Object(out) })
    }

    fn reference(&mut self, reference: &str, schema: &Value) -> Value {
        if !self.names.contains_key(reference) {
            let wanted = naming::sanitised(reference.rsplit('/').next().unwrap_or_default(), 60);
            let name = self.taken.free(&wanted, "schema");
            self.taken.take(&name);
            self.names.insert(reference.to_owned(), name);
            self.waiting.push(reference.to_owned());
        }
        let mut out = Map::new();
        out.insert("$ref".to_owned(), format!("#/$defs/{}", self.names[reference]).into());
        self.describe(&mut out, schema);
        if is_true(schema, "nullable") { nullable(out) } else { Value::Object(out) }
    }

    fn keyword(
        &mut self,
        out: &mut Map<String, Value>,
        source: &Map<String, Value>,
        key: &str,
        value: &Value,
        depth: usize,
    ) -> Result<(), String> {
        let kept = match key {
            // A list of items was how tuples were written before 2020-12.
            "items" if value.is_array() => Some(("prefixItems", self.list(value, depth)?)),
            "properties" => Some((key, self.properties(value, depth)?)),
            "required" => Some((key, self.required(source, value))).filter(|(_, list)| *list != json!([])),
            "type" => types(value).map(|types| (key, types)),
            "enum" if value.as_array().is_some_and(|list| !list.is_empty()) => Some((key, value.clone())),
            "const" | "uniqueItems" | "deprecated" | "writeOnly" | "dependentRequired" => {
                Some((key, value.clone()))
            }
            "pattern" | "format" if self.detail == Detail::Full && value.is_string() => {
                Some((key, value.clone()))
            }
            _ if NUMBERS.contains(&key) && value.is_number() => Some((key, value.clone())),
            _ if SCHEMAS.contains(&key) => Some((key, self.at_depth(value, depth + 1)?)),
            _ if LISTS.contains(&key) && value.as_array().is_some_and(|list| !list.is_empty()) => {
                Some((key, self.list(value, depth)?))
            }
            _ if MAPS.contains(&key) => Some((key, self.map(value, depth)?)),
            _ => None,
        };
        out.extend(kept.map(|(key, value)| (key.to_owned(), value)));
        Ok(())
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<Value, String> {
        items(Some(value)).map(|item| self.at_depth(item, depth + 1)).collect()
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<Value, String> {
        let convert = |(key, item): (&String, &Value)| Ok((key.clone(), self.at_depth(item, depth + 1)?));
        let map: Result<Map<_, _>, String> = fields(Some(value)).map(convert).collect();
        map.map(Value::Object)
    }

    fn properties(&mut self, value: &Value, depth: usize) -> Result<Value, String> {
        let mut kept = Map::new();
        for (key, property) in fields(Some(value)) {
            if !self.leaves_out(property) {
                kept.insert(key.clone(), self.at_depth(property, depth + 1)?);
            }
        }
        Ok(Value::Object(kept))
    }

    fn required(&self, source: &Map<String, Value>, value: &Value) -> Value {
        let left_out = |name: &str| {
            let property = source.get("properties").and_then(|properties| properties.get(name));
            property.is_some_and(|property| self.leaves_out(property))
        };
        items(Some(value)).filter(|name| name.as_str().is_some_and(|name| !left_out(name))).cloned().collect()
    }

    /// What a model reads: the description, and what the server does when the value is absent.
    fn describe(&self, out: &mut Map<String, Value>, schema: &Value) {
        let mut description =
            naming::prose(text(schema, "description").unwrap_or_default(), DESCRIPTION_CHARS_MAX);
        if let Some(default) = schema.get("default").filter(|_| self.direction == Direction::Input) {
            let default = helve::json::brief(default);
            description = format!("{description} Default: {default}.").trim_start().to_owned();
        }
        if !description.is_empty() {
            out.insert("description".to_owned(), description.into());
        }
        if let Some(example) = schema.get("example").filter(|_| self.direction == Direction::Input) {
            out.insert("examples".to_owned(), json!([example]));
        }
    }
}

/// In 3.0 an exclusive bound is a flag next to the bound.
fn bounds(out: &mut Map<String, Value>, source: &Map<String, Value>) {
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if source.get(flag) == Some(&Value::Bool(true))
            && let Some(value) = out.remove(bound)
        {
            out.insert(flag.to_owned(), value);
        }
    }
}

fn types(value: &Value) -> Option<Value> {
    let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::String(_) => known(value).then(|| value.clone()),
        Value::Array(list) => (!list.is_empty() && list.iter().all(known)).then(|| value.clone()),
        _ => None,
    }
}

/// In 3.0 null is a flag next to the type.
fn nullable(mut schema: Map<String, Value>) -> Value {
    let combined = ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|key| schema.contains_key(*key));
    if combined {
        let description = schema.remove("description");
        let mut out = json!({ "anyOf": [schema, { "type": "null" }] });
        if let Some(description) = description {
            out["description"] = description;
        }
        return out;
    }
    if let Some(name) = schema.get("type").filter(|kind| kind.is_string()).cloned() {
        schema.insert("type".to_owned(), json!([name, "null"]));
    }
    if let Some(Value::Array(options)) = schema.get_mut("enum")
        && !options.contains(&Value::Null)
    {
        options.push(Value::Null);
    }
    Value::Object(schema)
}
