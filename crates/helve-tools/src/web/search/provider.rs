//! How each search provider is asked.
//!
//! | provider | request | key |
//! |---|---|---|
//! | SearXNG | `GET {url}/search?q&format=json` | none |
//! | Tavily | `POST {url}/search` with `query`, `max_results` | `Authorization: Bearer` |
//! | Brave | `GET {url}/res/v1/web/search?q&count` | `X-Subscription-Token` |
//! | SerpAPI | `GET {url}/search.json?engine=google&q&num` | `api_key` in the query |

use std::time::Instant;

use helve::json::{JsonLimits, parse};
use helve::{ErrorCode, ToolError};
use helve_net::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use helve_net::{HeaderName, HeaderValue, Method, Request, Response, Url};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::super::WebBackend;
use super::super::config::{ProviderConfig, ProviderName, SearchConfig, WebConfigError};
use super::answer::{self, SearchResult};
use crate::http::answer::{excerpt, retry_after};
use crate::http::secrets::Secrets;
use crate::http::template::{Part, Template};

/// Largest answer. Real ones are some tens of kilobytes.
const ANSWER_BYTES_MAX: usize = 2 << 20;
const SUBSCRIPTION_TOKEN: HeaderName = HeaderName::from_static("x-subscription-token");

/// A provider that is ready to be asked.
#[derive(Debug)]
pub(super) struct Provider {
    name: ProviderName,
    url: Url,
    /// The environment variable with its key, where it needs one.
    key: Option<String>,
}

impl Provider {
    pub(super) fn new(name: ProviderName, config: &SearchConfig) -> Result<Self, WebConfigError> {
        let (own, url, variable) = match name {
            ProviderName::Searxng => (&config.searxng, None, None),
            ProviderName::Tavily => (&config.tavily, Some("https://api.tavily.com"), Some("TAVILY_API_KEY")),
            ProviderName::Brave => {
                (&config.brave, Some("https://api.search.brave.com"), Some("BRAVE_API_KEY"))
            }
            ProviderName::Serpapi => (&config.serpapi, Some("https://serpapi.com"), Some("SERPAPI_API_KEY")),
        };
        let at = |key: &str| format!("search.{}.{key}", word(name));
        let url = base(own, url).map_err(|problem| WebConfigError::new(at("url"), problem))?;
        let key = match &own.key {
            Some(text) => Some(reference(text).map_err(|problem| WebConfigError::new(at("key"), problem))?),
            None => variable.map(str::to_owned),
        };
        Ok(Self { name, url, key })
    }

    pub(super) fn name(&self) -> &'static str {
        word(self.name)
    }

    /// Whether it needs no key, or has one.
    pub(super) fn has_key(&self, backend: &WebBackend) -> bool {
        let Some(variable) = &self.key else { return true };
        backend.variables.read(variable).is_ok_and(|key| !key.expose_secret().is_empty())
    }

    /// Asks it. An error of code `execution_failed` means that the query is at fault, any other
    /// that the provider is.
    pub(super) async fn search(
        &self,
        query: &str,
        max_results: u8,
        deadline: Instant,
        backend: &WebBackend,
    ) -> Result<Vec<SearchResult>, ToolError> {
        let mut secrets = Secrets::default();
        let key = match &self.key {
            Some(variable) => {
                let key = backend.variables.read(variable)?;
                secrets.hide(key.expose_secret());
                key.expose_secret().to_owned()
            }
            None => String::new(),
        };
        let mut request = self.request(query, max_results, &key)?;
        request.deadline = deadline;
        request.response_bytes_max = ANSWER_BYTES_MAX;
        let response = backend.client.fetch(request).await.map_err(|error| match error.code() {
            // A redirect or a URL that is refused: the provider's fault, not the query's.
            ErrorCode::ExecutionFailed => {
                ToolError::new(ErrorCode::Network, error.message()).retryable(false)
            }
            _ => error,
        })?;
        if !response.status.is_success() {
            return Err(self.refused(&response, &secrets));
        }
        let limits = JsonLimits { bytes: ANSWER_BYTES_MAX, ..JsonLimits::default() };
        let answer = parse(&response.body, limits).map_err(|_| {
            let start = excerpt(&response.text(), &secrets).chars().take(80).collect::<String>();
            unusable(&format!("its answer is not JSON; it begins: {start}"))
        })?;
        let answer = secrets.redact_value(answer);
        let results = answer::read(self.name, &answer, usize::from(max_results))
            .map_err(|problem| unusable(&problem))?;
        Ok(results)
    }

    fn request(&self, query: &str, max_results: u8, key: &str) -> Result<Request, ToolError> {
        let mut url = self.url.clone();
        let path = match self.name {
            ProviderName::Searxng | ProviderName::Tavily => "search",
            ProviderName::Brave => "res/v1/web/search",
            ProviderName::Serpapi => "search.json",
        };
        url.set_path(&format!("{}/{path}", self.url.path().trim_end_matches('/')));
        let count = max_results.to_string();
        match self.name {
            ProviderName::Searxng => {
                url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
            }
            ProviderName::Tavily => {}
            ProviderName::Brave => {
                // Without decorations: else query words come in <strong> tags.
                let pairs = [("q", query), ("count", &count), ("text_decorations", "false")];
                url.query_pairs_mut().extend_pairs(pairs);
            }
            ProviderName::Serpapi => {
                let pairs = [("engine", "google"), ("q", query), ("num", &count), ("api_key", key)];
                url.query_pairs_mut().extend_pairs(pairs);
            }
        }
        let json = HeaderValue::from_static("application/json");
        let request = Request::new(Method::GET, url).header(ACCEPT, json.clone());
        Ok(match self.name {
            ProviderName::Searxng | ProviderName::Serpapi => request,
            ProviderName::Brave => request.header(SUBSCRIPTION_TOKEN, secret_header(key)?),
            ProviderName::Tavily => {
                let body = json!({ "query": query, "max_results": max_results });
                let mut request = request
                    .header(AUTHORIZATION, secret_header(&format!("Bearer {key}"))?)
                    .header(CONTENT_TYPE, json)
                    .body(body.to_string());
                request.method = Method::POST;
                request
            }
        })
    }

    /// What a status other than success says.
    fn refused(&self, response: &Response, secrets: &Secrets) -> ToolError {
        let status = response.status.as_u16();
        let said = excerpt(&response.text(), secrets).chars().take(200).collect::<String>();
        let message = format!("it answered {status}: {said}");
        let key = self.key.as_deref();
        let (code, suggestion) = match status {
            // SearXNG's way to say that its settings do not list the format.
            403 if self.name == ProviderName::Searxng => (
                ErrorCode::IntegrationMissing,
                Some(
                    "tell the user to add `json` to `search.formats` in the settings.yml of SearXNG"
                        .to_owned(),
                ),
            ),
            401 | 403 => (
                ErrorCode::IntegrationMissing,
                key.map(|key| format!("tell the user to check the key of {} in `{key}`", self.name())),
            ),
            // 432 and 433 are Tavily's words for a used-up plan.
            402 | 429 | 432 | 433 => (ErrorCode::RateLimit, None),
            408 | 504 => (ErrorCode::Timeout, None),
            500..=599 => (ErrorCode::ServerError, None),
            // A wrong address in the configuration.
            300..=399 | 404 | 405 => (ErrorCode::ServerError, None),
            _ => (ErrorCode::ExecutionFailed, None),
        };
        let mut error = ToolError::new(code, message);
        if let Some(wait) = retry_after(response) {
            error = error.retry_after(wait);
        }
        match suggestion {
            Some(suggestion) => error.suggest(suggestion),
            None => error,
        }
    }
}

