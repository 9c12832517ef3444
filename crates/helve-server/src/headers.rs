//! What headers of the stateless era say must be what the body says: a proxy that routes by the headers
//! must not be fooled.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderName};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use helve::json::{JsonLimits, parse};
use helve::trace::SpanContext;
use helve_mcp::message::{Request, RpcError, read};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::guard::sole;

pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
/// Deepest schema that is searched for headers.
const DEPTH_MAX: usize = 16;

/// The span of the caller. One that cannot be read is none, as the standard says.
pub(crate) fn trace_parent(headers: &HeaderMap) -> Option<SpanContext> {
    sole(headers, TRACE_PARENT)?.parse().ok()
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow)]
    task_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
}

/// Checks the headers of a request against its body. `schema_of` gives the schema of a tool with
/// arguments that stand in headers too.
pub(crate) fn check(
    headers: &HeaderMap,
    request: &Request,
    schema_of: impl FnOnce(&str) -> Option<std::sync::Arc<Value>>,
) -> Result<(), RpcError> {
    let head: Head<'_> = read(request.params.as_deref())?;
    let version = once(headers, &VERSION)?;
    if let Some(said) = head.meta.as_ref().and_then(|meta| meta.version.as_deref()) {
        match version {
            Some(version) if version == said => {}
            Some(_) => return Err(mismatch("`MCP-Protocol-Version` is not the version in `_meta`")),
            None => return Err(mismatch("`MCP-Protocol-Version` is missing")),
        }
    }
    match once(headers, &METHOD)? {
        Some(method) if method == request.method => {}
        Some(_) => return Err(mismatch("`Mcp-Method` is not the method in the body")),
        None => return Err(mismatch("`Mcp-Method` is missing")),
    }
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => head.name.as_deref(),
        "resources/read" => head.uri.as_deref(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => head.task_id.as_deref(),
        _ => None,
    };
    if let Some(name) = name {
        match once(headers, &NAME)?.map(decode) {
            Some(Some(said)) if said == name => {}
            Some(_) => return Err(mismatch("`Mcp-Name` is not the name in the body")),
            None => return Err(mismatch("`Mcp-Name` is missing")),
        }
        if request.method == "tools/call"
            && let Some(schema) = schema_of(name)
        {
            // What cannot be read is refused where it is read for the call.
            let read = |raw: &RawValue| parse(raw.get().as_bytes(), JsonLimits::default()).ok();
            let arguments = head.arguments.and_then(read);
            check_arguments(headers, &schema, &arguments.unwrap_or(Value::Null), DEPTH_MAX)?;
        }
    }
    Ok(())
}

/// Checks the arguments that stand in headers too, those of nested objects included.
fn check_arguments(headers: &HeaderMap, schema: &Value, value: &Value, depth: usize) -> Result<(), RpcError> {
    let Some(properties) = schema["properties"].as_object().filter(|_| depth > 0) else { return Ok(()) };
    for (property, schema) in properties {
        let value = &value[property.as_str()];
        if let Some(header) = schema["x-mcp-header"].as_str() {
            let header = format!("mcp-param-{}", header.to_ascii_lowercase());
            let Ok(header) = HeaderName::try_from(header) else { continue };
            let expected = match value {
                Value::String(text) => Some(text.clone()),
                Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
                Value::Null | Value::Array(_) | Value::Object(_) => None,
            };
            let said = once(headers, &header)?.map(decode);
            match (said, expected) {
                (None, None) => {}
                (Some(Some(said)), Some(expected)) if said == expected => {}
                (Some(_) | None, _) => {
                    return Err(mismatch(&format!("`{header}` is not the argument `{property}`")));
                }
            }
        }
        check_arguments(headers, schema, value, depth - 1)?;
    }
    Ok(())
}

/// What a value says that is written in Base64 where it could not stand in a header as it is. None
/// where that is broken.
fn decode(value: &str) -> Option<Cow<'_, str>> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        None => Some(Cow::Borrowed(value)),
        Some(encoded) => String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok().map(Cow::Owned),
    }
}

/// A header that must not stand there twice: two readers could each believe another one.
fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(&format!("`{name}` stands there twice")));
    }
    value.to_str().map(Some).map_err(|_| mismatch(&format!("`{name}` is no plain text")))
}

fn mismatch(message: &str) -> RpcError {
    RpcError::new(RpcError::HEADER_MISMATCH, message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helve_mcp::message::{Message, raw};
    use serde_json::json;

    use super::*;

    fn code(headers: &[(&'static str, &str)], body: Value, schema: Option<Value>) -> Option<i64> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let Ok(Message::Request(request)) = Message::parse(raw(&body).get().as_bytes()) else {
            panic!("{body}")
        };
        check(&map, &request, |_| schema.map(Arc::new)).err().map(|error| error.code)
    }

    fn call(name: &str, arguments: Value) -> Value {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
        let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
    }

    const V: (&str, &str) = ("mcp-protocol-version", "2026-07-28");
    const M: (&str, &str) = ("mcp-method", "tools/call");

    #[test]
    fn headers_must_say_what_the_body_says() {
        let body = || call("grüße", json!({}));
        let name = ("mcp-name", "=?base64?Z3LDvMOfZQ==?=");
        assert_eq!(code(&[V, M, name], body(), None), None);
        for headers in [
            vec![M, name],
            vec![V, name],
            vec![V, M],
            vec![("mcp-protocol-version", "2025-11-25"), M, name],
            vec![V, ("mcp-method", "Tools/call"), name],
            vec![V, M, ("mcp-name", "other")],
            vec![V, M, ("mcp-name", "=?base64?Z3LDvMOfZQ?=")],
            vec![V, M, M, name],
        ] {
            assert_eq!(code(&headers, body(), None), Some(RpcError::HEADER_MISMATCH), "{headers:?}");
        }
    }

    #[test]
    fn arguments_in_headers_must_be_those_in_the_body() {
        let schema =
            || Some(json!({ "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } }));
        let headers = |region: Option<&'static str>| {
            let mut headers = vec![V, M, ("mcp-name", "x")];
            headers.extend(region.map(|region| ("mcp-param-region", region)));
            headers
        };
        for (header, arguments, expected) in [
            (Some("eu"), json!({ "region": "eu" }), None),
            (None, json!({}), None),
            (Some("us"), json!({ "region": "eu" }), Some(RpcError::HEADER_MISMATCH)),
            (None, json!({ "region": "eu" }), Some(RpcError::HEADER_MISMATCH)),
            (Some("eu"), json!({}), Some(RpcError::HEADER_MISMATCH)),
        ] {
            assert_eq!(code(&headers(header), call("x", arguments), schema()), expected, "{header:?}");
        }
    }
}
