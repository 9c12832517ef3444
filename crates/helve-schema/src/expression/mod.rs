//! Small expressions in configuration, such as `result.total > 100 and arguments.notify`.
//!
//! The language is that of Jinja's expressions. A plain path such as `steps.fetch.title`, by far
//! the most common one, is looked up without the evaluator.

mod slices;
pub mod template;
mod words;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, LazyLock};

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use slices::as_items;
use words::{Used, used};

/// How much an expression may compute: enough for any sane one, and done in well under a
/// millisecond.
const FUEL: u64 = 20_000;
/// Longest expression that is parsed.
const TEXT_BYTES_MAX: usize = 4_096;

/// What is absent is an error: a template must not write nothing where something was meant.
static STRICT: LazyLock<Environment<'static>> = LazyLock::new(|| environment(UndefinedBehavior::Strict));
/// What is absent is false: a condition may ask for what is not always there.
static LENIENT: LazyLock<Environment<'static>> = LazyLock::new(|| environment(UndefinedBehavior::Chainable));

fn environment(undefined: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(undefined);
    environment.set_fuel(Some(FUEL));
    environment
}

/// An expression that was parsed.
///
/// ```
/// use helve_schema::expression::{Expression, Scope};
/// use serde_json::json;
/// let result = json!({ "total": 120, "lines": [{ "sku": "a-1" }] });
/// let scope = Scope::new().with("result", &result);
/// assert!(Expression::parse("result.total > 100").unwrap().holds(&scope).unwrap());
/// assert_eq!(Expression::parse("result.lines[0].sku").unwrap().evaluate(&scope).unwrap(), json!("a-1"));
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression(Arc<Inner>);

struct Inner {
    text: String,
    kind: Kind,
}

enum Kind {
    Path(Vec<Segment>),
    Code {
        strict: minijinja::Expression<'static, 'static>,
        lenient: minijinja::Expression<'static, 'static>,
        /// The names of the scope that it uses.
        names: Vec<String>,
        /// The same with the fields that are looked at, where they are plain to see.
        paths: Vec<String>,
    },
}

/// One step of a path.
#[derive(Debug, PartialEq)]
enum Segment {
    Field(String),
    Item(usize),
}

