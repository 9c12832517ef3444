//! Fills a plan's holes, each with the encoding of its place.

use std::collections::BTreeSet;

use helve::{Context, ErrorCode, FieldError, ToolError};
use helve_net::header::{ACCEPT, CONTENT_TYPE, COOKIE};
use helve_net::{HeaderMap, HeaderName, HeaderValue, Method, Request, Url};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::config::QueryStyle;
use super::plan::{BodyPlan, HeaderForm, HeaderPlan, JsonPlan, QueryPlan, RequestPlan};
use super::secrets::{Secrets, base64};
use super::template::{Part, Template, plain};

/// Everything but RFC 3986's unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Text as one part of a path or query.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

type Arguments = Map<String, Value>;

/// The request that a call makes.
pub(super) fn request(
    plan: &RequestPlan,
    arguments: &Arguments,
    secrets: &Secrets,
    context: &Context,
) -> Result<Request, ToolError> {
    let mut url = url(plan, arguments, secrets)?;
    let query = pairs(&plan.query, arguments, secrets)?;
    if !query.is_empty() {
        url.set_query(Some(&query));
    }
    let mut headers = HeaderMap::new();
    // Some APIs answer in XML or HTML unless they are asked.
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.8"));
    let (body, media_type) = body(&plan.body, arguments, secrets)?;
    if let Some(media_type) = media_type {
        set(&mut headers, CONTENT_TYPE, &media_type, Secrecy::Open)?;
    }
    for header in &plan.headers {
        add_header(&mut headers, header, arguments, secrets)?;
    }
    add_cookies(&mut headers, plan, arguments, secrets)?;
    // Reading twice is harmless; for the rest, servers that know this header do it only once.
    if let Some(key) = context.idempotency_key().filter(|_| plan.method != Method::GET) {
        set(&mut headers, HeaderName::from_static("idempotency-key"), key, Secrecy::Open)?;
    }
    let mut request = Request::new(plan.method.clone(), url).response_bytes_max(plan.response_bytes_max());
    request.headers = headers;
    request.body = body;
    request.deadline = context.deadline();
    Ok(request)
}

fn url(plan: &RequestPlan, arguments: &Arguments, secrets: &Secrets) -> Result<Url, ToolError> {
    let broken = || ToolError::failed("the tool's base URL is not usable; the operator must correct it");
    let base = plan.base.render(arguments, secrets).ok_or_else(broken)?;
    let base = Url::parse(&base).map_err(|error| broken().with_source(error))?;
    if base.query().is_some() || base.fragment().is_some() || base.cannot_be_a_base() {
        return Err(broken());
    }
    let before = base.path_segments().map_or(0, |segments| segments.filter(|s| !s.is_empty()).count());
    let mut text = base.as_str().trim_end_matches('/').to_owned();
    for segment in &plan.path {
        text.push('/');
        text.push_str(&segment_text(segment, arguments, secrets)?);
    }
    let url = Url::parse(&text).map_err(|error| broken().with_source(error))?;
    // The parser folds dot segments away; what remains must be what the plan has.
    let segments = url.path_segments().map_or(0, Iterator::count);
    if url.origin() != base.origin() || segments != (before + plan.path.len()).max(1) {
        return Err(broken());
    }
    Ok(url)
}

fn segment_text(segment: &Template, arguments: &Arguments, secrets: &Secrets) -> Result<String, ToolError> {
    let mut text = String::new();
    let mut last = None;
    for part in segment.parts() {
        match part {
            Part::Text(literal) => text.push_str(literal),
            Part::Variable(name) => text.push_str(&encode(secrets.value(name))),
            Part::Argument(name) => {
                let value = arguments.get(name).and_then(|value| path_value(value, name).transpose());
                let value = value.ok_or_else(|| invalid(name, "a value: it is part of the path"))??;
                text.push_str(&value);
                last = Some(name);
            }
        }
    }
    match last {
        Some(name) if text.is_empty() || is_dots(&text) => {
            Err(invalid(name, "text that is neither empty nor `.` or `..`: it is part of the path"))
        }
        _ => Ok(text),
    }
}

/// A value as a part of a path segment. Lists are joined by commas, as APIs expect.
fn path_value(value: &Value, name: &str) -> Result<Option<String>, ToolError> {
    let one = |value: &Value| {
        let Some(text) = plain(value) else { return Ok(None) };
        // Encoded slashes are decoded by some servers before they look at the path.
        if text.split(['/', '\\']).any(is_dots) {
            return Err(invalid(name, "text without `.` or `..` as a path segment"));
        }
        Ok(Some(encode(&text)))
    };
    match value {
        Value::Array(items) => {
            let items =
                items.iter().filter_map(|item| one(item).transpose()).collect::<Result<Vec<_>, _>>()?;
            Ok(Some(items.join(",")).filter(|text| !text.is_empty()))
        }
        _ => one(value),
    }
}

