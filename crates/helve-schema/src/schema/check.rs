//! What a schema must satisfy before it is compiled: bounded, closed, and finite to evaluate.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::graph::{
    Document, Edge, PATH_BYTES_MAX, REFERENCES, children, has_unevaluated, paths_too_long, percent_decode,
};
use crate::json::{JsonLimits, check as check_json};
use crate::problem::Problem;

const LIMITS: JsonLimits = JsonLimits { bytes: 1 << 20, values: 50_000, depth: 100 };

/// Most sub-schemas that validating one value may visit, with references expanded. An
/// exponential pile of references passes this after a few levels.
const EXPANDED_MAX: u64 = 100_000;

/// Most levels that sub-schemas can stand within each other, with references followed. Each takes room
/// on the stack whenever a value is checked. Where the schema refers to itself, that is counted for the value.
const LEVELS_MAX: usize = 1_000;

/// Most levels that following every reference once could take, whatever the order. Real APIs whose
/// models refer to each other in circles have some thousands.
const LEVELS_EVER_MAX: usize = 8_000;

/// Longest reference. It is read anew at every visit.
const REFERENCE_BYTES_MAX: usize = 1_000;

/// Most problems that are listed.
const PROBLEMS_MAX: usize = 24;

/// What was seen of a schema before its references are followed.
pub(super) struct Looked {
    document: Document,
    has_secrets: bool,
    /// Where schemas stand that only references lead to, as JSON Pointers, and the whole.
    roots: Vec<String>,
    /// Where `$schema` stands.
    dialects: Vec<String>,
    /// How deep following its references can go.
    pub(super) levels: usize,
}

/// What the check learned on the way.
pub(super) struct Checked {
    pub(super) document: Document,
    pub(super) recursive: bool,
    pub(super) has_secrets: bool,
    /// The schemas that say which draft they are written for.
    pub(super) dialects: Vec<String>,
    /// How much there is to do for one value at most, unless the schema is recursive or has a pattern that is
    /// matched by trying.
    pub(super) work: Option<u64>,
}

pub(super) fn problem(at: &str, message: impl Into<String>) -> Problem {
    Problem { at: at.to_owned(), message: message.into() }
}

/// Looks at each part where it stands. Needs little of the stack.
pub(super) fn look(json: Value) -> Result<Looked, Vec<Problem>> {
    check_json(&json, LIMITS).map_err(|error| vec![problem("", error.to_string())])?;
    let document = Document::of(json).map_err(|problem| vec![problem])?;
    look_around(document)
}

/// Follows its references. May go [`Looked::levels`] deep.
pub(super) fn follow(looked: Looked) -> Result<Checked, Vec<Problem>> {
    let Looked { document, has_secrets, roots, dialects, .. } = looked;
    refuse_endless(&document, &roots)?;
    let mut expansion = Expansion::new(&document, Through::All);
    let Expanded { check, levels, .. } = expansion.of(document.json());
    let recursive = expansion.recursive;
    if !recursive && levels > LEVELS_MAX {
        return Err(vec![too_deep(LEVELS_MAX)]);
    }
    if check.parts > EXPANDED_MAX {
        return Err(vec![too_many_parts("")]);
    }
    let work = (!recursive && !document.patterns().are_tried()).then_some(check.work);
    Ok(Checked { document, recursive, has_secrets, dialects, work })
}

fn too_many_parts(at: &str) -> Problem {
    problem(
        at,
        format!(
            "with its references expanded it has more than {EXPANDED_MAX} parts; flatten nested references, and say `unevaluatedProperties` only once"
        ),
    )
}

fn too_deep(most: usize) -> Problem {
    problem(
        "",
        format!(
            "its references lead more than {most} levels deep, one after the other; write the parts where they are used"
        ),
    )
}

/// Looks at every sub-schema where it stands.
fn look_around(document: Document) -> Result<Looked, Vec<Problem>> {
    let whole = document.json();
    let mut walk = Walk {
        document: &document,
        at: String::new(),
        path_bytes: 0,
        problems: Vec::new(),
        has_secrets: false,
        heights: HashMap::new(),
        targets: HashSet::from([std::ptr::from_ref(whole)]),
        queue: vec![(whole, String::new())],
        dialects: Vec::new(),
    };
    let roots = walk.visit_all();
    if !walk.problems.is_empty() {
        return Err(walk.problems);
    }
    // Following references meets each target once on a way, and goes down from there. The sum
    // bounds every way, in whatever order references are followed.
    let levels: usize = walk.targets.iter().filter_map(|target| walk.heights.get(target)).sum();
    if levels > LEVELS_EVER_MAX {
        return Err(vec![too_deep(LEVELS_EVER_MAX)]);
    }
    let Walk { has_secrets, dialects, .. } = walk;
    Ok(Looked { document, has_secrets, roots, dialects, levels })
}

