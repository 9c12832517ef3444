//! The keys that every tool from configuration shares, whatever runs behind it.
//!
//! [`ToolCommon`] is flattened into the configuration of each sort of tool. The outer struct says
//! `deny_unknown_fields`, this one must not: serde hands it only the keys that it knows and the
//! outer struct refuses what is left, which a test below holds in place.

use std::time::Duration;

use helve::cost::Price;
use helve::effect::Effect;
use helve::hidden;
use helve::precondition::Precondition;
use helve::retry::RetryPolicy;
use helve::run::{OnCrash, Recall, Undo};
use helve::{Annotations, Category, Example, Facet, FailureMode, Parameter, Risk, Source, Tool, ToolBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a tool says of itself, as keys of a configuration file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolCommon {
    /// Its name: `tool`, `ns/tool` or `org/ns/tool`.
    pub name: String,
    /// Other names it answers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// What it does and returns, in enough detail for a model to choose it.
    pub description: String,
    /// When a model should choose it, and when not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    /// Uses that show a model how: lines of text, or `{ user = "…", arguments = { … } }`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Example>,
    /// JSON Schema of the arguments. Give this or `parameters`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// The arguments as a plain list. Give this or `input_schema`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// JSON Schema of the result. A result that does not fit is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What sort of work it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// How much harm a wrong call can do. High and critical calls ask a person first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// Always ask a person first, whatever the risk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_approval: bool,
    /// How long it may run, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Hints about its behaviour. What is left out keeps this sort of tool's own default.
    #[serde(default, skip_serializing_if = "Hints::is_empty")]
    pub annotations: Hints,
    /// Which ways information takes through it: `reads_untrusted`, `reads_private`, `egress`,
    /// `mutates`. Without this it counts as `labels.unlabelled` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facets: Option<Vec<Facet>>,
    /// Accounts that must be connected before it can run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub integrations: Vec<String>,
    /// What becomes of a failure of the tool itself: an `error`, or a result that says so (`return`).
    #[serde(default)]
    pub failure_mode: FailureMode,
    /// Whether a failed attempt is repeated: `none`, `quick`, `standard`, `aggressive`, or a policy.
    #[serde(default)]
    pub retry: Retry,
    /// What must hold before it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<Precondition>,
    /// What it changes, beyond its result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// How it undoes what it did: another tool, with arguments made from `arguments` and `result`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
    /// How to find out whether a call that was cut short had its effect: a tool that only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<Recall>,
    /// What becomes of a run that was cut short: `resume`, `roll_back`, or `ask` a person.
    #[serde(default)]
    pub on_crash: OnCrash,
    /// What calls cost: `"0.004 USD"` each, or a table with `per_call`, `unit`, and `reported`, which says where in the
    /// result the tool tells (`"/usage/cost"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Price>,
}

/// What holds for a sort of tool where the configuration says nothing.
#[derive(Debug, Clone)]
pub struct ToolDefaults {
    /// What sort of work it does.
    pub category: Category,
    /// How much harm a wrong call can do.
    pub risk: Risk,
    /// Hints about its behaviour.
    pub annotations: Annotations,
}

impl ToolCommon {
    /// A tool with this name and description, and nothing else said.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            aliases: Vec::new(),
            description: description.into(),
            when_to_use: None,
            examples: Vec::new(),
            input_schema: None,
            parameters: Vec::new(),
            output_schema: None,
            category: None,
            risk: None,
            requires_approval: false,
            timeout_ms: None,
            annotations: Hints::default(),
            facets: None,
            integrations: Vec::new(),
            failure_mode: FailureMode::default(),
            retry: Retry::default(),
            preconditions: Vec::new(),
            effects: Vec::new(),
            undo: None,
            recall: None,
            on_crash: OnCrash::default(),
            cost: None,
        }
    }

    /// The names of the arguments that a call may give, where the schema lists them.
    pub fn argument_names(&self) -> Vec<&str> {
        let listed = self.input_schema.as_ref().and_then(|schema| schema.get("properties"));
        let listed = listed.and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
        self.parameters.iter().map(|parameter| &parameter.name).chain(listed).map(String::as_str).collect()
    }

    /// A builder with all of this set; what runs is still missing.
    pub fn into_builder(self, defaults: ToolDefaults) -> ToolBuilder {
        let mut builder = Tool::builder(self.name)
            .description(self.description)
            .category(self.category.unwrap_or(defaults.category))
            .risk(self.risk.unwrap_or(defaults.risk))
            .source(Source::Plugin)
            .annotations(self.annotations.over(defaults.annotations))
            .failure_mode(self.failure_mode)
            .retry(self.retry.into_policy())
            .on_crash(self.on_crash);
        if let Some(text) = self.when_to_use {
            builder = builder.when_to_use(text);
        }
        if let Some(schema) = self.input_schema {
            builder = builder.input_schema(schema);
        }
        if let Some(schema) = self.output_schema {
            builder = builder.output_schema(schema);
        }
        if self.requires_approval {
            builder = builder.requires_approval();
        }
        if let Some(undo) = self.undo {
            builder = builder.undo(undo);
        }
        if let Some(recall) = self.recall {
            builder = builder.recall(recall);
        }
        if let Some(facets) = self.facets {
            builder = builder.facets(facets);
        }
        if let Some(price) = self.cost {
            builder = builder.cost(price);
        }
        if let Some(ms) = self.timeout_ms {
            builder = builder.timeout(Duration::from_millis(ms));
        }
        builder = self.aliases.into_iter().fold(builder, ToolBuilder::alias);
        builder = self.examples.into_iter().fold(builder, ToolBuilder::example);
        builder = self.parameters.into_iter().fold(builder, ToolBuilder::parameter);
        builder = self.integrations.into_iter().fold(builder, ToolBuilder::integration);
        builder = self.preconditions.into_iter().fold(builder, ToolBuilder::precondition);
        self.effects.into_iter().fold(builder, ToolBuilder::effect)
    }
}

