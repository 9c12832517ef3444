//! Ways to make a tool in Rust: explicit schemas, a parameter list, or a typed function.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::Context;
use crate::cost::Price;
use crate::definition::{
    Annotations, Assumed, Category, Definition, DefinitionError, Example, Facet, FailureMode, Problem, Risk,
    Source,
};
use crate::effect::{Effect, EffectHandler};
use crate::error::ToolError;
use crate::label::TellsReads;
use crate::name::ToolName;
use crate::parameter::Parameter;
use crate::precondition::{Check, Precondition};
use crate::preview::Preview;
use crate::retry::RetryPolicy;
use crate::run::{OnCrash, Recall, RecallHandler, Undo, UndoHandler};
use crate::tool::function::{
    Direction, Instant, JsonFunction, PreviewWith, Previewed, TypedFunction, schema_of,
};
use crate::tool::{Handler, OwnCode, Tool};

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
    facets: Option<BTreeSet<Facet>>,
    assumed: Assumed,
    failure_mode: FailureMode,
    retry: RetryPolicy,
    preconditions: Vec<Precondition>,
    effects: Vec<Effect>,
    undo: Option<Undo>,
    recall: Option<Recall>,
    on_crash: OnCrash,
    cost: Option<Price>,
    own: OwnCode,
    handler: Option<Arc<dyn Handler>>,
    preview: Option<PreviewWith>,
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
            facets: None,
            assumed: Assumed::default(),
            failure_mode: FailureMode::default(),
            retry: RetryPolicy::default(),
            preconditions: Vec::new(),
            effects: Vec::new(),
            undo: None,
            recall: None,
            on_crash: OnCrash::default(),
            cost: None,
            own: OwnCode::default(),
            handler: None,
            preview: None,
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

    /// Which ways information takes through the tool; none of them with an empty list. A tool
    /// that does not say counts as all.
    pub fn facets(mut self, facets: impl IntoIterator<Item = Facet>) -> Self {
        self.facets = Some(facets.into_iter().collect());
        self
    }

    /// What is assumed of the tool where nobody says its facets.
    pub fn assumed(mut self, assumed: Assumed) -> Self {
        self.assumed = assumed;
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

    /// Repeats a failed attempt only where `worth_it` says so too: given the error, and the number of
    /// the attempt that ended in it, from 1. It can make the policy stricter, never laxer.
    ///
    /// ```
    /// use helve_core::retry::RetryPolicy;
    /// use helve_core::Tool;
    /// let tool = Tool::builder("pay/status")
    ///     .description("Looks up a payment.")
    ///     .read_only()
    ///     .retry(RetryPolicy::standard())
    ///     .retry_if(|error, attempt| attempt < 2 || error.message().contains("busy"))
    ///     .handler(|_, _| async { Ok("paid".into()) })
    ///     .build()
    ///     .unwrap();
    /// assert!(tool.retry_if().is_some());
    /// ```
    pub fn retry_if(mut self, worth_it: impl Fn(&ToolError, u32) -> bool + Send + Sync + 'static) -> Self {
        self.own.retry_if = Some(Arc::new(worth_it));
        self
    }

    /// Every way to write what a text of its arguments means, such as a path from a folder and the same one
    /// from `/`. A rule that denies or asks fits where one of them does. It must be quick.
    pub fn spellings(mut self, spellings: impl Fn(&str) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.own.spellings = Some(Arc::new(spellings));
        self
    }

    /// How calls that read private things are told from those that do not. Its facets say what a call can come
    /// by at most; a call that counts as public must read nothing private ([`Context::reads`]).
    pub fn tells_reads(mut self, tells: impl TellsReads) -> Self {
        self.own.tells_reads = Some(Arc::new(tells));
        self
    }

    /// Adds something that must hold before it runs.
    pub fn precondition(mut self, precondition: Precondition) -> Self {
        self.preconditions.push(precondition);
        self
    }

    /// Adds something that must hold before it runs, with code of your own that checks it.
    pub fn precondition_checked(mut self, precondition: Precondition, check: impl Check) -> Self {
        self.own.checks.insert(self.preconditions.len(), Arc::new(check));
        self.precondition(precondition)
    }

    /// Adds something that it changes.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }

    /// Adds something that it changes, with code of your own that applies it and takes it back.
    pub fn effect_handled(mut self, effect: Effect, handler: impl EffectHandler) -> Self {
        self.own.effects.insert(self.effects.len(), Arc::new(handler));
        self.effect(effect)
    }

    /// How it undoes what it did: by a call of another tool.
    pub fn undo(mut self, undo: Undo) -> Self {
        self.undo = Some(undo);
        self
    }

    /// How it undoes what it did: by code of your own over the call's arguments and result.
    ///
    /// After a crash it may be called again for the same call: it must do no harm then.
    pub fn undo_handled(mut self, handler: impl UndoHandler) -> Self {
        self.own.undo = Some(Arc::new(handler));
        self.undo(Undo::Handler)
    }

    /// How to find out, by another tool, whether a call that was cut short had its effect.
    pub fn recall(mut self, recall: Recall) -> Self {
        self.recall = Some(recall);
        self
    }

    /// How to find out, by code of your own, whether a call that was cut short had its effect.
    pub fn recall_handled(mut self, handler: impl RecallHandler) -> Self {
        self.own.recall = Some(Arc::new(handler));
        self
    }

    /// What calls cost.
    pub fn cost(mut self, price: Price) -> Self {
        self.cost = Some(price);
        self
    }

    /// What becomes of a run that was cut short.
    pub fn on_crash(mut self, policy: OnCrash) -> Self {
        self.on_crash = policy;
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

    /// What a call would do, for the person who is asked about it, and a fingerprint of what it would use besides its
    /// arguments. The closure must only look, and is given little time. Where it fails or takes too long nobody is
    /// asked, and the call ends with its error.
    ///
    /// The approval keeps the fingerprint. When the call runs, the handler looks once more at what it is about to use,
    /// and [`Context::still_approved`] refuses where that is not what the person saw. Look at the last moment, and use
    /// exactly what you looked at, so that nothing can change in between.
    ///
    /// ```
    /// use helve_core::json::sha256_hex;
    /// use helve_core::{Preview, Risk, Tool, ToolError};
    /// use serde_json::{json, Value};
    ///
    /// async fn read_draft(id: &str) -> Result<String, ToolError> {
    ///     // … from the mail server
    ///     Ok(format!("draft {id}"))
    /// }
    /// async fn send(_mail: String) {}
    ///
    /// let tool = Tool::builder("mail/send_draft")
    ///     .description("Sends a draft as it is.")
    ///     .input_schema(json!({ "type": "object", "properties": { "draft": { "type": "string" } } }))
    ///     .risk(Risk::High)
    ///     .preview_with(|arguments: Value, _context| async move {
    ///         let mail = read_draft(arguments["draft"].as_str().unwrap_or_default()).await?;
    ///         let fingerprint = sha256_hex(mail.as_bytes());
    ///         Ok(Preview::new(mail).with_fingerprint(fingerprint))
    ///     })
    ///     .handler(|arguments: Value, context| async move {
    ///         let mail = read_draft(arguments["draft"].as_str().unwrap_or_default()).await?;
    ///         // Refuses where the draft was edited after a person approved it.
    ///         context.still_approved(&sha256_hex(mail.as_bytes()))?;
    ///         send(mail).await;
    ///         Ok(json!("sent"))
    ///     })
    ///     .build()
    ///     .unwrap();
    /// assert!(tool.handler().needs_preview());
    /// ```
    pub fn preview_with<F, R>(mut self, preview: F) -> Self
    where
        F: Fn(Value, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Preview, ToolError>> + Send + 'static,
    {
        self.preview = Some(Arc::new(move |arguments, context| Box::pin(preview(arguments, context))));
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

    /// What runs, as your own handler.
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
        self.shared_handler(Arc::new(TypedFunction::new(function)))
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
        let handler = match self.preview {
            Some(preview) => Arc::new(Previewed { handler, preview }) as Arc<dyn Handler>,
            None => handler,
        };
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
            facets: self.facets,
            assumed: self.assumed,
            failure_mode: self.failure_mode,
            retry: self.retry,
            preconditions: self.preconditions,
            effects: self.effects,
            undo: self.undo,
            recall: self.recall,
            on_crash: self.on_crash,
            cost: self.cost,
        };
        Tool::with_own_code(definition, handler, self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::ParameterType;
    use serde::Deserialize;
    use serde_json::json;

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
          "type": "object",
          "additionalProperties": false,
          "properties": {
            "query": {
              "type": "string",
              "description": "Search query"
            },
            "maxResults": {
              "type": "number",
              "description": "Max results",
              "default": 5
            },
            "kind": {
              "type": "string",
              "description": "Sort",
              "enum": [
                "news",
                "all"
              ]
            }
          },
          "required": [
            "query"
          ]
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