struct Walk<'a> {
    document: &'a Document,
    /// Where it is.
    at: String,
    /// What the paths to all schemas take.
    path_bytes: usize,
    problems: Vec<Problem>,
    has_secrets: bool,
    /// How many levels stand below each schema.
    heights: HashMap<*const Value, usize>,
    /// What references point to, and the whole.
    targets: HashSet<*const Value>,
    /// The same, as far as it is still to be visited: a reference may lead where no keyword does.
    queue: Vec<(&'a Value, String)>,
    /// Where `$schema` stands.
    dialects: Vec<String>,
}

impl<'a> Walk<'a> {
    /// Visits the whole and all that references lead to. Tells where it began anew.
    fn visit_all(&mut self) -> Vec<String> {
        let mut roots = Vec::new();
        while let Some((schema, at)) = self.queue.pop() {
            if !self.heights.contains_key(&std::ptr::from_ref(schema)) {
                self.at.clone_from(&at);
                self.visit(schema);
                roots.push(at);
            }
        }
        roots
    }

    fn visit(&mut self, schema: &'a Value) -> usize {
        if let Some(height) = self.heights.get(&std::ptr::from_ref(schema)) {
            return *height;
        }
        if self.problems.len() >= PROBLEMS_MAX {
            return 0;
        }
        self.path_bytes += self.at.len();
        if self.path_bytes > PATH_BYTES_MAX {
            self.problems = vec![paths_too_long()];
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
        if schema.get("$schema").is_some_and(Value::is_string) {
            self.dialects.push(self.at.clone());
        }
        self.problems.extend(self.document.patterns().immeasurable(schema, &self.at).take(PROBLEMS_MAX));
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
            Some(text) => match self.document.target(text) {
                Some(target) => Ok((target, text)),
                None => Err(problem(format!("`{text}` points to nothing"))),
            },
        };
        match found {
            Ok((target, text)) if self.targets.insert(target) => {
                // An anchor is only found where keywords lead.
                let at = percent_decode(text.trim_start_matches('#'));
                self.queue.push((target, at));
            }
            Ok(_) => {}
            Err(problem) => self.problems.push(problem),
        }
    }
}

/// Refuses a schema that refers to itself for the same value: evaluating it would never end. One that
/// goes through very much for the same value is refused too: it does so wherever it is met.
fn refuse_endless(document: &Document, roots: &[String]) -> Result<(), Vec<Problem>> {
    let mut expansion = Expansion::new(document, Through::InPlace);
    let roots = roots.iter().filter_map(|at| Some((document.json().pointer(at)?, at.clone())));
    let mut queue: Vec<_> = roots.collect();
    let mut seen = HashSet::new();
    while let Some((schema, at)) = queue.pop() {
        if !seen.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        let expanded = expansion.of(schema);
        if expansion.recursive {
            return Err(vec![problem(&at, "it refers to itself without ever descending into the value")]);
        }
        if expanded.check.parts > EXPANDED_MAX {
            return Err(vec![too_many_parts(&at)]);
        }
        queue.extend(
            children(schema).into_iter().map(|child| (child.schema, format!("{at}{}", child.path()))),
        );
    }
    Ok(())
}

/// How far a schema is expanded.
#[derive(Clone, Copy, PartialEq)]
enum Through {
    /// As far as the same value goes. What stands there for its parts counts as it is written.
    InPlace,
    /// To the end.
    All,
}

/// Expands schemas as the validator goes through them.
struct Expansion<'a> {
    document: &'a Document,
    through: Through,
    /// `None` while a schema is being expanded: meeting it again means recursion.
    known: HashMap<*const Value, Option<Expanded>>,
    /// How many sub-schemas are written in each that stands for a part of the value.
    written: HashMap<*const Value, u64>,
    recursive: bool,
}

/// A schema with its references expanded.
#[derive(Clone, Copy)]
struct Expanded {
    /// To check a value.
    check: Effort,
    /// To find out which parts of it were looked at, as `unevaluatedProperties` wants to know.
    mark: Effort,
    /// How many sub-schemas stand within each other.
    levels: usize,
}

/// How much there is to do for one value.
#[derive(Clone, Copy)]
struct Effort {
    /// Sub-schemas that are gone through.
    parts: u64,
    /// The same, with all that each of them compares.
    work: u64,
}

impl Effort {
    const ONE: Self = Self { parts: 1, work: 1 };

