//! Turns a validator's error into a line that a model can act on.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::{Map, Value};

use super::Schema;
use crate::json::{brief, same};
use crate::problem::FieldError;

impl FieldError {
    /// An error whose message says all three parts in one line.
    pub fn new(path: impl Into<String>, expected: impl Into<String>, received: impl Into<String>) -> Self {
        let (path, expected, received) = (path.into(), expected.into(), received.into());
        let place = if path.is_empty() { "the arguments".to_owned() } else { format!("`{path}`") };
        let message = format!("{place}: expected {expected}, received {received}");
        Self { path, expected, received, message }
    }
}

pub(super) fn too_complex() -> FieldError {
    FieldError::new(
        "",
        "a value that its schema can check in bounded time",
        "one too large or too deeply nested for this schema; send a smaller, flatter value",
    )
}

/// The value was checked, and what is wrong with it cannot be listed.
pub(super) fn too_many_ways() -> FieldError {
    FieldError::new(
        "",
        "a value that fits",
        "one that does not, and in which too much could be wrong to say where",
    )
}

/// What is wrong with one value.
pub(super) fn describe_all<'e>(
    errors: &'e [ValidationError<'_>],
    schema: &'e Schema,
) -> impl Iterator<Item = FieldError> {
    errors.iter().flat_map(move |error| {
        let path = error.instance_path().as_str();
        // Where no alternative fits, the validator takes the fields of all of them for unknown ones.
        let none_fits = |other: &ValidationError<'_>| {
            matches!(other.kind(), Kind::AnyOf { .. } | Kind::OneOfNotValid { .. })
                && other.instance_path().as_str() == path
        };
        match error.kind() {
            Kind::UnevaluatedProperties { unexpected } if errors.iter().any(none_fits) => {
                let known = known_fields(schema, path, error.instance());
                unexpected_fields(path, unexpected.iter().filter(|key| !known.contains(key)), &known)
            }
            _ => describe(error, schema),
        }
    })
}

/// One error may name several fields: each unexpected one, or each in the closest alternative.
fn describe(error: &ValidationError<'_>, schema: &Schema) -> Vec<FieldError> {
    let path = error.instance_path().as_str();
    let received = brief(error.instance());
    let one = |expected: String| vec![FieldError::new(path, expected, received.as_str())];
    match error.kind() {
        Kind::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            let at = format!("{path}/{}", crate::json::escape_pointer(key));
            let wanted = super::graph::at_path(schema.document(), &at)
                .here
                .iter()
                .find(|node| node.is_object())
                .map_or_else(|| "a value".to_owned(), |node| wants(node));
            vec![FieldError::new(at, format!("{wanted} (required)"), "nothing")]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unexpected_fields(path, unexpected.iter(), &known_fields(schema, path, error.instance()))
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => closest(context, path, schema)
            .unwrap_or_else(|| one(format!("one of {} alternatives", context.len()))),
        Kind::OneOfMultipleValid { .. } => {
            one("a value that fits exactly one of the alternatives, not several".to_owned())
        }
        Kind::Type { kind } => one(type_names(kind)),
        Kind::Enum { options } => one(match options.as_array() {
            Some(options) => format!("one of {}", list(options)),
            None => "one of the listed values".to_owned(),
        }),
        Kind::Constant { expected_value } => one(brief(expected_value)),
        Kind::Minimum { limit } => one(format!("a number of at least {limit}")),
        Kind::Maximum { limit } => one(format!("a number of at most {limit}")),
        Kind::ExclusiveMinimum { limit } => one(format!("a number greater than {limit}")),
        Kind::ExclusiveMaximum { limit } => one(format!("a number less than {limit}")),
        Kind::MultipleOf { multiple_of } => one(format!("a multiple of {multiple_of}")),
        Kind::MinLength { limit } => one(format!("at least {limit} characters")),
        Kind::MaxLength { limit } => one(format!("at most {limit} characters")),
        Kind::MinItems { limit } => one(format!("at least {limit} items")),
        Kind::MaxItems { limit } => one(format!("at most {limit} items")),
        Kind::AdditionalItems { limit } => one(format!("at most {limit} items")),
        Kind::MinProperties { limit } => one(format!("at least {limit} fields")),
        Kind::MaxProperties { limit } => one(format!("at most {limit} fields")),
        Kind::UniqueItems => one("items that all differ".to_owned()),
        Kind::Pattern { pattern } => one(format!("text matching `{pattern}`")),
        Kind::Format { format } => one(format!("text in the format `{format}`")),
        Kind::FalseSchema => one("nothing here".to_owned()),
        Kind::Contains => one("at least one item of the required form".to_owned()),
        Kind::UnevaluatedItems { .. } => one("no further items".to_owned()),
        Kind::PropertyNames { .. } => one("field names of the required form".to_owned()),
        Kind::ContentEncoding { content_encoding } => one(format!("text encoded as `{content_encoding}`")),
        Kind::ContentMediaType { content_media_type } => {
            one(format!("content of type `{content_media_type}`"))
        }
        Kind::Not { .. } => one("a value outside the forbidden form".to_owned()),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            one("text that its pattern can check in bounded time".to_owned())
        }
        Kind::FromUtf8 { .. } => one("valid UTF-8 text".to_owned()),
        Kind::Custom { message, .. } => one(message.clone()),
        Kind::Referencing(_) => one("a value whose schema can be resolved".to_owned()),
    }
}

