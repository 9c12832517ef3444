//! JSON Schemas: checked and compiled once a tool, used on every call.
//!
//! - `check` refuses at registration what could hang or mislead us later;
//! - [`Schema::validate`] lists every field error at once;
//! - [`repair`] mends what models often get wrong;
//! - [`example`] makes arguments that would have been right;
//! - [`redact`] hides secrets before anything is recorded.

mod budget;
mod check;
mod cost;
mod defaults;
mod describe;
pub mod example;
mod graph;
#[cfg(test)]
mod hostile;
mod patterns;
pub mod redact;
pub mod repair;
mod trying;
mod whole;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use crate::problem::FieldError;
use crate::problem::Problem;

pub use budget::Budget;
pub use redact::Redactor;

/// How deep references are followed on whatever thread we are.
const LEVELS_HERE_MAX: usize = 300;
/// Room on the stack for a level, with much to spare.
const LEVEL_BYTES: usize = 32 << 10;

/// Most field errors reported at once.
const FIELD_ERRORS_MAX: usize = 24;

/// A schema that passed all checks, with its compiled validator.
///
/// ```
/// use helve_schema::Schema;
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
    document: graph::Document,
    validator: jsonschema::Validator,
    defaults: defaults::Defaults,
    /// The schema refers to itself: how much work there is depends on the value.
    recursive: bool,
    /// How much there is at most for each part of a value, where that can be said.
    work: Option<u64>,
    has_secrets: bool,
}

impl Schema {
    /// Checks and compiles a schema of any type.
    pub fn compile(json: Value) -> Result<Self, Vec<Problem>> {
        let looked = check::look(json)?;
        if looked.levels <= LEVELS_HERE_MAX {
            return Self::follow(looked);
        }
        // Models that refer to each other in circles can lead deeper than a thread's usual stack. What
        // is not used of it costs nothing.
        let stack = looked.levels * LEVEL_BYTES;
        let none = || vec![check::problem("", "there is no thread to follow its references")];
        let thread = std::thread::Builder::new().name("helve-schema".to_owned()).stack_size(stack);
        let followed = thread.spawn(move || Self::follow(looked)).map_err(|_| none())?;
        followed.join().unwrap_or_else(|_| Err(none()))
    }

