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

use helve::{Annotations, DefinitionError, Facet, Source, Tool, ToolBuilder};

use crate::http::Variables;
use browser::Browser;
use client::LazyClient;

pub use config::{WebConfig, WebConfigError};
pub use downloads::Downloads;
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
    let secrets = fetch::BoundSecrets::new(&config.secrets)?;
    let builders = [
        search::tool(&config.search, backend)?,
        scrape::tool(&config.scrape, backend),
        fetch::get_tool(&config.http, &secrets, backend),
        fetch::request_tool(&config.http, &secrets, backend),
    ];
    builders
        .into_iter()
        .map(|builder| builder.source(Source::Builtin).build().map_err(WebConfigError::from))
        .collect()
}

/// A tool that reads what is outside and changes nothing.
fn reads_the_web(builder: ToolBuilder, reach: Reach) -> ToolBuilder {
    builder.annotations(Annotations { open_world: true, ..Annotations::pure() }).facets(reach.facets())
}

/// What a web tool can come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// What everybody can read.
    Public,
    /// What not everybody can, because the operator opened a private network or bound a secret.
    Private,
}

impl Reach {
    fn of(backend: &WebBackend, secrets: &fetch::BoundSecrets) -> Self {
        let public = backend.client.policy().allow.is_empty() && secrets.is_empty();
        if public { Self::Public } else { Self::Private }
    }

    /// What is asked for goes out, too: an address or a query can carry anything.
    fn facets(self) -> Vec<Facet> {
        match self {
            Self::Public => vec![Facet::ReadsUntrusted, Facet::Egress],
            Self::Private => vec![Facet::ReadsUntrusted, Facet::ReadsPrivate, Facet::Egress],
        }
    }
}

impl From<DefinitionError> for WebConfigError {
    fn from(error: DefinitionError) -> Self {
        Self::new(error.tool.clone(), error.to_string())
    }
}
