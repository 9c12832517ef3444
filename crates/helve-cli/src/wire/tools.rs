//! Every tool that the configuration gives.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use helve::ports::LaunchError;
use helve::{DefinitionError, Layer, Problem, Registry, Tool};
use helve_net::Client;
use helve_sandbox::Sandbox;
use helve_tools::composed::{composed_tool, late_composed_tool};
use helve_tools::http::{HttpToolConfig, http_tool};
use helve_tools::openapi::{Import, OpenApiConfig, Skipped};
use helve_tools::program::{ProgramToolConfig, program_tool};
use helve_tools::web::client::LazyClient;
use serde::de::DeserializeOwned;

use super::builtin::builtin;
use super::composed::{self, InOrder, in_order};
use super::{openapi, unboxed, web};
use crate::config::origin::short;
use crate::config::{Config, Loaded, ToolEntry, ToolKind, document};
use crate::failure::Failure;
use crate::remark::Remark;
use crate::suggest;
use crate::ui::count;

/// Every tool that the configuration gives, in its layers.
pub(crate) fn registry(loaded: &Loaded) -> Result<Registry, Failure> {
    tools(loaded).map(|(registry, _)| registry)
}

/// The same, with what should be known about them.
pub(crate) fn tools(loaded: &Loaded) -> Result<(Registry, Vec<Remark>), Failure> {
    let registry = Registry::with_limit(loaded.config.registry.tools_max);
    let maker = Maker::new(&loaded.config, super::sandbox(loaded));
    let (web_tools, remark) = web::tools(loaded, maker.client.clone(), &maker.launcher)?;
    let shipped = builtin(loaded, &maker.launcher).into_iter().chain(web_tools).collect();
    let mut remarks = register_builtin(&registry, shipped, &loaded.config.builtin.without)?;
    remarks.extend(remark);
    let mut refused = Vec::new();
    // Each with its file.
    let mut refuse = |entry: &ToolEntry, error: &DefinitionError| {
        refused.extend(error.problems.iter().map(|problem| {
            let origin = entry.origin_of(&problem.at);
            let at = if problem.at.is_empty() { String::new() } else { format!("{}: ", problem.at) };
            let line = format!("{}  `{}`: {at}{}", document::at(&origin), error.tool, problem.message);
            (short(entry.file()), line)
        }));
    };
    let InOrder { entries, circles } = in_order(&loaded.tools);
    let mut unregistered = Vec::new();
    let mut made = Vec::new();
    circles.iter().for_each(|(entry, error)| refuse(entry, error));
    for entry in entries {
        match maker.make(entry, &registry).and_then(|made| guard(entry, made, loaded)) {
            Ok(Made { tools, skipped, reduced, unmatched }) => {
                for Skipped { operation, reason, .. } in skipped.iter().chain(&reduced) {
                    tracing::warn!(api = entry.label(), operation, reason, "left out of an API");
                }
                remarks.extend(skipped_remark(entry, skipped.len()));
                remarks.extend(unmatched.iter().map(|problem| unmatched_remark(entry, problem)));
                made.extend(tools.iter().map(|tool| (entry, tool.clone())));
                if let Err(error) = registry.register_many(entry.layer, tools) {
                    let line = format!("{}  {error}", document::at(&entry.origin()));
                    unregistered.push((short(entry.file()), line));
                }
            }
            Err(error) => refuse(entry, &error),
        }
    }
    // Once all are known: tools may name those that come later.
    let servers = &loaded.config.mcp.servers;
    for (entry, tool) in made {
        let problems =
            super::wrongly_named(&tool, &registry, |name| super::is_of_server(name, servers.keys()));
        refuse(entry, &DefinitionError { tool: tool.name().to_string(), problems });
    }
    refused.append(&mut unregistered);
    if refused.is_empty() {
        return Ok((registry, remarks));
    }
    let (files, lines): (BTreeSet<_>, Vec<_>) = refused.into_iter().unzip();
    let files = files.into_iter().collect::<Vec<_>>().join(" ");
    Err(Failure::usage("the configuration has tools that are refused").details(lines).hint(format!(
        "`helve tools lint {files}` checks the whole file; `helve config keys tool` documents the keys"
    )))
}

/// The same, where an entry is a project's program without a box: it runs only while it is trusted.
fn guard(entry: &ToolEntry, mut made: Made, loaded: &Loaded) -> Result<Made, DefinitionError> {
    if let Some(unboxed) = unboxed::of_entry(entry, loaded) {
        for tool in &mut made.tools {
            *tool = unboxed::guarded(tool, unboxed.clone())?;
        }
    }
    Ok(made)
}

/// The tools that can be known without asking anybody over a network, for looking at and not for calling. One
/// that cannot be made is left out.
pub(crate) fn known_here(loaded: &Loaded) -> Registry {
    let registry = Registry::with_limit(loaded.config.registry.tools_max);
    let maker = Maker::new(&loaded.config, super::sandbox(loaded));
    let web_tools = web::tools(loaded, maker.client.clone(), &maker.launcher);
    let shipped =
        builtin(loaded, &maker.launcher).into_iter().chain(web_tools.into_iter().flat_map(|(web, _)| web));
    let mut all = vec![(Layer::BuiltIn, shipped.collect())];
    let entries = loaded.tools.iter().filter(|entry| entry.remote_document().is_none());
    all.extend(entries.filter_map(|entry| Some((entry.layer, maker.make(entry, &registry).ok()?.tools))));
    for (layer, tools) in all {
        let _left_out = registry.register_many(layer, tools);
    }
    registry
}

