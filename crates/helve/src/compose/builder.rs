//! Composed tools in Rust.

use std::time::Duration;

use helve_core::expression::Scope;
use helve_core::template::Template;
use helve_core::{Category, DefinitionError, Risk, Tool, ToolBuilder, ToolError};
use serde_json::Value;

use super::derive::Given;
use super::shape::{Branch, Composition, Conditional, MapOver, Parallel, Sequence, ShapeCode};
use super::step::{Code, OnError, Step, Transform};
use crate::registry::Registry;

/// A tool that calls others one after the other.
///
/// ```
/// use helve::compose::{self, OnError, Step};
/// use helve::{Layer, Parameter, ParameterType, Registry, Tool};
/// use serde_json::json;
///
/// let registry = Registry::default();
/// for name in ["web/fetch", "mail/send"] {
///     let tool = Tool::builder(name)
///         .description("Does something with text.")
///         .parameter(Parameter::required("text", ParameterType::String, "The text."))
///         .handler(|arguments, _| async move { Ok(arguments) });
///     registry.register(Layer::Project, tool.build().unwrap()).unwrap();
/// }
/// let publish = compose::sequence("publish")
///     .description("Fetches a text and sends it on.")
///     .step(Step::call("page", "web/fetch"))
///     .step(Step::of("mail/send").arguments(json!({ "text": "{{ steps.page.text }}" })))
///     .on_error(OnError::Undo)
///     .build(&registry)
///     .unwrap();
/// assert!(publish.is_composed());
/// ```
pub fn sequence(name: impl Into<String>) -> ComposedBuilder<Sequence> {
    ComposedBuilder::new(name, Sequence::default())
}

/// A tool that calls others side by side.
pub fn parallel(name: impl Into<String>) -> ComposedBuilder<Parallel> {
    ComposedBuilder::new(name, Parallel::default())
}

/// A tool that calls others where a condition holds.
pub fn conditional(name: impl Into<String>) -> ComposedBuilder<Conditional> {
    ComposedBuilder::new(name, Conditional::default())
}

/// A tool that calls `tool` for each item of the list at `over`, such as `input.urls`.
pub fn map(name: impl Into<String>, tool: impl Into<String>, over: &str) -> ComposedBuilder<MapOver> {
    ComposedBuilder::new(name, MapOver::new(tool, over))
}

/// A composed tool in the making. What is not said is derived from its parts.
#[must_use = "a builder does nothing until `build`"]
pub struct ComposedBuilder<S> {
    name: String,
    about: ToolBuilder,
    given: Given,
    shape: S,
}

impl<S> ComposedBuilder<S> {
    fn new(name: impl Into<String>, shape: S) -> Self {
        let name = name.into();
        Self { about: Tool::builder(&name), name, given: Given::default(), shape }
    }

    /// What it does, in enough detail for a model to choose it.
    pub fn description(self, text: impl Into<String>) -> Self {
        self.define(|about| about.description(text))
    }

    /// When a model should choose it, and when not.
    pub fn when_to_use(self, text: impl Into<String>) -> Self {
        self.define(|about| about.when_to_use(text))
    }

    /// Says more of it: examples, aliases, effects of its own, how it is undone. What is derived
    /// from its parts is set by this builder's own methods.
    pub fn define(mut self, define: impl FnOnce(ToolBuilder) -> ToolBuilder) -> Self {
        self.about = define(self.about);
        self
    }

    /// JSON Schema of the arguments.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.given.input_schema = Some(schema);
        self
    }

    /// JSON Schema of the result.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.given.output_schema = Some(schema);
        self
    }

    /// What sort of work it does.
    pub fn category(mut self, category: Category) -> Self {
        self.given.category = Some(category);
        self
    }

    /// More risk than its parts have.
    pub fn risk(mut self, risk: Risk) -> Self {
        self.given.risk = Some(risk);
        self
    }

    /// How long all of it may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.given.timeout = Some(timeout);
        self
    }

    /// All else that can be given.
    pub fn given(mut self, change: impl FnOnce(&mut Given)) -> Self {
        change(&mut self.given);
        self
    }
}