    fn add(&mut self, other: Self) {
        self.parts = self.parts.saturating_add(other.parts);
        self.work = self.work.saturating_add(other.work);
    }
}

impl<'a> Expansion<'a> {
    fn new(document: &'a Document, through: Through) -> Self {
        Self { document, through, known: HashMap::new(), written: HashMap::new(), recursive: false }
    }

    fn of(&mut self, schema: &'a Value) -> Expanded {
        match self.known.get(&std::ptr::from_ref(schema)) {
            Some(Some(expanded)) => return *expanded,
            Some(None) => {
                self.recursive = true;
                return Expanded { check: Effort::ONE, mark: Effort::ONE, levels: 1 };
            }
            None => {}
        }
        self.known.insert(schema, None);
        let breadth = super::cost::breadth(self.document, schema) as u64;
        let own = Effort { parts: 1, work: breadth.saturating_add(1) };
        let mut expanded = Expanded { check: own, mark: own, levels: 1 };
        for child in children(schema) {
            match child.edge {
                Edge::InPlace | Edge::Alternative => {
                    let below = self.of(child.schema);
                    expanded.stand_on(below);
                    expanded.mark.add(below.check);
                    expanded.mark.add(below.mark);
                }
                Edge::Descends => {
                    let below = self.of_part(child.schema);
                    expanded.stand_on(below);
                    if child.marks_parts() {
                        expanded.mark.add(below.check);
                    }
                }
                Edge::Defines => {}
            }
        }
        let document = self.document;
        for target in document.targets(schema) {
            let below = self.of(target);
            expanded.stand_on(below);
            expanded.mark.add(below.mark);
        }
        if has_unevaluated(schema) {
            expanded.check.add(expanded.mark);
        }
        self.known.insert(schema, Some(expanded));
        expanded
    }

    /// A schema that stands for a part of the value.
    fn of_part(&mut self, schema: &'a Value) -> Expanded {
        if self.through == Through::All {
            return self.of(schema);
        }
        let parts = self.written_in(schema);
        Expanded { check: Effort { parts, work: parts }, mark: Effort::ONE, levels: 1 }
    }

    fn written_in(&mut self, schema: &'a Value) -> u64 {
        if let Some(count) = self.written.get(&std::ptr::from_ref(schema)) {
            return *count;
        }
        let below = children(schema).into_iter().filter(|child| child.edge != Edge::Defines);
        let count = 1 + below.map(|child| self.written_in(child.schema)).sum::<u64>();
        self.written.insert(schema, count);
        count
    }
}

impl Expanded {
    /// Adds what is gone through whenever this schema is.
    fn stand_on(&mut self, below: Self) {
        self.check.add(below.check);
        self.levels = self.levels.max(below.levels + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(schema: Value) -> String {
        match look(schema).and_then(follow) {
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
        assert!(look(tree).and_then(follow).is_ok_and(|checked| checked.recursive));
    }

    #[test]
    fn many_models_that_refer_to_each_other_are_fine() {
        use super::super::Schema;
        let model = |n: usize| {
            let next = json!({ "$ref": format!("#/$defs/m{}", (n + 1) % 700) });
            json!({ "type": "object", "properties": {
                "name": { "type": "string" },
                "list": { "type": "object", "properties": {
                    "data": { "type": "array", "items": { "anyOf": [{ "type": "string" }, next] } } } } } })
        };
        let models: serde_json::Map<_, _> = (0..700).map(|n| (format!("m{n}"), model(n))).collect();
        let schema = Schema::compile(json!({ "$ref": "#/$defs/m0", "$defs": models })).unwrap();
        assert!(schema.accepts(&json!({ "list": { "data": ["x", { "name": "y" }] } })));
        assert!(
            schema
                .validate(&json!({ "list": { "data": [{ "list": { "data": [{ "name": 5 }] } }] } }))
                .is_err()
        );
    }

    #[test]
    fn a_circle_of_thousands_of_references_takes_no_stack_that_is_not_there() {
        use super::super::Schema;
        let link = |n: usize| match n {
            7_900 => json!({ "type": "object", "properties": { "again": { "$ref": "#" } } }),
            _ => json!({ "$ref": format!("#/$defs/d{}", n + 1) }),
        };
        let links: serde_json::Map<_, _> = (0..=7_900).map(|n| (format!("d{n}"), link(n))).collect();
        let schema =
            Schema::compile(json!({ "type": "object", "$ref": "#/$defs/d0", "$defs": links })).unwrap();
        let errors = schema.validate(&json!({ "again": { "again": {} } })).unwrap_err();
        assert!(errors[0].message.contains("too deeply nested"), "{errors:?}");
        drop(schema);
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
