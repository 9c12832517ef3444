//! Patterns: which of them are matched, and how much work they make of texts.
//!
//! Those that are matched go through a text once, so that a value takes no longer than its texts are. Patterns that look
//! around or back have to be tried at every place in many ways; a schema of ours has none, and of a stranger's they
//! are left out ([`leave_out_unmatched`](super::leave_out_unmatched)).

use std::collections::HashMap;

use jsonschema::{PatternOptions, ValidationOptions};
use serde_json::Value;

use super::check::problem;
use crate::json::escape_pointer;
use crate::problem::Problem;
use crate::regexp;

/// How many steps of a pattern are as much work as one value without any. At the limits of [`super::cost`] the
/// worst pattern takes about a second; most take a hundredth of that.
const STEPS_A_LOOK: usize = 16;

/// No pattern takes fewer steps for a byte than this.
const STEPS_MIN: usize = 2;

/// Most memory that a pattern may take compiled, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// The patterns of a schema: how many steps each takes for a byte, as the validator reads it. None where it is not
/// matched.
pub(super) struct Patterns(HashMap<String, Option<usize>>);

/// What the validator matches patterns with: an engine that takes as long as the text is, whatever the pattern.
pub(super) fn with_engine(options: ValidationOptions<'static>) -> ValidationOptions<'static> {
    options.with_pattern_options(PatternOptions::regex().size_limit(COMPILED_BYTES_MAX))
}

/// Whether a pattern is one that is not matched. One that is none at all is left to the validator, which says so.
pub(super) fn is_unmatched(pattern: &str) -> bool {
    jsonschema_regex::to_rust_regex(pattern).is_ok_and(|translated| regexp::looks_around(&translated))
}

fn steps(pattern: &str) -> Option<usize> {
    if is_unmatched(pattern) {
        return None;
    }
    // Of what is no pattern there are no steps: such a schema is refused.
    let translated = jsonschema_regex::to_rust_regex(pattern).ok();
    let steps = translated.and_then(|translated| regexp::steps(&translated)).unwrap_or_default();
    Some(usize::try_from(steps).unwrap_or(usize::MAX).max(STEPS_MIN))
}

impl Patterns {
    /// Those anywhere in a schema: a reference may lead to where no keyword does.
    pub(super) fn of(schema: &Value) -> Self {
        let (mut known, mut queue) = (HashMap::new(), vec![schema]);
        while let Some(value) = queue.pop() {
            match value {
                Value::Array(items) => queue.extend(items),
                Value::Object(fields) => {
                    for pattern in own(value).chain(of_names(value)) {
                        if !known.contains_key(pattern) {
                            known.insert(pattern.to_owned(), steps(pattern));
                        }
                    }
                    queue.extend(fields.values());
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        Self(known)
    }

    /// Those of a schema itself, which stands at `at`, that are not matched.
    pub(super) fn unmatched(&self, schema: &Value, at: &str) -> impl Iterator<Item = Problem> {
        let says = |place: String| {
            problem(
                &place,
                "patterns that look around or back (`(?=…)`, `(?<!…)`, `\\1`) are not matched here, because nobody knows \
                 how long that takes; write it without, or check it in the tool",
            )
        };
        let is_one = |pattern: &&str| self.0.get(*pattern) == Some(&None);
        let own = own(schema).filter(is_one).map(move |_| format!("{at}/pattern"));
        let names = of_names(schema).filter(is_one);
        let names = names.map(move |name| format!("{at}/patternProperties/{}", escape_pointer(name)));
        own.chain(names).map(says)
    }

    /// How much work a schema's own pattern makes of a text.
    pub(super) fn looks(&self, schema: &Value, bytes: usize) -> usize {
        own(schema).map(|pattern| self.looks_of(pattern, bytes)).sum()
    }

    /// How much its patterns of names make of a name.
    pub(super) fn looks_at_name(&self, schema: &Value, bytes: usize) -> usize {
        of_names(schema)
            .map(|pattern| self.looks_of(pattern, bytes).saturating_add(1))
            .fold(0, usize::saturating_add)
    }

    /// How much both make of as many bytes, of whatever texts these are.
    pub(super) fn most_looks(&self, schema: &Value, bytes: usize) -> usize {
        let looks = own(schema).chain(of_names(schema)).map(|pattern| self.looks_of(pattern, bytes));
        looks.fold(0, usize::saturating_add)
    }

    fn looks_of(&self, pattern: &str, bytes: usize) -> usize {
        let steps = self.0.get(pattern).copied().flatten().unwrap_or_default();
        steps.saturating_mul(bytes) / STEPS_A_LOOK
    }
}

fn own(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("pattern").and_then(Value::as_str).into_iter()
}

fn of_names(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.get("patternProperties").and_then(Value::as_object);
    names.into_iter().flat_map(|names| names.keys().map(String::as_str))
}
