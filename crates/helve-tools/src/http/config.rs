//! What stands in the configuration of an HTTP tool.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::ToolCommon;

/// A tool that is a request to an HTTP API.
///
/// Text may hold `{argument}`, replaced by an argument of the call, and `${env:NAME}`, replaced by
/// an environment variable; `{{` and `}}` stand for braces. Secrets are only ever given by
/// `${env:NAME}`: their values are kept out of results, errors and logs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpToolConfig {
    /// What every tool says of itself.
    #[serde(flatten)]
    pub common: ToolCommon,
    /// The HTTP method. It also decides, unless told otherwise, the risk and the annotations.
    #[serde(default)]
    pub method: HttpMethod,
    /// The URL, with `{argument}` in its path or query. Arguments are percent-encoded and can
    /// neither choose the host nor add or remove a path segment.
    pub url: String,
    /// Headers. One whose argument is absent is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Query parameters. One whose argument is absent is left out; a list repeats the parameter
    /// unless `{ value = "{list}", style = "comma" }` says otherwise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, QueryConfig>,
    /// What is sent as content: `"arguments"` (all as one JSON object), `"rest"` (those that
    /// nothing else uses), `{ json = … }`, `{ form = … }` or `{ text = "…" }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyConfig>,
    /// How the response becomes the result.
    #[serde(default)]
    pub response: ResponseConfig,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// Reads without changing anything.
    #[default]
    Get,
    /// Reads the headers alone.
    Head,
    /// Makes or does something.
    Post,
    /// Makes or replaces one thing.
    Put,
    /// Changes a part.
    Patch,
    /// Deletes what the address names.
    Delete,
}

/// A query parameter: a template, or a template with a style.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a text such as `{argument}`, or `{ value = \"{argument}\", style = \"comma\" }`"
)]
pub enum QueryConfig {
    /// The value as a template.
    Value(String),
    /// The value, and how a list or an object is written.
    Styled(StyledQuery),
}

/// A query parameter with a style.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StyledQuery {
    /// The value as a template.
    pub value: String,
    /// How a list or an object is written.
    #[serde(default)]
    pub style: QueryStyle,
}

/// How a list or an object is written in a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueryStyle {
    /// `a=1&a=2`; the fields of an object become parameters of their own.
    #[default]
    Repeat,
    /// `a=1&a=2`; an object stays whole, as JSON.
    Whole,
    /// Joined by commas: `a=1,2`.
    Comma,
    /// Joined by spaces: `a=1 2`.
    Space,
    /// Joined by bars: `a=1|2`.
    Pipe,
    /// `a[x]=1&a[y][z]=2`, and `a[0]=1&a[1]=2` for a list
    Deep,
    /// JSON as a whole.
    Json,
}

/// What is sent as content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "`arguments`, `rest`, or a table with `json`, `form` or `text`")]
pub enum BodyConfig {
    /// Arguments as they are.
    Preset(BodyPreset),
    /// Content that is made of arguments.
    Mapped(BodyMapping),
}

/// Arguments as a JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BodyPreset {
    /// All of them.
    Arguments,
    /// Those that neither URL, query nor headers use.
    Rest,
}

/// A mapping of arguments to content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BodyMapping {
    /// JSON in which a string that is just `{argument}` keeps the argument's type. What is absent
    /// is left out.
    Json(Value),
    /// Fields of a form.
    Form(BTreeMap<String, String>),
    /// Plain text with arguments in it.
    Text(String),
}

/// How a response becomes the result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResponseConfig {
    /// What the content is taken for. By default its content type says.
    pub format: ResponseFormat,
    /// JSON Pointer to the part of the answer that is the result, such as `/data/items`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pick: Option<String>,
    /// Fields of the result, each with a JSON Pointer into the answer (after `pick`). A list is
    /// mapped item by item. What is not there is null.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// The largest response, in bytes after decompression; 4 MiB by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<usize>,
}

/// What the content of a response is taken for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResponseFormat {
    /// JSON where the content type says so, otherwise text.
    #[default]
    Auto,
    /// JSON, whatever the content type says.
    Json,
    /// Text, whatever the content type says.
    Text,
}