impl Expression {
    /// Reads an expression, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let wrong = |reason: String| ExpressionError { text: text.to_owned(), reason };
        if text.len() > TEXT_BYTES_MAX {
            return Err(wrong(format!("it is longer than {TEXT_BYTES_MAX} bytes")));
        }
        let text = text.trim();
        let kind = match path(text) {
            Some(segments) => Kind::Path(segments),
            None => {
                known_filters_and_tests(text).map_err(&wrong)?;
                let compile = |environment: &'static Environment<'static>| {
                    environment.compile_expression_owned(text.to_owned())
                };
                let strict = compile(&STRICT).map_err(|error| wrong(error.to_string()))?;
                let lenient = compile(&LENIENT).map_err(|error| wrong(error.to_string()))?;
                let plain = STRICT.compile_expression_owned(as_items(text));
                let seen = |nested| plain.as_ref().unwrap_or(&strict).undeclared_variables(nested);
                let (names, paths) = (seen(false).into_iter().collect(), seen(true).into_iter().collect());
                Kind::Code { strict, lenient, names, paths }
            }
        };
        Ok(Self(Arc::new(Inner { text: text.to_owned(), kind })))
    }

    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The names of the scope that it uses, such as `result`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (one, many) = match &self.0.kind {
            Kind::Path(segments) => match segments.first() {
                Some(Segment::Field(name)) => (Some(name.as_str()), &[][..]),
                Some(Segment::Item(_)) | None => (None, &[][..]),
            },
            Kind::Code { names, .. } => (None, names.as_slice()),
        };
        one.into_iter().chain(many.iter().map(String::as_str))
    }

    /// The values that it looks at, by the first two names of their paths. Sorted.
    pub fn references(&self) -> Vec<Reference> {
        match &self.0.kind {
            Kind::Path(segments) => {
                let field = |index: usize| match segments.get(index) {
                    Some(Segment::Field(name)) => Some(name.clone()),
                    Some(Segment::Item(_)) | None => None,
                };
                field(0).map(|name| Reference { name, field: field(1), needed: true }).into_iter().collect()
            }
            Kind::Code { paths, .. } => {
                let mut found: Vec<_> = paths
                    .iter()
                    .map(|path| {
                        let mut names = path.split('.').map(str::to_owned);
                        let name = names.next().unwrap_or_default();
                        Reference { name, field: names.next(), needed: false }
                    })
                    .collect();
                found.sort();
                found.dedup();
                found
            }
        }
    }

    /// Its value. What is absent is an error.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        match &self.0.kind {
            Kind::Path(segments) => {
                scope.find(segments).cloned().ok_or_else(|| self.wrong("there is no such value"))
            }
            Kind::Code { strict, names, .. } => {
                let value = strict.eval(scope.to_jinja(names)).map_err(|error| self.failed(&error))?;
                if value.is_undefined() {
                    return Err(self.wrong("there is no such value"));
                }
                serde_json::to_value(&value).map_err(|error| self.wrong(error))
            }
        }
    }

    /// Whether it is true. What is absent is false, and so are null, zero and what is empty.
    pub fn holds(&self, scope: &Scope<'_>) -> Result<bool, ExpressionError> {
        match &self.0.kind {
            Kind::Path(segments) => Ok(scope.find(segments).is_some_and(is_true)),
            Kind::Code { lenient, names, .. } => {
                let value = lenient.eval(scope.to_jinja(names)).map_err(|error| self.failed(&error))?;
                Ok(value.is_true())
            }
        }
    }

    fn failed(&self, error: &minijinja::Error) -> ExpressionError {
        // Without the evaluator's context, which shows the values of variables.
        self.wrong(error.detail().map_or_else(|| error.kind().to_string(), str::to_owned))
    }

    fn wrong(&self, reason: impl fmt::Display) -> ExpressionError {
        ExpressionError { text: self.0.text.clone(), reason: reason.to_string() }
    }
}

