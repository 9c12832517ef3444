//! One call within a composition, and what becomes of its failure.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use helve_core::ToolError;
use helve_core::expression::{Expression, Scope};
use helve_core::template::Template;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One call within a composition.
///
/// ```
/// use helve::compose::Step;
/// use serde_json::json;
/// let step = Step::call("page", "web/fetch")
///     .arguments(json!({ "url": "{{ input.url }}" }))
///     .when("input.url");
/// assert_eq!(step.tool, "web/fetch");
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What later steps call it, as in `steps.page`: letters, digits and `_`. Left out: the last
    /// part of the tool's name, with a number where that is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tool to call: any, also a composed one.
    pub tool: String,
    /// Its arguments: JSON in which `{{ … }}` is an expression and `{ "$pointer" = "/steps/page" }`
    /// the value there. Left out: what the sort of composition passes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Template>,
    /// Only when this holds; otherwise the step is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Expression>,
    /// What becomes of its failure. Left out: what the whole composition says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// Less time than the tool allows, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    #[serde(skip)]
    pub(super) code: StepCode,
}

/// What only Rust can say of a step.
#[derive(Debug, Clone, Default)]
pub(super) struct StepCode {
    pub(super) transform: Option<Transform>,
    pub(super) when: Option<Code<bool>>,
    /// What could not be read. Said when the tool is built, with all else that is wrong.
    pub(super) problems: Vec<String>,
}

impl Step {
    /// A call of `tool` under its own name.
    pub fn call(name: impl Into<String>, tool: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::of(tool) }
    }

    /// A call of `tool`, named after it.
    pub fn of(tool: impl Into<String>) -> Self {
        Self {
            name: None,
            tool: tool.into(),
            arguments: None,
            when: None,
            on_error: None,
            timeout_ms: None,
            code: StepCode::default(),
        }
    }

    /// Its arguments: JSON with expressions in it.
    pub fn arguments(mut self, template: Value) -> Self {
        match Template::parse(template) {
            Ok(template) => self.arguments = Some(template),
            Err(error) => self.code.problems.push(error.to_string()),
        }
        self
    }

    /// Its arguments, made by code from the previous result (null before the first; the item in a
    /// map) and the input. Must give the same for the same: after a crash it is asked again.
    pub fn transform<F>(mut self, make: F) -> Self
    where
        F: Fn(&Value, &Value) -> Result<Value, ToolError> + Send + Sync + 'static,
    {
        self.code.transform = Some(Transform::new(make));
        self
    }

    /// Only when this expression holds.
    pub fn when(mut self, expression: &str) -> Self {
        match Expression::parse(expression) {
            Ok(expression) => self.when = Some(expression),
            Err(error) => self.code.problems.push(error.to_string()),
        }
        self
    }

    /// Only when code says so. Must say the same for the same values.
    pub fn when_code<F>(mut self, test: F) -> Self
    where
        F: Fn(&Scope<'_>) -> Result<bool, ToolError> + Send + Sync + 'static,
    {
        self.code.when = Some(Code::new(test));
        self
    }

    /// What becomes of its failure.
    pub fn on_error(mut self, policy: OnError) -> Self {
        self.on_error = Some(policy);
        self
    }

    /// Less time than the tool allows.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }
}

/// What becomes of a composed call when one of its parts fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// It fails too, and what was done stays done.
    #[default]
    Stop,
    /// It goes on; the error stands next to the results.
    Continue,
    /// It fails too, and what was done is undone.
    Undo,
}

/// Code that makes a step's arguments from the previous result and the input.
#[derive(Clone)]
pub(super) struct Transform(Arc<TransformFn>);

type TransformFn = dyn Fn(&Value, &Value) -> Result<Value, ToolError> + Send + Sync;

impl Transform {
    pub(super) fn new<F>(make: F) -> Self
    where
        F: Fn(&Value, &Value) -> Result<Value, ToolError> + Send + Sync + 'static,
    {
        Self(Arc::new(make))
    }

    pub(super) fn make(&self, previous: &Value, input: &Value) -> Result<Value, ToolError> {
        (self.0)(previous, input)
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transform")
    }
}

/// Code in the place of an expression.
pub(super) struct Code<T>(Arc<CodeFn<T>>);

type CodeFn<T> = dyn Fn(&Scope<'_>) -> Result<T, ToolError> + Send + Sync;

impl<T> Code<T> {
    pub(super) fn new<F>(code: F) -> Self
    where
        F: Fn(&Scope<'_>) -> Result<T, ToolError> + Send + Sync + 'static,
    {
        Self(Arc::new(code))
    }

    pub(super) fn run(&self, scope: &Scope<'_>) -> Result<T, ToolError> {
        (self.0)(scope)
    }
}

impl<T> Clone for Code<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Code<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code")
    }
}
