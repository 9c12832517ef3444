//! The keys of `[web]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the web tools may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebConfig {
    /// Where `web-search` looks.
    pub search: SearchConfig,
    /// How `web-scrape` reads pages.
    pub scrape: ScrapeConfig,
    /// What `http-get` and `http-request` may do.
    pub http: HttpConfig,
    /// Secrets that `http-get` and `http-request` may send, by name: a call writes
    /// `${secret:NAME}` in a header or in the query, and never sees the value.
    pub secrets: BTreeMap<String, SecretConfig>,
}

/// Where `web-search` looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchConfig {
    /// The providers to ask, best first: `searxng`, `tavily`, `brave`, `serpapi`. The next one is
    /// asked where one cannot be reached, fails, refuses its key or wants no more requests. Where none is
    /// named, those at hand are asked: a SearXNG with a `url`, and those whose key is set.
    pub providers: Vec<ProviderName>,
    /// How long one provider may take, in milliseconds.
    #[schemars(range(min = 100, max = 60_000))]
    pub timeout_ms: u64,
    /// Your own SearXNG. It needs `url` and no key, and `json` among the `search.formats` of
    /// its settings.
    pub searxng: ProviderConfig,
    /// Tavily. The key is `${env:TAVILY_API_KEY}` unless said otherwise.
    pub tavily: ProviderConfig,
    /// Brave Search. The key is `${env:BRAVE_API_KEY}` unless said otherwise.
    pub brave: ProviderConfig,
    /// SerpAPI. The key is `${env:SERPAPI_API_KEY}` unless said otherwise.
    pub serpapi: ProviderConfig,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            providers: Vec::new(),
            timeout_ms: 5_000,
            searxng: ProviderConfig::default(),
            tavily: ProviderConfig::default(),
            brave: ProviderConfig::default(),
            serpapi: ProviderConfig::default(),
        }
    }
}

/// A search provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderName {
    /// Your own SearXNG.
    Searxng,
    /// Tavily, which needs a key.
    Tavily,
    /// Brave Search, which needs a key.
    Brave,
    /// SerpAPI, which needs a key.
    Serpapi,
}

/// How a search provider is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// Where it is, if not at the usual place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its key, as a reference: `${env:NAME}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How `web-scrape` reads pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScrapeConfig {
    /// Whether a site's robots.txt is obeyed.
    pub robots: bool,
    /// How long a page is remembered in the session's short-term memory, in milliseconds. A call
    /// reads it from there only if its `max_age_ms` says so. 0 remembers nothing.
    #[schemars(range(max = 86_400_000))]
    pub remember_ms: u64,
    /// The Chromium that renders pages which need JavaScript: a path, or a name to be looked up in the
    /// system's folders. Without it, the Chromium that is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser: Option<PathBuf>,
}

impl Default for ScrapeConfig {
    fn default() -> Self {
        Self { robots: true, remember_ms: 3_600_000, browser: None }
    }
}

/// What `http-get` and `http-request` may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// The folder that `save_as` writes into. A relative path starts at the folder of the file that
    /// names it. Left out: nothing can be saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downloads: Option<PathBuf>,
    /// The largest answer that is saved, in bytes.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub download_bytes: usize,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { downloads: None, download_bytes: 100 << 20 }
    }
}

/// A secret and where it may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretConfig {
    /// The environment variable that holds it.
    pub env: String,
    /// The hosts that it may be sent to, over https: `api.example.com`, `api.example.com:8443`,
    /// `*.example.com`. `http://localhost:8080` allows it without encryption, there alone.
    pub hosts: Vec<String>,
}

/// Something under `[web]` that cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`web.{at}`: {message}")]
pub struct WebConfigError {
    /// The key at fault, such as `search.tavily.key`.
    pub at: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl WebConfigError {
    pub(super) fn new(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into() }
    }
}