/// Whether a URL parser takes a segment for `.` or `..`; it does so for `%2e` as well.
pub(crate) fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// Query parameters or form fields as text.
fn pairs(plans: &[QueryPlan], arguments: &Arguments, secrets: &Secrets) -> Result<String, ToolError> {
    let mut pairs = Vec::new();
    let mut spread = BTreeSet::new();
    for plan in plans {
        let argument = plan.value.as_argument().and_then(|name| Some((name, arguments.get(name)?)));
        let Some((name, value)) = argument else {
            push(&mut pairs, &plan.name, plan.value.render(arguments, secrets));
            continue;
        };
        // Two values under one name are not told apart, and one of them may be a credential. Under its own
        // name what is spread out sends nothing else.
        for key in spread_keys(value, plan.style) {
            let is_another = |other: &QueryPlan| !std::ptr::eq(other, plan) && other.name == *key;
            let is_taken = plans.iter().any(is_another) || !spread.insert(key);
            if is_taken {
                let expected = format!("an object without `{key}`: something else is sent under that name");
                return Err(invalid(name, &expected));
            }
        }
        push_value(&mut pairs, &plan.name, value, plan.style);
    }
    Ok(pairs.join("&"))
}

/// The fields of an object that become names of their own.
fn spread_keys(value: &Value, style: QueryStyle) -> impl Iterator<Item = &String> {
    let fields = value.as_object().filter(|_| style == QueryStyle::Repeat);
    fields.into_iter().flat_map(Map::keys)
}

fn push(pairs: &mut Vec<String>, name: &str, value: Option<String>) {
    pairs.extend(value.map(|value| format!("{}={}", encode(name), encode(&value))));
}

fn push_value(pairs: &mut Vec<String>, name: &str, value: &Value, style: QueryStyle) {
    let delimiter = match style {
        QueryStyle::Json => return push(pairs, name, Some(value.to_string())),
        QueryStyle::Deep => return push_deep(pairs, name, value),
        QueryStyle::Whole if value.is_object() => return push(pairs, name, Some(value.to_string())),
        QueryStyle::Repeat | QueryStyle::Whole => None,
        QueryStyle::Comma => Some(","),
        QueryStyle::Space => Some("%20"),
        QueryStyle::Pipe => Some("|"),
    };
    match (value, delimiter) {
        (Value::Array(items), None) => items.iter().for_each(|item| push(pairs, name, plain(item))),
        (Value::Array(items), Some(delimiter)) => {
            push_joined(pairs, name, items.iter().filter_map(plain), delimiter);
        }
        (Value::Object(fields), None) => {
            for (key, item) in fields {
                match item {
                    Value::Array(items) => items.iter().for_each(|item| push(pairs, key, plain(item))),
                    _ => push(pairs, key, plain(item)),
                }
            }
        }
        (Value::Object(fields), Some(delimiter)) => {
            let flat = fields.iter().filter_map(|(key, item)| Some([key.clone(), plain(item)?])).flatten();
            push_joined(pairs, name, flat, delimiter);
        }
        _ => push(pairs, name, plain(value)),
    }
}

/// Every value under its whole path. Lists are numbered: without that, objects in them run together.
fn push_deep(pairs: &mut Vec<String>, name: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, item)| push_deep(pairs, &format!("{name}[{key}]"), item));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| push_deep(pairs, &format!("{name}[{index}]"), item));
        }
        _ => push(pairs, name, plain(value)),
    }
}

fn push_joined(pairs: &mut Vec<String>, name: &str, items: impl Iterator<Item = String>, delimiter: &str) {
    let items: Vec<_> = items.map(|item| encode(&item)).collect();
    if !items.is_empty() {
        pairs.push(format!("{}={}", encode(name), items.join(delimiter)));
    }
}

fn add_header(
    headers: &mut HeaderMap,
    plan: &HeaderPlan,
    arguments: &Arguments,
    secrets: &Secrets,
) -> Result<(), ToolError> {
    let Some(text) = plan.value.render(arguments, secrets) else { return Ok(()) };
    let text = match plan.form {
        HeaderForm::Plain => text,
        HeaderForm::Basic => format!("Basic {}", base64(&text)),
    };
    let secrecy = if plan.value.variables().next().is_some() { Secrecy::Secret } else { Secrecy::Open };
    set(headers, plan.name.clone(), &text, secrecy).map_err(|error| match plan.value.arguments().next() {
        Some(name) => invalid(name, "text without line breaks or control characters: it is part of a header"),
        None => error,
    })
}

fn add_cookies(
    headers: &mut HeaderMap,
    plan: &RequestPlan,
    arguments: &Arguments,
    secrets: &Secrets,
) -> Result<(), ToolError> {
    let cookie = |(name, value): &(String, Template)| {
        Some(format!("{}={}", encode(name), encode(&value.render(arguments, secrets)?)))
    };
    let cookies: Vec<_> = plan.cookies.iter().filter_map(cookie).collect();
    if cookies.is_empty() {
        return Ok(());
    }
    set(headers, COOKIE, &cookies.join("; "), Secrecy::Secret)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    Open,
    Secret,
}