/// Hints about behaviour; each may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hints {
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// May delete or overwrite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Two equal calls do no more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Reaches beyond this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl Hints {
    /// These hints, and the defaults where nothing is said.
    pub fn over(self, defaults: Annotations) -> Annotations {
        Annotations {
            title: self.title.or(defaults.title),
            read_only: self.read_only.unwrap_or(defaults.read_only),
            destructive: self.destructive.unwrap_or(defaults.destructive),
            idempotent: self.idempotent.unwrap_or(defaults.idempotent),
            open_world: self.open_world.unwrap_or(defaults.open_world),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether and how a failed attempt is repeated: the name of a preset, or a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "`none`, `quick`, `standard`, `aggressive`, or a policy with \
                               `retries_max`, `backoff` and `retryable_codes`"
)]
pub enum Retry {
    /// A preset by name.
    Preset(RetryPreset),
    /// Your own policy.
    Policy(RetryPolicy),
}

/// The retry policies that have a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RetryPreset {
    /// One attempt, and no more.
    #[default]
    None,
    /// Three more attempts, a second apart.
    Quick,
    /// Three more attempts after 1, 2 and 4 seconds.
    Standard,
    /// Five more attempts with growing, jittered waits.
    Aggressive,
}

impl Default for Retry {
    fn default() -> Self {
        Self::Preset(RetryPreset::default())
    }
}

impl Retry {
    /// The policy that it stands for.
    pub fn into_policy(self) -> RetryPolicy {
        match self {
            Self::Preset(RetryPreset::None) => RetryPolicy::none(),
            Self::Preset(RetryPreset::Quick) => RetryPolicy::quick(),
            Self::Preset(RetryPreset::Standard) => RetryPolicy::standard(),
            Self::Preset(RetryPreset::Aggressive) => RetryPolicy::aggressive(),
            Self::Policy(policy) => policy,
        }
    }
}

/// Whether a character is no part of what is read: zero-width, bidirectional, tags, controls other
/// than line feed and tab. Spaces of every kind are.
pub(crate) fn is_invisible(c: char) -> bool {
    hidden::kind(c).is_some_and(|kind| kind != hidden::Kind::Space)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[serde(flatten)]
        common: ToolCommon,
        #[serde(default)]
        own: Option<String>,
    }

    fn read(json: Value) -> Result<Outer, String> {
        serde_json::from_value(json).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_that_neither_struct_knows_is_refused() {
        let good = json!({ "name": "x", "description": "d", "own": "mine", "risk": "high" });
        let outer = read(good).unwrap();
        assert_eq!((outer.common.risk, outer.own.as_deref()), (Some(Risk::High), Some("mine")));
        let error = read(json!({ "name": "x", "description": "d", "rsik": "high" })).unwrap_err();
        assert!(error.contains("rsik"), "{error}");
        let error = read(json!({ "name": "x", "description": "d", "annotations": { "readonly": true } }));
        assert!(error.unwrap_err().contains("readonly"));
    }

    #[test]
    fn retry_is_a_preset_or_a_policy() {
        let retry = |value: Value| {
            read(json!({ "name": "x", "description": "d", "retry": value }))
                .map(|outer| outer.common.retry.into_policy())
        };
        assert_eq!(retry(json!("standard")), Ok(RetryPolicy::standard()));
        let own = json!({ "retries_max": 1, "backoff": { "type": "fixed", "delay_ms": 5 },
            "retryable_codes": ["network"] });
        assert_eq!(retry(own).unwrap().retries_max, 1);
        assert!(retry(json!("sometimes")).unwrap_err().contains("`aggressive`"));
    }

    #[test]
    fn hints_override_defaults_one_by_one() {
        let hints = Hints { destructive: Some(false), ..Hints::default() };
        let merged = hints.over(Annotations::default());
        assert_eq!((merged.destructive, merged.open_world), (false, true));
    }

    #[test]
    fn argument_names_come_from_either_form() {
        let mut common = ToolCommon::new("x", "d");
        common.parameters.push(Parameter::required("a", helve::ParameterType::String, "Some text."));
        assert_eq!(common.argument_names(), ["a"]);
        common = ToolCommon::new("x", "d");
        common.input_schema = Some(json!({ "type": "object", "properties": { "b": {} } }));
        assert_eq!(common.argument_names(), ["b"]);
    }

    #[test]
    fn the_schema_lists_common_and_own_keys_together() {
        let schema = serde_json::to_value(schemars::schema_for!(Outer)).unwrap();
        for key in ["name", "retry", "own"] {
            assert!(schema["properties"].get(key).is_some(), "{key}: {schema}");
        }
    }
}
