//! `web-scrape`: reads a web page as a person would.
//!
//! - `charset`, `dom`: from bytes to a tree, within bounds;
//! - `visible`, `selector`, `readable`, `about`: what is taken from it;
//! - `page` puts that together;
//! - `robots` asks the site whether it wants to be read;
//! - `cache` remembers pages in the session's memory.
//!
//! The page is always fetched by the guarded client first: that checks its address, its status and
//! its type, and for most pages it is all that is needed. A browser only comes after that.

mod about;
mod cache;
mod charset;
mod dom;
mod page;
mod readable;
mod robots;
mod selector;
mod visible;

#[cfg(fuzzing)]
pub use selector::count_selected;

use std::sync::Arc;
use std::time::Duration;

use helve::precondition::{Condition, Precondition};
use helve::retry::RetryPolicy;
use helve::{Category, Context, ErrorCode, Reads, Risk, Tool, ToolBuilder, ToolError};
use helve_net::header::{ACCEPT, CONTENT_TYPE};
use helve_net::{HeaderValue, Request, Response, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::browser::{Browser, RenderRequest};
use super::client::LazyClient;
use super::config::ScrapeConfig;
use super::fetch::BoundSecrets;
use super::text::{URL_BYTES_MAX, line};
use super::{Reach, WebBackend, reads_the_web};
use crate::builtin::wrong_argument;
use crate::http::answer::retry_after;
use page::{Output, Source};
use robots::Robots;
use selector::Selector;

pub(in crate::web) use charset::decode;
pub(in crate::web) use visible::HIDDEN_MARK;

/// As in the seed.
const TIMEOUT: Duration = Duration::from_secs(30);
const PAGE_BYTES_MAX: usize = 10 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The address of the page: http or https.
    #[schemars(length(max = 2048), regex(pattern = "^[hH][tT][tT][pP][sS]?://"))]
    url: String,
    /// A CSS selector: return the elements that match instead of the readable content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 500))]
    selector: Option<String>,
    /// Milliseconds to wait in the browser after the page has loaded. More than 0 asks for a browser.
    #[serde(default, rename = "waitFor")]
    #[schemars(range(max = 20_000))]
    wait_for: u32,
    /// Whether a browser runs the page's JavaScript: `auto` where the page seems to need it.
    #[serde(default)]
    render: Render,
    /// The most bytes of content to return.
    #[serde(default = "default_max_bytes")]
    #[schemars(range(min = 100, max = 500_000))]
    max_bytes: usize,
    /// Take the page from this session's memory if it is no older than this many milliseconds. 0
    /// always reads it anew.
    #[serde(default)]
    #[schemars(range(max = 86_400_000))]
    max_age_ms: u64,
}

fn default_max_bytes() -> usize {
    100_000
}

/// Whether a browser renders the page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Render {
    #[default]
    Auto,
    Always,
    Never,
}

pub(super) fn tool(config: &ScrapeConfig, backend: &WebBackend) -> ToolBuilder {
    let scraper =
        Arc::new(Scraper { config: config.clone(), backend: backend.clone(), robots: Robots::default() });
    let browser = backend.browser.clone();
    let builder = Tool::function(
        "web-scrape",
        "Reads a web page and returns its readable content as Markdown, with title, metadata and links; or, with \
         a CSS selector, the elements that match. Pages that need JavaScript are rendered in a headless browser \
         where there is one. Obeys robots.txt.",
        move |input: Input, context: Context| {
            let scraper = Arc::clone(&scraper);
            async move { scraper.run(input, &context).await }
        },
    )
    .alias("web:scrape")
    .when_to_use(
        "To read a page whose address you know, such as a result of web-search. For JSON APIs and files, use \
         http-get.",
    )
    .example_call("Summarise https://example.com/news", json!({ "url": "https://example.com/news" }))
    .example_call(
        "What are the headlines on example.com?",
        json!({ "url": "https://example.com/", "selector": "article h2" }),
    )
    .example_call(
        "Read the dashboard once it has loaded its data.",
        json!({ "url": "https://example.com/status", "render": "always", "waitFor": 1500 }),
    )
    .category(Category::Search)
    .risk(Risk::Low)
    .timeout(TIMEOUT)
    .retry(RetryPolicy::standard())
    .precondition_checked(
        Precondition::preferred(
            "a browser is available",
            Condition::Resource { resource: "browser".to_owned() },
        ),
        move |_: Value, _: Context| {
            let available = browser.as_ref().is_some_and(|browser| browser.available());
            async move { Ok(available) }
        },
    );
    let builder = match cache::effect(config) {
        Some(effect) => builder.effect(effect),
        None => builder,
    };
    reads_the_web(builder, Reach::of(backend, &BoundSecrets::default()))
}

