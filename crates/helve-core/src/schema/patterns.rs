//! How much work patterns make of texts.

use std::collections::HashMap;

use serde_json::Value;

use crate::regexp::steps;

/// How many steps of a pattern are as much work as one value without any. At the limits of [`super::cost`] the
/// worst pattern takes about a second, most take a hundredth of that.
const STEPS_A_LOOK: usize = 16;

/// Nearly every pattern takes fewer steps for a byte than this, and then it is looked up nowhere.
const STEPS_MIN: usize = 2;

/// The longest text that one with look-around can check, in bytes.
const LOOK_AROUND_BYTES_MAX: usize = 10_000;

/// The patterns of a schema that take many steps.
pub(super) struct Patterns(HashMap<String, Steps>);

/// How many steps a pattern takes for a byte of text.
#[derive(Clone, Copy)]
enum Steps {
    Always(usize),
    /// It looks around or back, and may go through all of the text for every byte of it.
    AsLongAsTheText,
}

impl Steps {
    fn of(pattern: &str) -> Self {
        let many = |steps| Self::Always(usize::try_from(steps).unwrap_or(usize::MAX));
        steps(pattern).map_or(Self::AsLongAsTheText, many)
    }

    fn for_byte_of(self, bytes: usize) -> usize {
        match self {
            Self::Always(steps) => steps.max(STEPS_MIN),
            Self::AsLongAsTheText => bytes.max(64),
        }
    }
}

impl Patterns {
    /// Those anywhere in a schema: a reference may lead to where no keyword does.
    pub(super) fn of(schema: &Value) -> Self {
        let (mut found, mut queue) = (HashMap::new(), vec![schema]);
        while let Some(value) = queue.pop() {
            match value {
                Value::Array(items) => queue.extend(items),
                Value::Object(fields) => {
                    for pattern in own(value).chain(of_names(value)) {
                        let steps = Steps::of(pattern);
                        if steps.for_byte_of(0) > STEPS_MIN {
                            found.insert(pattern.to_owned(), steps);
                        }
                    }
                    queue.extend(fields.values());
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        Self(found)
    }

    /// How much work a schema's own pattern makes of a text.
    pub(super) fn looks(&self, schema: &Value, bytes: usize) -> usize {
        own(schema).map(|pattern| self.looks_of(pattern, bytes)).sum()
    }

    /// How much its patterns of names make of a name.
    pub(super) fn looks_at_name(&self, schema: &Value, bytes: usize) -> usize {
        of_names(schema).map(|pattern| 1 + self.looks_of(pattern, bytes)).fold(0, usize::saturating_add)
    }

    /// How much both make of as many bytes, of whatever texts these are.
    pub(super) fn most_looks(&self, schema: &Value, bytes: usize) -> usize {
        let most = |pattern: &str| {
            let steps = self.steps(pattern).for_byte_of(LOOK_AROUND_BYTES_MAX);
            steps.saturating_mul(bytes) / STEPS_A_LOOK
        };
        own(schema).chain(of_names(schema)).map(most).fold(0, usize::saturating_add)
    }

    fn looks_of(&self, pattern: &str, bytes: usize) -> usize {
        self.steps(pattern).for_byte_of(bytes).saturating_mul(bytes) / STEPS_A_LOOK
    }

    fn steps(&self, pattern: &str) -> Steps {
        self.0.get(pattern).copied().unwrap_or(Steps::Always(STEPS_MIN))
    }
}

fn own(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("pattern").and_then(Value::as_str).into_iter()
}

fn of_names(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.get("patternProperties").and_then(Value::as_object);
    names.into_iter().flat_map(|names| names.keys().map(String::as_str))
}
