//! What a call may say.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetInput {
    /// The address: http or https.
    #[schemars(length(max = 2048), regex(pattern = "^[hH][tT][tT][pP][sS]?://"))]
    url: String,
    /// Headers. `${secret:NAME}` stands for a secret that the operator bound to this host.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 50))]
    headers: BTreeMap<String, String>,
    /// Parameters that are added to the URL, encoded: text, numbers, booleans, or lists of them.
    /// `${secret:NAME}` works here too.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 100))]
    query: BTreeMap<String, Parameter>,
    /// How the content is returned: `auto` goes by its type.
    #[serde(default)]
    response: Shape,
    /// Save the content under this name, in the folder for downloads, instead of returning it. An
    /// existing file is never overwritten.
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    save_as: Option<String>,
    /// The most bytes of content to return. A longer text is cut, longer JSON is an error.
    #[serde(default = "default_max_bytes")]
    #[schemars(range(min = 1, max = 4_194_304))]
    max_bytes: usize,
    /// Whether redirects are followed. Otherwise the redirect is the result.
    #[serde(default = "yes")]
    follow_redirects: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestInput {
    /// The address: http or https.
    #[schemars(length(max = 2048), regex(pattern = "^[hH][tT][tT][pP][sS]?://"))]
    pub(super) url: String,
    /// What to do.
    pub(super) method: Verb,
    /// Headers. `${secret:NAME}` stands for a secret that the operator bound to this host.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 50))]
    pub(super) headers: BTreeMap<String, String>,
    /// Parameters that are added to the URL, encoded: text, numbers, booleans, or lists of them.
    /// `${secret:NAME}` works here too.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 100))]
    pub(super) query: BTreeMap<String, Parameter>,
    /// A body of JSON. Give at most one of `json`, `form` and `text`.
    #[serde(default)]
    pub(super) json: Option<Value>,
    /// A body of form fields.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 1000))]
    pub(super) form: Option<BTreeMap<String, Parameter>>,
    /// A body of text; its type is `text/plain` unless a `Content-Type` header says otherwise.
    #[serde(default)]
    pub(super) text: Option<String>,
    /// How the content is returned: `auto` goes by its type.
    #[serde(default)]
    pub(super) response: Shape,
    /// Save the content under this name, in the folder for downloads, instead of returning it. An
    /// existing file is never overwritten.
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    pub(super) save_as: Option<String>,
    /// The most bytes of content to return. A longer text is cut, longer JSON is an error.
    #[serde(default = "default_max_bytes")]
    #[schemars(range(min = 1, max = 4_194_304))]
    pub(super) max_bytes: usize,
    /// Whether redirects are followed. Otherwise the redirect is the result.
    #[serde(default = "yes")]
    pub(super) follow_redirects: bool,
}

impl From<GetInput> for RequestInput {
    fn from(input: GetInput) -> Self {
        let GetInput { url, headers, query, response, save_as, max_bytes, follow_redirects } = input;
        let (json, form, text) = (None, None, None);
        Self {
            url,
            method: Verb::Get,
            headers,
            query,
            json,
            form,
            text,
            response,
            save_as,
            max_bytes,
            follow_redirects,
        }
    }
}

fn default_max_bytes() -> usize {
    256 << 10
}

fn yes() -> bool {
    true
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Verb {
    Get,
    Head,
    Options,
    Post,
    Put,
    Patch,
    Delete,
}

/// How content is returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Shape {
    #[default]
    Auto,
    Json,
    Text,
}

/// The value of a parameter.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Parameter {
    One(Scalar),
    Many(#[schemars(length(max = 100))] Vec<Scalar>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Scalar {
    Text(String),
    Bool(bool),
    Integer(i64),
    Number(f64),
}

impl Parameter {
    /// The values as text, in order.
    pub(super) fn texts(&self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one.text()],
            Self::Many(many) => many.iter().map(Scalar::text).collect(),
        }
    }
}

impl Scalar {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bool(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
        }
    }
}
