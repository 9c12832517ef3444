//! What a schema must satisfy before it is compiled: bounded, closed, and finite to evaluate.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::graph::{Document, Edge, REFERENCES, children, own_in_place};
use crate::definition::Problem;
use crate::json::{JsonLimits, check as check_json};

const LIMITS: JsonLimits = JsonLimits { bytes: 1 << 20, values: 50_000, depth: 100 };

/// Most sub-schemas that validating one value may visit, with references expanded. An
/// exponential pile of references passes this after a few levels.
const EXPANDED_MAX: u64 = 100_000;

/// Most levels that sub-schemas can stand within each other, with references followed. Each takes room
/// on the stack.
const LEVELS_MAX: usize = 1_000;

/// Longest reference. It is read anew at every visit.
const REFERENCE_BYTES_MAX: usize = 1_000;

/// Most problems that are listed.
const PROBLEMS_MAX: usize = 24;

/// What the check learned on the way.
pub(super) struct Checked {
    pub(super) document: Document,
    pub(super) recursive: bool,
    pub(super) has_secrets: bool,
    /// How much there is to do for one value at most, unless the schema is recursive.
    pub(super) work: u64,
}

pub(super) fn problem(at: &str, message: impl Into<String>) -> Problem {
    Problem { at: at.to_owned(), message: message.into() }
}

pub(super) fn check(json: Value) -> Result<Checked, Vec<Problem>> {
    check_json(&json, LIMITS).map_err(|error| vec![problem("", error.to_string())])?;
    let document = Document::of(json).map_err(|problem| vec![problem])?;
    let has_secrets = look_around(&document)?;
    refuse_endless(&document)?;
    let mut expansion = Expansion { document: &document, known: HashMap::new(), recursive: false };
    let Expanded { size, work } = expansion.of(document.json());
    let recursive = expansion.recursive;
    if size > EXPANDED_MAX {
        return Err(vec![problem(
            "",
            format!(
                "with its references expanded it has more than {EXPANDED_MAX} parts; flatten nested references"
            ),
        )]);
    }
    Ok(Checked { document, recursive, has_secrets, work })
}

/// Looks at every sub-schema where it stands, and says whether any marks a secret.
fn look_around(document: &Document) -> Result<bool, Vec<Problem>> {
    let mut walk = Walk {
        document,
        at: String::new(),
        problems: Vec::new(),
        has_secrets: false,
        heights: HashMap::new(),
        targets: HashSet::from([std::ptr::from_ref(document.json())]),
    };
    walk.visit(document.json());
    if !walk.problems.is_empty() {
        return Err(walk.problems);
    }
    // Whoever follows references meets each target once on a way, and goes down from there. The sum
    // bounds every way, in whatever order references are followed.
    let levels: usize = walk.targets.iter().filter_map(|target| walk.heights.get(target)).sum();
    if levels > LEVELS_MAX {
        let message = format!(
            "its references lead more than {LEVELS_MAX} levels deep, one after the other; write the parts where they are used"
        );
        return Err(vec![problem("", message)]);
    }
    Ok(walk.has_secrets)
}

struct Walk<'a> {
    document: &'a Document,
    /// Where it is.
    at: String,
    problems: Vec<Problem>,
    has_secrets: bool,
    /// How many levels stand below each schema.
    heights: HashMap<*const Value, usize>,
    /// What references point to, and the whole.
    targets: HashSet<*const Value>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, schema: &'a Value) -> usize {
        if self.problems.len() >= PROBLEMS_MAX {
            return 0;
        }
        if !schema.is_object() && !schema.is_boolean() {
            self.problems.push(problem(&self.at, "a schema must be an object or a boolean"));
            return 0;
        }
        for key in REFERENCES {
            if let Some(reference) = schema.get(key) {
                self.reference(key, reference);
            }
        }
        if !self.at.is_empty() && schema.get("$id").is_some() {
            self.problems.push(problem(
                &self.at,
                "a nested `$id` changes what references mean; remove it and refer by `#/$defs/…`",
            ));
        }
        self.has_secrets |= super::redact::marks_secret(schema);
        let mut height = 1;
        for child in children(schema) {
            let here = self.at.len();
            self.at.push_str(&child.path());
            let below = self.visit(child.schema);
            self.at.truncate(here);
            // A definition stands below nobody: it is where a reference leads.
            if child.edge != Edge::Defines {
                height = height.max(below + 1);
            }
        }
        self.heights.insert(schema, height);
        height
    }

    fn reference(&mut self, key: &str, reference: &'a Value) {
        let problem = |message: String| problem(&format!("{}/{key}", self.at), message);
        let found = match reference.as_str() {
            None => Err(problem("a reference must be a string".to_owned())),
            Some(text) if text.len() > REFERENCE_BYTES_MAX => {
                Err(problem(format!("a reference must not be longer than {REFERENCE_BYTES_MAX} bytes")))
            }
            Some(text) if !text.starts_with('#') => Err(problem(format!(
                "`{text}` points outside the schema, and nothing is fetched; copy the part under `$defs` and refer to it as `#/$defs/…`"
            ))),
            Some(text) => {
                self.document.target(text).ok_or_else(|| problem(format!("`{text}` points to nothing")))
            }
        };
        match found {
            Ok(target) => drop(self.targets.insert(target)),
            Err(problem) => self.problems.push(problem),
        }
    }
}

