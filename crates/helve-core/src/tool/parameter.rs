//! A tool's parameters, one by one: the plain way to an input schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// One parameter of a tool: the plain way to an input schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The key under which a call gives it.
    pub name: String,
    /// The type that its values have.
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
    /// Text of any length.
    String,
    /// Any number, whole or not.
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