struct Scraper {
    config: ScrapeConfig,
    backend: WebBackend,
    robots: Robots,
}

impl Scraper {
    async fn run(&self, input: Input, context: &Context) -> Result<Output, ToolError> {
        let url = address(&input.url)?;
        let selector = input.selector.as_deref().map(read_selector).transpose()?;
        if let Some(known) = cache::recall(&input, context).await {
            return Ok(known);
        }
        self.check_robots(&url, context).await?;
        let response = self.fetch(&url, context).await.map_err(scrape_failed)?;
        if response.url != url {
            // Only the first address was asked about.
            self.check_robots(&response.url, context).await?;
        }
        let mut output = extracted(&input, selector, Source::of(response)?).await?;
        if wants_browser(&input, &output) {
            output = match self.browser(context) {
                Some(browser) => self.render(&input, &url, browser, context).await.map_err(scrape_failed)?,
                None => without_browser(&input, output)?,
            };
        }
        output.private = self.is_private(context);
        if self.config.remember_ms > 0 {
            cache::mark(&input, &mut output);
        }
        Ok(output)
    }

    async fn check_robots(&self, url: &Url, context: &Context) -> Result<(), ToolError> {
        if !self.config.robots {
            return Ok(());
        }
        self.robots.check(url, &self.client(context), context.deadline()).await
    }

    async fn fetch(&self, url: &Url, context: &Context) -> Result<Response, ToolError> {
        const WANTED: HeaderValue =
            HeaderValue::from_static("text/html,application/xhtml+xml,text/*;q=0.8,*/*;q=0.5");
        let mut request = Request::new(helve_net::Method::GET, url.clone()).header(ACCEPT, WANTED);
        request.deadline = context.deadline();
        request.response_bytes_max = PAGE_BYTES_MAX;
        let response = self.client(context).fetch(request).await?;
        if response.status.is_success() { Ok(response) } else { Err(refused(&response)) }
    }

    fn client(&self, context: &Context) -> LazyClient {
        self.backend.client.reaching(context.reads())
    }

    /// Whether a page may be private. Where the operator opened nothing, none is.
    fn is_private(&self, context: &Context) -> bool {
        context.reads() == Reads::Private && !self.backend.client.policy().allow.is_empty()
    }

    /// The browser, unless the runtime found that it is not there.
    fn browser(&self, context: &Context) -> Option<&Arc<dyn Browser>> {
        let browser = self.backend.browser.as_ref().filter(|_| context.degraded().is_empty());
        browser.filter(|browser| browser.available())
    }

    async fn render(
        &self,
        input: &Input,
        url: &Url,
        browser: &Arc<dyn Browser>,
        context: &Context,
    ) -> Result<Output, ToolError> {
        let request = RenderRequest {
            url: url.clone(),
            wait: Duration::from_millis(u64::from(input.wait_for)),
            selector: input.selector.clone(),
            html_bytes_max: PAGE_BYTES_MAX,
            deadline: context.deadline(),
            reads: context.reads(),
        };
        let rendered = browser.render(request, context.cancellation().clone()).await?;
        if rendered.url != *url {
            self.check_robots(&rendered.url, context).await?;
        }
        let selector = input.selector.as_deref().map(read_selector).transpose()?;
        extracted(input, selector, Source::from(rendered)).await
    }
}

fn address(text: &str) -> Result<Url, ToolError> {
    let refuse = |problem: &str| wrong_argument("url", "the http or https URL of a page", text, problem);
    let mut url = Url::parse(text.trim()).map_err(|error| refuse(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("only http and https are fetched"));
    }
    if url.as_str().len() > URL_BYTES_MAX {
        return Err(refuse("it is longer than 2048 bytes"));
    }
    url.set_fragment(None);
    Ok(url)
}

fn read_selector(text: &str) -> Result<Selector, ToolError> {
    Selector::parse(text).map_err(|problem| wrong_argument("selector", "a CSS selector", text, &problem))
}

