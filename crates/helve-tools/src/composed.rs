//! Composed tools from configuration.

use std::time::Duration;

use helve::compose::{Composition, Given};
use helve::{Annotations, Category, DefinitionError, Parameter, Problem, Registry, Risk, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
