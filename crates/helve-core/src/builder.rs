//! Ways to make a tool in Rust: explicit schemas, a parameter list, or a typed function.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::BoxFuture;
use crate::context::Context;
use crate::definition::{
    Annotations, Category, Definition, DefinitionError, Example, FailureMode, Problem, Risk, Source,
};
use crate::effect::Effect;
use crate::error::{ErrorCode, FieldError, ToolError};
use crate::name::ToolName;
use crate::precondition::Precondition;
use crate::retry::RetryPolicy;
use crate::tool::{Handler, Implementation, Tool};

/// A tool in the making. [`ToolBuilder::build`] checks everything at once.
///
/// ```
/// use helve_core::{Parameter, ParameterType, Risk, Tool};
/// use serde_json::{json, Value};
///
/// let tool = Tool::builder("greet")
///     .description("Greets a person by name.")
///     .parameter(Parameter::required("name", ParameterType::String, "Who to greet."))
///     .risk(Risk::Low)
///     .read_only()
///     .handler(|arguments: Value, _context| async move { Ok(json!(format!("Hello, {}!", arguments["name"]))) })
///     .build()
///     .unwrap();
/// assert!(tool.definition().annotations.read_only);
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct ToolBuilder {
    name: String,
    aliases: Vec<String>,
    description: String,
    when_to_use: Option<String>,
    examples: Vec<Example>,
    input_schema: Option<Value>,
    parameters: Vec<Parameter>,
    output_schema: Option<Value>,
    category: Category,
    risk: Risk,
    requires_approval: bool,
    timeout_ms: Option<u64>,
    source: Source,
    annotations: Annotations,
    integrations: Vec<String>,
    failure_mode: FailureMode,
    retry: RetryPolicy,
    preconditions: Vec<Precondition>,
    effects: Vec<Effect>,
    handler: Option<Arc<dyn Handler>>,
    instant: bool,
}

impl ToolBuilder {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            aliases: Vec::new(),
            description: String::new(),
            when_to_use: None,
            examples: Vec::new(),
            input_schema: None,
            parameters: Vec::new(),
            output_schema: None,
            category: Category::default(),
            risk: Risk::default(),
            requires_approval: false,
            timeout_ms: None,
            source: Source::default(),
            annotations: Annotations::default(),
            integrations: Vec::new(),
            failure_mode: FailureMode::default(),
            retry: RetryPolicy::default(),
            preconditions: Vec::new(),
            effects: Vec::new(),
            handler: None,
            instant: false,
        }
    }

    /// What it does, in enough detail for a model to choose it.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// When a model should choose it, and when not.
    pub fn when_to_use(mut self, text: impl Into<String>) -> Self {
        self.when_to_use = Some(text.into());
        self
    }

    /// Adds a use that shows a model how.
    pub fn example(mut self, example: Example) -> Self {
        self.examples.push(example);
        self
    }

    /// Adds arguments as an example, with the request that leads to them.
    pub fn example_call(self, user: impl Into<String>, arguments: Value) -> Self {
        self.example(Example::Arguments { user: Some(user.into()), arguments })
    }

    /// Adds another name that it answers to.
    pub fn alias(mut self, alias: impl Into<String>) -> Self {
        self.aliases.push(alias.into());
        self
    }

    /// JSON Schema of the arguments.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = Some(schema);
        self
    }

    /// Adds a parameter: the plain way to an input schema.
    pub fn parameter(mut self, parameter: Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// JSON Schema of the result.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// What sort of work it does.
    pub fn category(mut self, category: Category) -> Self {
        self.category = category;
        self
    }

    /// How much harm a wrong call can do.
    pub fn risk(mut self, risk: Risk) -> Self {
        self.risk = risk;
        self
    }

    /// Always asks a person first.
    pub fn requires_approval(mut self) -> Self {
        self.requires_approval = true;
        self
    }

    /// How long it may run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Who provides it.
    pub fn source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Hints about its behaviour.
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = annotations;
        self
    }

    /// Says that it changes nothing.
    pub fn read_only(mut self) -> Self {
        self.annotations.read_only = true;
        self.annotations.destructive = false;
        self.annotations.idempotent = true;
        self
    }

    /// Says that two equal calls do no more than one.
    pub fn idempotent(mut self) -> Self {
        self.annotations.idempotent = true;
        self
    }

    /// Adds an account that must be connected.
    pub fn integration(mut self, name: impl Into<String>) -> Self {
        self.integrations.push(name.into());
        self
    }

    /// What becomes of a failure of the tool itself.
    pub fn failure_mode(mut self, mode: FailureMode) -> Self {
        self.failure_mode = mode;
        self
    }

    /// Whether and how a failed attempt is repeated.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Adds something that must hold before it runs.
    pub fn precondition(mut self, precondition: Precondition) -> Self {
        self.preconditions.push(precondition);
        self
    }

    /// Adds something that it changes.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }

    /// Promises that the handler computes for microseconds, and does not block its thread before
    /// it first waits for something.
    ///
    /// Such a handler runs in the caller's task until it waits. One that breaks the promise cannot
    /// be stopped at its deadline while it does.
    pub fn instant(mut self) -> Self {
        self.instant = true;
        self
    }

    /// What runs, as a closure over JSON.
    pub fn handler<F, R>(self, handler: F) -> Self
    where
        F: Fn(Value, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        self.shared_handler(Arc::new(JsonFunction(handler)))
    }

    /// What runs, as a handler of your own.
    pub fn shared_handler(mut self, handler: Arc<dyn Handler>) -> Self {
        self.handler = Some(handler);
        self
    }

    /// What runs, as a typed function; sets both schemas.
    pub fn function<I, O, F, R>(mut self, function: F) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
        F: Fn(I, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        self.input_schema = Some(schema_of::<I>(Direction::Input));
        self.output_schema = Some(schema_of::<O>(Direction::Output));
        self.shared_handler(Arc::new(TypedFunction { function, types: PhantomData }))
    }

    /// Checks everything and makes the tool, or says all that is wrong.
    pub fn build(self) -> Result<Tool, DefinitionError> {
        let refuse = |name: &str, at: &str, message: String| DefinitionError {
            tool: name.to_owned(),
            problems: vec![Problem { at: at.to_owned(), message }],
        };
        let name =
            ToolName::new(&self.name).map_err(|error| refuse(&self.name, "name", error.to_string()))?;
        let handler = self.handler.ok_or_else(|| {
            refuse(&self.name, "handler", "there is nothing to run; set a handler".to_owned())
        })?;
        let handler = if self.instant { Arc::new(Instant(handler)) } else { handler };
        let input_schema = match (self.input_schema, self.parameters.is_empty()) {
            (Some(schema), true) => schema,
            (None, _) => Parameter::schema(&self.parameters),
            (Some(_), false) => {
                return Err(refuse(
                    &self.name,
                    "parameters",
                    "give an input schema or parameters, not both".to_owned(),
                ));
            }
        };
        let definition = Definition {
            name,
            aliases: self.aliases,
            description: self.description,
            when_to_use: self.when_to_use,
            examples: self.examples,
            input_schema,
            output_schema: self.output_schema,
            category: self.category,
            risk: self.risk,
            requires_approval: self.requires_approval,
            timeout_ms: self.timeout_ms,
            source: self.source,
            annotations: self.annotations,
            integrations: self.integrations,
            failure_mode: self.failure_mode,
            retry: self.retry,
            preconditions: self.preconditions,
            effects: self.effects,
        };
        Tool::new(definition, handler)
    }
}

