//! Rewrites a schema into a strict subset, or says why it cannot be.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::dialect::{CHECKED_FORMATS, Dialect, Optional, Recursion, is_regular, is_remark};
use super::disjoint::disjoint;
use super::{Strict, Tally};
use crate::formats::schema::{definition, definition_name};

/// Comparing branches is quadratic; more than this are not compared.
const BRANCHES_MAX: usize = 64;

type Fields = Map<String, Value>;

pub(super) fn rewrite(schema: &Value, dialect: &Dialect) -> Result<Strict, String> {
    let Value::Object(root) = schema else { return Err("it is not an object schema".to_owned()) };
    let mut rewriter = Rewriter {
        dialect,
        root,
        path: Vec::new(),
        tally: Tally::default(),
        current: "",
        uses: BTreeMap::new(),
    };
    let rewritten = rewriter.root()?;
    if dialect.recursion == Recursion::Refused {
        rewriter.refuse_recursion()?;
    }
    rewriter.tally.check(&rewritten, &dialect.limits)?;
    Ok(Strict { schema: rewritten, tally: rewriter.tally })
}

struct Rewriter<'a> {
    dialect: &'a Dialect,
    root: &'a Fields,
    /// Where we are, for refusals.
    path: Vec<&'a str>,
    tally: Tally,
    /// The definition being rewritten; empty at the top.
    current: &'a str,
    /// Which definitions refer to which; the empty one is the top.
    uses: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Rewriter<'a> {
    fn root(&mut self) -> Result<Value, String> {
        let root = self.root;
        if root.get("type") != Some(&json!("object"))
            || root.contains_key("anyOf")
            || root.contains_key("oneOf")
        {
            return Err("the top level must be one plain object".to_owned());
        }
        if root.contains_key("$defs") && root.contains_key("definitions") {
            return Err(self.refusal("`$defs` next to `definitions`"));
        }
        let mut rewritten = self.typed(root)?;
        let mut definitions = Map::new();
        for container in ["$defs", "definitions"] {
            let Some(named) = root.get(container).and_then(Value::as_object) else { continue };
            for (name, schema) in named {
                self.current = name;
                self.tally.chars += name.chars().count();
                let definition = self.within(&[container, name], |this| this.node(schema))?;
                definitions.insert(name.clone(), definition);
            }
        }
        if !definitions.is_empty() {
            rewritten.insert("$defs".to_owned(), definitions.into());
        }
        Ok(rewritten.into())
    }

    fn node(&mut self, schema: &'a Value) -> Result<Value, String> {
        let Value::Object(fields) = schema else {
            return Err(self.refusal("a schema that is only true or false"));
        };
        if fields.contains_key("$defs") || fields.contains_key("definitions") {
            return Err(self.refusal("definitions below the top level"));
        }
        if let Some(reference) = fields.get("$ref") {
            return self.reference(fields, reference);
        }
        match (fields.get("anyOf"), fields.get("oneOf")) {
            (Some(Value::Array(branches)), None) => self.union(fields, "anyOf", branches),
            (None, Some(Value::Array(branches))) => self.union(fields, "oneOf", branches),
            (None, None) => self.typed(fields).map(|typed| split_nullable(typed).into()),
            _ => Err(self.refusal("`anyOf` next to `oneOf`")),
        }
    }

    fn reference(&mut self, fields: &'a Fields, reference: &'a Value) -> Result<Value, String> {
        self.only_remarks_beside(fields, "$ref")?;
        let text = reference.as_str().unwrap_or_default();
        let (used, written) = match (definition_name(text), definition(self.root, text)) {
            _ if text == "#" => ("", json!({ "$ref": "#" })),
            (Some((_, name)), Some(_)) => (name, json!({ "$ref": format!("#/$defs/{name}") })),
            _ => return Err(self.refusal(&format!("`{text}`, which points to no definition,"))),
        };
        self.uses.entry(self.current).or_default().insert(used);
        // A reference may have no neighbours, so a remark needs a union of one around it.
        Ok(match remark(fields) {
            Some(remark) => any_of(vec![written], Some(remark.into())).into(),
            None => written,
        })
    }

    fn union(
        &mut self,
        fields: &'a Fields,
        keyword: &'a str,
        branches: &'a [Value],
    ) -> Result<Value, String> {
        self.only_remarks_beside(fields, keyword)?;
        if keyword == "oneOf" {
            let apart = branches.len() <= BRANCHES_MAX
                && branches
                    .iter()
                    .enumerate()
                    .all(|(index, a)| branches[..index].iter().all(|b| disjoint(self.root, a, b)));
            if !apart {
                return Err(self.refusal("`oneOf` whose branches may overlap"));
            }
        }
        self.tally.unions += 1;
        let mut options = Vec::with_capacity(branches.len());
        for branch in branches {
            options.push(self.within(&[keyword], |this| this.node(branch))?);
        }
        Ok(any_of(options, remark(fields).map(Value::from)).into())
    }

    fn only_remarks_beside(&self, fields: &Fields, keyword: &str) -> Result<(), String> {
        match fields.keys().find(|key| *key != keyword && !is_remark(key)) {
            Some(key) => Err(self.refusal(&format!("`{key}` next to `{keyword}`"))),
            None => Ok(()),
        }
    }

    /// A schema with a type, or with values that have one.
    fn typed(&mut self, fields: &'a Fields) -> Result<Fields, String> {
        let kinds = self.kinds(fields)?;
        if fields.contains_key("enum") && fields.contains_key("const") {
            return Err(self.refusal("`enum` next to `const`"));
        }
        let mut written = Map::new();
        if let Some(remark) = remark(fields) {
            written.insert("description".to_owned(), remark.into());
        }
        for (keyword, value) in fields {
            self.keyword(keyword, value, &kinds, &mut written)?;
        }
        if kinds.contains(&"object") {
            self.object(fields, &mut written)?;
        }
        if kinds.contains(&"array") {
            let Some(items) = fields.get("items") else {
                return Err(self.refusal("an array that says nothing of its items"));
            };
            let items = self.within(&["items"], |this| this.node(items))?;
            written.insert("items".to_owned(), items);
        }
        self.tally.unions += usize::from(kinds.len() > 1);
        let kind = if let [one] = kinds[..] { json!(one) } else { json!(kinds) };
        written.insert("type".to_owned(), kind);
        Ok(written)
    }

    /// The types that may fit: one, or one and null.
    fn kinds(&self, fields: &'a Fields) -> Result<Vec<&'a str>, String> {
        let mut kinds: Vec<&str> = match (fields.get("type"), fields.get("enum"), fields.get("const")) {
            (Some(Value::String(one)), _, _) => vec![one],
            (Some(Value::Array(many)), _, _) => many.iter().filter_map(Value::as_str).collect(),
            (None, Some(Value::Array(values)), _) => values.iter().filter_map(scalar_kind).collect(),
            (None, None, Some(value)) => scalar_kind(value).into_iter().collect(),
            _ => return Err(self.refusal("no type, so it accepts anything")),
        };
        kinds.sort_by_key(|kind| *kind == "null");
        kinds.dedup();
        match kinds[..] {
            [_] | [_, "null"] => Ok(kinds),
            _ => Err(self.refusal("several types in one place")),
        }
    }

    fn keyword(
        &mut self,
        keyword: &'a str,
        value: &'a Value,
        kinds: &[&str],
        written: &mut Fields,
    ) -> Result<(), String> {
        let known = match keyword {
            "type" | "items" | "properties" | "required" | "additionalProperties" => return Ok(()),
            "$defs" | "definitions" => return Ok(()),
            "enum" | "const" => {
                let values = if keyword == "enum" { value.clone() } else { json!([value]) };
                let listed = values.as_array().map(Vec::as_slice).unwrap_or_default();
                if listed.iter().any(|value| scalar_kind(value).is_none()) {
                    return Err(self.refusal("an enum of lists or objects"));
                }
                self.tally.count_enum(listed).map_err(|reason| self.refusal(&reason))?;
                written.insert("enum".to_owned(), values);
                return Ok(());
            }
            "format" => {
                let format = value.as_str().unwrap_or_default();
                // Formats are checked on strings alone; elsewhere, as in `uint32`, they are remarks.
                if !kinds.contains(&"string") || !CHECKED_FORMATS.contains(&format) {
                    return Ok(());
                }
                if !self.dialect.formats.contains(&format) {
                    return Err(self.refusal(&format!("the format `{format}`")));
                }
                true
            }
            "pattern" if value.as_str().is_some_and(|pattern| !is_regular(pattern)) => {
                return Err(self.refusal("a pattern that looks around or back"));
            }
            "minItems" if value.as_u64().is_none_or(|count| count > self.dialect.min_items_max) => false,
            _ if is_remark(keyword) => return Ok(()),
            _ => self.dialect.keywords.contains(&keyword),
        };
        if !known {
            return Err(self.refusal(&format!("`{keyword}`")));
        }
        written.insert(keyword.to_owned(), value.clone());
        Ok(())
    }

    fn object(&mut self, fields: &'a Fields, written: &mut Fields) -> Result<(), String> {
        static NO_FIELDS: std::sync::LazyLock<Fields> = std::sync::LazyLock::new(Map::new);
        let properties = fields.get("properties").and_then(Value::as_object).unwrap_or(&NO_FIELDS);
        match fields.get("additionalProperties") {
            Some(Value::Bool(false)) => {}
            // Not said and fields listed: closing it only makes it narrower.
            None if !properties.is_empty() => {}
            _ => return Err(self.refusal("an object with fields of any name")),
        }
        let required: BTreeSet<&str> = fields
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            return Err(self.refusal(&format!("the required field `{name}`, which is not described,")));
        }
        let nullable = self.dialect.optional == Optional::Nullable;
        let mut rewritten = Map::new();
        for (name, field) in properties {
            self.tally.properties += 1;
            self.tally.chars += name.chars().count();
            let mut field = self.within(&["properties", name], |this| this.node(field))?;
            if !required.contains(name.as_str()) {
                self.tally.optional += 1;
                if nullable {
                    field = or_null(field);
                }
            }
            rewritten.insert(name.clone(), field);
        }
        let demanded: Vec<_> =
            rewritten.keys().filter(|name| nullable || required.contains(name.as_str())).cloned().collect();
        // OpenAI wants both even where they are empty.
        if nullable || !demanded.is_empty() {
            written.insert("required".to_owned(), demanded.into());
        }
        if nullable || !rewritten.is_empty() {
            written.insert("properties".to_owned(), rewritten.into());
        }
        written.insert("additionalProperties".to_owned(), json!(false));
        Ok(())
    }

    fn refuse_recursion(&self) -> Result<(), String> {
        let mut done = BTreeSet::new();
        self.uses.keys().try_for_each(|name| self.visit(name, &mut vec![name], &mut done))
    }

    fn visit(
        &self,
        name: &'a str,
        open: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Result<(), String> {
        for used in self.uses.get(name).into_iter().flatten() {
            if open.contains(used) {
                return Err(self.refusal("a schema that refers to itself"));
            }
            if done.insert(used) {
                open.push(used);
                self.visit(used, open, done)?;
                open.pop();
            }
        }
        Ok(())
    }

    fn within<T>(
        &mut self,
        steps: &[&'a str],
        work: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let depth = self.path.len();
        self.path.extend_from_slice(steps);
        let done = work(self)?;
        self.path.truncate(depth);
        Ok(done)
    }

    /// The path stays as it was when the refusal was made: nothing is rewritten after it.
    fn refusal(&self, what: &str) -> String {
        let place: String = self.path.iter().map(|step| format!("/{step}")).collect();
        let place = if place.is_empty() { "the top level".to_owned() } else { format!("`{place}`") };
        format!("{place}: {what} has no place in {}'s strict schemas", self.dialect.provider)
    }
}

fn scalar_kind(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null => Some("null"),
        Value::Bool(_) => Some("boolean"),
        Value::Number(_) => Some("number"),
        Value::String(_) => Some("string"),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// The description, with the default in words: strict schemas have no place for one.
fn remark(fields: &Fields) -> Option<String> {
    let description = fields.get("description").and_then(Value::as_str);
    let default = fields.get("default").filter(|default| !default.is_null());
    match (description, default) {
        (Some(text), Some(default)) => Some(format!("{} (default: {default})", text.trim_end())),
        (Some(text), None) => Some(text.to_owned()),
        (None, Some(default)) => Some(format!("Default: {default}")),
        (None, None) => None,
    }
}

/// An object or array that may be null is written as a union; a scalar keeps its list of types.
fn split_nullable(mut typed: Fields) -> Fields {
    let first = typed.get("type").and_then(Value::as_array).and_then(|kinds| kinds.first());
    match first.filter(|kind| is_composite(kind)).cloned() {
        Some(kind) => {
            typed.insert("type".to_owned(), kind);
            null_beside(typed)
        }
        None => typed,
    }
}

/// Makes a rewritten schema accept null too.
fn or_null(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return schema };
    if let Some(Value::Array(options)) = fields.get_mut("anyOf") {
        if !options.iter().any(accepts_null) {
            options.push(json!({ "type": "null" }));
        }
        return fields.into();
    }
    if fields.get("type").is_none_or(is_composite) {
        return null_beside(fields).into();
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(Value::String(kind)) = fields.get("type")
        && kind != "null"
    {
        fields.insert("type".to_owned(), json!([kind, "null"]));
    }
    fields.into()
}

fn is_composite(kind: &Value) -> bool {
    kind == "object" || kind == "array"
}

fn null_beside(mut fields: Fields) -> Fields {
    let description = fields.remove("description");
    any_of(vec![fields.into(), json!({ "type": "null" })], description)
}

/// Options are moved in; `json!` would copy them once a level.
fn any_of(options: Vec<Value>, description: Option<Value>) -> Fields {
    let mut union = Map::new();
    union.insert("anyOf".to_owned(), options.into());
    union.extend(description.map(|text| ("description".to_owned(), text)));
    union
}

fn accepts_null(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "null",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
        _ => false,
    }
}