/// Evaluation would say so too, but only once something has run.
fn known_filters_and_tests(text: &str) -> Result<(), String> {
    let mut state = STRICT.empty_state();
    // Called with nothing, those that are known complain of that.
    let is = |kind, error: Option<minijinja::Error>| error.is_some_and(|error| error.kind() == kind);
    for one in used(text) {
        match one {
            Used::Filter(name) if is(ErrorKind::UnknownFilter, state.apply_filter(name, &[]).err()) => {
                return Err(format!("there is no filter `{name}`"));
            }
            Used::Test(name) if is(ErrorKind::UnknownTest, state.perform_test(name, &[]).err()) => {
                return Err(format!("there is no test `{name}`"));
            }
            Used::Filter(_) | Used::Test(_) => {}
        }
    }
    Ok(())
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Reads `a.b[0].c`. `None` for anything else, which the evaluator then reads.
fn path(text: &str) -> Option<Vec<Segment>> {
    const WORDS: [&str; 8] = ["true", "false", "none", "null", "True", "False", "None", "not"];
    let mut segments = Vec::new();
    for part in text.split('.') {
        let (name, mut items) = part.split_at(part.find('[').unwrap_or(part.len()));
        let plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !plain || WORDS.contains(&name) {
            return None;
        }
        segments.push(Segment::Field(name.to_owned()));
        while !items.is_empty() {
            let (number, rest) = items.strip_prefix('[')?.split_once(']')?;
            segments.push(Segment::Item(number.parse().ok()?));
            items = rest;
        }
    }
    Some(segments)
}

impl TryFrom<String> for Expression {
    type Error = ExpressionError;

    fn try_from(text: String) -> Result<Self, ExpressionError> {
        Self::parse(&text)
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> Self {
        expression.0.text.clone()
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0.text)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl JsonSchema for Expression {
    fn schema_name() -> Cow<'static, str> {
        "Expression".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

/// An expression that cannot be read or evaluated. Never shows a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the expression `{text}` is wrong: {reason}")]
pub struct ExpressionError {
    text: String,
    reason: String,
}

impl ExpressionError {
    /// Says what is wrong with an expression.
    pub fn new(text: &str, reason: &str) -> Self {
        Self { text: text.to_owned(), reason: reason.to_owned() }
    }
}

/// A value that an expression looks at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The name in the scope, such as `input`.
    pub name: String,
    /// The field of it that is looked at, where that is plain to see.
    pub field: Option<String>,
    /// Whether there is no value without it. Of a computed value that is not known.
    pub needed: bool,
}

/// What the language itself knows by name.
const FUNCTIONS: [&str; 4] = ["range", "dict", "namespace", "debug"];

impl Reference {
    /// That its name is not one of those that are `known`, where it is not.
    pub fn unknown(&self, known: &[&str]) -> Option<String> {
        let name = self.name.as_str();
        let is_known = FUNCTIONS.contains(&name) || known.contains(&name);
        (!is_known).then(|| format!("`{name}` is not known here; there are `{}`", known.join("`, `")))
    }
}

/// The values that an expression can name.
#[derive(Debug, Clone, Default)]
pub struct Scope<'a>(Vec<(&'a str, Cow<'a, Value>)>);

impl<'a> Scope<'a> {
    /// A scope without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value.
    pub fn with(mut self, name: &'a str, value: &'a Value) -> Self {
        self.0.push((name, Cow::Borrowed(value)));
        self
    }

    /// Adds a value that nobody else keeps.
    pub fn with_owned(mut self, name: &'a str, value: Value) -> Self {
        self.0.push((name, Cow::Owned(value)));
        self
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }

    /// The value at a JSON Pointer whose first part is a name of the scope.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        let rest = pointer.strip_prefix('/')?;
        let (name, _) = rest.split_once('/').unwrap_or((rest, ""));
        self.get(name)?.pointer(&rest[name.len()..])
    }

    fn find(&self, segments: &[Segment]) -> Option<&Value> {
        let (Segment::Field(name), rest) = segments.split_first()? else { return None };
        rest.iter().try_fold(self.get(name)?, |value, segment| match segment {
            Segment::Field(name) => value.get(name),
            Segment::Item(index) => value.get(index),
        })
    }

    /// Only what is used: values can be large, and each is copied.
    fn to_jinja(&self, names: &[String]) -> minijinja::Value {
        let used = names.iter().filter_map(|name| Some((name.as_str(), Serde(self.get(name)?))));
        minijinja::Value::from_pairs(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn evaluate(text: &str) -> Result<Value, ExpressionError> {
        let steps = json!({ "fetch": { "title": "Ada", "tags": ["x", "y"], "count": 3 } });
        Expression::parse(text)?.evaluate(&Scope::new().with("steps", &steps))
    }

    #[test]
    fn paths_and_computed_values_keep_their_types() {
        assert_eq!(evaluate("steps.fetch.tags[1]").unwrap(), json!("y"));
        assert_eq!(evaluate("steps.fetch").unwrap()["count"], json!(3));
        assert_eq!(evaluate("steps.fetch.count + 1").unwrap(), json!(4));
        assert_eq!(evaluate("steps.fetch.title | upper").unwrap(), json!("ADA"));
        assert_eq!(evaluate("[steps.fetch.count, true]").unwrap(), json!([3, true]));
        assert_eq!(evaluate("(steps.fetch.tags + [1])[-2:]").unwrap(), json!(["y", 1]));
        assert_eq!(evaluate("steps.nothing | default('none')").unwrap(), json!("none"));
        assert_eq!(evaluate("true").unwrap(), json!(true));
    }

    #[test]
    fn what_is_absent_is_an_error_in_a_value_and_false_in_a_condition() {
        let nothing = Value::Null;
        let scope = Scope::new().with("result", &nothing);
        for text in ["result.a.b", "result.a + 1", "other"] {
            let expression = Expression::parse(text).unwrap();
            assert!(expression.evaluate(&scope).is_err(), "{text}");
        }
        for text in ["result.a.b", "other", "result.a.b == 3", "result.a and other"] {
            assert_eq!(Expression::parse(text).unwrap().holds(&scope), Ok(false), "{text}");
        }
    }

    #[test]
    fn an_expression_says_what_it_looks_at() {
        let of = |text: &str| {
            let found = Expression::parse(text).unwrap().references().into_iter();
            found.map(|one| (one.name, one.field.unwrap_or_default(), one.needed)).collect::<Vec<_>>()
        };
        let one = |name: &str, field: &str, needed| (name.to_owned(), field.to_owned(), needed);
        assert_eq!(of("input.list[0].a"), [one("input", "list", true)]);
        assert_eq!(of("input"), [one("input", "", true)]);
        assert_eq!(
            of("input.a > 1 and steps.get.b.c"),
            [one("input", "a", false), one("steps", "get", false)]
        );
        assert_eq!(of("input.a[:2]"), [one("input", "a", false)]);
    }

    #[test]
    fn a_broken_or_endless_expression_is_refused() {
        assert!(Expression::parse("a +").is_err());
        assert!(Expression::parse("").is_err());
        assert!(Expression::parse(&"a+".repeat(5_000)).is_err());
        assert!(Expression::parse(&format!("{}1{}", "(".repeat(2_000), ")".repeat(2_000))).is_err());
        let long = Expression::parse("range(100000) | map('string') | join(',') | length > 0").unwrap();
        // However it ends, it ends.
        let _ = long.holds(&Scope::new());
    }

    #[test]
    fn filters_and_tests_that_are_not_there_are_refused_before_anything_runs() {
        for (text, what) in [
            ("steps.fetch | merge({'a': 1})", "there is no filter `merge`"),
            ("steps.fetch.count is nosuchtest", "there is no test `nosuchtest`"),
            ("steps.fetch.count is not nosuchtest", "there is no test `nosuchtest`"),
            ("steps.fetch.tags | map('nosuch')", "there is no filter `nosuch`"),
            ("steps.fetch.tags | select('nosuch')", "there is no test `nosuch`"),
        ] {
            let error = Expression::parse(text).unwrap_err().to_string();
            assert!(error.ends_with(what), "{error}");
        }
        for text in [
            "steps.fetch.count is odd and steps.fetch.count is divisibleby(3)",
            "steps.fetch.tags | map('upper') | select('in', ['X']) | list | length is eq(1)",
            "steps.is is not defined and steps.fetch.title | d('|x is y') is string",
        ] {
            let steps = json!({ "fetch": { "title": "Ada", "tags": ["x", "y"], "count": 3 } });
            assert_eq!(
                Expression::parse(text).unwrap().holds(&Scope::new().with("steps", &steps)),
                Ok(true),
                "{text}"
            );
        }
    }

    #[test]
    fn errors_never_show_values() {
        let secret = json!({ "password": "hunter2" });
        let error = Expression::parse("secret.password + 1")
            .unwrap()
            .evaluate(&Scope::new().with("secret", &secret))
            .unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }

    #[test]
    fn a_pointer_starts_with_a_name() {
        let steps = json!({ "a/b": [1, 2] });
        let scope = Scope::new().with("steps", &steps);
        assert_eq!(scope.pointer("/steps/a~1b/1"), Some(&json!(2)));
        assert_eq!(scope.pointer("/steps"), Some(&steps));
        assert_eq!(scope.pointer("steps"), None);
        assert_eq!(scope.pointer("/other/a"), None);
    }
}
