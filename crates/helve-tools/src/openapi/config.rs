//! What stands in the configuration of an imported API.

use std::collections::BTreeMap;

use helve::pattern::matches;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::Retry;

/// An API whose OpenAPI document becomes one tool for each operation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenApiConfig {
    /// The namespace of the tools: `github` makes `github/list_issues`.
    pub namespace: String,
    /// The document, OpenAPI 3.0 to 3.2 as JSON or YAML: a file, or an `https://` URL.
    pub document: String,
    /// Where the API is, in place of what the document says. May hold `${env:NAME}`. Set it where
    /// credentials are sent and the document is another party's: it decides who gets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Values for variables in the document's server URL; its own defaults hold for the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub server_variables: BTreeMap<String, String>,
    /// Only operations that one of these matches. All, where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<Selector>,
    /// No operation that one of these matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Selector>,
    /// Only operations that read.
    #[serde(default)]
    pub read_only_only: bool,
    /// Credentials by the name of the document's security scheme, such as
    /// `bearerAuth = "${env:API_TOKEN}"`; `user:${env:PASSWORD}` for basic authentication. An
    /// operation gets those that its `security` names. Where the document names none, the only one
    /// is sent; of several none is guessed, and the operation is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub auth: BTreeMap<String, String>,
    /// Headers of every request. May hold `${env:NAME}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Query parameters of every request. May hold `${env:NAME}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// Whether results must fit the document's response schemas. Off by default, since many APIs
    /// answer otherwise than their documents say and such a result would be an error.
    #[serde(default)]
    pub output_schemas: bool,
    /// Always ask a person first.
    #[serde(default)]
    pub requires_approval: bool,
    /// How long a call may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Whether a failed attempt is repeated: `none`, `quick`, `standard`, `aggressive`, or a policy.
    #[serde(default)]
    pub retry: Retry,
    /// Accounts that must be connected before the tools can run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub integrations: Vec<String>,
    /// The largest response, in bytes after decompression; 4 MiB by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_bytes_max: Option<usize>,
}

impl OpenApiConfig {
    /// An API with nothing else said.
    pub fn new(namespace: impl Into<String>, document: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            document: document.into(),
            server: None,
            server_variables: BTreeMap::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            read_only_only: false,
            auth: BTreeMap::new(),
            headers: BTreeMap::new(),
            query: BTreeMap::new(),
            output_schemas: false,
            requires_approval: false,
            timeout_ms: None,
            retry: Retry::default(),
            integrations: Vec::new(),
            response_bytes_max: None,
        }
    }
}

/// Picks operations. Every key that is given must match; `*` stands for any text and `?` for one
/// character.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Selector {
    /// The operation's id, such as `issues/*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Its path as the document writes it, such as `/repos/{owner}/{repo}/issues*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its method, in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// One of its tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// What selectors look at.
pub(crate) struct Identity<'d> {
    pub(crate) id: Option<&'d str>,
    pub(crate) path: &'d str,
    pub(crate) method: &'d str,
    pub(crate) tags: Vec<&'d str>,
}

impl Selector {
    pub(super) fn matches(&self, operation: &Identity<'_>) -> bool {
        let fits = |pattern: &Option<String>, text: Option<&str>| match pattern {
            Some(pattern) => text.is_some_and(|text| matches(pattern, text)),
            None => true,
        };
        let tagged = |pattern: &String| operation.tags.iter().any(|tag| matches(pattern, tag));
        fits(&self.operation_id, operation.id)
            && fits(&self.path, Some(operation.path))
            && self.method.as_ref().is_none_or(|method| method.eq_ignore_ascii_case(operation.method))
            && self.tag.as_ref().is_none_or(tagged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_given_key_must_match() {
        let operation =
            Identity { id: Some("issues/list"), path: "/issues", method: "GET", tags: vec!["issues", "v2"] };
        let selector = |json: serde_json::Value| serde_json::from_value::<Selector>(json).unwrap();
        for (json, expected) in [
            (serde_json::json!({ "tag": "v*" }), true),
            (serde_json::json!({ "tag": "v2", "method": "get" }), true),
            (serde_json::json!({ "tag": "v2", "method": "POST" }), false),
            (serde_json::json!({ "path": "/iss*", "operation_id": "*list" }), true),
        ] {
            assert_eq!(selector(json.clone()).matches(&operation), expected, "{json}");
        }
    }
}
