//! OpenAPI documents: read from a file, or fetched and kept for a day.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, anyhow};
use helve::json::sha256_hex;
use helve_net::{Client, NetPolicy, Request, Url};
use helve_tools::http::Backend;
use helve_tools::openapi::document::DOCUMENT_BYTES_MAX;
use helve_tools::openapi::{Import, OpenApiConfig, import};

use crate::config::document::read_text;
use crate::config::find;

/// How long a fetched document is used before it is fetched again.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether a configuration names a document that must be fetched.
pub(crate) fn is_remote(document: &str) -> bool {
    document.starts_with("http://") || document.starts_with("https://")
}

/// Turns the document that `config` names into tools. A relative path starts at `folder`.
pub(super) fn load(config: &OpenApiConfig, folder: &Path, client: Arc<Client>) -> anyhow::Result<Import> {
    let backend = Backend::new(client);
    if !is_remote(&config.document) {
        let text = read_text(&folder.join(&config.document), DOCUMENT_BYTES_MAX)
            .map_err(|failure| anyhow!("{failure}: {}", failure.details.join("; ")))?;
        return Ok(import(config, text.as_bytes(), None, &backend)?);
    }
    let url = Url::parse(&config.document).with_context(|| format!("`{}` is not a URL", config.document))?;
    let bytes = kept_or_fetched(&url, backend.client.policy())?;
    Ok(import(config, &bytes, Some(&url), &backend)?)
}

/// The document as it was fetched within a day, or as it is now, or, where it cannot be fetched,
/// as it was before: a command must not fail because a machine far away is slow today.
fn kept_or_fetched(url: &Url, policy: &NetPolicy) -> anyhow::Result<Vec<u8>> {
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
                tracing::warn!(%url, error = format!("{error:#}"), "using an older copy of the document");
                Ok(bytes)
            }
            None => Err(error),
        },
    }
}

fn fetched(url: &Url, policy: &NetPolicy) -> anyhow::Result<Vec<u8>> {
    super::block_on(async {
        // A client of its own: connections do not outlive the runtime that opened them.
        let client = Client::new(policy.clone())?;
        let request = Request::get(url.as_str())?.response_bytes_max(DOCUMENT_BYTES_MAX);
        let response = client.fetch(request).await.with_context(|| format!("cannot fetch {url}"))?;
        if !response.status.is_success() {
            return Err(anyhow!("cannot fetch {url}: the server answered {}", response.status));
        }
        Ok(response.body.into())
    })
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