/// One parameter of a tool: the plain way to an input schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// What it means, for the model.
    pub description: String,
    /// Whether a call must give it.
    #[serde(default)]
    pub required: bool,
    /// What it is when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The only values it may take.
    #[serde(default, rename = "enum", skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<String>>,
}

impl Parameter {
    /// A parameter that a call must give.
    pub fn required(name: impl Into<String>, kind: ParameterType, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            description: description.into(),
            required: true,
            default: None,
            options: None,
        }
    }

    /// A parameter that a call may leave out.
    pub fn optional(name: impl Into<String>, kind: ParameterType, description: impl Into<String>) -> Self {
        Self { required: false, ..Self::required(name, kind, description) }
    }

    /// Sets what it is when absent.
    pub fn default_value(mut self, value: Value) -> Self {
        self.default = Some(value);
        self
    }

    /// Sets the only values it may take.
    pub fn one_of<S: Into<String>>(mut self, options: impl IntoIterator<Item = S>) -> Self {
        self.options = Some(options.into_iter().map(Into::into).collect());
        self
    }

    /// The input schema that a list of parameters stands for.
    pub fn schema(parameters: &[Self]) -> Value {
        let properties: Map<_, _> = parameters.iter().map(|p| (p.name.clone(), p.to_schema())).collect();
        let required: Vec<_> = parameters.iter().filter(|p| p.required).map(|p| p.name.as_str()).collect();
        let mut schema = json!({ "type": "object", "additionalProperties": false });
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema
    }

    fn to_schema(&self) -> Value {
        let mut schema = json!({ "type": self.kind, "description": self.description });
        if let Some(default) = &self.default {
            schema["default"] = default.clone();
        }
        if let Some(options) = &self.options {
            schema["enum"] = json!(options);
        }
        schema
    }
}

/// The types a parameter can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Text.
    String,
    /// A number.
    Number,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// A table of anything.
    Object,
    /// A list of anything.
    Array,
}

#[derive(Clone, Copy)]
enum Direction {
    Input,
    Output,
}

fn schema_of<T: JsonSchema>(direction: Direction) -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let settings = match direction {
        Direction::Input => settings.for_deserialize(),
        Direction::Output => settings.for_serialize(),
    };
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(fields) = schema.as_object_mut() {
        // Rust's type name and the dialect are of no use to a model.
        fields.remove("$schema");
        fields.remove("title");
        let empty = fields.get("type") == Some(&json!("object")) && !fields.contains_key("properties");
        if empty && !fields.contains_key("additionalProperties") {
            fields.insert("additionalProperties".to_owned(), json!(false));
        }
    }
    schema
}

