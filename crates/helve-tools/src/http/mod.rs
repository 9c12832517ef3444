//! Tools that are a request to an HTTP API.
//!
//! - `config` is what stands in the configuration;
//! - `template` puts arguments and environment variables into text;
//! - `plan` is a checked request with holes; `render` fills them, each with the encoding of
//!   its place, so that an argument cannot change what is asked of whom;
//! - `answer` makes a result or an error of the response;
//! - `secrets` reads environment variables and keeps their values out of whatever comes back.

pub mod config;

pub(crate) mod answer;
pub(crate) mod literal;
pub(crate) mod plan;
pub(crate) mod render;
pub mod secrets;
pub(crate) mod template;

use std::collections::BTreeSet;
use std::sync::Arc;

use helve::{
    Annotations, Assumed, BoxFuture, Category, Context, DefinitionError, Facet, Handler, Implementation,
    Preview, Risk, Tool, ToolError,
};
use helve_net::{Client, Method};
use serde_json::{Map, Value};

use crate::common::ToolDefaults;
use plan::RequestPlan;

pub use config::HttpToolConfig;
pub use secrets::Variables;

/// What HTTP tools reach the world through. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Backend {
    /// The guarded client.
    pub client: Arc<Client>,
    /// Where `${env:NAME}` looks.
    pub variables: Variables,
}

impl Backend {
    /// The client, and the environment of this process.
    pub fn new(client: Arc<Client>) -> Self {
        Self { client, variables: Variables::process() }
    }
}

/// Makes a tool of its configuration.
pub fn http_tool(config: HttpToolConfig, client: Arc<Client>) -> Result<Tool, DefinitionError> {
    http_tool_with(config, Backend::new(client))
}

/// Makes a tool of its configuration, with environment variables from elsewhere.
pub fn http_tool_with(config: HttpToolConfig, backend: Backend) -> Result<Tool, DefinitionError> {
    let refuse = |problems| DefinitionError { tool: config.common.name.clone(), problems };
    let plan = plan::compile(&config).map_err(refuse)?;
    let defaults = defaults_of(&plan.method);
    let assumed = assumed_of(&plan.method, holds_secret(&config));
    let builder = config.common.into_builder(defaults).assumed(assumed);
    builder.shared_handler(Arc::new(HttpHandler::new(plan, backend))).build()
}

/// Whether a request shows who asks: what comes back is then for them alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    Nobody,
    Somebody,
}

fn holds_secret(config: &HttpToolConfig) -> Shows {
    let text = serde_json::to_string(config).unwrap_or_default();
    match config.common.integrations.is_empty() && !text.contains("${env:") {
        true => Shows::Nobody,
        false => Shows::Somebody,
    }
}

/// What labels assume of a request whose tool does not say its facets.
pub(crate) fn assumed_of(method: &Method, shows: Shows) -> Assumed {
    let mut facets = BTreeSet::from([Facet::ReadsUntrusted, Facet::Egress]);
    if shows == Shows::Somebody {
        facets.insert(Facet::ReadsPrivate);
    }
    if !defaults_of(method).annotations.read_only {
        facets.insert(Facet::Mutates);
    }
    Assumed { facets, ..Assumed::default() }
}

/// What a method says of a tool: reading is harmless, deleting is not.
pub(crate) fn defaults_of(method: &Method) -> ToolDefaults {
    let reads = matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "QUERY");
    let deletes = method == Method::DELETE;
    let annotations = Annotations {
        title: None,
        read_only: reads,
        // A POST makes something new; PUT and PATCH overwrite what can be written again.
        destructive: deletes,
        idempotent: reads || deletes || method == Method::PUT,
        open_world: true,
    };
    let risk = match (reads, deletes) {
        (true, _) => Risk::Low,
        (false, true) => Risk::High,
        (false, false) => Risk::Medium,
    };
    ToolDefaults { category: Category::Http, risk, annotations }
}

/// Runs a plan.
pub(crate) struct HttpHandler(Arc<Running>);

struct Running {
    plan: RequestPlan,
    backend: Backend,
}

impl HttpHandler {
    pub(crate) fn new(plan: RequestPlan, backend: Backend) -> Self {
        Self(Arc::new(Running { plan, backend }))
    }
}

impl Handler for HttpHandler {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let running = Arc::clone(&self.0);
        Box::pin(async move {
            let arguments = match arguments {
                Value::Object(fields) => fields,
                _ => Map::new(),
            };
            running.run(&arguments, &context).await
        })
    }

    fn implementation(&self) -> Implementation {
        Implementation::Http
    }

    fn preview(
        &self,
        arguments: &Value,
        context: Context,
    ) -> Option<BoxFuture<'static, Result<Preview, ToolError>>> {
        let (running, fields) = (Arc::clone(&self.0), arguments.as_object().cloned().unwrap_or_default());
        Some(Box::pin(async move { running.preview(&fields, &context).map(Preview::from) }))
    }
}

impl Running {
    /// The method and the address that a call leads to, without secrets.
    fn preview(&self, arguments: &Map<String, Value>, context: &Context) -> Result<String, ToolError> {
        let secrets = self.backend.variables.resolve(&self.plan)?;
        let request = render::request(&self.plan, arguments, &secrets, context)?;
        let line = secrets.redact_value(format!("{} {}", request.method, request.url).into());
        Ok(line.as_str().unwrap_or_default().to_owned())
    }

    async fn run(&self, arguments: &Map<String, Value>, context: &Context) -> Result<Value, ToolError> {
        let secrets = self.backend.variables.resolve(&self.plan)?;
        let request = render::request(&self.plan, arguments, &secrets, context)?;
        let answer = match self.backend.client.fetch(request).await {
            Ok(response) => answer::read(&self.plan, &response, &secrets),
            Err(error) => Err(answer::network_error(error)),
        };
        answer.map(|value| secrets.redact_value(value))
    }
}