    fn follow(looked: check::Looked) -> Result<Self, Vec<Problem>> {
        let checked = check::follow(looked)?;
        let json = checked.document.json();
        let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012);
        let validator = checked
            .document
            .patterns()
            .choose_engine(options)
            .should_validate_formats(true)
            .offline()
            .build(&for_validator(json, &checked.dialects))
            .map_err(|error| vec![not_compiled(&error)])?;
        let defaults = defaults::Defaults::of(&checked.document);
        let schema = Self(Arc::new(Compiled {
            validator,
            defaults,
            recursive: checked.recursive,
            work: checked.work,
            has_secrets: checked.has_secrets,
            document: checked.document,
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
        self.0.document.json()
    }

    fn document(&self) -> &graph::Document {
        &self.0.document
    }

    /// Whether a value fits. The fast path: makes no error text.
    pub fn accepts(&self, value: &Value) -> bool {
        self.can_check(value) && self.0.validator.is_valid(value)
    }

    /// Whether it can be found out in bounded time if a value fits.
    fn can_check(&self, value: &Value) -> bool {
        let Compiled { document, work, recursive, .. } = &*self.0;
        match recursive {
            true => cost::CHECK.admit(document, value),
            false => cost::CHECK_PLAIN.allow(*work, value) || cost::CHECK_PLAIN.admit(document, value),
        }
    }

    /// Lists everything that is wrong with a value.
    pub fn validate(&self, value: &Value) -> Result<(), Vec<FieldError>> {
        if !self.can_check(value) {
            return Err(vec![describe::too_complex()]);
        }
        if self.0.validator.is_valid(value) {
            return Ok(());
        }
        let found = self.errors(value);
        let errors: Vec<_> = describe::describe_all(&found, self).take(FIELD_ERRORS_MAX).collect();
        Err(if errors.is_empty() { vec![describe::too_many_ways()] } else { errors })
    }

    /// Whether it can be said in bounded time and memory what is wrong with a value. Without that
    /// nothing is looked for, and nothing mended.
    pub fn can_explain(&self, value: &Value) -> bool {
        let limits = if self.0.recursive { cost::EXPLAIN } else { cost::EXPLAIN_PLAIN };
        limits.admit(self.document(), value)
    }

    /// Fills in defaults for fields that are absent. False where they are too long to fill in all.
    pub fn apply_defaults(&self, value: &mut Value) -> bool {
        self.0.defaults.apply(value)
    }

    /// Writes whole numbers as integers where the schema wants integers: `5.0` becomes `5`, which is the
    /// same number, and which fits Rust's integers too.
    pub fn write_whole(&self, value: &mut Value) {
        whole::write_whole(self.document(), value);
    }

    /// The sub-schemas that apply to the part of a value at a JSON Pointer, references followed.
    pub fn at(&self, pointer: &str) -> Vec<&Value> {
        graph::at_path(self.document(), pointer).all()
    }

    fn errors<'v>(&'v self, value: &'v Value) -> Vec<jsonschema::ValidationError<'v>> {
        if !self.can_explain(value) {
            return Vec::new();
        }
        self.0.validator.iter_errors(value).take(FIELD_ERRORS_MAX).collect()
    }

    fn check_defaults(&self) -> Result<(), Vec<Problem>> {
        let declared = || self.0.defaults.top_level();
        if declared().next().is_none() {
            return Ok(());
        }
        let object = |fields: serde_json::Map<String, Value>| Value::Object(fields);
        // All at once, because each is checked with all that is required next to it. Those that seem
        // wrong are looked at alone: two may only not go together. So are the first where all are too many.
        let all = object(declared().map(|(key, default)| (key.to_owned(), default.clone())).collect());
        let suspects = self.can_explain(&all).then(|| self.wrong_fields(&all));
        let problems: Vec<_> = declared()
            .filter(|(key, _)| suspects.as_ref().is_none_or(|suspects| suspects.contains(*key)))
            .take(FIELD_ERRORS_MAX)
            .filter(|(key, default)| {
                let alone = object([((*key).to_owned(), (*default).clone())].into_iter().collect());
                self.can_explain(&alone) && self.wrong_fields(&alone).contains(*key)
            })
            .map(|(key, _)| {
                let at = format!("/properties/{}/default", crate::json::escape_pointer(key));
                check::problem(&at, "the default does not fit its own schema")
            })
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// The fields of an object in which something is wrong.
    fn wrong_fields(&self, object: &Value) -> HashSet<String> {
        let errors = self.0.validator.iter_errors(object);
        errors.filter_map(|error| first_step(error.instance_path().as_str())).collect()
    }
}

/// The field at the top that a JSON Pointer leads through.
fn first_step(pointer: &str) -> Option<String> {
    let step = pointer.strip_prefix('/')?.split('/').next()?;
    Some(step.replace("~1", "/").replace("~0", "~"))
}

/// What the compiler found, at its place in the schema. Where the schema itself is no schema, it is the
/// instance, and the schema that is spoken of is that of all schemas.
fn not_compiled(error: &jsonschema::ValidationError<'_>) -> Problem {
    let place = [error.instance_path(), error.schema_path()].map(|path| path.as_str());
    let place = place.into_iter().find(|path| !path.is_empty());
    check::problem(place.unwrap_or_default(), error.to_string())
}

/// The schema as the validator gets it: of one draft throughout, and without its own name, since
/// either could make its references mean something else than what was checked.
fn for_validator<'a>(json: &'a Value, dialects: &[String]) -> Cow<'a, Value> {
    let mut json = naming_unknown_fields(json);
    if json.get("$id").is_some_and(Value::is_string) {
        remove(json.to_mut(), "", "$id");
    }
    for at in dialects {
        remove(json.to_mut(), at, "$schema");
    }
    json
}

fn remove(json: &mut Value, at: &str, keyword: &str) {
    if let Some(Value::Object(schema)) = json.pointer_mut(at) {
        schema.shift_remove(keyword);
    }
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
        write!(f, "Schema({})", self.json())
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