/// A handler whose author promises that its first step is short.
struct Instant(Arc<dyn Handler>);

impl Handler for Instant {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        self.0.call(arguments, context)
    }

    fn implementation(&self) -> Implementation {
        self.0.implementation()
    }

    fn is_instant(&self) -> bool {
        true
    }
}

struct JsonFunction<F>(F);

impl<F, R> Handler for JsonFunction<F>
where
    F: Fn(Value, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        Box::pin((self.0)(arguments, context))
    }
}

struct TypedFunction<F, I, O> {
    function: F,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O, F, R> Handler for TypedFunction<F, I, O>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    F: Fn(I, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        // What the schema lets through can still be too much for the type, such as 300 for a u8.
        let input = match serde_json::from_value(arguments) {
            Ok(input) => input,
            Err(error) => {
                let field = FieldError::new("", "arguments of the tool's own types", error.to_string());
                let error = ToolError::new(ErrorCode::ValidationFailed, field.message.clone())
                    .with_fields(vec![field]);
                return Box::pin(std::future::ready(Err(error)));
            }
        };
        let running = (self.function)(input, context);
        Box::pin(async move {
            let output = running.await?;
            serde_json::to_value(output)
                .map_err(|error| ToolError::failed("the tool's answer is not JSON").with_source(error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    #[test]
    fn a_parameter_list_becomes_the_schema_it_stands_for() {
        let tool = Tool::builder("web-search")
            .description("Search the web.")
            .parameter(Parameter::required("query", ParameterType::String, "Search query"))
            .parameter(
                Parameter::optional("maxResults", ParameterType::Number, "Max results")
                    .default_value(json!(5)),
            )
            .parameter(Parameter::optional("kind", ParameterType::String, "Sort").one_of(["news", "all"]))
            .handler(|_, _| async { Ok(json!([])) })
            .build()
            .unwrap();
        insta::assert_json_snapshot!(tool.definition().input_schema, @r#"
        {
          "additionalProperties": false,
          "properties": {
            "kind": {
              "description": "Sort",
              "enum": [
                "news",
                "all"
              ],
              "type": "string"
            },
            "maxResults": {
              "default": 5,
              "description": "Max results",
              "type": "number"
            },
            "query": {
              "description": "Search query",
              "type": "string"
            }
          },
          "required": [
            "query"
          ],
          "type": "object"
        }
        "#);
    }

    #[test]
    fn an_empty_input_stays_a_closed_object() {
        let typed = Tool::function("ping", "Answers.", |_: Nothing, _| async { Ok(true) }).build().unwrap();
        let plain = Tool::builder("ping")
            .description("Answers.")
            .handler(|_, _| async { Ok(json!(true)) })
            .build()
            .unwrap();
        for tool in [typed, plain] {
            assert_eq!(
                tool.definition().input_schema,
                json!({ "type": "object", "additionalProperties": false })
            );
        }
    }

    #[test]
    fn a_broken_definition_is_refused_with_all_that_is_wrong() {
        let error = Tool::builder("mail.send")
            .description(" ")
            .input_schema(json!({ "type": "object", "properties": {
                "to": { "type": "strnig" }, "cc": { "$ref": "https://example.com/x" } } }))
            .output_schema(json!({ "type": "array", "items": 3 }))
            .handler(|_, _| async { Ok(json!(null)) })
            .build()
            .unwrap_err();
        let places: Vec<_> = error.problems.iter().map(|p| p.at.as_str()).collect();
        assert_eq!(
            places,
            ["description", "input_schema/properties/cc/$ref", "output_schema/items"],
            "{error}"
        );
        let typo = Tool::builder("x")
            .description("d")
            .input_schema(json!({ "type": "object", "properties": { "to": { "type": "strnig" } } }))
            .handler(|_, _| async { Ok(json!(null)) })
            .build()
            .unwrap_err();
        assert!(typo.to_string().contains("strnig"), "{typo}");
    }

    #[test]
    fn refusals_name_the_field_at_fault() {
        let base = || Tool::builder("x").description("d").handler(|_, _| async { Ok(json!(null)) });
        let at = |builder: ToolBuilder| builder.build().unwrap_err().problems[0].at.clone();
        assert_eq!(at(base().input_schema(json!({ "type": "string" }))), "input_schema");
        assert_eq!(at(base().input_schema(json!({}))), "input_schema");
        assert_eq!(
            at(base().example(Example::Arguments { user: None, arguments: json!({ "a": 1 }) })),
            "examples/0"
        );
        assert_eq!(at(base().timeout(Duration::ZERO)), "timeout_ms");
        assert_eq!(at(base().alias("a b")), "aliases");
        assert_eq!(at(base().description("x".repeat(20_000))), "description");
        assert_eq!(at(Tool::builder("a b").description("d")), "name");
        assert_eq!(at(Tool::builder("x").description("d")), "handler");
    }
}
