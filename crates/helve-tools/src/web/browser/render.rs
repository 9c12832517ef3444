//! Drives one page: opens it, waits until it is ready, and takes its HTML.

use std::time::Duration;

use helve::{ErrorCode, ToolError};
use helve_net::Url;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use super::super::scrape::HIDDEN_MARK;
use super::super::text::line;
use super::cdp::{Connection, Event};
use super::{RenderRequest, Rendered};

/// How long a page may take to load and to fall quiet; then it is taken as it is.
const LOAD_TIME_MAX: Duration = Duration::from_secs(15);
const QUIET_TIME_MAX: Duration = Duration::from_secs(5);
/// How often a selector is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Most elements whose style is looked at.
const ELEMENTS_MAX: usize = 50_000;

/// Renders a page.
pub(super) async fn render<R, W>(
    connection: Connection<R, W>,
    request: &RenderRequest,
) -> Result<Rendered, ToolError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut page = Page::open(connection).await?;
    page.navigate(&request.url).await?;
    page.until_loaded().await?;
    if let Some(selector) = &request.selector {
        page.until_found(selector).await?;
    }
    if !request.wait.is_zero() {
        let until = Instant::now() + request.wait;
        page.listen(until, |_| false).await?;
    }
    page.take(request.html_bytes_max).await
}