/// The errors of one alternative.
type Alternative = Vec<ValidationError<'static>>;

/// The errors of the alternative that is closest to fitting: more use to a model than "none fits".
/// `path` is where the alternatives are.
fn closest(context: &[Alternative], path: &str, schema: &Schema) -> Option<Vec<FieldError>> {
    let failed = || context.iter().filter(|errors| !errors.is_empty());
    let best = failed().min_by_key(|errors| (distance(errors, path), errors.len()))?;
    // It is of no alternative's shape, or of none by what tells them apart: name them all instead of
    // one at random.
    let at = best[0].instance_path().as_str();
    let is_one_place = best.iter().all(|error| error.instance_path().as_str() == at);
    if is_one_place && (best.iter().all(is_shape) || is_other_shape(best, path)) {
        let mut seen = std::collections::HashSet::new();
        let names = failed().flat_map(|errors| shapes(errors, at)).filter(|name| seen.insert(name.clone()));
        let mut names: Vec<_> = names.collect();
        if names.len() > SHOWN_MAX {
            let all = format!("… ({} in all)", names.len());
            names.truncate(SHOWN_MAX);
            names.push(all);
        }
        return Some(vec![FieldError::new(at, names.join(" or "), brief(best[0].instance()))]);
    }
    Some(describe_all(best, schema).collect())
}

/// How far from an alternative a value is that has another shape altogether.
const OTHER_SHAPE: usize = 100;

/// How far a value at `path` is from fitting an alternative.
fn distance(errors: &[ValidationError<'_>], path: &str) -> usize {
    let of = |error: &ValidationError<'_>| match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            let failed = context.iter().filter(|errors| !errors.is_empty());
            failed.map(|errors| distance(errors, path)).min().unwrap_or(0)
        }
        _ if is_shape(error) && error.instance_path().as_str() == path => OTHER_SHAPE,
        // Such a field often tells alternatives apart.
        Kind::Constant { .. } | Kind::Enum { .. } => 10,
        Kind::Required { .. } | Kind::AdditionalProperties { .. } => 2,
        _ => 1,
    };
    let sum = errors.iter().map(of).sum();
    // However much is missing of the right shape, another one is further off.
    if is_other_shape(errors, path) { sum } else { sum.min(OTHER_SHAPE - 1) }
}

/// Whether a value at `path` is of another shape than an alternative wants.
fn is_other_shape(errors: &[ValidationError<'_>], path: &str) -> bool {
    errors.iter().any(|error| match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            let mut failed = context.iter().filter(|errors| !errors.is_empty()).peekable();
            failed.peek().is_some() && failed.all(|errors| is_other_shape(errors, path))
        }
        _ => is_shape(error) && error.instance_path().as_str() == path,
    })
}

fn is_shape(error: &ValidationError<'_>) -> bool {
    matches!(error.kind(), Kind::Type { .. } | Kind::Constant { .. } | Kind::Enum { .. })
}

/// What an alternative wants to see at `path`: the one value, one of several, or any of a type.
fn shapes(errors: &[ValidationError<'_>], path: &str) -> Vec<String> {
    let here = || errors.iter().filter(|error| error.instance_path().as_str() == path);
    let values: Vec<_> = here()
        .filter_map(|error| match error.kind() {
            Kind::Constant { expected_value } => Some(brief(expected_value)),
            Kind::Enum { options } => options.as_array().map(|options| format!("one of {}", list(options))),
            _ => None,
        })
        .collect();
    if !values.is_empty() {
        return values;
    }
    let below = |error: &ValidationError<'_>| match error.kind() {
        Kind::Type { kind } => vec![type_names(kind)],
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            context.iter().flat_map(|errors| shapes(errors, path)).collect()
        }
        _ => Vec::new(),
    };
    here().flat_map(below).collect()
}

fn unexpected_fields<'k>(
    path: &str,
    unexpected: impl Iterator<Item = &'k String>,
    known: &[String],
) -> Vec<FieldError> {
    unexpected.take(super::FIELD_ERRORS_MAX).map(|key| unexpected_field(path, key, known)).collect()
}

