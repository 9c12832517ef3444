//! Its own Chromium for each page: nothing that one page leaves behind meets another.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use helve::{BoxFuture, ErrorCode, Reads, ToolError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::cdp::Connection;
use super::{Browser, RenderRequest, Rendered, render};

/// What is left of the time for the tool itself, once the page is there.
const RESERVE: Duration = Duration::from_millis(500);

/// Arguments that every Chromium gets. Who starts it adds those that go with the box: its profile
/// folder (`--user-data-dir`), the proxy (`--proxy-server`), and whether the box replaces
/// Chromium's own sandbox (`--no-sandbox`).
const ARGUMENTS: [&str; 21] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-breakpad",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--use-mock-keychain",
    // WebRTC would go around a proxy.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "about:blank",
];

/// Starts browsers, confined as it sees fit. What a page asks for, pictures and scripts and frames,
/// is fetched by the browser and not by the guarded client: who starts it must lead all of it
/// through helve-net's proxy.
pub trait StartBrowser: Send + Sync + 'static {
    /// Starts one with these arguments, which reaches what is public alone or more. Its descriptor 3 must be the read end of the pipe that
    /// `commands` writes to, and its descriptor 4 the write end of the one that `events` reads.
    fn start(&self, arguments: Vec<String>, reads: Reads) -> BoxFuture<'_, Result<BrowserPipes, ToolError>>;

    /// Whether one could be started now.
    fn available(&self) -> bool;
}

/// A browser that runs, and ends when this is dropped.
pub struct BrowserPipes {
    /// Where commands go.
    pub commands: Box<dyn AsyncWrite + Send + Unpin>,
    /// Where answers and events come from.
    pub events: Box<dyn AsyncRead + Send + Unpin>,
    /// What ends the browser when it is dropped.
    pub guard: Box<dyn Any + Send>,
}

/// Renders pages in Chromium.
pub struct Chromium {
    starter: Arc<dyn StartBrowser>,
}

impl Chromium {
    /// A browser that `starter` starts for each page.
    pub fn new(starter: Arc<dyn StartBrowser>) -> Self {
        Self { starter }
    }

    async fn run(&self, request: &RenderRequest) -> Result<Rendered, ToolError> {
        let arguments = ARGUMENTS.map(str::to_owned).to_vec();
        let BrowserPipes { commands, events, guard } = self.starter.start(arguments, request.reads).await?;
        let rendered = render::render(Connection::new(events, commands), request).await;
        drop(guard);
        rendered
    }
}

impl Browser for Chromium {
    fn render(
        &self,
        request: RenderRequest,
        cancellation: CancellationToken,
    ) -> BoxFuture<'_, Result<Rendered, ToolError>> {
        Box::pin(async move {
            if !matches!(request.url.scheme(), "http" | "https") {
                return Err(ToolError::failed("the browser opens http and https alone"));
            }
            let until = request.deadline.checked_sub(RESERVE).unwrap_or(request.deadline);
            let until = tokio::time::Instant::from_std(until);
            tokio::select! {
                rendered = tokio::time::timeout_at(until, Box::pin(self.run(&request))) => {
                    let late = ToolError::new(ErrorCode::Timeout, "the browser did not finish the page in time");
                    rendered.unwrap_or(Err(late))
                }
                () = cancellation.cancelled() => {
                    Err(ToolError::new(ErrorCode::Cancelled, "the call was taken back"))
                }
            }
        })
    }

    fn available(&self) -> bool {
        self.starter.available()
    }
}
