//! The arguments of a tool as Cedar knows them: a type from its JSON Schema, and values by that type.
//!
//! Values are made one by one through Cedar's typed constructors and never through its JSON, whose
//! escapes (`__entity`, `__extn`) would let a caller forge entities.

use std::collections::BTreeMap;

use cedar_policy::RestrictedExpression;
use helve_core::Tool;
use helve_core::schema::Budget;
use serde_json::{Map, Value};

use crate::mention::Mention;

/// Deepest nesting that policies see, and most references that are followed to get there.
const DEPTH_MAX: usize = 16;

/// Most sub-schemas that are looked at for one tool; policies do not see what is beyond.
const LOOKS_MAX: usize = 20_000;

/// What a value looks like to policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    Long,
    Bool,
    /// An array. Order and repetition are lost.
    Set(Box<Shape>),
    Record(BTreeMap<String, Field>),
    /// What Cedar has no type for: fractions, unions, anything.
    Hidden,
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) shape: Shape,
    pub(crate) required: bool,
}

/// What a tool takes.
pub(crate) fn shape_of(tool: &Tool) -> BTreeMap<String, Field> {
    let root = &tool.definition().input_schema;
    let reader = Reader { root, budget: Budget::new(LOOKS_MAX) };
    match reader.read(root, 0).0 {
        Shape::Record(fields) => fields,
        Shape::Text | Shape::Long | Shape::Bool | Shape::Set(_) | Shape::Hidden => BTreeMap::new(),
    }
}

struct Reader<'a> {
    root: &'a Value,
    budget: Budget,
}

impl Reader<'_> {
    /// The shape that a schema describes, and whether it lets null through. To policies, null is as good
    /// as nothing.
    fn read(&self, node: &Value, depth: usize) -> (Shape, bool) {
        const HIDDEN: (Shape, bool) = (Shape::Hidden, false);
        let Some(schema) = node.as_object().filter(|_| depth <= DEPTH_MAX && self.budget.spend(1)) else {
            return HIDDEN;
        };
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return found.map_or(HIDDEN, |node| self.read(node, depth + 1));
        }
        if let Some(kinds) = schema.get("type") {
            let kinds: Vec<_> = match kinds {
                Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
                kind => kind.as_str().into_iter().collect(),
            };
            let nullable = kinds.contains(&"null");
            let mut others = kinds.into_iter().filter(|kind| *kind != "null");
            return match (others.next(), others.next()) {
                (Some(kind), None) => (self.of_kind(kind, schema, depth), nullable),
                _ => HIDDEN,
            };
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return one_shape(values.iter().map(of_value));
        }
        if let Some(value) = schema.get("const") {
            return of_value(value);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(variants) = schema.get(key).and_then(Value::as_array) {
                return one_shape(variants.iter().map(|variant| match variant.get("type") {
                    Some(kind) if kind == "null" => (Shape::Hidden, true),
                    _ => self.read(variant, depth + 1),
                }));
            }
        }
        match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) => self.read(only, depth + 1),
            _ => HIDDEN,
        }
    }

    fn of_kind(&self, kind: &str, schema: &Map<String, Value>, depth: usize) -> Shape {
        match kind {
            "string" => Shape::Text,
            "integer" => Shape::Long,
            "boolean" => Shape::Bool,
            "array" => match schema.get("items").map(|items| self.read(items, depth + 1)) {
                Some((items, false)) if !items.hides_something() => Shape::Set(Box::new(items)),
                _ => Shape::Hidden,
            },
            "object" => Shape::Record(self.fields(schema, depth)),
            _ => Shape::Hidden,
        }
    }

    fn fields(&self, schema: &Map<String, Value>, depth: usize) -> BTreeMap<String, Field> {
        let required: Vec<_> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let field = |(key, node): (&String, &Value)| {
            let (shape, nullable) = self.read(node, depth + 1);
            let required = !nullable && required.contains(&key.as_str());
            (key.clone(), Field { shape, required })
        };
        properties.map(field).collect()
    }
}

fn of_value(value: &Value) -> (Shape, bool) {
    match value {
        Value::String(_) => (Shape::Text, false),
        Value::Bool(_) => (Shape::Bool, false),
        Value::Number(number) if number.is_i64() => (Shape::Long, false),
        Value::Null => (Shape::Hidden, true),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => (Shape::Hidden, false),
    }
}

/// The shape of several that are alike, null aside.
fn one_shape(variants: impl Iterator<Item = (Shape, bool)>) -> (Shape, bool) {
    let (mut shape, mut nullable) = (None, false);
    for (variant, is_null) in variants {
        if is_null && variant == Shape::Hidden {
            nullable = true;
        } else if shape.as_ref().is_none_or(|shape| *shape == variant) {
            nullable |= is_null;
            shape = Some(variant);
        } else {
            return (Shape::Hidden, false);
        }
    }
    (shape.unwrap_or(Shape::Hidden), nullable)
}

impl Shape {
    fn hides_something(&self) -> bool {
        match self {
            Self::Hidden => true,
            Self::Text | Self::Long | Self::Bool => false,
            Self::Set(items) => items.hides_something(),
            Self::Record(fields) => fields.values().any(|field| field.shape.hides_something()),
        }
    }
}