fn unexpected_field(path: &str, key: &str, known: &[String]) -> FieldError {
    let short: String = key.chars().take(64).collect();
    let at = format!("{path}/{}", crate::json::escape_pointer(&short));
    let names = known.iter().take(super::repair::NAMES_MAX).map(String::as_str);
    let expected = match super::repair::near_miss(key, names) {
        Some(meant) => format!("no such field (did you mean `{meant}`?)"),
        None if known.is_empty() => "no fields here".to_owned(),
        None => format!(
            "only the fields {}",
            known.iter().take(12).map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", ")
        ),
    };
    FieldError::new(at, expected, "an unknown field")
}

/// The fields that this object at `path` may have, in the order of their names: not those of an alternative
/// that a field such as `type` says it is not, unless it says so of all.
pub(super) fn known_fields(schema: &Schema, path: &str, object: &Value) -> Vec<String> {
    let is_other = |properties: &Map<String, Value>| {
        properties.iter().any(|(key, field)| match (field.get("const"), object.get(key)) {
            (Some(expected), Some(given)) => !same(expected, given),
            (Some(_), None) | (None, _) => false,
        })
    };
    let nodes = schema.at(path);
    let all = || nodes.iter().filter_map(|node| node.get("properties").and_then(Value::as_object));
    let names = |properties: &Map<String, Value>| properties.keys().cloned().collect::<Vec<_>>();
    let mut known: Vec<_> = all().filter(|properties| !is_other(properties)).flat_map(names).collect();
    if known.is_empty() {
        known = all().flat_map(names).collect();
    }
    known.sort_unstable();
    known.dedup();
    known
}

fn wants(schema: &Value) -> String {
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        return format!("one of {}", list(options));
    }
    match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "a value".to_owned(),
    }
}

/// Most values, or alternatives, that one message names.
const SHOWN_MAX: usize = 16;

fn list(options: &[Value]) -> String {
    let mut shown: Vec<_> = options.iter().take(SHOWN_MAX).map(brief).collect();
    if options.len() > SHOWN_MAX {
        shown.push(format!("… ({} in all)", options.len()));
    }
    shown.join(", ")
}