/// Refuses a schema that refers to itself for the same value: evaluating it would never end.
fn refuse_endless(document: &Document) -> Result<(), Vec<Problem>> {
    let mut finished = HashMap::new();
    let mut queue = vec![(document.json(), String::new())];
    while let Some((schema, at)) = queue.pop() {
        if endless(document, schema, &mut finished) {
            return Err(vec![problem(&at, "it refers to itself without ever descending into the value")]);
        }
        queue.extend(
            children(schema).into_iter().map(|child| (child.schema, format!("{at}{}", child.path()))),
        );
    }
    Ok(())
}

/// Depth-first over in-place edges alone; `finished` holds false while a schema is being visited.
fn endless(document: &Document, schema: &Value, finished: &mut HashMap<*const Value, bool>) -> bool {
    match finished.insert(schema, false) {
        Some(false) => return true,
        Some(true) => {
            finished.insert(schema, true);
            return false;
        }
        None => {}
    }
    let mut below = own_in_place(schema).chain(document.targets(schema));
    let found = below.any(|child| endless(document, child, finished));
    finished.insert(schema, true);
    found
}

struct Expansion<'a> {
    document: &'a Document,
    /// `None` while a schema is being expanded: meeting it again means recursion.
    known: HashMap<*const Value, Option<Expanded>>,
    recursive: bool,
}

/// A schema with its references expanded.
#[derive(Clone, Copy)]
struct Expanded {
    /// How many sub-schemas it has.
    size: u64,
    /// The same, with all that each of them compares.
    work: u64,
}

impl<'a> Expansion<'a> {
    fn of(&mut self, schema: &'a Value) -> Expanded {
        match self.known.get(&std::ptr::from_ref(schema)) {
            Some(Some(expanded)) => return *expanded,
            Some(None) => {
                self.recursive = true;
                return Expanded { size: 1, work: 1 };
            }
            None => {}
        }
        self.known.insert(schema, None);
        let mut expanded = Expanded { size: 1, work: 1 + super::cost::width(schema) as u64 };
        let nested = children(schema).into_iter().filter(|child| child.edge != Edge::Defines);
        let document = self.document;
        for child in nested.map(|child| child.schema).chain(document.targets(schema)) {
            let below = self.of(child);
            expanded.size = expanded.size.saturating_add(below.size);
            expanded.work = expanded.work.saturating_add(below.work);
        }
        self.known.insert(schema, Some(expanded));
        expanded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(schema: Value) -> String {
        match check(schema) {
            Ok(_) => "accepted".to_owned(),
            Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        }
    }

    #[test]
    fn references_outside_are_refused_where_they_stand() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "$ref": "https://example.com/a.json" },
            "b": { "items": { "$ref": "file:///etc/passwd" } },
            "c": { "$ref": "#/$defs/missing" },
        }});
        let text = refusal(schema);
        assert!(text.contains("/properties/a/$ref: `https://example.com/a.json` points outside"), "{text}");
        assert!(text.contains("/properties/b/items/$ref"), "{text}");
        assert!(text.contains("points to nothing"), "{text}");
    }

    #[test]
    fn a_field_called_like_a_keyword_is_only_a_field() {
        let schema = json!({ "type": "object", "properties": {
            "$ref": { "type": "string" }, "$id": { "type": "string" }, "allOf": { "type": "string" },
        }});
        assert_eq!(refusal(schema), "accepted");
    }

    #[test]
    fn endless_references_are_refused_and_honest_recursion_is_not() {
        let endless = json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "anyOf": [{ "$ref": "#/$defs/a" }] } },
            "properties": { "x": { "$ref": "#/$defs/a" } } });
        assert!(refusal(endless).contains("without ever descending"));
        // The in-place loop hides behind a path that descends.
        let hidden = json!({ "properties": { "x": { "$ref": "#/$defs/x" } }, "allOf": [{ "$ref": "#/$defs/x" }],
            "$defs": { "x": { "not": { "$ref": "#" } } } });
        assert!(refusal(hidden).contains("without ever descending"));
        let tree = json!({ "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#" } } } });
        assert!(check(tree).is_ok_and(|checked| checked.recursive));
    }

    #[test]
    fn exponential_references_are_refused() {
        let mut defs = serde_json::Map::new();
        for level in 0..40 {
            let next = format!("#/$defs/l{}", level + 1);
            defs.insert(format!("l{level}"), json!({ "allOf": [{ "$ref": next }, { "$ref": next }] }));
        }
        defs.insert("l40".to_owned(), json!({ "type": "object" }));
        assert!(refusal(json!({ "$ref": "#/$defs/l0", "$defs": defs })).contains("more than 100000 parts"));
    }

    #[test]
    fn deep_and_huge_schemas_are_refused() {
        let mut deep = json!({ "type": "string" });
        for _ in 0..200 {
            deep = json!({ "not": deep });
        }
        assert!(refusal(deep).contains("deeper than"));
        assert!(refusal(json!({ "description": "x".repeat(2 << 20) })).contains("larger than"));
        assert!(refusal(json!({ "properties": { "a": 7 } })).contains("must be an object or a boolean"));
    }
}