fn register_builtin(registry: &Registry, all: Vec<Tool>, without: &[String]) -> Result<Vec<Remark>, Failure> {
    let names: Vec<_> = all.iter().map(|tool| tool.name().to_string()).collect();
    let unknown = without.iter().filter(|one| *one != "*" && !names.contains(one));
    let remarks = unknown.map(|one| Remark {
        found: format!("`builtin.without` names `{one}`, and there is no such built-in tool"),
        fix: match suggest::nearest(one, names.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there are {}", names.join(", ")),
        },
    });
    let remarks = remarks.collect();
    let kept = |tool: &Tool| !without.iter().any(|one| one == "*" || one == tool.name().as_str());
    registry
        .register_many(Layer::BuiltIn, all.into_iter().filter(kept))
        .map_err(|error| Failure::usage("the built-in tools cannot be loaded").because(&error))?;
    Ok(remarks)
}

/// That an API has operations without a tool.
fn skipped_remark(entry: &ToolEntry, skipped: usize) -> Option<Remark> {
    let verb = if skipped == 1 { "was" } else { "were" };
    // Lint fetches nothing, so of a remote document only the log can say more.
    let fix = match entry.remote_document() {
        Some(_) => "`helve -v tools list` says why".to_owned(),
        None => format!("`helve tools lint {}` says why", short(entry.file())),
    };
    (skipped > 0).then(|| Remark {
        found: format!("{} of `{}` {verb} skipped", count(skipped, "operation"), entry.label()),
        fix,
    })
}

/// That a selector of an API picks nothing.
fn unmatched_remark(entry: &ToolEntry, problem: &Problem) -> Remark {
    Remark {
        found: format!("`{}` of `{}`: {}", problem.at, entry.label(), problem.message),
        fix: format!("mend it or take it out: {}", document::at(&entry.origin_of(&problem.at))),
    }
}

/// Program tools whose program is not there or may not be started, with the reason.
pub(crate) fn missing_programs(entries: &[ToolEntry]) -> Vec<(&str, LaunchError)> {
    let launcher = Sandbox::default();
    let programs = entries.iter().filter(|entry| entry.kind == ToolKind::Program);
    programs
        .filter_map(|entry| {
            let config = typed::<ProgramToolConfig>(entry).ok()?.relative_to(&entry.base_dir());
            launcher.check(&config.command).err().map(|error| (entry.label(), error))
        })
        .collect()
}

/// Makes tools from what stands in a file.
pub(crate) struct Maker {
    client: LazyClient,
    launcher: Arc<Sandbox>,
    /// How long a tool may take that does not say.
    timeout_default: Duration,
    /// What stands before the names of tools that MCP servers bring later.
    namespaces: Vec<String>,
}

/// What an entry gives.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) tools: Vec<Tool>,
    /// Operations of an OpenAPI document that could not be made a tool.
    pub(crate) skipped: Vec<Skipped>,
    /// Operations that became a tool without some part of them.
    pub(crate) reduced: Vec<Skipped>,
    /// Selectors that pick no operation of an OpenAPI document.
    pub(crate) unmatched: Vec<Problem>,
}

impl From<Tool> for Made {
    fn from(tool: Tool) -> Self {
        Self { tools: vec![tool], ..Self::default() }
    }
}

impl Maker {
    pub(crate) fn new(config: &Config, sandbox: Sandbox) -> Self {
        Self {
            client: LazyClient::new(config.net.clone()),
            launcher: Arc::new(sandbox),
            timeout_default: Duration::from_millis(config.execution.default_timeout_ms),
            namespaces: config.mcp.servers.iter().map(|(name, one)| one.namespace(name).to_owned()).collect(),
        }
    }

    /// The tools of one entry, or all that is wrong with it. A composed tool is made of those in
    /// `registry`.
    pub(crate) fn make(&self, entry: &ToolEntry, registry: &Registry) -> Result<Made, DefinitionError> {
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
                let Import { tools, skipped, reduced, unmatched, .. } = import;
                Ok(Made { tools, skipped, reduced, unmatched })
            }
            ToolKind::Composed(sort) => {
                let config = composed::config(entry, sort)?;
                let comes_later = |part: &str| !registry.has(part) && self.is_of_server(part);
                match config.shape.tools().into_iter().any(comes_later) {
                    true => late_composed_tool(config, registry, self.timeout_default),
                    false => composed_tool(config, registry, self.timeout_default),
                }
                .map(Made::from)
            }
        }
    }

    /// Whether a tool could come from an MCP server.
    fn is_of_server(&self, tool: &str) -> bool {
        let fits = |namespace: &String| match namespace.is_empty() {
            true => true,
            false => tool.strip_prefix(namespace.as_str()).is_some_and(|rest| rest.starts_with('/')),
        };
        self.namespaces.iter().any(fits)
    }

    fn client(&self, entry: &ToolEntry) -> Result<Arc<Client>, DefinitionError> {
        self.client.get().map_err(|error| refuse(entry, error.to_string()))
    }
}

pub(super) fn typed<T: DeserializeOwned>(entry: &ToolEntry) -> Result<T, DefinitionError> {
    serde_json::from_value(entry.value.clone()).map_err(|error| refuse(entry, error.to_string()))
}

fn refuse(entry: &ToolEntry, message: String) -> DefinitionError {
    let problem = Problem { at: entry.kind.section().to_owned(), message };
    DefinitionError { tool: entry.label().to_owned(), problems: vec![problem] }
}
