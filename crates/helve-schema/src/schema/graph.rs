//! A schema as a graph: which sub-schemas apply to the same value, and which to its parts.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::Budget;
use super::check::problem;
use super::patterns::Patterns;
use crate::json::escape_pointer;
use crate::problem::Problem;

/// Most bytes that the paths to all sub-schemas may have together. The validator keeps each of them.
pub(super) const PATH_BYTES_MAX: usize = 16 << 20;

/// Most looks on the way to one part of a value.
const PATH_LOOKS_MAX: usize = 100_000;

/// A whole schema, in which references are followed.
pub(super) struct Document {
    json: Value,
    /// Where anchors are, as JSON Pointers. To look for them every time would take as long as the
    /// document is.
    anchors: HashMap<String, String>,
    patterns: Patterns,
}

impl Document {
    pub(super) fn of(json: Value) -> Result<Self, Problem> {
        let (mut anchors, mut bytes) = (HashMap::new(), 0);
        let mut queue = vec![(&json, String::new())];
        while let Some((schema, at)) = queue.pop() {
            for key in ["$anchor", "$dynamicAnchor"] {
                let Some(anchor) = schema.get(key).and_then(Value::as_str) else { continue };
                let first = anchors.entry(anchor.to_owned()).or_insert_with(|| at.clone());
                // The validator might take the other one.
                if *first != at {
                    return Err(problem(&at, format!("the anchor `{anchor}` stands at `{first}` too")));
                }
            }
            for child in children(schema) {
                let path = format!("{at}{}", child.path());
                bytes += path.len();
                if bytes > PATH_BYTES_MAX {
                    return Err(paths_too_long());
                }
                queue.push((child.schema, path));
            }
        }
        drop(queue);
        Ok(Self { patterns: Patterns::of(&json), json, anchors })
    }

    pub(super) fn json(&self) -> &Value {
        &self.json
    }

    pub(super) fn patterns(&self) -> &Patterns {
        &self.patterns
    }

    /// What the references of `schema` point to.
    pub(super) fn targets<'a>(&'a self, schema: &'a Value) -> impl Iterator<Item = &'a Value> {
        let references = REFERENCES.iter().filter_map(|key| schema.get(*key).and_then(Value::as_str));
        references.filter_map(|reference| self.target(reference))
    }

    /// Resolves a reference within the document: `#`, `#/pointer` or `#anchor`.
    pub(super) fn target(&self, reference: &str) -> Option<&Value> {
        match reference.strip_prefix('#')? {
            "" => Some(&self.json),
            pointer if pointer.starts_with('/') => self.json.pointer(&percent_decode(pointer)),
            anchor => self.json.pointer(self.anchors.get(anchor)?),
        }
    }
}

pub(super) fn paths_too_long() -> Problem {
    problem("", "its field names are too long for how deep they stand; shorten them")
}

/// How a sub-schema relates to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    /// Applies to the same value: `allOf`, `$ref`, `not`, …
    InPlace,
    /// One of several that apply to the same value: `anyOf`, `oneOf`.
    Alternative,
    /// Applies to a part of the value: `properties`, `items`, …
    Descends,
    /// Applies only where something refers to it, or never: `$defs`, `contentSchema`.
    Defines,
}

// All that the validator evaluates of draft 2020-12, and what it takes from older ones.
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const IN_PLACE_LIST: &str = "allOf";
/// Where a field's name stands for a schema; in `dependencies` it may also stand for a list of names.
const IN_PLACE_MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];
const ALTERNATIVES: [&str; 2] = ["anyOf", "oneOf"];
const DESCENDS: [&str; 6] = [
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "additionalItems",
    "unevaluatedItems",
    "contains",
];
const DESCENDS_MAPS: [&str; 2] = ["properties", "patternProperties"];
const DEFINES: [&str; 2] = ["$defs", "definitions"];
/// What says which parts of a value nothing else has looked at. To know that, the validator goes
/// through all that applies to the value once more.
const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];
pub(super) const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// A sub-schema, and where it stands in its parent.
pub(super) struct Child<'a> {
    pub(super) edge: Edge,
    pub(super) schema: &'a Value,
    keyword: &'a str,
    step: Step<'a>,
}

enum Step<'a> {
    None,
    Index(usize),
    Name(&'a str),
}

