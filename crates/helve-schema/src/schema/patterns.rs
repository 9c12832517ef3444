//! How much work patterns make of texts, and what matches them.

use std::collections::HashMap;

use jsonschema::{PatternOptions, ValidationOptions};
use serde_json::Value;

use super::check::problem;
use super::trying::{ATTEMPTS_MAX, COMPILED_BYTES_MAX, Read, Tried, Unread};
use crate::json::escape_pointer;
use crate::problem::Problem;

/// How many steps of a pattern are as much work as one value without any. At the limits of [`super::cost`] the
/// worst pattern takes about a second, or three where it is tried; most take a hundredth of that.
const STEPS_A_LOOK: usize = 16;

/// No pattern takes fewer steps for a byte than this.
const STEPS_MIN: usize = 2;

/// The patterns of a schema.
pub(super) struct Patterns {
    known: HashMap<String, Pattern>,
    /// Some are matched by trying, and then the validator does so with all that its other engine does not know.
    are_tried: bool,
}

enum Pattern {
    /// It goes through a text once, and takes so many steps for a byte.
    OnePass(usize),
    Tried(Tried),
    Immeasurable,
}

impl Pattern {
    fn of(read: Result<Read, Unread>, are_tried: bool) -> Self {
        match read {
            Ok(read) if are_tried && read.may_be_tried() => Self::Tried(read.tried()),
            Ok(read) => Self::OnePass(read.steps()),
            Err(Unread::NoPattern) => Self::OnePass(0),
            Err(Unread::Immeasurable) => Self::Immeasurable,
        }
    }

    fn steps_for_byte_of(&self, bytes: usize) -> usize {
        match self {
            Self::OnePass(steps) => (*steps).max(STEPS_MIN),
            Self::Tried(tried) => tried.steps_for_byte_of(bytes),
            Self::Immeasurable => usize::MAX,
        }
    }

    fn looks(&self, bytes: usize) -> usize {
        self.steps_for_byte_of(bytes).saturating_mul(bytes) / STEPS_A_LOOK
    }
}

impl Patterns {
    /// Those anywhere in a schema: a reference may lead to where no keyword does.
    pub(super) fn of(schema: &Value) -> Self {
        let (mut read, mut queue) = (HashMap::new(), vec![schema]);
        while let Some(value) = queue.pop() {
            match value {
                Value::Array(items) => queue.extend(items),
                Value::Object(fields) => {
                    for pattern in own(value).chain(of_names(value)) {
                        if !read.contains_key(pattern) {
                            read.insert(pattern, Read::of(pattern));
                        }
                    }
                    queue.extend(fields.values());
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let are_tried = read.values().any(|read| read.as_ref().is_ok_and(Read::must_be_tried));
        let known = read.into_iter().map(|(text, read)| (text.to_owned(), Pattern::of(read, are_tried)));
        Self { known: known.collect(), are_tried }
    }

    /// Those of a schema itself, which stands at `at`, of which cannot be told how long they take.
    pub(super) fn immeasurable(&self, schema: &Value, at: &str) -> impl Iterator<Item = Problem> {
        let says = |place: String| {
            problem(
                &place,
                "how long this pattern takes cannot be told; in addition to what most engines know, only look-around and \
                 references back (`\\1`, `\\k<name>`) can be used, at most 100 of them",
            )
        };
        let is_one = |pattern: &&str| matches!(self.known.get(*pattern), Some(Pattern::Immeasurable));
        let own = own(schema).filter(is_one).map(move |_| format!("{at}/pattern"));
        let names = of_names(schema).filter(is_one);
        let names = names.map(move |name| format!("{at}/patternProperties/{}", escape_pointer(name)));
        own.chain(names).map(says)
    }

    /// What the validator matches them with. One pass takes as long as the text is, whatever the pattern; what is
    /// tried may take as long for every byte of it, so that is only for schemas that need it.
    pub(super) fn choose_engine(&self, options: ValidationOptions<'static>) -> ValidationOptions<'static> {
        if !self.are_tried {
            return options.with_pattern_options(PatternOptions::regex().size_limit(COMPILED_BYTES_MAX));
        }
        let tries = PatternOptions::fancy_regex().backtrack_limit(ATTEMPTS_MAX);
        options.with_pattern_options(tries.size_limit(COMPILED_BYTES_MAX))
    }

    /// Whether some are matched by trying.
    pub(super) fn are_tried(&self) -> bool {
        self.are_tried
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

    /// How much both make of as many bytes, of whatever texts these are, where none is tried.
    pub(super) fn most_looks(&self, schema: &Value, bytes: usize) -> usize {
        let looks = own(schema).chain(of_names(schema)).map(|pattern| self.looks_of(pattern, bytes));
        looks.fold(0, usize::saturating_add)
    }

    /// Whether a schema's own patterns come to an end with a value. They are run for that, since of what is tried
    /// nobody can tell before. The validator would begin anew for every way in which one that does not end
    /// might have ended.
    pub(super) fn come_to_an_end(&self, schema: &Value, value: &Value) -> bool {
        let ends = |pattern: &str, text: &str| match self.known.get(pattern) {
            Some(Pattern::Tried(tried)) => tried.comes_to_an_end(text),
            Some(Pattern::OnePass(_) | Pattern::Immeasurable) | None => true,
        };
        match value {
            Value::String(text) => own(schema).all(|pattern| ends(pattern, text)),
            Value::Object(fields) => {
                of_names(schema).all(|pattern| fields.keys().all(|name| ends(pattern, name)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => true,
        }
    }

    fn looks_of(&self, pattern: &str, bytes: usize) -> usize {
        self.known.get(pattern).map_or(0, |pattern| pattern.looks(bytes))
    }
}

fn own(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("pattern").and_then(Value::as_str).into_iter()
}

fn of_names(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.get("patternProperties").and_then(Value::as_object);
    names.into_iter().flat_map(|names| names.keys().map(String::as_str))
}