struct Page<R, W> {
    connection: Connection<R, W>,
    /// The session and the target of the one page.
    session: String,
    target: String,
    frame: String,
    /// The document that is being loaded: what others report, such as the empty one before it, is
    /// none of ours.
    loader: Option<String>,
    status: u16,
    loaded: bool,
    quiet: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Page<R, W> {
    async fn open(mut connection: Connection<R, W>) -> Result<Self, ToolError> {
        let context = connection
            .command(None, "Target.createBrowserContext", json!({ "disposeOnDetach": true }))
            .await?;
        let context = text_at(&context, "browserContextId")?;
        let deny = json!({ "behavior": "deny", "browserContextId": context });
        connection.command(None, "Browser.setDownloadBehavior", deny).await?;
        let blank = json!({ "url": "about:blank", "browserContextId": context });
        let target = text_at(&connection.command(None, "Target.createTarget", blank).await?, "targetId")?;
        let attach = json!({ "targetId": target, "flatten": true });
        let session =
            text_at(&connection.command(None, "Target.attachToTarget", attach).await?, "sessionId")?;
        // From here on, other windows that pages open are seen, and closed.
        connection.command(None, "Target.setDiscoverTargets", json!({ "discover": true })).await?;
        let mut page = Self {
            connection,
            session,
            target,
            frame: String::new(),
            loader: None,
            status: 0,
            loaded: false,
            quiet: false,
        };
        page.command("Page.enable", json!({})).await?;
        // Bodies are none of our business.
        page.command("Network.enable", json!({ "maxTotalBufferSize": 0, "maxResourceBufferSize": 0 }))
            .await?;
        page.command("Page.setLifecycleEventsEnabled", json!({ "enabled": true })).await?;
        Ok(page)
    }

    async fn command(&mut self, method: &str, params: Value) -> Result<Value, ToolError> {
        self.connection.command(Some(&self.session), method, params).await
    }

    async fn navigate(&mut self, url: &Url) -> Result<(), ToolError> {
        self.connection.forget_events();
        let answer = self.command("Page.navigate", json!({ "url": url.as_str() })).await?;
        self.frame = text_at(&answer, "frameId")?;
        self.loader = answer.get("loaderId").and_then(Value::as_str).map(str::to_owned);
        match answer.get("errorText").and_then(Value::as_str) {
            None => Ok(()),
            Some(error) => {
                let message = format!("the browser could not open the page: {}", line(error, 100));
                Err(ToolError::new(ErrorCode::Network, message))
            }
        }
    }

    /// Until the page has loaded and asks for nothing more, or takes too long for that.
    async fn until_loaded(&mut self) -> Result<(), ToolError> {
        let until = Instant::now() + LOAD_TIME_MAX;
        self.listen(until, |page| page.loaded).await?;
        let until = until.min(Instant::now() + QUIET_TIME_MAX);
        self.listen(until, |page| page.quiet).await
    }

    /// Until something matches, or the page has had its time.
    async fn until_found(&mut self, selector: &str) -> Result<(), ToolError> {
        let until = Instant::now() + QUIET_TIME_MAX;
        // As a JSON string it is a JavaScript string too. A selector that only browsers lack, or
        // only we know, is found later or not at all.
        let look = format!(
            "(() => {{ try {{ return document.querySelector({}) !== null }} catch {{ return true }} }})()",
            Value::from(selector)
        );
        while Instant::now() < until {
            if self.evaluate(&look).await?.as_bool() == Some(true) {
                return Ok(());
            }
            let next = Instant::now() + LOOK_EVERY;
            self.listen(next, |_| false).await?;
        }
        Ok(())
    }

    /// Looks after the page until `done` or until the time is up.
    async fn listen(&mut self, until: Instant, done: impl Fn(&Self) -> bool) -> Result<(), ToolError> {
        while !done(self) {
            match timeout_at(until, self.connection.event()).await {
                Ok(event) => self.heed(event?).await?,
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    async fn heed(&mut self, event: Event) -> Result<(), ToolError> {
        let Event { method, session, params } = event;
        let ours = session.as_deref() == Some(&self.session);
        match method.as_str() {
            "Target.targetCreated" => {
                let info = &params["targetInfo"];
                let other = info["targetId"].as_str().filter(|id| *id != self.target);
                if let (Some(other), Some("page")) = (other, info["type"].as_str())
                    && info.get("openerId").is_some()
                {
                    self.connection.send(None, "Target.closeTarget", json!({ "targetId": other })).await?;
                }
            }
            "Page.lifecycleEvent" if ours && params["frameId"].as_str() == Some(&self.frame) => {
                let loader = params["loaderId"].as_str();
                match params["name"].as_str() {
                    // A page that goes on to another one begins anew.
                    Some("init") => {
                        self.loader = loader.map(str::to_owned);
                        (self.loaded, self.quiet) = (false, false);
                    }
                    Some("load") if loader == self.loader.as_deref() => self.loaded = true,
                    Some("networkIdle") if loader == self.loader.as_deref() => self.quiet = true,
                    _ => {}
                }
            }
            "Network.responseReceived"
                if ours
                    && params["type"].as_str() == Some("Document")
                    && params["frameId"].as_str() == Some(&self.frame) =>
            {
                let status = params["response"]["status"].as_u64();
                self.status = status.and_then(|status| u16::try_from(status).ok()).unwrap_or(self.status);
            }
            "Inspector.targetCrashed" if ours => {
                return Err(ToolError::failed("the page made the browser crash"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The value of an expression, in a world that the page's own scripts cannot reach: they may
    /// have replaced every function that they share with us.
    async fn evaluate(&mut self, expression: &str) -> Result<Value, ToolError> {
        let world = json!({ "frameId": self.frame, "worldName": "helve" });
        let world = self.command("Page.createIsolatedWorld", world).await?;
        let context = world.get("executionContextId").cloned().unwrap_or_default();
        let params = json!({ "expression": expression, "contextId": context, "returnByValue": true, "timeout": 5_000 });
        let mut answer = self.command("Runtime.evaluate", params).await?;
        if answer.get("exceptionDetails").is_some() {
            return Err(ToolError::failed("the page could not be read from the browser"));
        }
        Ok(answer["result"]["value"].take())
    }

    async fn take(&mut self, html_bytes_max: usize) -> Result<Rendered, ToolError> {
        let taken = self.evaluate(&snapshot(html_bytes_max)).await?;
        let html = text_at(&taken, "html")?;
        let url =
            Url::parse(&text_at(&taken, "url")?).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| ToolError::failed("the page led the browser away from the web"))?;
        let truncated = taken.get("truncated").and_then(Value::as_bool).unwrap_or(false);
        Ok(Rendered { html, url, status: self.status, truncated })
    }
}

/// Marks what is not shown, and gives the HTML. Counted in UTF-16, which is never more than bytes.
fn snapshot(html_bytes_max: usize) -> String {
    format!(
        "(() => {{
            const all = document.querySelectorAll('body *');
            for (let i = 0; i < Math.min(all.length, {ELEMENTS_MAX}); i++) {{
                const style = getComputedStyle(all[i]);
                if (style.display === 'none' || style.visibility !== 'visible' || style.opacity === '0'
                    || style.fontSize === '0px') all[i].setAttribute('{HIDDEN_MARK}', '');
            }}
            const html = document.documentElement ? document.documentElement.outerHTML : '';
            return {{ html: html.slice(0, {html_bytes_max}), truncated: html.length > {html_bytes_max}, url: location.href }};
        }})()"
    )
}

fn text_at(value: &Value, key: &str) -> Result<String, ToolError> {
    let text = value.get(key).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| ToolError::failed(format!("the browser's answer has no `{key}`")))
}
