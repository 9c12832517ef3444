//! What a schema must satisfy before it is compiled: bounded, closed, and finite to evaluate.

use std::collections::HashMap;

use serde_json::Value;

use super::graph::{Edge, REFERENCES, children, target, targets};
use crate::definition::Problem;
use crate::json::{JsonLimits, check as check_json};

const LIMITS: JsonLimits = JsonLimits { bytes: 1 << 20, values: 50_000, depth: 100 };

/// Most sub-schemas that validating one value may visit, with references expanded. An
/// exponential pile of references passes this after a few levels.
const EXPANDED_MAX: u64 = 100_000;

/// What the check learned on the way.
pub(super) struct Checked {
    pub(super) recursive: bool,
    pub(super) has_secrets: bool,
}

pub(super) fn problem(at: &str, message: impl Into<String>) -> Problem {
    Problem { at: at.to_owned(), message: message.into() }
}

pub(super) fn check(root: &Value) -> Result<Checked, Vec<Problem>> {
    check_json(root, LIMITS).map_err(|error| vec![problem("", error.to_string())])?;
    let mut walk = Walk { root, problems: Vec::new(), has_secrets: false };
    walk.visit(root, "");
    let has_secrets = walk.has_secrets;
    if !walk.problems.is_empty() {
        return Err(walk.problems);
    }
    refuse_endless(root)?;
    let mut expansion = Expansion { root, sizes: HashMap::new(), recursive: false };
    if expansion.size(root) > EXPANDED_MAX {
        return Err(vec![problem(
            "",
            format!(
                "with its references expanded it has more than {EXPANDED_MAX} parts; flatten nested references"
            ),
        )]);
    }
    Ok(Checked { recursive: expansion.recursive, has_secrets })
}

struct Walk<'a> {
    root: &'a Value,
    problems: Vec<Problem>,
    has_secrets: bool,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, schema: &'a Value, at: &str) {
        if !schema.is_object() && !schema.is_boolean() {
            self.problems.push(problem(at, "a schema must be an object or a boolean"));
            return;
        }
        for key in REFERENCES {
            if let Some(reference) = schema.get(key) {
                self.reference(reference, &format!("{at}/{key}"));
            }
        }
        if !at.is_empty() && schema.get("$id").is_some() {
            self.problems.push(problem(
                at,
                "a nested `$id` changes what references mean; remove it and refer by `#/$defs/…`",
            ));
        }
        self.has_secrets |= super::redact::marks_secret(schema);
        for (_, path, child) in children(schema) {
            self.visit(child, &format!("{at}{path}"));
        }
    }

    fn reference(&mut self, reference: &Value, at: &str) {
        let Some(text) = reference.as_str() else {
            self.problems.push(problem(at, "a reference must be a string"));
            return;
        };
        if !text.starts_with('#') {
            self.problems.push(problem(
                at,
                format!(
                    "`{text}` points outside the schema, and nothing is fetched; copy the part under `$defs` and refer to it as `#/$defs/…`"
                ),
            ));
        } else if target(self.root, text).is_none() {
            self.problems.push(problem(at, format!("`{text}` points to nothing")));
        }
    }
}

/// Refuses a schema that refers to itself for the same value: evaluating it would never end.
fn refuse_endless(root: &Value) -> Result<(), Vec<Problem>> {
    let mut finished = HashMap::new();
    let mut queue = vec![(root, String::new())];
    while let Some((schema, at)) = queue.pop() {
        if endless(root, schema, &mut finished) {
            return Err(vec![problem(&at, "it refers to itself without ever descending into the value")]);
        }
        queue.extend(children(schema).into_iter().map(|(_, path, child)| (child, format!("{at}{path}"))));
    }
    Ok(())
}

/// Depth-first over in-place edges alone; `finished` holds false while a schema is being visited.
fn endless(root: &Value, schema: &Value, finished: &mut HashMap<*const Value, bool>) -> bool {
    match finished.insert(schema, false) {
        Some(false) => return true,
        Some(true) => {
            finished.insert(schema, true);
            return false;
        }
        None => {}
    }
    let nested =
        children(schema).into_iter().filter(|(edge, _, _)| *edge == Edge::InPlace).map(|(_, _, child)| child);
    let found = nested.chain(targets(root, schema)).any(|child| endless(root, child, finished));
    finished.insert(schema, true);
    found
}

struct Expansion<'a> {
    root: &'a Value,
    /// `None` while a schema is being expanded: meeting it again means recursion.
    sizes: HashMap<*const Value, Option<u64>>,
    recursive: bool,
}

impl<'a> Expansion<'a> {
    fn size(&mut self, schema: &'a Value) -> u64 {
        match self.sizes.get(&std::ptr::from_ref(schema)) {
            Some(Some(size)) => return *size,
            Some(None) => {
                self.recursive = true;
                return 1;
            }
            None => {}
        }
        self.sizes.insert(schema, None);
        let nested = children(schema)
            .into_iter()
            .filter(|(edge, _, _)| *edge != Edge::Defines)
            .map(|(_, _, child)| child);
        let parts: Vec<_> = nested.chain(targets(self.root, schema)).collect();
        let size = parts.into_iter().fold(1u64, |sum, child| sum.saturating_add(self.size(child)));
        self.sizes.insert(schema, Some(size));
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(schema: Value) -> String {
        match check(&schema) {
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
        assert!(check(&tree).is_ok_and(|checked| checked.recursive));
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
