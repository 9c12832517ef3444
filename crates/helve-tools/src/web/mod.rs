//! Tools that reach the web: `web-search`, `web-scrape`, `http-get` and `http-request`.
//!
//! A model chooses the addresses, and what comes back is written by strangers. So every request
//! goes through the guarded client, and every text is bounded and cleaned:
//!
//! - `config` is what stands under `[web]` in the configuration;
//! - `client` is the guarded client, made when it is first needed;
//! - `downloads` is the folder that answers are saved in;
//! - `text` cleans and cuts text from outside;
//! - `search` asks search providers, one after the other;
//! - `fetch` sends the requests of `http-get` and `http-request`;
//! - `scrape` reads web pages; `browser` renders those that need JavaScript.

pub mod browser;
pub mod client;
pub mod config;

mod downloads;
mod fetch;
mod scrape;
mod search;
mod text;

use std::path::Path;
use std::sync::Arc;

use helve::{Annotations, BoxFuture, DefinitionError, Facet, Reads, Source, TellsReads, Tool, ToolBuilder};
use helve_net::Url;
use serde_json::Value;

use crate::http::Variables;
use browser::Browser;
use client::LazyClient;

use config::HttpConfig;
pub use config::{WebConfig, WebConfigError};
pub use downloads::Downloads;
#[cfg(fuzzing)]
pub use scrape::count_selected;
pub use search::{HOW_TO_CONNECT_SEARCH, SEARCH_INTEGRATION};

/// What the web tools reach the world through. Cheap to clone.
#[derive(Clone)]
pub struct WebBackend {
    /// The guarded client.
    pub client: LazyClient,
    /// Where `${env:NAME}` looks.
    pub variables: Variables,
    /// Where saved answers go. None: nothing can be saved.
    pub downloads: Option<Arc<Downloads>>,
    /// Why nothing can be saved although a folder was named.
    pub no_downloads: Option<String>,
    /// What renders pages that need JavaScript. None: they are read as the server sent them.
    pub browser: Option<Arc<dyn Browser>>,
}

impl WebBackend {
    /// The client, the environment of this process, and nothing else.
    pub fn new(client: LazyClient) -> Self {
        Self { client, variables: Variables::process(), downloads: None, no_downloads: None, browser: None }
    }

    /// Saves answers into this folder, and nowhere else.
    pub fn saving_into(mut self, folder: &Path) -> std::io::Result<Self> {
        self.downloads = Some(Arc::new(Downloads::open(folder, Vec::new())?));
        Ok(self)
    }
}

/// All web tools, or what is wrong with their configuration.
pub fn web_tools(config: &WebConfig, backend: &WebBackend) -> Result<Vec<Tool>, WebConfigError> {
    each_web_tool(config, backend).into_iter().map(|(_, made)| made).collect()
}

/// The web tools by name, each as it is or with what is wrong with its configuration.
pub fn each_web_tool(
    config: &WebConfig,
    backend: &WebBackend,
) -> Vec<(&'static str, Result<Tool, WebConfigError>)> {
    let secrets = fetch::BoundSecrets::new(&config.secrets);
    let fetching = |make: fn(&HttpConfig, &fetch::BoundSecrets, &WebBackend) -> ToolBuilder| {
        secrets.as_ref().map(|secrets| make(&config.http, secrets, backend)).map_err(WebConfigError::clone)
    };
    let builders = [
        ("web-search", search::tool(&config.search, backend)),
        ("web-scrape", Ok(scrape::tool(&config.scrape, backend))),
        ("http-get", fetching(fetch::get_tool)),
        ("http-request", fetching(fetch::request_tool)),
    ];
    let build = |builder: ToolBuilder| builder.source(Source::Builtin).build().map_err(WebConfigError::from);
    builders.map(|(name, builder)| (name, builder.and_then(build))).into()
}

/// A tool that reads what is outside and changes nothing.
fn reads_the_web(builder: ToolBuilder, reach: Reach) -> ToolBuilder {
    let annotations = Annotations { open_world: true, ..Annotations::pure() };
    let builder = builder.annotations(annotations).facets(reach.facets());
    reach.told(builder)
}

/// What a web tool can come by.
enum Reach {
    /// What everybody can read.
    Public,
    /// What not everybody can, because the operator opened a private network or bound a secret. Each call is
    /// told by where it goes and what it carries.
    Private(LazyClient),
}

impl Reach {
    fn of(backend: &WebBackend, secrets: &fetch::BoundSecrets) -> Self {
        let public = backend.client.policy().allow.is_empty() && secrets.is_empty();
        if public { Self::Public } else { Self::Private(backend.client.clone()) }
    }

    /// What is asked for goes out, too: an address or a query can carry anything.
    fn facets(&self) -> Vec<Facet> {
        match self {
            Self::Public => vec![Facet::ReadsUntrusted, Facet::Egress],
            Self::Private(_) => vec![Facet::ReadsUntrusted, Facet::ReadsPrivate, Facet::Egress],
        }
    }

    /// Tells calls that read private things from those that do not, where there are both.
    fn told(self, builder: ToolBuilder) -> ToolBuilder {
        match self {
            Self::Public => builder,
            Self::Private(client) => builder.tells_reads(ByAddress(client)),
        }
    }
}

/// Tells calls apart by the address that they go to, and by the secrets that they carry.
struct ByAddress(LazyClient);

impl ByAddress {
    fn url(arguments: &Value) -> Option<Url> {
        Url::parse(arguments.get("url")?.as_str()?.trim()).ok()
    }
}

impl TellsReads for ByAddress {
    fn says(&self, arguments: &Value) -> Option<Reads> {
        if fetch::carries_secret(arguments) {
            return Some(Reads::Private);
        }
        // What is no address is fetched nowhere.
        let Some(url) = Self::url(arguments) else { return Some(Reads::Public) };
        self.0.policy().leads_inside(&url).map(reads)
    }

    fn find_out(&self, arguments: &Value) -> BoxFuture<'static, Reads> {
        let (url, client) = (Self::url(arguments), self.0.get());
        Box::pin(async move {
            match (url, client) {
                (Some(url), Ok(client)) => reads(client.leads_inside(&url).await),
                (None, _) | (_, Err(_)) => Reads::Public,
            }
        })
    }
}

fn reads(leads_inside: bool) -> Reads {
    if leads_inside { Reads::Private } else { Reads::Public }
}

impl From<DefinitionError> for WebConfigError {
    fn from(error: DefinitionError) -> Self {
        Self::new(error.tool.clone(), error.to_string())
    }
}