fn word(name: ProviderName) -> &'static str {
    match name {
        ProviderName::Searxng => "searxng",
        ProviderName::Tavily => "tavily",
        ProviderName::Brave => "brave",
        ProviderName::Serpapi => "serpapi",
    }
}

fn base(own: &ProviderConfig, usual: Option<&str>) -> Result<Url, String> {
    let text =
        own.url.as_deref().or(usual).ok_or("say where it is, as in `url = \"http://localhost:8888\"`")?;
    let url = Url::parse(text).map_err(|error| format!("`{text}` is not a URL: {error}"))?;
    let plain = matches!(url.scheme(), "http" | "https") && url.has_host() && url.query().is_none();
    if !plain || !url.username().is_empty() || url.password().is_some() {
        return Err(
            "write it as `https://host` or `https://host/path`, without credentials and query".to_owned()
        );
    }
    Ok(url)
}

/// The variable that a key refers to.
fn reference(text: &str) -> Result<String, String> {
    let template = Template::parse(text)?;
    match template.parts() {
        [Part::Variable(name)] => Ok(name.clone()),
        _ => Err("a secret does not belong in the configuration; put it into an environment variable and \
                  write `${env:NAME}`"
            .to_owned()),
    }
}

fn secret_header(text: &str) -> Result<HeaderValue, ToolError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        ToolError::new(ErrorCode::IntegrationMissing, "its key holds characters that no header may")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn unusable(problem: &str) -> ToolError {
    ToolError::new(ErrorCode::ServerError, problem.to_owned())
}

/// The list of results in an answer; absent means that nothing was found.
pub(super) fn list<'a>(answer: &'a Value, pointer: &str) -> Result<&'a [Value], String> {
    match answer.pointer(pointer) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(format!("its answer has something other than a list at `{pointer}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_plain_text_is_refused() {
        for text in ["tvly-0123", "Bearer ${env:A}", "{x}", "${A}", ""] {
            assert!(reference(text).is_err(), "{text}");
        }
        assert_eq!(reference("${env:MY_KEY}").unwrap(), "MY_KEY");
    }

    #[test]
    fn addresses_are_plain() {
        let own = |url: &str| ProviderConfig { url: Some(url.to_owned()), key: None };
        for url in ["x", "ftp://a", "https://u:p@a.example", "https://a.example/?q=1", "https://"] {
            assert!(base(&own(url), None).is_err(), "{url}");
        }
        assert!(base(&ProviderConfig::default(), None).unwrap_err().contains("localhost:8888"));
        assert_eq!(base(&own("http://localhost:1/sx/"), None).unwrap().path(), "/sx/");
    }
}
