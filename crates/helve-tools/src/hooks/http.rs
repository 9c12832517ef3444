//! Hooks behind a URL: the event is posted, the response is the answer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use helve::BoxFuture;
use helve::hook::{Hook, HookContext, HookFailure, HookInput, HookOutput};
use helve_net::{HeaderName, HeaderValue, Method, Redirects, Request, Url};

use super::config::HookConfig;
use super::read_answer;
use crate::http::{literal, template::Template};
use crate::web::client::LazyClient;

/// Largest answer that is read.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// A hook that posts to a URL.
pub(super) struct HttpHook {
    client: LazyClient,
    url: Url,
    headers: Vec<(HeaderName, String)>,
    timeout: Duration,
}

impl HttpHook {
    pub(super) fn new(config: &HookConfig, timeout: Duration, client: LazyClient) -> Result<Self, String> {
        let url = config.url.as_deref().unwrap_or_default();
        let url = Url::parse(url).map_err(|error| format!("`{url}` is no address: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("an address begins with `https://` or `http://`".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("put credentials into `headers`, as `${env:NAME}`".to_owned());
        }
        let headers = config.headers.iter().map(|(name, value)| {
            let parsed = name.parse::<HeaderName>().map_err(|_| format!("`{name}` is no header"))?;
            if !value.contains("${env:")
                && let Some(why) = literal::refusal(name, &Template::text(value))
            {
                return Err(format!("headers/{name}: {why}"));
            }
            Ok((parsed, value.clone()))
        });
        Ok(Self { client, url, headers: headers.collect::<Result<_, String>>()?, timeout })
    }

    /// Posts JSON, and gives back what was answered.
    pub(super) async fn post(&self, body: Vec<u8>) -> Result<Vec<u8>, HookFailure> {
        let request = self.request(body)?;
        let client = self.client.get().map_err(|error| HookFailure::new(error.to_string()))?;
        let response = client.fetch(request).await.map_err(|error| HookFailure::new(error.to_string()))?;
        if !response.status.is_success() {
            return Err(HookFailure::new(format!("the server answered {}", response.status.as_u16())));
        }
        Ok(response.body.to_vec())
    }

    fn request(&self, body: Vec<u8>) -> Result<Request, HookFailure> {
        let failed = |message: String| HookFailure::new(message);
        let mut request = Request::new(Method::POST, self.url.clone())
            .header(HeaderName::from_static("content-type"), HeaderValue::from_static("application/json"))
            .header(HeaderName::from_static("accept"), HeaderValue::from_static("application/json"))
            .body(body)
            .timeout(self.timeout)
            .response_bytes_max(RESPONSE_BYTES_MAX)
            .redirects(Redirects::Stop);
        for (name, template) in &self.headers {
            let value = fill(template)?;
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| failed(format!("the value of the header `{name}` cannot be sent")))?;
            value.set_sensitive(true);
            request = request.header(name.clone(), value);
        }
        Ok(request)
    }
}

impl Hook for HttpHook {
    fn fire(&self, input: Arc<HookInput>, _: HookContext) -> BoxFuture<'_, Result<HookOutput, HookFailure>> {
        Box::pin(async move {
            let body = serde_json::to_vec(&*input).map_err(|error| HookFailure::new(error.to_string()))?;
            let answer = self.post(body).await?;
            let first = answer.iter().find(|byte| !byte.is_ascii_whitespace());
            if first.is_some_and(|byte| *byte != b'{') && !input.event.takes_text() {
                return Err(HookFailure::new("the server's answer is no JSON object"));
            }
            read_answer(&input.event, &answer)
        })
    }

    fn label(&self) -> Cow<'_, str> {
        // Whatever is in the query may be a secret.
        let mut shown = self.url.clone();
        shown.set_query(None);
        Cow::Owned(format!("POST {shown}"))
    }
}

/// A value with the variables that it names.
fn fill(template: &str) -> Result<String, HookFailure> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${env:") {
        let Some((name, after)) = after.split_once('}') else { break };
        let value = std::env::var(name).map_err(|_| {
            HookFailure::new(format!("the environment variable `{name}`, which it needs, is not set"))
        })?;
        filled.push_str(before);
        filled.push_str(&value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}