fn set(headers: &mut HeaderMap, name: HeaderName, text: &str, secrecy: Secrecy) -> Result<(), ToolError> {
    // The header type refuses line breaks and other control characters.
    let value = HeaderValue::from_str(text).or_else(|_| HeaderValue::from_bytes(text.as_bytes()));
    let mut value = value.map_err(|_| {
        ToolError::failed(format!("the value for the header `{name}` holds a control character"))
    })?;
    value.set_sensitive(secrecy == Secrecy::Secret);
    headers.insert(name, value);
    Ok(())
}

type Content = (Option<Vec<u8>>, Option<String>);

fn body(plan: &BodyPlan, arguments: &Arguments, secrets: &Secrets) -> Result<Content, ToolError> {
    match plan {
        BodyPlan::None => Ok((None, None)),
        BodyPlan::Json { content, media_type } => match json(content, arguments, secrets) {
            Some(value) => {
                let text = serde_json::to_vec(&value)
                    .map_err(|error| ToolError::failed("the content is not JSON").with_source(error))?;
                Ok((Some(text), Some(media_type.clone())))
            }
            None => Ok((None, None)),
        },
        BodyPlan::Form(fields) => {
            let text = pairs(fields, arguments, secrets)?;
            Ok((Some(text.into_bytes()), Some("application/x-www-form-urlencoded".to_owned())))
        }
        BodyPlan::Text { content, media_type } => {
            let text = content.render(arguments, secrets);
            Ok((text.map(String::into_bytes), Some(media_type.clone())))
        }
    }
}

/// The value that a plan makes; `None` where its argument is absent.
fn json(plan: &JsonPlan, arguments: &Arguments, secrets: &Secrets) -> Option<Value> {
    let object = |fields: &[(String, JsonPlan)]| -> Map<String, Value> {
        let field = |(key, plan): &(String, JsonPlan)| Some((key.clone(), json(plan, arguments, secrets)?));
        fields.iter().filter_map(field).collect()
    };
    match plan {
        JsonPlan::Literal(value) => Some(value.clone()),
        JsonPlan::Text(template) => template.render(arguments, secrets).map(Value::String),
        JsonPlan::Argument(name) => arguments.get(name).cloned(),
        JsonPlan::AllBut(used) => {
            let rest = arguments.iter().filter(|(name, _)| !used.contains(*name));
            Some(rest.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        JsonPlan::Array(items) => {
            Some(items.iter().filter_map(|item| json(item, arguments, secrets)).collect())
        }
        JsonPlan::Object(fields) => Some(Value::Object(object(fields))),
        JsonPlan::OptionalObject(fields) => {
            Some(object(fields)).filter(|fields| !fields.is_empty()).map(Value::Object)
        }
    }
}

fn invalid(argument: &str, expected: &str) -> ToolError {
    let message = format!("`{argument}` must be {expected}");
    let path = format!("/{}", helve::json::escape_pointer(argument));
    let field = FieldError {
        path,
        expected: expected.to_owned(),
        received: "another value".to_owned(),
        message: message.clone(),
    };
    ToolError::new(ErrorCode::ValidationFailed, message).with_fields(vec![field])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn plan() -> RequestPlan {
        let config = json!({ "name": "t", "description": "d", "input_schema": { "type": "object" },
            "url": "https://a.example/x/{id}/y?q={q}" });
        crate::http::plan::compile(&serde_json::from_value(config).unwrap()).unwrap()
    }

    fn decoded(text: &str) -> String {
        percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned()
    }

    proptest! {
        #[test]
        fn no_argument_leaves_its_place(id in r"(\PC{0,12}|[./\\%2eE?#@:;&=\r\n ]{0,8})", q in "\\PC{0,12}") {
            let context = Context::new(
                helve::CallId::new(jiff::Timestamp::now()),
                helve::ToolName::new("t").unwrap(),
                helve::Caller::local(),
                std::time::Instant::now(),
            );
            let Value::Object(arguments) = json!({ "id": id, "q": q }) else { unreachable!() };
            // Refusing is always right; what is sent must be what was given.
            if let Ok(request) = request(&plan(), &arguments, &Secrets::default(), &context) {
                let segments: Vec<_> = request.url.path_segments().unwrap().map(decoded).collect();
                prop_assert_eq!(segments, ["x", id.as_str(), "y"]);
                prop_assert_eq!(request.url.host_str(), Some("a.example"));
                let pairs: Vec<_> = request.url.query_pairs().into_owned().collect();
                prop_assert_eq!(pairs, [("q".to_owned(), q)]);
            }
        }
    }
}