impl Child<'_> {
    /// Whether it is asked which parts of a value were looked at.
    pub(super) fn marks_parts(&self) -> bool {
        UNEVALUATED.contains(&self.keyword) || self.keyword == "contains"
    }

    /// The way to it from its parent, as a JSON Pointer.
    pub(super) fn path(&self) -> String {
        let keyword = self.keyword;
        match self.step {
            Step::None => format!("/{keyword}"),
            Step::Index(index) => format!("/{keyword}/{index}"),
            Step::Name(name) => format!("/{keyword}/{}", escape_pointer(name)),
        }
    }
}

/// The sub-schemas that stand directly in `schema`. References are not followed; see
/// [`Document::targets`].
pub(super) fn children(schema: &Value) -> Vec<Child<'_>> {
    let Value::Object(fields) = schema else { return Vec::new() };
    let mut found = Vec::new();
    for (keyword, value) in fields {
        let keyword = keyword.as_str();
        let child = |edge, step, schema| Child { edge, schema, keyword, step };
        let mut each = |edge: Edge| match value {
            Value::Array(items) => {
                found.extend(
                    items.iter().enumerate().map(|(index, item)| child(edge, Step::Index(index), item)),
                );
            }
            Value::Object(map) => {
                let items = map.iter().filter(|(_, item)| !is_list_of_names(keyword, item));
                found.extend(items.map(|(name, item)| child(edge, Step::Name(name), item)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        };
        if keyword == IN_PLACE_LIST || IN_PLACE_MAPS.contains(&keyword) {
            each(Edge::InPlace);
        } else if ALTERNATIVES.contains(&keyword) {
            each(Edge::Alternative);
        } else if DESCENDS_MAPS.contains(&keyword)
            || keyword == "prefixItems"
            || (keyword == "items" && value.is_array())
        {
            each(Edge::Descends);
        } else if DEFINES.contains(&keyword) {
            each(Edge::Defines);
        } else if keyword == "contentSchema" {
            found.push(child(Edge::Defines, Step::None, value));
        } else if IN_PLACE.contains(&keyword) {
            found.push(child(Edge::InPlace, Step::None, value));
        } else if DESCENDS.contains(&keyword) || keyword == "items" {
            found.push(child(Edge::Descends, Step::None, value));
        }
    }
    found
}

fn is_list_of_names(keyword: &str, item: &Value) -> bool {
    keyword == "dependencies" && item.is_array()
}

/// The sub-schemas that stand directly in `schema` and apply to the same value. As [`children`], without
/// a look at all the others, of which there may be many.
pub(super) fn own_in_place(schema: &Value) -> impl Iterator<Item = &Value> {
    own_alternatives(schema).chain(own_always(schema))
}

/// Those of them of which one may be enough.
pub(super) fn own_alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    ALTERNATIVES.iter().filter_map(|key| schema.get(*key)?.as_array()).flatten()
}

/// Those of them that are no alternatives.
pub(super) fn own_always(schema: &Value) -> impl Iterator<Item = &Value> {
    let listed = schema.get(IN_PLACE_LIST).and_then(Value::as_array).into_iter().flatten();
    let named = IN_PLACE_MAPS.iter().filter_map(|key| Some((*key, schema.get(*key)?.as_object()?)));
    let named = named.flat_map(|(key, map)| map.values().filter(move |item| !is_list_of_names(key, item)));
    let single = IN_PLACE.iter().filter_map(|key| schema.get(*key));
    listed.chain(named).chain(single)
}

/// Which kinds of keywords a schema has. Most have few, and to look for each that there is takes long.
#[derive(Clone, Copy)]
pub(super) struct Kinds {
    pub(super) always: bool,
    pub(super) alternatives: bool,
    pub(super) references: bool,
    pub(super) parts: bool,
    /// The schema compares a value with something that it lists or names.
    pub(super) compares: bool,
}

impl Kinds {
    const COMPARES: [&str; 9] = [
        "properties",
        "required",
        "enum",
        "const",
        "pattern",
        "patternProperties",
        "uniqueItems",
        "dependentRequired",
        "dependencies",
    ];

    /// A schema with more keywords may have all kinds.
    const KEYWORDS_MAX: usize = 16;

    pub(super) fn of(schema: &Value) -> Self {
        let has = |has| Self { always: has, alternatives: has, references: has, parts: has, compares: has };
        let Value::Object(fields) = schema else { return has(false) };
        if fields.len() > Self::KEYWORDS_MAX {
            return has(true);
        }
        fields.keys().fold(has(false), |kinds, key| kinds.with(key))
    }

    fn with(self, key: &str) -> Self {
        Self {
            always: self.always
                || key == IN_PLACE_LIST
                || IN_PLACE.contains(&key)
                || IN_PLACE_MAPS.contains(&key),
            alternatives: self.alternatives || ALTERNATIVES.contains(&key),
            references: self.references || REFERENCES.contains(&key),
            parts: self.parts
                || DESCENDS.contains(&key)
                || DESCENDS_MAPS.contains(&key)
                || key == "items"
                || key == "prefixItems",
            compares: self.compares || Self::COMPARES.contains(&key),
        }
    }
}

/// Whether `schema` itself says what becomes of parts that nothing else looks at. `true` says nothing.
pub(super) fn has_unevaluated(schema: &Value) -> bool {
    UNEVALUATED.iter().filter_map(|key| schema.get(*key)).any(|rest| *rest != Value::Bool(true))
}

/// The lists of field names in `schema` that a field's presence asks for, by that field.
pub(super) fn own_dependents(schema: &Value) -> impl Iterator<Item = (&String, &Vec<Value>)> {
    let maps = ["dependentRequired", "dependencies"].iter().filter_map(|key| schema.get(*key)?.as_object());
    maps.flatten().filter_map(|(field, names)| Some((field, names.as_array()?)))
}

/// Pointers in fragments may be percent-encoded.
pub(super) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// These schemas and all that apply to the same value with them, references followed, each once.
/// Where the budget is spent, some are missing.
pub(super) fn in_place<'a>(
    document: &'a Document,
    start: impl IntoIterator<Item = &'a Value>,
    budget: &Budget,
) -> Vec<&'a Value> {
    let mut seen = HashSet::new();
    let mut found: Vec<&Value> =
        start.into_iter().filter(|schema| seen.insert(std::ptr::from_ref(*schema))).collect();
    let mut next = 0;
    while next < found.len() && budget.spend(1) {
        let schema = found[next];
        next += 1;
        let more = own_in_place(schema).chain(document.targets(schema));
        found.extend(more.filter(|schema| seen.insert(std::ptr::from_ref(*schema))));
    }
    found
}

