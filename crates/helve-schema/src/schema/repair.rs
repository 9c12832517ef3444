//! Mends what models often get wrong, and says what was mended.
//!
//! A repair never guesses at meaning: it changes the spelling of a value or of a field's name, and
//! the result must then fit the schema as a whole. Otherwise nothing is changed.

use jsonschema::JsonType;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::Value;

use super::Schema;
use super::describe::known_fields;
use crate::json::{JsonLimits, brief, parse};
use crate::problem::Repair;

/// One mend can uncover the next, as in JSON within a string.
const ROUNDS_MAX: usize = 4;
const REPAIRS_MAX: usize = 32;
/// Most fields among which one is looked for that was meant.
pub(super) const NAMES_MAX: usize = 2_000;

/// Makes `value` fit, or leaves it as it is and returns nothing.
///
/// ```
/// use helve_schema::{schema::repair::repair, Schema};
/// use serde_json::json;
/// let schema = Schema::compile(json!({ "type": "object", "properties": { "limit": { "type": "integer" } } })).unwrap();
/// let mut value = json!({ "limit": "5" });
/// let repairs = repair(&schema, &mut value).unwrap();
/// assert_eq!(value, json!({ "limit": 5 }));
/// assert_eq!(repairs[0].path, "/limit");
/// ```
pub fn repair(schema: &Schema, value: &mut Value) -> Option<Vec<Repair>> {
    let mut candidate = value.clone();
    let mut repairs = Vec::new();
    for _ in 0..ROUNDS_MAX {
        if schema.accepts(&candidate) {
            *value = candidate;
            return Some(repairs);
        }
        let mends = find_mends(schema, &candidate);
        if mends.is_empty() || repairs.len() + mends.len() > REPAIRS_MAX {
            return None;
        }
        for mend in mends {
            repairs.extend(mend.apply(&mut candidate));
        }
    }
    schema.accepts(&candidate).then(|| {
        *value = candidate;
        repairs
    })
}

/// The known name that `name` was probably meant to be: the only one that differs in case,
/// separators or a letter or two.
pub fn near_miss<'k>(name: &str, known: impl Iterator<Item = &'k str> + Clone) -> Option<&'k str> {
    const NAME_BYTES_MAX: usize = 128;
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let folded = fold(name);
    let mut same = known.clone().filter(|candidate| fold(candidate) == folded);
    if let Some(found) = same.next() {
        return same.next().is_none().then_some(found);
    }
    let allowed = if folded.len() <= 4 { 1 } else { 2 };
    let mut close = known.filter(|candidate| {
        candidate.len() <= NAME_BYTES_MAX && strsim::osa_distance(&fold(candidate), &folded) <= allowed
    });
    let found = close.next()?;
    close.next().is_none().then_some(found)
}