fn type_names(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(name) => name.to_string(),
        TypeKind::Multiple(names) => {
            names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(" or ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Schema;
    use serde_json::{Value, json};

    fn lines(schema: Value, value: Value) -> Vec<String> {
        let errors = Schema::compile(schema).unwrap().validate(&value).unwrap_err();
        errors.into_iter().map(|error| error.message).collect()
    }

    #[test]
    fn every_field_error_is_listed_at_once() {
        let schema = json!({ "type": "object", "additionalProperties": false, "required": ["startDate", "kind"], "properties": {
            "startDate": { "type": "string" }, "limit": { "type": "integer", "minimum": 1, "maximum": 50 },
            "kind": { "enum": ["event", "task"] }, "tags": { "type": "array", "items": { "type": "string", "maxLength": 3 } } } });
        let mut found = lines(schema, json!({ "limit": "not-a-number", "tags": ["ok", "long"], "limt": 1 }));
        found.sort();
        assert_eq!(
            found,
            [
                "`/kind`: expected one of \"event\", \"task\" (required), received nothing",
                "`/limit`: expected integer, received \"not-a-number\"",
                "`/limt`: expected no such field (did you mean `limit`?), received an unknown field",
                "`/startDate`: expected string (required), received nothing",
                "`/tags/1`: expected at most 3 characters, received \"long\"",
            ]
        );
    }

    #[test]
    fn an_unknown_field_is_named_where_none_is_known() {
        let schema = json!({ "type": "object", "additionalProperties": false });
        assert_eq!(
            lines(schema, json!({ "x": 1 })),
            ["`/x`: expected no fields here, received an unknown field"]
        );
    }

    #[test]
    fn alternatives_show_what_the_closest_one_lacks() {
        let schema = json!({ "type": "object", "properties": { "target": { "anyOf": [
            { "type": "object", "required": ["id"], "properties": { "id": { "type": "integer" } } },
            { "type": "string" } ] } } });
        assert_eq!(
            lines(schema.clone(), json!({ "target": {} })),
            ["`/target/id`: expected integer (required), received nothing"]
        );
        assert_eq!(
            lines(schema, json!({ "target": 7 })),
            ["`/target`: expected object or string, received 7"]
        );
    }

    #[test]
    fn alternatives_within_alternatives_are_judged_by_shape_too() {
        let schema = json!({ "type": "object", "properties": { "body": { "anyOf": [
            { "oneOf": [{ "type": "string", "const": "arguments" }, { "type": "string", "const": "rest" }] },
            { "oneOf": [
                { "type": "object", "properties": { "json": true }, "required": ["json"], "additionalProperties": false },
                { "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"],
                  "additionalProperties": false } ] } ] } } });
        assert_eq!(
            lines(schema.clone(), json!({ "body": { "to": "x" } })),
            [
                "`/body/to`: expected only the fields `json`, `text`, received an unknown field",
                "`/body/json`: expected a value (required), received nothing",
            ]
        );
        assert_eq!(
            lines(schema.clone(), json!({ "body": "all" })),
            ["`/body`: expected \"arguments\" or \"rest\" or object, received \"all\""]
        );
        assert_eq!(
            lines(schema, json!({ "body": { "text": 1 } })),
            ["`/body/text`: expected string, received 1"]
        );
    }

    #[test]
    fn a_field_that_tells_alternatives_apart_names_them_all() {
        let of = |kind: &str, field: &str| {
            json!({ "type": "object", "required": ["kind", field], "properties": {
            "kind": { "const": kind }, field: { "type": "string" } } })
        };
        let schema = json!({ "type": "object", "properties": { "at": { "oneOf": [of("day", "date"), of("hour", "time")] } } });
        assert_eq!(
            lines(schema.clone(), json!({ "at": { "kind": "year", "date": "x", "time": "y" } })),
            ["`/at/kind`: expected \"day\" or \"hour\", received \"year\""]
        );
        assert_eq!(
            lines(schema, json!({ "at": { "kind": "hour" } })),
            ["`/at/time`: expected string (required), received nothing"]
        );
    }

    #[test]
    fn a_field_of_no_alternative_is_named_and_those_of_others_are_not() {
        let of = |kind: &str, field: &str| {
            json!({ "type": "object", "required": ["kind", field], "properties": {
            "kind": { "const": kind }, field: { "type": "string" } } })
        };
        let schema = json!({ "type": "object", "properties": { "note": { "type": "string" } },
            "oneOf": [of("day", "date"), of("hour", "time")], "unevaluatedProperties": false });
        assert_eq!(
            lines(schema.clone(), json!({ "kind": "day", "date": "x", "nota": "y" })),
            ["`/nota`: expected no such field (did you mean `note`?), received an unknown field"]
        );
        assert_eq!(
            lines(schema.clone(), json!({ "kind": "day", "date": "x", "time": "y" })),
            ["`/time`: expected only the fields `date`, `kind`, `note`, received an unknown field"]
        );
        let mut both = lines(schema, json!({ "kind": "day", "dtae": "x" }));
        both.sort();
        assert_eq!(
            both,
            [
                "`/date`: expected string (required), received nothing",
                "`/dtae`: expected no such field (did you mean `date`?), received an unknown field",
            ]
        );
    }

    #[test]
    fn a_field_is_named_beside_one_that_says_it_is_something_else() {
        let schema = |additional: bool| {
            json!({ "type": "object", "additionalProperties": additional,
                "properties": { "version": { "const": 2 }, "name": { "type": "string" } } })
        };
        let mut both = lines(schema(false), json!({ "version": 1, "nmae": "x" }));
        both.sort();
        assert_eq!(
            both,
            [
                "`/nmae`: expected no such field (did you mean `name`?), received an unknown field",
                "`/version`: expected 2, received 1",
            ]
        );
        // Numbers are equal however they are written.
        let either = json!({ "type": "object", "oneOf": [
            { "properties": { "version": { "const": 1 }, "title": {} } },
            { "properties": { "version": { "const": 2.0 }, "name": {} } },
        ], "unevaluatedProperties": false });
        let one = lines(either, json!({ "version": 2, "other": "x" }));
        assert_eq!(one, ["`/other`: expected only the fields `name`, `version`, received an unknown field"]);
    }

    #[test]
    fn many_alternatives_make_a_short_message() {
        let options: Vec<_> = (0..500).map(|n| json!({ "const": format!("name-{n}") })).collect();
        let found = lines(
            json!({ "type": "object", "properties": { "x": { "anyOf": options } } }),
            json!({ "x": 1 }),
        );
        assert!(found[0].contains("… (500 in all)") && found[0].len() < 400, "{found:?}");
    }

    #[test]
    fn many_missing_fields_are_no_other_shape() {
        let names: Vec<_> = (0..60).map(|n| format!("f{n}")).collect();
        let schema = json!({ "type": "object", "properties": { "x": { "anyOf": [
            { "type": "object", "required": names }, { "type": "string" } ] } } });
        let found = lines(schema, json!({ "x": {} }));
        assert!(found.iter().all(|line| line.contains("(required), received nothing")), "{found:?}");
    }

    #[test]
    fn hostile_values_make_short_messages() {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "additionalProperties": false });
        let found = lines(schema, json!({ "a": "x".repeat(1 << 20), "y".repeat(1 << 20): 1 }));
        assert!(found.iter().all(|line| line.len() < 400), "{}", found[0].len());
    }
}
