//! Where people find the page on which they decide.

use url::Url;

use crate::config::Loaded;
use crate::error::HostError;
use crate::running;

/// The page that the configuration names, if it names one.
pub fn configured(loaded: &Loaded) -> Result<Option<Url>, HostError> {
    let approvals = &loaded.config.approvals;
    let (key, text) = match (&approvals.page_url, &approvals.webhook.base_url) {
        (Some(text), _) => ("approvals.page_url", text),
        (None, Some(text)) => ("approvals.webhook.base_url", text),
        (None, None) => return Ok(None),
    };
    let page = Url::parse(text).ok().filter(|page| matches!(page.scheme(), "http" | "https"));
    let page = page.filter(|page| page.username().is_empty() && page.password().is_none());
    let wrong = || {
        HostError::usage(format!("`{key}` is no address of a page"))
            .hint("it begins with http:// or https:// and carries no password: https://helve.example.com")
    };
    page.map(Some).ok_or_else(wrong)
}

/// The page of the `helve up` that runs with this configuration, and so with the same journal.
pub fn running(loaded: &Loaded) -> Option<Url> {
    let address = running::note(&loaded.journal_path)?.address;
    let address = Some(address).filter(|address| !address.ip().is_unspecified())?;
    Url::parse(&format!("http://{address}")).ok()
}