fn fold(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

enum Mend {
    Replace { path: String, with: Value, note: &'static str },
    Rename { object: String, from: String, to: String },
    Drop { object: String, key: String },
}

impl Mend {
    fn apply(self, value: &mut Value) -> Option<Repair> {
        match self {
            Self::Replace { path, with, note } => {
                let place = value.pointer_mut(&path)?;
                // Text that is JSON may hold a secret by name; it is not repeated.
                let was = if with.is_array() || with.is_object() { "it".to_owned() } else { brief(place) };
                let detail = format!("{note}: {was} became {}", brief(&with));
                *place = with;
                Some(Repair { path, detail })
            }
            Self::Rename { object, from, to } => {
                let fields = value.pointer_mut(&object)?.as_object_mut()?;
                if fields.contains_key(&to) {
                    return None;
                }
                let moved = fields.remove(&from)?;
                fields.insert(to.clone(), moved);
                Some(Repair {
                    path: format!("{object}/{to}"),
                    detail: format!("field `{from}` became `{to}`"),
                })
            }
            Self::Drop { object, key } => {
                value.pointer_mut(&object)?.as_object_mut()?.remove(&key)?;
                Some(Repair {
                    path: format!("{object}/{key}"),
                    detail: "null for an optional field was dropped".to_owned(),
                })
            }
        }
    }
}

fn find_mends(schema: &Schema, value: &Value) -> Vec<Mend> {
    let mut mends = Vec::new();
    for error in schema.errors(value) {
        mends.extend(find_mend(schema, value, &error));
    }
    mends
}

fn find_mend(schema: &Schema, value: &Value, error: &jsonschema::ValidationError<'_>) -> Vec<Mend> {
    let path = error.instance_path().as_str().to_owned();
    let instance: &Value = error.instance();
    match error.kind() {
        Kind::Type { kind } => {
            drop_null(schema, &path, instance).or_else(|| retype(kind, path, instance)).into_iter().collect()
        }
        Kind::Enum { options } => drop_null(schema, &path, instance)
            .or_else(|| respell(options, path, instance))
            .into_iter()
            .collect(),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            rename(schema, value, &path, unexpected.iter().map(String::as_str))
        }
        Kind::Required { .. } => {
            let known = known_fields(schema, &path, instance);
            let present = value.pointer(&path).and_then(Value::as_object).into_iter().flatten();
            let is_known = |key: &&str| known.binary_search_by(|name| name.as_str().cmp(key)).is_ok();
            let unknown = present.map(|(key, _)| key.as_str()).filter(|key| !is_known(key));
            rename(schema, value, &path, unknown)
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => context
            .iter()
            .map(|errors| errors.iter().flat_map(|error| find_mend(schema, value, error)).collect::<Vec<_>>())
            .find(|mends| mends.len() == 1)
            .or_else(|| drop_null(schema, &path, instance).map(|mend| vec![mend]))
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Models send null for "not given", all the more after a strict export made every field required.
fn drop_null(schema: &Schema, path: &str, instance: &Value) -> Option<Mend> {
    let (object, key) = path.rsplit_once('/')?;
    let key = key.replace("~1", "/").replace("~0", "~");
    if !instance.is_null() {
        return None;
    }
    let required = schema.at(object).into_iter().any(|node| {
        let names = node.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|name| *name == key))
    });
    (!required).then(|| Mend::Drop { object: object.to_owned(), key })
}

fn rename<'k>(
    schema: &Schema,
    value: &Value,
    path: &str,
    unexpected: impl Iterator<Item = &'k str>,
) -> Vec<Mend> {
    let Some(object) = value.pointer(path) else { return Vec::new() };
    let Some(present) = object.as_object() else { return Vec::new() };
    let known = known_fields(schema, path, object).into_iter();
    let absent: Vec<_> = known.filter(|key| !present.contains_key(key)).take(NAMES_MAX).collect();
    // One more than may be mended: with so many nothing is.
    unexpected
        .take(REPAIRS_MAX + 1)
        .filter_map(|from| {
            let to = near_miss(from, absent.iter().map(String::as_str))?;
            Some(Mend::Rename { object: path.to_owned(), from: from.to_owned(), to: to.to_owned() })
        })
        .collect()
}

fn retype(kind: &TypeKind, path: String, instance: &Value) -> Option<Mend> {
    let wanted: Vec<JsonType> = match kind {
        TypeKind::Single(one) => vec![*one],
        TypeKind::Multiple(many) => many.iter().collect(),
    };
    wanted.into_iter().find_map(|wanted| {
        let (with, note) = convert(wanted, instance)?;
        Some(Mend::Replace { path: path.clone(), with, note })
    })
}

fn convert(wanted: JsonType, instance: &Value) -> Option<(Value, &'static str)> {
    match (wanted, instance) {
        (JsonType::Integer, Value::String(text)) => {
            let number: i64 = text.trim().parse().ok()?;
            Some((number.into(), "number in a string"))
        }
        (JsonType::Number, Value::String(text)) => {
            let text = text.trim();
            let number = match text.parse::<i64>() {
                Ok(whole) => Value::from(whole),
                Err(_) => Value::Number(serde_json::Number::from_f64(text.parse().ok()?)?),
            };
            Some((number, "number in a string"))
        }
        (JsonType::Boolean, Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" => Some((true.into(), "boolean in a string")),
            "false" => Some((false.into(), "boolean in a string")),
            _ => None,
        },
        (JsonType::String, Value::Number(_) | Value::Bool(_)) => {
            Some((instance.to_string().into(), "string without quotes"))
        }
        (JsonType::Array | JsonType::Object, Value::String(text)) => {
            let inner = parse(text.trim().as_bytes(), JsonLimits::default());
            match inner {
                Ok(inner) if inner.is_array() && wanted == JsonType::Array => {
                    Some((inner, "JSON in a string"))
                }
                Ok(inner) if inner.is_object() && wanted == JsonType::Object => {
                    Some((inner, "JSON in a string"))
                }
                _ if wanted == JsonType::Array => {
                    Some((Value::Array(vec![instance.clone()]), "single item outside a list"))
                }
                _ => None,
            }
        }
        (JsonType::Array, Value::Object(_) | Value::Number(_) | Value::Bool(_)) => {
            Some((Value::Array(vec![instance.clone()]), "single item outside a list"))
        }
        (JsonType::Object, Value::Null) => {
            Some((Value::Object(serde_json::Map::new()), "null for no fields"))
        }
        _ => None,
    }
}

fn respell(options: &Value, path: String, instance: &Value) -> Option<Mend> {
    let text = instance.as_str()?;
    let words = options.as_array()?.iter().filter_map(Value::as_str);
    let mut same = words.filter(|word| fold(word) == fold(text));
    let word = same.next()?;
    same.next().is_none().then(|| Mend::Replace {
        path,
        with: word.into(),
        note: "spelling of a listed value",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        Schema::compile(
            json!({ "type": "object", "additionalProperties": false, "required": ["to"], "properties": {
            "to": { "type": "array", "items": { "type": "string" } },
            "maxResults": { "type": "integer" },
            "ratio": { "type": "number" },
            "urgent": { "type": "boolean" },
            "kind": { "type": "string", "enum": ["Event", "task"] },
            "filter": { "type": "object", "properties": { "limit": { "type": "integer" } } },
            "either": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
        } }),
        )
        .unwrap()
    }

    #[test]
    fn what_models_get_wrong_is_mended_and_noted() {
        let cases = [
            (json!({ "to": ["a"], "maxResults": "5" }), json!({ "to": ["a"], "maxResults": 5 })),
            (json!({ "to": ["a"], "ratio": "0.5" }), json!({ "to": ["a"], "ratio": 0.5 })),
            (json!({ "to": ["a"], "urgent": "True" }), json!({ "to": ["a"], "urgent": true })),
            (json!({ "to": "[\"a\",\"b\"]" }), json!({ "to": ["a", "b"] })),
            (json!({ "to": "a" }), json!({ "to": ["a"] })),
            (json!({ "to": [7] }), json!({ "to": ["7"] })),
            (json!({ "to": ["a"], "kind": "event" }), json!({ "to": ["a"], "kind": "Event" })),
            (json!({ "to": ["a"], "max_results": 5 }), json!({ "to": ["a"], "maxResults": 5 })),
            (json!({ "To": ["a"] }), json!({ "to": ["a"] })),
            (json!({ "to": ["a"], "kind": null }), json!({ "to": ["a"] })),
            (json!({ "to": ["a"], "either": "3" }), json!({ "to": ["a"], "either": 3 })),
            (
                json!({ "to": ["a"], "filter": "{\"limit\": \"3\"}" }),
                json!({ "to": ["a"], "filter": { "limit": 3 } }),
            ),
            (json!("{\"to\": [\"a\"]}"), json!({ "to": ["a"] })),
        ];
        for (given, expected) in cases {
            let mut value = given.clone();
            let repairs = repair(&schema(), &mut value).unwrap_or_else(|| panic!("{given} was not repaired"));
            assert_eq!(value, expected);
            assert!(!repairs.is_empty());
        }
    }

    #[test]
    fn what_would_be_a_guess_is_left_alone() {
        for given in [
            json!({ "to": ["a"], "maxResults": "five" }),
            json!({ "to": ["a"], "urgent": "yes" }),
            json!({ "to": ["a"], "recipient": "b" }),
            json!({}),
            json!({ "to": null }),
            json!({ "to": ["a"], "maxResults": 1, "max_results": 2 }),
            json!("{\"to\": [\"a\"], \"to\": [\"b\"]}"),
        ] {
            let mut value = given.clone();
            assert!(repair(&schema(), &mut value).is_none(), "{given} became {value}");
            assert_eq!(value, given);
        }
    }
}
