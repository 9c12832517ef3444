//! Headers of the stateless era: what a request says in its body, for those in between.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::message::Fields;

const BASE64_START: &str = "=?base64?";
const BASE64_END: &str = "?=";

/// The headers that every request has.
pub(crate) fn standard(method: &str, params: &Fields) -> Vec<(String, String)> {
    let mut headers = vec![("Mcp-Method".to_owned(), method.to_owned())];
    let name = match method {
        "tools/call" | "prompts/get" => params.text("name"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => params.text("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => params.text("taskId"),
        _ => None,
    };
    headers.extend(name.map(|name| ("Mcp-Name".to_owned(), encode(&name))));
    headers
}

/// Arguments that a tool wants to see as headers: `x-mcp-header` in its schema.
#[derive(Debug, Clone, Default)]
pub(crate) struct ParamHeaders(Vec<(Vec<String>, String)>);

impl ParamHeaders {
    /// Those of an input schema, or what is wrong with them: a tool whose headers are ambiguous or
    /// could smuggle something is not to be used.
    pub(crate) fn of(schema: &Value) -> Result<Self, String> {
        let mut found = Self::default();
        found.collect(schema, &mut Vec::new())?;
        let mut seen = std::collections::BTreeSet::new();
        for (_, header) in &found.0 {
            if !seen.insert(header.to_ascii_lowercase()) {
                return Err(format!("x-mcp-header `{header}` is there twice"));
            }
        }
        let written = count(schema);
        if written != found.0.len() {
            return Err(
                "x-mcp-header stands where it must not: only properties of objects have it".to_owned()
            );
        }
        Ok(found)
    }

    fn collect(&mut self, schema: &Value, path: &mut Vec<String>) -> Result<(), String> {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(()) };
        for (name, property) in properties {
            path.push(name.clone());
            if let Some(header) = property.get("x-mcp-header") {
                let header = header.as_str().filter(|header| is_token(header));
                let header = header.ok_or_else(|| format!("x-mcp-header of `{name}` is no header's name"))?;
                if !matches!(
                    property.get("type").and_then(Value::as_str),
                    Some("string" | "integer" | "boolean")
                ) {
                    return Err(format!("x-mcp-header of `{name}` needs a text, an integer or a boolean"));
                }
                self.0.push((path.clone(), header.to_owned()));
            }
            self.collect(property, path)?;
            path.pop();
        }
        Ok(())
    }

    /// The headers for these arguments.
    pub(crate) fn for_arguments(&self, arguments: &Value) -> Vec<(String, String)> {
        let header = |(path, header): &(Vec<String>, String)| {
            let value = path.iter().try_fold(arguments, |value, key| value.get(key))?;
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Bool(flag) => flag.to_string(),
                Value::Number(number) => number.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            Some((format!("Mcp-Param-{header}"), encode(&text)))
        };
        self.0.iter().filter_map(header).collect()
    }
}

/// How often `x-mcp-header` is written as a keyword anywhere in a schema.
fn count(schema: &Value) -> usize {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match key.as_str() {
                "x-mcp-header" => 1,
                "default" | "const" | "enum" | "examples" => 0,
                // Names of properties are no keywords.
                "properties" | "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => {
                    value.as_object().map_or(0, |map| map.values().map(count).sum())
                }
                _ => count(value),
            })
            .sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}

fn is_token(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

/// A value as a header can carry it.
pub(crate) fn encode(value: &str) -> String {
    let at_edge = |text: &str| text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    let plain = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && !at_edge(value)
        && !(value.starts_with(BASE64_START) && value.ends_with(BASE64_END));
    match plain {
        true => value.to_owned(),
        false => format!("{BASE64_START}{}{BASE64_END}", BASE64_STANDARD.encode(value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_become_headers() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "deep": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
        } });
        let headers = ParamHeaders::of(&schema).unwrap();
        let given = headers.for_arguments(&json!({ "region": "köln", "deep": { "n": 3 } }));
        assert_eq!(
            given,
            [
                ("Mcp-Param-Region".to_owned(), "=?base64?a8O2bG4=?=".to_owned()),
                ("Mcp-Param-N".to_owned(), "3".to_owned()),
            ]
        );
        assert!(headers.for_arguments(&json!({ "region": null })).is_empty());
    }

    #[test]
    fn schemas_that_could_smuggle_are_refused() {
        for schema in [
            json!({ "x-mcp-header": "A" }),
            json!({ "properties": { "a": { "type": "string", "x-mcp-header": "A B" } } }),
            json!({ "properties": { "a": { "type": "string", "x-mcp-header": "" } } }),
            json!({ "properties": { "a": { "type": "number", "x-mcp-header": "A" } } }),
            json!({ "properties": { "a": { "type": "string", "x-mcp-header": "A" }, "b": { "type": "string", "x-mcp-header": "a" } } }),
            json!({ "properties": { "a": { "items": { "type": "string", "x-mcp-header": "A" } } } }),
        ] {
            assert!(ParamHeaders::of(&schema).is_err(), "{schema}");
        }
    }
}
