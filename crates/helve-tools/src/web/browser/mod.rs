//! A browser that renders pages.
//!
//! - [`Browser`] is all that `web-scrape` knows of it;
//! - `chromium` is a Chromium that is started for each page, by the implementer of
//!   [`StartBrowser`]: how it is confined is not known here;
//! - `boxed` starts it in a box, with the proxy as its only way out;
//! - `cdp` speaks the DevTools protocol with it, over a pair of pipes;
//! - `render` drives one page.

mod boxed;
mod cdp;
mod chromium;
mod render;

use std::time::{Duration, Instant};

use helve::{BoxFuture, Reads, ToolError};
use helve_net::Url;
use tokio_util::sync::CancellationToken;

pub use boxed::BoxedBrowser;
pub use chromium::{BrowserPipes, Chromium, StartBrowser};

/// A browser that turns addresses into pages.
pub trait Browser: Send + Sync + 'static {
    /// Renders a page: its scripts run, and what they made of it is returned.
    fn render(
        &self,
        request: RenderRequest,
        cancellation: CancellationToken,
    ) -> BoxFuture<'_, Result<Rendered, ToolError>>;

    /// Whether it could be started now.
    fn available(&self) -> bool;
}

/// What to render, and how long it may take.
#[derive(Debug, Clone)]
pub struct RenderRequest {
    /// The page: http or https.
    pub url: Url,
    /// How long to wait once it has loaded.
    pub wait: Duration,
    /// A selector; the page is ready when something matches, or nothing more happens.
    pub selector: Option<String>,
    /// The most HTML that is taken from it.
    pub html_bytes_max: usize,
    /// When it must be done.
    pub deadline: Instant,
    /// What it may read, with all that its scripts ask for: what is public alone, or what `[net] allow` opens
    /// as well.
    pub reads: Reads,
}

/// A rendered page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Its HTML; what the browser does not show is marked.
    pub html: String,
    /// Where the browser is in the end.
    pub url: Url,
    /// The HTTP status of the page.
    pub status: u16,
    /// Whether the HTML is only the start.
    pub truncated: bool,
}
