//! Makes the request of a call.

use helve::{ErrorCode, ToolError};
use helve_net::header::{ACCEPT_ENCODING, CONTENT_TYPE, EXPECT};
use helve_net::{HeaderName, HeaderValue, Method, Redirects, Request, Url};

use super::input::{RequestInput, Verb};
use super::secrets::{BoundSecrets, mentions};
use crate::builtin::wrong_argument;
use crate::http::Variables;
use crate::http::plan::CLIENT_HEADERS;
use crate::http::secrets::Secrets;

const HEADER_BYTES_MAX: usize = 8 << 10;
const BODY_BYTES_MAX: usize = 4 << 20;
/// Longest URL once the query is in it.
const URL_BYTES_MAX: usize = 16 << 10;

/// The request, without its limits. `secrets` learns what must not come back.
pub(super) fn of(
    input: &RequestInput,
    bound: &BoundSecrets,
    variables: &Variables,
    secrets: &mut Secrets,
) -> Result<Request, ToolError> {
    let mut url = address(&input.url)?;
    let place = url.clone();
    for (name, parameter) in &input.query {
        for text in parameter.texts() {
            let (value, _) = bound.fill(&text, &place, variables, secrets)?;
            url.query_pairs_mut().append_pair(name, &value);
        }
    }
    if url.as_str().len() > URL_BYTES_MAX {
        return Err(wrong_argument("query", "shorter parameters", "", "the URL would be longer than 16 KiB"));
    }
    let mut request = Request::new(method(input.method), url);
    request.redirects = if input.follow_redirects { Redirects::Follow } else { Redirects::Stop };
    if let Some((body, content_type)) = body(input)? {
        request = request.header(CONTENT_TYPE, HeaderValue::from_static(content_type)).body(body);
    }
    for (name, text) in &input.headers {
        let (header, secret) = bound.fill(text, &place, variables, secrets)?;
        let (name, mut value) = header_of(name, &header)?;
        value.set_sensitive(secret);
        // In place of ours: a call may name the type of its body.
        request.headers.insert(name, value);
    }
    Ok(request)
}

fn address(text: &str) -> Result<Url, ToolError> {
    let refuse = |problem: &str| wrong_argument("url", "an http or https URL", text, problem);
    if mentions(text) {
        return Err(refuse("a secret stands in `headers` or `query`, never in the URL itself"));
    }
    let mut url = Url::parse(text.trim()).map_err(|error| refuse(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("only http and https are fetched"));
    }
    url.set_fragment(None);
    Ok(url)
}

fn method(verb: Verb) -> Method {
    match verb {
        Verb::Get => Method::GET,
        Verb::Head => Method::HEAD,
        Verb::Options => Method::OPTIONS,
        Verb::Post => Method::POST,
        Verb::Put => Method::PUT,
        Verb::Patch => Method::PATCH,
        Verb::Delete => Method::DELETE,
    }
}

fn body(input: &RequestInput) -> Result<Option<(Vec<u8>, &'static str)>, ToolError> {
    let given = [input.json.is_some(), input.form.is_some(), input.text.is_some()];
    if given.iter().filter(|given| **given).count() > 1 {
        let message = "a request has one body; give one of `json`, `form` and `text`";
        return Err(ToolError::new(ErrorCode::ValidationFailed, message));
    }
    if matches!(input.method, Verb::Get | Verb::Head) && given.contains(&true) {
        let message = "a GET or HEAD request has no body; use `query`, or another method";
        return Err(ToolError::new(ErrorCode::ValidationFailed, message));
    }
    let body = if let Some(value) = &input.json {
        (value.to_string().into_bytes(), "application/json")
    } else if let Some(fields) = &input.form {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        for (name, parameter) in fields {
            parameter.texts().iter().for_each(|value| {
                form.append_pair(name, value);
            });
        }
        (form.finish().into_bytes(), "application/x-www-form-urlencoded")
    } else if let Some(text) = &input.text {
        (text.clone().into_bytes(), "text/plain; charset=utf-8")
    } else {
        return Ok(None);
    };
    if body.0.len() > BODY_BYTES_MAX {
        return Err(ToolError::new(ErrorCode::ValidationFailed, "the body is larger than 4 MiB; send less"));
    }
    Ok(Some(body))
}

fn header_of(name: &str, text: &str) -> Result<(HeaderName, HeaderValue), ToolError> {
    // The value may hold a secret, so no message shows it.
    let refuse = |problem: &str| wrong_argument("headers", "headers that may be sent", name, problem);
    let parsed =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| refuse("it is not the name of a header"))?;
    let ours = CLIENT_HEADERS.contains(&parsed.as_str())
        || [ACCEPT_ENCODING, EXPECT].contains(&parsed)
        || parsed.as_str().starts_with("proxy-");
    if ours {
        return Err(refuse(&format!("the client sets `{parsed}` itself; leave it out")));
    }
    if text.len() > HEADER_BYTES_MAX {
        return Err(refuse(&format!("the value of `{parsed}` is longer than 8 KiB")));
    }
    let value = HeaderValue::from_str(text)
        .map_err(|_| refuse(&format!("the value of `{parsed}` holds characters that no header may")))?;
    Ok((parsed, value))
}