/// What `schema` itself, and none that it refers to, says of the field `key`.
///
/// Patterns are not matched: every one counts, so that what is asked of the answer ("may this be
/// secret?") errs on the safe side.
pub(super) fn own_field<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(key));
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    let patterns = patterns.into_iter().flat_map(|map| map.values());
    let others = ["additionalProperties", "unevaluatedProperties"].iter().filter_map(|k| schema.get(*k));
    let others = others.filter(move |_| named.is_none());
    named.into_iter().chain(patterns).chain(others)
}

/// What `schema` itself, and none that it refers to, says of the items of an array.
pub(super) fn own_items(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["prefixItems", "items"].iter().filter_map(|k| schema.get(*k).and_then(Value::as_array));
    let single = ["items", "additionalItems", "unevaluatedItems", "contains"]
        .iter()
        .filter_map(|k| schema.get(*k))
        .filter(|value| !value.is_array());
    lists.flatten().chain(single)
}

/// The way to a part of a value, step by step.
pub(super) struct Way<'a> {
    document: &'a Document,
    /// The schemas of the part that was reached; what else applies to it is not among them.
    pub(super) here: Vec<&'a Value>,
    /// What may be looked at on the way.
    pub(super) budget: Budget,
}

impl<'a> Way<'a> {
    pub(super) fn new(document: &'a Document) -> Self {
        Self { document, here: vec![document.json()], budget: Budget::new(PATH_LOOKS_MAX) }
    }

    /// All schemas that apply to the part that was reached.
    pub(super) fn all(&self) -> Vec<&'a Value> {
        in_place(self.document, self.here.iter().copied(), &self.budget)
    }

    /// Goes on to a field or an item, by a step of a JSON Pointer.
    pub(super) fn go(&mut self, step: &str) {
        let key = step.replace("~1", "/").replace("~0", "~");
        let is_index = key.parse::<usize>().is_ok();
        let all = self.all();
        let items = all.iter().filter(|_| is_index).flat_map(|schema| own_items(schema));
        self.here = all.iter().flat_map(|schema| own_field(schema, &key)).chain(items).collect();
    }
}

/// The way to the part of a value that `path` points to.
pub(super) fn at_path<'a>(document: &'a Document, path: &str) -> Way<'a> {
    let mut way = Way::new(document);
    path.split('/').skip(1).for_each(|step| way.go(step));
    way
}
