//! `http-get` and `http-request`: any request, as the model words it.
//!
//! - `input` is what a call may say;
//! - `secrets` puts `${secret:NAME}` into headers and query, for the hosts that the operator bound
//!   it to and no others;
//! - `request` makes the request, `answer` the result; `save` writes an answer to a file.

mod answer;
mod input;
mod request;
mod save;
mod secrets;

use std::sync::Arc;
use std::time::Duration;

use helve::{Annotations, Category, Context, Facet, Risk, Tool, ToolBuilder, ToolError};
use serde_json::{Value, json};

use super::config::HttpConfig;
use super::{Reach, WebBackend, reads_the_web};
use crate::http::secrets::Secrets;
use answer::Output;
use input::{GetInput, RequestInput};
use save::Reserved;
use secrets::mentions;

pub(super) use secrets::BoundSecrets;

const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn get_tool(config: &HttpConfig, secrets: &BoundSecrets, backend: &WebBackend) -> ToolBuilder {
    let fetch = Arc::new(Fetch::new(config, secrets, backend));
    let builder = Tool::function(
        "http-get",
        "Fetches a URL with GET and returns status, headers and content: JSON as JSON, text as text, anything \
         else as a saved file. A status of 400 or more is a result with `ok` false, not an error. Private and \
         local addresses are refused unless the operator allowed them.",
        move |input: GetInput, context: Context| {
            let fetch = Arc::clone(&fetch);
            async move { fetch.run(&RequestInput::from(input), &context).await }
        },
    )
    .when_to_use(
        "To read from an API, or a file at a known address. To read a web page as a person would, use \
         web-scrape; to find pages, web-search; to send or change something, http-request.",
    )
    .example_call(
        "What is the latest release of Rust?",
        json!({ "url": "https://api.github.com/repos/rust-lang/rust/releases/latest", "response": "json" }),
    )
    .example_call(
        "Search the issues with my token.",
        json!({ "url": "https://api.example.com/issues", "query": { "q": "crash", "page": 2 },
                "headers": { "Authorization": "Bearer ${secret:EXAMPLE}" } }),
    )
    .category(Category::Http)
    .risk(Risk::Low)
    .timeout(TIMEOUT);
    reads_the_web(builder, Reach::of(backend, secrets))
}

pub(super) fn request_tool(config: &HttpConfig, secrets: &BoundSecrets, backend: &WebBackend) -> ToolBuilder {
    let fetch = Arc::new(Fetch::new(config, secrets, backend));
    let reach = Reach::of(backend, secrets);
    let builder = Tool::function(
        "http-request",
        "Sends an HTTP request with any method and a JSON, form or text body, and returns status, headers and \
         content as http-get does. A status of 400 or more is a result with `ok` false. A redirect of a \
         request that changes something is followed only within the same origin.",
        move |input: RequestInput, context: Context| {
            let fetch = Arc::clone(&fetch);
            async move { fetch.run(&input, &context).await }
        },
    )
    .when_to_use(
        "To create, change or delete something through an HTTP API that has no tool of its own. A person is \
         asked first. To only read, use http-get.",
    )
    .example_call(
        "Open an issue that the build is broken.",
        json!({ "url": "https://api.example.com/issues", "method": "POST", "json": { "title": "The build is broken" },
                "headers": { "Authorization": "Bearer ${secret:EXAMPLE}" } }),
    )
    .example_call(
        "Delete draft 7.",
        json!({ "url": "https://api.example.com/drafts/7", "method": "DELETE" }),
    )
    .category(Category::Http)
    // Risk is a tool's, not a call's: one that may delete is as risky as deleting.
    .risk(Risk::High)
    .annotations(Annotations::default())
    .facets(reach.facets().into_iter().chain([Facet::Mutates]))
    .timeout(TIMEOUT);
    reach.told(builder)
}

/// Whether a call brings a secret along: what it gets is then for its owner alone.
pub(super) fn carries_secret(arguments: &Value) -> bool {
    let mentioned = |field: &str| arguments.get(field).is_some_and(|value| mentions(&value.to_string()));
    mentioned("headers") || mentioned("query")
}

struct Fetch {
    config: HttpConfig,
    bound: BoundSecrets,
    backend: WebBackend,
}

impl Fetch {
    fn new(config: &HttpConfig, bound: &BoundSecrets, backend: &WebBackend) -> Self {
        Self { config: config.clone(), bound: bound.clone(), backend: backend.clone() }
    }

    async fn run(&self, input: &RequestInput, context: &Context) -> Result<Output, ToolError> {
        let mut secrets = Secrets::default();
        let mut request = request::of(input, &self.bound, &self.backend.variables, &mut secrets)?;
        request.deadline = context.deadline();
        let client = self.backend.client.reaching(context.reads());
        let Some(path) = &input.save_as else {
            request.response_bytes_max = answer::FETCH_BYTES_MAX;
            let response = client.fetch(request).await?;
            return answer::shown(input, &response.into(), &secrets);
        };
        // Taken before anything is sent: a name that is not free must not cost a request.
        let file = Reserved::new(&self.backend, path)?;
        request.response_bytes_max = self.config.download_bytes;
        let response = client.open(request).await?;
        answer::saved(input, response, file, &secrets).await
    }
}
