//! Every tool that the configuration gives.

use std::cell::OnceCell;
use std::sync::Arc;

use helve::{DefinitionError, Layer, Problem, Registry, Tool};
use helve_net::{Client, NetPolicy};
use helve_sandbox::PlainLauncher;
use helve_tools::http::{HttpToolConfig, http_tool};
use helve_tools::openapi::{OpenApiConfig, Skipped};
use helve_tools::program::{ProgramToolConfig, program_tool};
use serde::de::DeserializeOwned;

use super::openapi;
use crate::config::{Loaded, ToolEntry, ToolKind, document};
use crate::failure::Failure;

/// Every tool that the configuration gives, in its layers.
pub(crate) fn registry(loaded: &Loaded) -> Result<Registry, Failure> {
    let registry = Registry::with_limit(loaded.config.registry.tools_max);
    register_builtin(&registry, &loaded.config.builtin.without)?;
    let maker = Maker::new(loaded.config.net.clone());
    let mut refused = Vec::new();
    for entry in &loaded.tools {
        match maker.make(entry) {
            Ok(Made { tools, skipped }) => {
                for Skipped { operation, reason, .. } in skipped {
                    tracing::warn!(api = entry.label(), operation, reason, "an operation has no tool");
                }
                if let Err(error) = registry.register_many(entry.layer, tools) {
                    refused.push(format!("{}  {error}", document::at(&entry.origin())));
                }
            }
            Err(error) => refused.extend(error.problems.iter().map(|problem| {
                let origin = entry.origin_of(&problem.at);
                format!("{}  `{}`: {problem}", document::at(&origin), error.tool)
            })),
        }
    }
    if refused.is_empty() {
        return Ok(registry);
    }
    Err(Failure::usage("the configuration has tools that are refused").details(refused).hint(
        "`helve tools lint helve.toml` checks the whole file; `helve config keys tool` documents the keys",
    ))
}

fn register_builtin(registry: &Registry, without: &[String]) -> Result<(), Failure> {
    let kept = |name: &str| !without.iter().any(|one| one == "*" || one == name);
    let tools = helve_tools::builtin_tools().into_iter().filter(|tool| kept(tool.name().as_str()));
    registry
        .register_many(Layer::BuiltIn, tools)
        .map_err(|error| Failure::usage("the built-in tools cannot be loaded").because(&error))
}

/// Makes tools from what stands in a file.
pub(crate) struct Maker {
    net: NetPolicy,
    /// Made for the first HTTP tool: reading the machine's certificates takes time.
    client: OnceCell<Arc<Client>>,
    launcher: Arc<PlainLauncher>,
}

/// What an entry gives.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) tools: Vec<Tool>,
    /// Operations of an OpenAPI document that could not be made a tool.
    pub(crate) skipped: Vec<Skipped>,
}

impl From<Tool> for Made {
    fn from(tool: Tool) -> Self {
        Self { tools: vec![tool], skipped: Vec::new() }
    }
}

impl Maker {
    pub(crate) fn new(net: NetPolicy) -> Self {
        Self { net, client: OnceCell::new(), launcher: Arc::default() }
    }

    /// The tools of one entry, or all that is wrong with it.
    pub(crate) fn make(&self, entry: &ToolEntry) -> Result<Made, DefinitionError> {
        match entry.kind {
            ToolKind::Http => http_tool(typed::<HttpToolConfig>(entry)?, self.client(entry)?).map(Made::from),
            ToolKind::Program => {
                let config = typed::<ProgramToolConfig>(entry)?.relative_to(&entry.base_dir());
                program_tool(config, self.launcher.clone()).map(Made::from)
            }
            ToolKind::OpenApi => {
                let config = typed::<OpenApiConfig>(entry)?;
                let import = openapi::load(&config, &entry.base_dir(), self.client(entry)?)
                    .map_err(|error| refuse(entry, format!("{error:#}")))?;
                Ok(Made { tools: import.tools, skipped: import.skipped })
            }
        }
    }

    fn client(&self, entry: &ToolEntry) -> Result<Arc<Client>, DefinitionError> {
        if let Some(client) = self.client.get() {
            return Ok(Arc::clone(client));
        }
        let client = Client::new(self.net.clone()).map_err(|error| refuse(entry, error.to_string()))?;
        Ok(Arc::clone(self.client.get_or_init(|| Arc::new(client))))
    }
}

fn typed<T: DeserializeOwned>(entry: &ToolEntry) -> Result<T, DefinitionError> {
    serde_json::from_value(entry.value.clone()).map_err(|error| refuse(entry, error.to_string()))
}

fn refuse(entry: &ToolEntry, message: String) -> DefinitionError {
    let problem = Problem { at: entry.kind.section().to_owned(), message };
    DefinitionError { tool: entry.label().to_owned(), problems: vec![problem] }
}