impl<S: Into<Composition>> ComposedBuilder<S> {
    /// Looks up the parts, checks everything and makes the tool, or says all that is wrong.
    pub fn build(self, registry: &Registry) -> Result<Tool, DefinitionError> {
        let composition: Composition = self.shape.into();
        composition.derive(&self.name, self.given, registry)?.complete(self.about).build()
    }
}

macro_rules! shaped {
    ($shape:ty, $($code:ident).+) => {
        impl ComposedBuilder<$shape> {
            /// What becomes of it when a part fails.
            pub fn on_error(mut self, policy: OnError) -> Self {
                self.shape.on_error = Some(policy);
                self
            }

            /// Shapes the result by a template.
            pub fn output(mut self, template: Value) -> Self {
                parse(template, &mut self.shape.output, &mut self.shape.$($code).+);
                self
            }

            /// Shapes the result by code. Must make the same of the same values.
            pub fn output_code<F>(mut self, make: F) -> Self
            where
                F: Fn(&Scope<'_>) -> Result<Value, ToolError> + Send + Sync + 'static,
            {
                self.shape.$($code).+.output = Some(Code::new(make));
                self
            }
        }
    };
}

shaped!(Sequence, code);
shaped!(Parallel, code);
shaped!(Conditional, code);
shaped!(MapOver, code.shape);

fn parse(json: Value, template: &mut Option<Template>, code: &mut ShapeCode) {
    match Template::parse(json) {
        Ok(parsed) => *template = Some(parsed),
        Err(error) => code.problems.push(error.to_string()),
    }
}

impl ComposedBuilder<Sequence> {
    /// Adds a step after the others.
    pub fn step(mut self, step: Step) -> Self {
        self.shape.steps.push(step);
        self
    }
}

impl ComposedBuilder<Parallel> {
    /// Adds a step that runs in parallel with the others.
    pub fn step(mut self, step: Step) -> Self {
        self.shape.steps.push(step);
        self
    }

    /// How many run at once.
    pub fn concurrency(mut self, calls_max: usize) -> Self {
        self.shape.concurrency = Some(calls_max);
        self
    }
}

impl ComposedBuilder<Conditional> {
    /// Makes a call first, whose result the conditions see as `decision`.
    pub fn decide(mut self, step: Step) -> Self {
        self.shape.decide = Some(step);
        self
    }

    /// Adds a branch after the others.
    pub fn branch(mut self, branch: Branch) -> Self {
        self.shape.branches.push(branch);
        self
    }

    /// What to do where no condition holds.
    pub fn otherwise(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.shape.otherwise = Some(steps.into_iter().collect());
        self
    }
}

impl ComposedBuilder<MapOver> {
    /// What templates call the item.
    pub fn item_name(mut self, name: impl Into<String>) -> Self {
        self.shape.item = name.into();
        self
    }

    /// The arguments for one item.
    pub fn arguments(mut self, template: Value) -> Self {
        parse(template, &mut self.shape.arguments, &mut self.shape.code.shape);
        self
    }

    /// The arguments for one item, made by code from the item and the input.
    pub fn transform<F>(mut self, make: F) -> Self
    where
        F: Fn(&Value, &Value) -> Result<Value, ToolError> + Send + Sync + 'static,
    {
        self.shape.code.step.transform = Some(Transform::new(make));
        self
    }

    /// The list, made by code.
    pub fn over_code<F>(mut self, make: F) -> Self
    where
        F: Fn(&Scope<'_>) -> Result<Value, ToolError> + Send + Sync + 'static,
    {
        self.shape.code.over = Some(Code::new(make));
        self
    }

    /// How many run at once.
    pub fn concurrency(mut self, calls_max: usize) -> Self {
        self.shape.concurrency = Some(calls_max);
        self
    }

    /// Sets how many items one call may have at most.
    pub fn items_max(mut self, items_max: usize) -> Self {
        self.shape.items_max = Some(items_max);
        self
    }
}
