//! What a strict schema uses of the provider's limits.

use std::collections::HashMap;

use serde_json::Value;

use super::dialect::Limits;

/// More enum values than this in one place may have only [`LONG_ENUM_CHARS_MAX`] characters.
const LONG_ENUM_VALUES: usize = 250;
const LONG_ENUM_CHARS_MAX: usize = 15_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::formats) struct Tally {
    pub(super) properties: usize,
    pub(super) enum_values: usize,
    /// Characters of field names, definition names and enum values together.
    pub(super) chars: usize,
    /// Fields that may be absent.
    pub(in crate::formats) optional: usize,
    /// Places where one of several types may stand.
    pub(in crate::formats) unions: usize,
}

impl Tally {
    pub(super) fn count_enum(&mut self, values: &[Value]) -> Result<(), String> {
        let chars: usize =
            values.iter().map(|value| value.as_str().map_or(8, |text| text.chars().count())).sum();
        self.enum_values += values.len();
        self.chars += chars;
        if values.len() > LONG_ENUM_VALUES && chars > LONG_ENUM_CHARS_MAX {
            return Err(format!(
                "an enum of more than {LONG_ENUM_VALUES} values has more than {LONG_ENUM_CHARS_MAX} characters"
            ));
        }
        Ok(())
    }

    /// Says which limit is passed.
    pub(super) fn check(&self, schema: &Value, limits: &Limits) -> Result<(), String> {
        let levels = levels(schema, schema, &mut HashMap::new());
        for (used, max, what) in [
            (self.properties, limits.properties, "fields"),
            (levels, limits.levels, "levels"),
            (self.enum_values, limits.enum_values, "enum values"),
            (self.chars, limits.chars, "characters in names and enum values"),
        ] {
            if used > max {
                return Err(format!("it has {used} {what}; at most {max} are allowed"));
            }
        }
        Ok(())
    }
}

/// How many objects and arrays stand within each other. A definition counts where it is used,
/// and a recursive one once.
fn levels<'a>(root: &'a Value, schema: &'a Value, known: &mut HashMap<&'a str, usize>) -> usize {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        if let Some(levels) = known.get(reference) {
            return *levels;
        }
        known.insert(reference, 0);
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        let found = target.map_or(0, |target| levels(root, target, known));
        known.insert(reference, found);
        return found;
    }
    let options = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let deepest_option = options.map(|option| levels(root, option, known)).max().unwrap_or(0);
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|map| map.values());
    let parts = fields.chain(schema.get("items"));
    match parts.map(|part| levels(root, part, known)).max() {
        Some(deepest) => 1 + deepest.max(deepest_option),
        None => deepest_option,
    }
}
