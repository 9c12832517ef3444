//! OpenAPI documents: read from a file, or fetched and kept for a day.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use helve::json::sha256_hex;
use helve_net::{Client, NetError, NetPolicy, Request, Url};
use helve_tools::http::Backend;
use helve_tools::openapi::document::DOCUMENT_BYTES_MAX;
use helve_tools::openapi::{Import, ImportError, OpenApiConfig, import};

use crate::config::document::read_text;
use crate::config::find;
use crate::error::HostError;

/// How long a fetched document is used before it is fetched again.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// Why there are no tools of a document.
#[derive(Debug, thiserror::Error)]
pub(super) enum DocumentError {
    #[error(transparent)]
    Unreadable(#[from] HostError),
    #[error("`{0}` is not a URL")]
    Address(String, #[source] url::ParseError),
    #[error(transparent)]
    Start(#[from] std::io::Error),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("cannot fetch {0}")]
    Fetch(String, #[source] NetError),
    #[error("cannot fetch {0}: the server answered {1}")]
    Answer(String, String),
    #[error(transparent)]
    Import(#[from] ImportError),
}

impl DocumentError {
    /// With its causes, on one line.
    pub(super) fn with_causes(&self) -> String {
        let first: &dyn std::error::Error = self;
        let causes = std::iter::successors(Some(first), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}

/// Whether a configuration names a document that must be fetched.
pub(crate) fn is_remote(document: &str) -> bool {
    document.starts_with("http://") || document.starts_with("https://")
}

/// Turns the document that `config` names into tools. A relative path starts at `folder`.
pub(super) fn load(
    config: &OpenApiConfig,
    folder: &Path,
    client: Arc<Client>,
) -> Result<Import, DocumentError> {
    let backend = Backend::new(client);
    if !is_remote(&config.document) {
        let text = read_text(&folder.join(&config.document), DOCUMENT_BYTES_MAX)?;
        return Ok(import(config, text.as_bytes(), None, &backend)?);
    }
    let url = Url::parse(&config.document)
        .map_err(|error| DocumentError::Address(config.document.clone(), error))?;
    let bytes = kept_or_fetched(&url, backend.client.policy())?;
    Ok(import(config, &bytes, Some(&url), &backend)?)
}

/// The document as it was fetched within a day, or as it is now, or, where it cannot be fetched,
/// as it was before: a command must not fail because a machine far away is slow today.
fn kept_or_fetched(url: &Url, policy: &NetPolicy) -> Result<Vec<u8>, DocumentError> {
    let kept = find::cache_dir().map(|dir| dir.join("openapi").join(sha256_hex(url.as_str().as_bytes())));
    if let Some(bytes) =
        kept.as_deref().filter(|file| is_fresh(file)).and_then(|file| std::fs::read(file).ok())
    {
        return Ok(bytes);
    }
    match fetched(url, policy) {
        Ok(bytes) => {
            if let Some(file) = &kept
                && let Err(error) = keep(file, &bytes)
            {
                tracing::warn!(%url, %error, "the document is not kept and will be fetched every time");
            }
            Ok(bytes)
        }
        Err(error) => match kept.and_then(|file| std::fs::read(file).ok()) {
            Some(bytes) => {
                tracing::warn!(%url, error = error.with_causes(), "using an older copy of the document");
                Ok(bytes)
            }
            None => Err(error),
        },
    }
}

fn fetched(url: &Url, policy: &NetPolicy) -> Result<Vec<u8>, DocumentError> {
    // Its own loop: tools are made on a thread that may block.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let fetched = runtime.block_on(async {
        // Its own client: connections do not outlive the runtime that opened them.
        let client = Client::new(policy.clone())?;
        let request = Request::get(url.as_str())?.response_bytes_max(DOCUMENT_BYTES_MAX);
        let response =
            client.fetch(request).await.map_err(|error| DocumentError::Fetch(url.to_string(), error))?;
        if !response.status.is_success() {
            return Err(DocumentError::Answer(url.to_string(), response.status.to_string()));
        }
        Ok(response.body.into())
    });
    runtime.shutdown_background();
    fetched
}

fn is_fresh(file: &Path) -> bool {
    let age = std::fs::metadata(file)
        .and_then(|metadata| metadata.modified())
        .map(|modified| SystemTime::now().duration_since(modified));
    // A time in the future is a clock that was set back: not fresh.
    matches!(age, Ok(Ok(age)) if age < FRESH)
}

/// Puts the file in place in one step, so that nobody reads half of it.
fn keep(file: &PathBuf, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let whole = file.with_extension(format!("{}", std::process::id()));
    std::fs::write(&whole, bytes)?;
    std::fs::rename(whole, file)
}
