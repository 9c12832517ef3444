//! Composed tools from configuration.

use std::sync::Arc;
use std::time::Duration;

use helve::compose::{Composition, Given};
use helve::registry::WeakRegistry;
use helve::{
    Annotations, BoxFuture, Category, Context, DefinitionError, ErrorCode, Handler, Implementation,
    Parameter, Problem, Registry, Risk, Source, Tool, ToolError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::{ToolCommon, ToolDefaults};

/// A tool made of other tools: what it says of itself, and how they are put together.
///
/// `S` is a [`Sequence`](helve::compose::Sequence), [`Parallel`](helve::compose::Parallel),
/// [`Conditional`](helve::compose::Conditional) or [`MapOver`](helve::compose::MapOver).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComposedToolConfig<S> {
    /// What it says of itself. What is left out is derived from its parts.
    #[serde(flatten)]
    pub common: ToolCommon,
    /// How they are put together.
    #[serde(flatten)]
    pub shape: S,
}

impl<S: Into<Composition>> ComposedToolConfig<S> {
    /// The same, whatever the sort.
    pub fn into_composition(self) -> ComposedToolConfig<Composition> {
        ComposedToolConfig { common: self.common, shape: self.shape.into() }
    }
}

/// Makes a tool of others in `registry`, or says all that is wrong with it.
///
/// `timeout_default` is how long a part may take that does not say.
pub fn composed_tool(
    config: ComposedToolConfig<Composition>,
    registry: &Registry,
    timeout_default: Duration,
) -> Result<Tool, DefinitionError> {
    let ComposedToolConfig { mut common, shape } = config;
    let given = given(&mut common, timeout_default)?;
    let derived = shape.derive(&common.name, given, registry)?;
    // What is derived is set afterwards, in place of these.
    let defaults =
        ToolDefaults { category: Category::Custom, risk: Risk::Low, annotations: Annotations::default() };
    derived.complete(common.into_builder(defaults)).build()
}

/// Makes a tool of others of which some are not there yet, such as those of an MCP server: they are looked up
/// when it is called. Until then nothing is derived from its parts, so it counts as one that may change
/// anything, and takes any arguments unless it says which.
pub fn late_composed_tool(
    config: ComposedToolConfig<Composition>,
    registry: &Registry,
    timeout_default: Duration,
) -> Result<Tool, DefinitionError> {
    let handler = Late { config: config.clone(), registry: registry.downgrade(), timeout_default };
    let mut common = config.common;
    let given = given(&mut common, timeout_default)?;
    let defaults =
        ToolDefaults { category: Category::Custom, risk: Risk::Low, annotations: Annotations::default() };
    let schema = given.input_schema.unwrap_or_else(|| serde_json::json!({ "type": "object" }));
    let mut builder = common.into_builder(defaults).input_schema(schema).source(Source::Plugin);
    if let Some(facets) = given.facets {
        builder = builder.facets(facets);
    }
    builder.shared_handler(Arc::new(handler)).build()
}

/// A composition that looks up its parts when it is called.
struct Late {
    config: ComposedToolConfig<Composition>,
    /// The registry that it is in itself.
    registry: WeakRegistry,
    timeout_default: Duration,
}

impl Late {
    fn resolve(&self) -> Result<Tool, ToolError> {
        let gone = || ToolError::new(ErrorCode::Internal, "the tools that it calls are gone");
        let registry = self.registry.upgrade().ok_or_else(gone)?;
        composed_tool(self.config.clone(), &registry, self.timeout_default).map_err(|error| {
            let why: Vec<_> = error.problems.iter().map(|problem| problem.message.as_str()).collect();
            ToolError::new(ErrorCode::McpConnection, format!("it cannot run now: {}", why.join("; ")))
                .nothing_done()
                .suggest("its MCP server may not be connected: `helve mcp status`")
        })
    }
}

impl Handler for Late {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let resolved = self.resolve().and_then(|tool| match tool.input().validate(&arguments) {
            Ok(()) => Ok(tool),
            Err(fields) => {
                let message = "the arguments do not fit what its parts take";
                Err(ToolError::new(ErrorCode::ValidationFailed, message).with_fields(fields))
            }
        });
        match resolved {
            Ok(tool) => tool.handler().call(arguments, context),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn implementation(&self) -> Implementation {
        Implementation::Composition
    }

    fn fingerprint(&self) -> String {
        serde_json::to_string(&self.config.shape).unwrap_or_default()
    }

    fn undoes_on_error(&self) -> bool {
        serde_json::to_value(&self.config.shape).is_ok_and(|shape| wants_undo(&shape))
    }

    fn parts(&self) -> Vec<String> {
        self.config.shape.tools().into_iter().map(str::to_owned).collect()
    }
}

/// Whether a failure anywhere in a composition undoes what was done.
fn wants_undo(shape: &Value) -> bool {
    match shape {
        Value::Object(fields) => {
            fields.get("on_error").is_some_and(|policy| policy == "undo") || fields.values().any(wants_undo)
        }
        Value::Array(items) => items.iter().any(wants_undo),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Takes out what is derived where it is not given.
fn given(common: &mut ToolCommon, timeout_default: Duration) -> Result<Given, DefinitionError> {
    let parameters = std::mem::take(&mut common.parameters);
    let input_schema = match (common.input_schema.take(), parameters.is_empty()) {
        (schema, true) => schema,
        (None, false) => Some(Parameter::schema(&parameters)),
        (Some(_), false) => {
            let message = "give an input schema or parameters, not both".to_owned();
            let problems = vec![Problem { at: "parameters".to_owned(), message }];
            return Err(DefinitionError { tool: common.name.clone(), problems });
        }
    };
    Ok(Given {
        input_schema,
        output_schema: common.output_schema.take(),
        category: common.category,
        risk: common.risk,
        timeout: common.timeout_ms.map(Duration::from_millis),
        title: common.annotations.title.clone(),
        read_only: common.annotations.read_only,
        destructive: common.annotations.destructive,
        idempotent: common.annotations.idempotent,
        open_world: common.annotations.open_world,
        facets: common.facets.take().map(|facets| facets.into_iter().collect()),
        timeout_default,
    })
}