/// Takes a page apart, off the threads that serve others: a large one takes a while.
async fn extracted(input: &Input, selector: Option<Selector>, source: Source) -> Result<Output, ToolError> {
    let bytes_max = input.max_bytes;
    let work = move || page::extract(source, selector.as_ref(), bytes_max);
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ToolError::new(ErrorCode::Internal, "the page could not be read").with_source(error))
}

fn wants_browser(input: &Input, output: &Output) -> bool {
    match input.render {
        Render::Never => false,
        Render::Always => true,
        Render::Auto => input.wait_for > 0 || output.needs_javascript,
    }
}

/// What is left where no browser can help.
fn without_browser(input: &Input, mut output: Output) -> Result<Output, ToolError> {
    if input.render == Render::Always {
        return Err(ToolError::new(ErrorCode::PreconditionFailed, "there is no browser to render this page")
            .suggest("call again with `render` \"auto\" to read the page as its server sends it"));
    }
    output.notes.push(if output.needs_javascript {
        "this page seems to need JavaScript and there is no browser: much of it may be missing".to_owned()
    } else {
        "`waitFor` had no effect: there is no browser".to_owned()
    });
    Ok(output)
}

/// The seed's `SCRAPE_FAILED`: the page could not be had, and another try or another address may help. What Helve itself
/// refuses, and wrong arguments, keep their own code alone.
fn scrape_failed(error: ToolError) -> ToolError {
    match error.code() {
        ErrorCode::Network | ErrorCode::Timeout | ErrorCode::RateLimit | ErrorCode::ServerError => {
            error.with_tool_code("SCRAPE_FAILED")
        }
        ErrorCode::ExecutionFailed => error
            .retryable(true)
            .with_tool_code("SCRAPE_FAILED")
            .suggest("check that the URL is valid")
            .suggest("verify that the page can be reached"),
        _ => error,
    }
}

/// What a status other than success says.
fn refused(response: &Response) -> ToolError {
    let status = response.status.as_u16();
    let reason = response.status.canonical_reason().unwrap_or("an unknown status");
    let host = response.url.host_str().unwrap_or_default();
    let message = format!("`{host}` answered {status} ({reason})");
    let error = match status {
        401 | 403 => ToolError::new(ErrorCode::NotAuthorized, message)
            .suggest("the page needs a login or wants no automated readers; look for another source"),
        408 | 504 => ToolError::new(ErrorCode::Timeout, message),
        429 => ToolError::new(ErrorCode::RateLimit, message),
        500..=599 => ToolError::new(ErrorCode::ServerError, message),
        _ => ToolError::failed(message).suggest("web-search may find the page"),
    };
    match retry_after(response) {
        Some(wait) => error.retry_after(wait),
        None => error,
    }
}

/// The text of a piece of HTML.
pub(in crate::web) fn plain_text(html: &str) -> String {
    const CHARS_MAX: usize = 10_000;
    if !html.contains(['<', '&']) {
        return html.to_owned();
    }
    let html: String = html.chars().take(CHARS_MAX).collect();
    visible::text(&dom::Dom::parse(&html), dom::Dom::ROOT, CHARS_MAX)
}

impl Source {
    /// The text of a response, or why it cannot be read.
    fn of(response: Response) -> Result<Self, ToolError> {
        let content_type = response.content_type();
        let text = decode(&response.body, response.header(CONTENT_TYPE));
        let looks_like_html = || text.trim_start().starts_with('<');
        let html = match content_type.as_str() {
            "text/html" | "application/xhtml+xml" => true,
            "" | "application/octet-stream" if response.body.contains(&0) => {
                return Err(unreadable(&response));
            }
            "" => looks_like_html(),
            "application/json" | "application/xml" | "application/javascript" | "application/yaml" => false,
            other if other.starts_with("text/") || other.ends_with("+json") || other.ends_with("+xml") => {
                false
            }
            _ => return Err(unreadable(&response)),
        };
        Ok(Self {
            text,
            html,
            url: response.url,
            status: response.status.as_u16(),
            rendered: false,
            truncated: false,
        })
    }
}

fn unreadable(response: &Response) -> ToolError {
    let content_type = line(&response.content_type(), 80);
    let what = match content_type.as_str() {
        "application/pdf" => "a PDF".to_owned(),
        "" => "binary data".to_owned(),
        other => format!("`{other}`"),
    };
    ToolError::failed(format!("this is {what}, not a web page; web-scrape reads HTML and text"))
        .suggest("to keep the file, use http-get with `save_as`")
}