/// The arguments that some policies look at, as Cedar's values.
///
/// INVARIANT: what a policy looks at is either shown as it is, or the call is refused. A `forbid` must
/// not miss what was there and could not be shown.
pub(crate) fn shown(
    shape: &BTreeMap<String, Field>,
    arguments: &Value,
    mentions: &[&Mention],
) -> Result<RestrictedExpression, String> {
    let all = mentions.iter().any(|mention| mention.path.is_empty());
    let is_wanted =
        |key: &str| all || mentions.iter().any(|mention| mention.path.first().is_some_and(|one| one == key));
    let mut hidden = Vec::new();
    let record = record(shape, arguments, &mut Vec::new(), &mut hidden, &is_wanted)?;
    let missed = hidden.iter().find(|hidden| mentions.iter().any(|mention| mention.misses(hidden)));
    match missed {
        Some(path) => {
            Err(format!("the argument `{}` cannot be shown to the policies that look at it", path.join(".")))
        }
        None => Ok(record),
    }
}

impl Mention {
    /// Whether something hidden lies on the way to what is looked at, or within it.
    fn misses(&self, hidden: &[String]) -> bool {
        let length = self.path.len().min(hidden.len());
        self.path[..length] == hidden[..length] && (self.value || hidden.len() <= self.path.len())
    }
}

fn record(
    fields: &BTreeMap<String, Field>,
    value: &Value,
    path: &mut Vec<String>,
    hidden: &mut Vec<Vec<String>>,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<RestrictedExpression, String> {
    let mut shown = Vec::new();
    for (key, value) in value.as_object().into_iter().flatten().filter(|(key, _)| is_wanted(key)) {
        // Null is as good as nothing: there is nothing in it to forbid.
        if value.is_null() {
            continue;
        }
        path.push(key.clone());
        let shape = fields.get(key).map_or(&Shape::Hidden, |field| &field.shape);
        match one(shape, value, path, hidden)? {
            Some(value) => shown.push((key.clone(), value)),
            None => hidden.push(path.clone()),
        }
        path.pop();
    }
    RestrictedExpression::new_record(shown).map_err(|error| error.to_string())
}

/// A value by its shape. None: it cannot be shown.
fn one(
    shape: &Shape,
    value: &Value,
    path: &mut Vec<String>,
    hidden: &mut Vec<Vec<String>>,
) -> Result<Option<RestrictedExpression>, String> {
    Ok(match (shape, value) {
        (Shape::Text, Value::String(text)) => Some(RestrictedExpression::new_string(text.clone())),
        (Shape::Bool, Value::Bool(is)) => Some(RestrictedExpression::new_bool(*is)),
        (Shape::Long, Value::Number(number)) => whole(number).map(RestrictedExpression::new_long),
        (Shape::Set(items), Value::Array(values)) => {
            let before = hidden.len();
            let mut shown = Vec::with_capacity(values.len());
            for value in values {
                match one(items, value, path, hidden)? {
                    Some(value) => shown.push(value),
                    None => return Ok(None),
                }
            }
            // A set with a part left out of one of its items would be another set.
            (hidden.len() == before).then(|| RestrictedExpression::new_set(shown))
        }
        (Shape::Record(fields), Value::Object(_)) => Some(record(fields, value, path, hidden, &|_| true)?),
        _ => None,
    })
}

/// JSON Schema counts 3.0 as an integer, and so do we. Beyond 2^53 a fraction is not exact any more.
pub(crate) fn whole(number: &serde_json::Number) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    number.as_i64().or_else(|| {
        let float = number.as_f64().filter(|_| number.is_f64())?;
        #[expect(clippy::cast_possible_truncation, reason = "a whole number that a double holds exactly")]
        (float.fract() == 0.0 && float.abs() < EXACT).then_some(float as i64)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_whole(schema: Value) -> Shape {
        Reader { root: &schema, budget: Budget::new(LOOKS_MAX) }.read(&schema, 0).0
    }

    #[test]
    fn what_cedar_can_say_is_typed_and_the_rest_is_hidden() {
        let shape = read_whole(json!({
            "type": "object",
            "required": ["to", "note"],
            "properties": {
                "to": { "type": "string" },
                "note": { "type": ["string", "null"] },
                "count": { "type": "integer" },
                "price": { "type": "number" },
                "any": {},
                "either": { "anyOf": [{ "type": "string" }, { "type": "integer" }] },
                "maybe": { "anyOf": [{ "$ref": "#/$defs/Mode" }, { "type": "null" }] },
                "tags": { "type": "array", "items": { "type": "string" } },
                "prices": { "type": "array", "items": { "type": "number" } },
                "loop": { "$ref": "#/properties/loop" },
                "far": { "$ref": "https://example.com/x.json" },
            },
            "$defs": { "Mode": { "oneOf": [{ "const": "a" }, { "const": "b" }] } },
        }));
        let Shape::Record(fields) = shape else { panic!("{shape:?}") };
        let is = |key: &str| (fields[key].shape.clone(), fields[key].required);
        assert_eq!(is("to"), (Shape::Text, true));
        assert_eq!(is("note"), (Shape::Text, false));
        assert_eq!(is("count"), (Shape::Long, false));
        assert_eq!(is("maybe"), (Shape::Text, false));
        assert_eq!(is("tags"), (Shape::Set(Box::new(Shape::Text)), false));
        for key in ["price", "any", "either", "prices", "loop", "far"] {
            assert_eq!(is(key), (Shape::Hidden, false), "{key}");
        }
    }

    #[test]
    fn integers_are_shown_exactly_or_not_at_all() {
        let whole = |text: &str| whole(&serde_json::from_str(text).unwrap());
        assert_eq!(whole("3"), Some(3));
        assert_eq!(whole("3.0"), Some(3));
        assert_eq!(whole("-9223372036854775808"), Some(i64::MIN));
        for text in ["3.5", "18446744073709551615", "1e30", "9007199254740993.0"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }
}
