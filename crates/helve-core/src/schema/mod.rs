//! JSON Schemas: checked and compiled once a tool, used on every call.
//!
//! - `check` refuses at registration what could hang or mislead us later;
//! - [`Schema::validate`] lists every field error at once;
//! - [`repair`] mends what models often get wrong;
//! - [`example`] makes arguments that would have been right;
//! - [`redact`] hides secrets before anything is recorded.

mod check;
mod cost;
mod defaults;
mod describe;
pub mod example;
mod graph;
pub mod redact;
pub mod repair;
mod whole;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::definition::Problem;
use crate::error::FieldError;

pub use redact::Redactor;

/// Most field errors reported at once.
const FIELD_ERRORS_MAX: usize = 24;

/// A schema that passed all checks, with its compiled validator.
///
/// ```
/// use helve_core::Schema;
/// use serde_json::json;
/// let schema = Schema::compile(json!({
///     "type": "object",
///     "properties": { "limit": { "type": "integer", "minimum": 1 } },
///     "required": ["limit"],
/// })).unwrap();
/// let errors = schema.validate(&json!({ "limit": 0 })).unwrap_err();
/// assert_eq!(errors[0].path, "/limit");
/// ```
#[derive(Clone)]
pub struct Schema(Arc<Compiled>);

struct Compiled {
    json: Value,
    validator: jsonschema::Validator,
    defaults: defaults::Defaults,
    /// The schema refers to itself: the work depends on the value and is metered.
    recursive: bool,
    has_secrets: bool,
}

impl Schema {
    /// Checks and compiles a schema of any type.
    pub fn compile(json: Value) -> Result<Self, Vec<Problem>> {
        let checked = check::check(&json)?;
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .with_pattern_options(
                jsonschema::PatternOptions::fancy_regex().backtrack_limit(100_000).size_limit(1 << 20),
            )
            .should_validate_formats(true)
            .offline()
            .build(&naming_unknown_fields(&json))
            .map_err(|error| vec![not_compiled(&error)])?;
        let defaults = defaults::Defaults::of(&json);
        let schema = Self(Arc::new(Compiled {
            validator,
            defaults,
            recursive: checked.recursive,
            has_secrets: checked.has_secrets,
            json,
        }));
        schema.check_defaults()?;
        Ok(schema)
    }

    /// Checks and compiles a schema that describes an object, as arguments must be.
    pub fn compile_object(json: Value) -> Result<Self, Vec<Problem>> {
        if json.get("type") != Some(&Value::from("object")) {
            return Err(vec![check::problem(
                "",
                "the top level must be an object schema: say `\"type\": \"object\"` and list the fields under `properties`",
            )]);
        }
        Self::compile(json)
    }

    /// The schema as JSON.
    pub fn json(&self) -> &Value {
        &self.0.json
    }

    /// Whether a value fits. The fast path: makes no error text.
    pub fn accepts(&self, value: &Value) -> bool {
        let is_affordable = !self.0.recursive || cost::affordable(&self.0.json, value);
        is_affordable && self.0.validator.is_valid(value)
    }

    /// Lists everything that is wrong with a value.
    pub fn validate(&self, value: &Value) -> Result<(), Vec<FieldError>> {
        if self.accepts(value) {
            return Ok(());
        }
        let found = self.errors(value);
        let described = found.iter().flat_map(|error| describe::describe(error, self));
        let errors: Vec<_> = described.take(FIELD_ERRORS_MAX).collect();
        Err(if errors.is_empty() { vec![describe::too_complex()] } else { errors })
    }

    /// Whether it can be said in bounded time and memory what is wrong with a value. Without that
    /// nothing is looked for, and nothing mended.
    pub fn can_explain(&self, value: &Value) -> bool {
        !self.0.recursive || cost::explicable(&self.0.json, value)
    }

    /// Fills in defaults for fields that are absent.
    pub fn apply_defaults(&self, value: &mut Value) {
        self.0.defaults.apply(value);
    }

    /// Writes whole numbers as integers where the schema wants integers: `5.0` becomes `5`, which is the
    /// same number, and which fits Rust's integers too.
    pub fn write_whole(&self, value: &mut Value) {
        whole::write_whole(&self.0.json, value);
    }

    /// The sub-schemas that apply to the part of a value at a JSON Pointer, references followed.
    pub fn at(&self, pointer: &str) -> Vec<&Value> {
        let root = self.json();
        graph::at_path(root, pointer).into_iter().flat_map(|node| graph::in_place(root, node)).collect()
    }

    fn errors<'v>(&'v self, value: &'v Value) -> Vec<jsonschema::ValidationError<'v>> {
        if !self.can_explain(value) {
            return Vec::new();
        }
        self.0.validator.iter_errors(value).take(FIELD_ERRORS_MAX).collect()
    }

    fn check_defaults(&self) -> Result<(), Vec<Problem>> {
        let problems: Vec<_> = self
            .0
            .defaults
            .top_level()
            .flat_map(|(key, default)| {
                let object = Value::Object([(key.to_owned(), default.clone())].into_iter().collect());
                let at = format!("/{}", crate::json::escape_pointer(key));
                let wrong =
                    self.errors(&object).iter().any(|error| error.instance_path().as_str().starts_with(&at));
                wrong.then(|| {
                    check::problem(
                        &format!("/properties{at}/default"),
                        "the default does not fit its own schema",
                    )
                })
            })
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// What the compiler found, at its place in the schema. Where the schema itself is no schema, it is the
/// instance, and the schema that is spoken of is that of all schemas.
fn not_compiled(error: &jsonschema::ValidationError<'_>) -> Problem {
    let place = [error.instance_path(), error.schema_path()].map(|path| path.as_str());
    let place = place.into_iter().find(|path| !path.is_empty());
    check::problem(place.unwrap_or_default(), error.to_string())
}

/// The validator names unknown fields only where some are known. A closed object without any gets
/// an empty list of them, which means the same.
fn naming_unknown_fields(json: &Value) -> Cow<'_, Value> {
    let closed = json.get("additionalProperties") == Some(&Value::Bool(false));
    if !closed || json.get("properties").is_some() {
        return Cow::Borrowed(json);
    }
    let mut json = json.clone();
    json["properties"] = Value::Object(serde_json::Map::new());
    Cow::Owned(json)
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Schema({})", self.0.json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_no_schema_is_refused_where_it_stands() {
        for (field, at) in [
            (json!({ "type": "string", "minLength": -1 }), "/properties/x/minLength"),
            (json!({ "type": "sting" }), "/properties/x/type"),
            (json!({ "required": "a" }), "/properties/x/required"),
            (json!({ "type": "string", "pattern": "(" }), "/properties/x/pattern"),
        ] {
            let problems =
                Schema::compile(json!({ "type": "object", "properties": { "x": field } })).unwrap_err();
            assert_eq!(problems[0].at, at, "{problems:?}");
        }
        let problems = Schema::compile(json!({ "type": "object", "maxProperties": -1 })).unwrap_err();
        assert_eq!(problems[0].at, "/maxProperties", "{problems:?}");
    }
}
