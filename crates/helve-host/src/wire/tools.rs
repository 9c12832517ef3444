//! Every tool that the configuration gives.

use std::sync::Arc;
use std::time::Duration;

use helve::ports::{LaunchError, Launcher};
use helve::{DefinitionError, Layer, Problem, Registry, Tool};
use helve_mcp::trust::Verdict;
use helve_net::HostPattern;
use helve_sandbox::Sandbox;
use helve_tools::composed::{composed_tool, late_composed_tool};
use helve_tools::http::{HttpToolConfig, http_tool};
use helve_tools::openapi::{Import, OpenApiConfig, Skipped};
use helve_tools::program::{ProgramToolConfig, program_tool};
use helve_tools::web::client::LazyClient;
use serde::de::DeserializeOwned;

use super::broken::{self, BrokenPart};
use super::brought::{self, Agreed, BroughtTool};
use super::builtin::builtin;
use super::composed::{self, InOrder, in_order};
use super::demands::{Demand, KnownTools};
use super::{conditions, office, openapi, web};
use crate::Remark;
use crate::config::origin::short;
use crate::config::{Config, Loaded, ToolEntry, ToolKind, document};
use crate::error::HostError;
use crate::suggest;
use crate::words::count;

/// Every tool that the configuration gives, in its layers.
pub fn registry(loaded: &Loaded) -> Result<Registry, HostError> {
    tools(loaded).map(|tools| tools.registry)
}

/// What the configuration gives.
pub struct Tools {
    pub registry: Registry,
    /// What should be known about them.
    pub remarks: Vec<Remark>,
    /// What cannot be used.
    pub broken: Vec<BrokenPart>,
}

/// Every tool that the configuration gives, with what should be known about them.
pub fn tools(loaded: &Loaded) -> Result<Tools, HostError> {
    let registry = Registry::with_limit(loaded.config.registry.tools_max);
    tools_for(loaded, &registry.clone(), registry)
}

/// The same in their own registry, to be taken over by another in which they will run: `home`.
pub fn tools_for(loaded: &Loaded, home: &Registry, registry: Registry) -> Result<Tools, HostError> {
    let maker = Maker::new(&loaded.config, super::sandbox(loaded)).at_home(home);
    let web = web::tools(loaded, maker.client.clone(), &maker.launcher);
    let shipped = builtin(loaded, &maker.launcher).into_iter().chain(web.tools);
    let shipped = shipped.chain(office::tools(loaded)?).collect();
    let mut remarks = register_builtin(&registry, shipped, &loaded.config.builtin.without)?;
    remarks.extend(web.remark);
    let without = &loaded.config.builtin.without;
    let wanted = |part: &BrokenPart| !without.iter().any(|one| *one == "*" || *one == part.name);
    let broken = broken::servers(loaded).into_iter().chain(web.broken.into_iter().filter(wanted)).collect();
    let mut making = Making { registry, remarks, broken, made: Vec::new() };
    let InOrder { entries, circles } = in_order(&loaded.tools);
    making.broken.extend(circles.iter().map(|(entry, error)| BrokenPart::refused(entry, error)));
    let known = KnownTools::of(loaded);
    let mut held = Vec::new();
    for entry in entries {
        if making.is_broken(entry) {
            continue;
        }
        let brought = brought::of_entry(entry, loaded, &known).map(Arc::new);
        // Listing tools has fetched nothing for a stranger.
        if let Some(why) = hold(entry, brought.as_deref(), &held) {
            making.remarks.push(why);
            held.push(entry);
            continue;
        }
        let made = maker.brought(entry, &making.registry, brought, loaded);
        making.take(entry, made);
    }
    // Once all are known: tools may name those that come later.
    let servers = &loaded.config.mcp.servers;
    making.settle(|name: &str| {
        super::is_of_server(name, servers.keys()) || held.iter().any(|held| has(held, name))
    });
    let Making { registry, mut remarks, broken, made: _ } = making;
    registry.set_broken(broken::in_registry(&broken));
    remarks.extend(conditions::broken_checks(loaded, &registry));
    Ok(Tools { registry, remarks, broken })
}

/// Tools on their way into a registry.
struct Making<'e> {
    registry: Registry,
    remarks: Vec<Remark>,
    broken: Vec<BrokenPart>,
    made: Vec<(&'e ToolEntry, Tool)>,
}

impl<'e> Making<'e> {
    /// Whether an entry is broken before it is made: its shape is wrong, or a tool that it calls is broken.
    fn is_broken(&mut self, entry: &ToolEntry) -> bool {
        let mut lines: Vec<_> = entry.problems.iter().map(crate::config::Problem::line).collect();
        lines.extend(self.broken_part(entry, &composed::parts(entry)));
        if !lines.is_empty() {
            self.broken.push(BrokenPart::of(entry, lines));
            return true;
        }
        false
    }

    /// That a tool is made of a broken one, if it is.
    fn broken_part(&self, entry: &ToolEntry, parts: &[String]) -> Option<String> {
        let (part, broken) =
            parts.iter().find_map(|part| Some((part, self.broken.iter().find(|one| one.has(part))?)))?;
        let (here, there) = (document::at(&entry.origin()), document::at(&broken.origin));
        Some(format!("{here}  `{}`: `{part}`, which it calls, is broken: see {there}", entry.label()))
    }

    fn take(&mut self, entry: &'e ToolEntry, made: Result<Made, DefinitionError>) {
        let Made { tools, skipped, reduced, unmatched } = match made {
            Ok(made) => made,
            Err(error) => return self.broken.push(BrokenPart::refused(entry, &error)),
        };
        for Skipped { operation, reason, .. } in skipped.iter().chain(&reduced) {
            tracing::warn!(api = entry.label(), operation, reason, "left out of an API");
        }
        if let Err(error) = self.registry.register_many(entry.layer, tools.clone()) {
            let line = format!("{}  {error}", document::at(&entry.origin()));
            return self.broken.push(BrokenPart::of(entry, vec![line]));
        }
        self.remarks.extend(skipped_remark(entry, skipped.len()));
        self.remarks.extend(unmatched.iter().map(|problem| unmatched_remark(entry, problem)));
        self.made.extend(tools.into_iter().map(|tool| (entry, tool)));
    }

    /// Takes out tools that name others that are not there or are broken, until all that is left is whole.
    fn settle(&mut self, is_elsewhere: impl Fn(&str) -> bool) {
        loop {
            let mut wrong = Vec::new();
            self.made = std::mem::take(&mut self.made)
                .into_iter()
                .filter(|(entry, tool)| match self.wrong(entry, tool, &is_elsewhere) {
                    Some(broken) => {
                        wrong.push((broken, entry.layer, tool.name().clone()));
                        false
                    }
                    None => true,
                })
                .collect();
            if wrong.is_empty() {
                return;
            }
            for (broken, layer, name) in wrong {
                // It was registered a moment ago.
                let _gone = self.registry.unregister(layer, name.as_str());
                self.broken.push(broken);
            }
        }
    }

    fn wrong(
        &self,
        entry: &ToolEntry,
        tool: &Tool,
        is_elsewhere: impl Fn(&str) -> bool,
    ) -> Option<BrokenPart> {
        let problems = super::wrongly_named(tool, &self.registry, is_elsewhere);
        if !problems.is_empty() {
            let error = DefinitionError { tool: tool.name().to_string(), problems };
            return Some(BrokenPart::refused(entry, &error));
        }
        let line = self.broken_part(entry, &tool.handler().parts())?;
        Some(BrokenPart::of(entry, vec![line]))
    }
}

/// Why an entry gives no tools for now: an API whose document would have to be fetched or read from outside
/// of the project waits for trust, and so does what is made of its tools.
fn hold(entry: &ToolEntry, brought: Option<&BroughtTool>, held: &[&ToolEntry]) -> Option<Remark> {
    let name = entry.label();
    if entry.kind == ToolKind::OpenApi {
        let is_trusted = brought.is_none_or(|one| one.verdict() == Verdict::Trusted);
        return (!is_trusted).then(|| Remark {
            found: format!("the API `{name}` of the project gives no tools: nobody has trusted it"),
            fix: "`helve trust` shows what it asks for".to_owned(),
        });
    }
    let parts = composed::parts(entry);
    let missing = parts.iter().find(|part| held.iter().any(|held| has(held, part)))?;
    Some(Remark {
        found: format!("`{name}` is left out: `{missing}`, which it calls, waits to be trusted"),
        fix: "`helve trust` shows what waits".to_owned(),
    })
}

/// Whether a tool would be of an entry that is held.
fn has(held: &ToolEntry, tool: &str) -> bool {
    match held.kind {
        ToolKind::OpenApi => tool.strip_prefix(held.label()).is_some_and(|rest| rest.starts_with(['/', '_'])),
        ToolKind::Http | ToolKind::Program | ToolKind::Composed(_) => held.names().any(|name| name == tool),
    }
}

/// The tools that can be known without asking anybody over a network, for looking at and not for calling. One
/// that cannot be made is left out.
pub fn known_here(loaded: &Loaded) -> Registry {
    let registry = Registry::with_limit(loaded.config.registry.tools_max);
    let maker = Maker::new(&loaded.config, super::sandbox(loaded));
    let web = web::tools(loaded, maker.client.clone(), &maker.launcher);
    let shipped = builtin(loaded, &maker.launcher).into_iter().chain(web.tools);
    let shipped = shipped.chain(office::tools(loaded).unwrap_or_default());
    let mut all = vec![(Layer::BuiltIn, shipped.collect())];
    let known = KnownTools::of(loaded);
    let is_held =
        |entry: &ToolEntry| hold(entry, brought::of_entry(entry, loaded, &known).as_ref(), &[]).is_some();
    let is_here = |entry: &&ToolEntry| entry.remote_document().is_none() && entry.problems.is_empty();
    let entries = loaded.tools.iter().filter(is_here).filter(|entry| !is_held(entry));
    all.extend(entries.filter_map(|entry| Some((entry.layer, maker.make(entry, &registry).ok()?.tools))));
    for (layer, tools) in all {
        let _left_out = registry.register_many(layer, tools);
    }
    registry
}

fn register_builtin(
    registry: &Registry,
    all: Vec<Tool>,
    without: &[String],
) -> Result<Vec<Remark>, HostError> {
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
        .map_err(|error| HostError::usage("the built-in tools cannot be loaded").because(&error))?;
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
pub fn missing_programs(entries: &[ToolEntry]) -> Vec<(&str, LaunchError)> {
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
pub struct Maker {
    client: LazyClient,
    /// For what came with a folder and asks for nothing: it reaches the public internet alone, whatever
    /// the user's own tools may reach.
    public: LazyClient,
    launcher: Arc<Sandbox>,
    /// How long a tool may take that does not say.
    timeout_default: Duration,
    /// What stands before the names of tools that MCP servers bring later.
    namespaces: Vec<String>,
    /// Where they bring them, if that is not where tools are made.
    home: Option<Registry>,
}

/// What an entry gives.
#[derive(Default)]
pub struct Made {
    pub tools: Vec<Tool>,
    /// Operations of an OpenAPI document that could not be made a tool.
    pub skipped: Vec<Skipped>,
    /// Operations that became a tool without some part of them.
    pub reduced: Vec<Skipped>,
    /// Selectors that pick no operation of an OpenAPI document.
    pub unmatched: Vec<Problem>,
}

impl Made {
    fn change(
        &mut self,
        with: impl Fn(&Tool) -> Result<Tool, DefinitionError>,
    ) -> Result<(), DefinitionError> {
        self.tools.iter_mut().try_for_each(|tool| with(tool).map(|changed| *tool = changed))
    }
}

impl From<Tool> for Made {
    fn from(tool: Tool) -> Self {
        Self { tools: vec![tool], ..Self::default() }
    }
}

impl Maker {
    pub fn new(config: &Config, sandbox: Sandbox) -> Self {
        Self {
            client: LazyClient::new(config.net.clone()),
            public: LazyClient::new(config.net.public()),
            launcher: Arc::new(sandbox),
            timeout_default: Duration::from_millis(config.execution.default_timeout_ms),
            namespaces: config.mcp.servers.iter().map(|(name, one)| one.namespace(name).to_owned()).collect(),
            home: None,
        }
    }

    /// Lets tools find there, when they are called, what MCP servers bring.
    fn at_home(self, home: &Registry) -> Self {
        Self { home: Some(home.clone()), ..self }
    }

    /// The tools of one entry, or all that is wrong with it. A composed tool is made of those in
    /// `registry`.
    pub fn make(&self, entry: &ToolEntry, registry: &Registry) -> Result<Made, DefinitionError> {
        self.make_with(entry, registry, &self.client, self.launcher.clone())
    }

    /// The same for what a project may have brought: what asks for something is guarded, and what asks for
    /// nothing gets nothing.
    fn brought(
        &self,
        entry: &ToolEntry,
        registry: &Registry,
        brought: Option<Arc<BroughtTool>>,
        loaded: &Loaded,
    ) -> Result<Made, DefinitionError> {
        if !loaded.is_foreign(entry.layer) {
            return self.make(entry, registry);
        }
        let Some(brought) = brought else {
            let mut made = self.make_with(entry, registry, &self.public, self.launcher.clone())?;
            made.change(|tool| brought::labelled(tool, entry.kind))?;
            return Ok(made);
        };
        let sandbox = Arc::clone(&self.launcher);
        let launcher = Arc::new(Agreed { sandbox, brought: Arc::clone(&brought) });
        let client = self.client_of(&brought);
        let mut made = self.make_with(entry, registry, &client, launcher)?;
        if brought.demands().is_empty() {
            made.change(|tool| brought::labelled(tool, entry.kind))?;
        }
        made.change(|tool| brought::guarded(tool, Arc::clone(&brought)))?;
        Ok(made)
    }

    /// The client of a tool that runs only while what it asks for is trusted: the addresses that a person has looked
    /// at need no entry of `net.allow` besides that.
    fn client_of(&self, brought: &BroughtTool) -> LazyClient {
        let demands = brought.demands();
        let addresses: Vec<HostPattern> = demands
            .iter()
            .filter_map(|demand| match demand {
                Demand::Address(address) => address.parse().ok(),
                _ => None,
            })
            .collect();
        match (demands.is_empty(), addresses.is_empty()) {
            (true, _) => self.public.clone(),
            (false, true) => self.client.clone(),
            (false, false) => {
                let mut net = self.client.policy().clone();
                net.allow.extend(addresses);
                LazyClient::new(net)
            }
        }
    }

    fn make_with(
        &self,
        entry: &ToolEntry,
        registry: &Registry,
        client: &LazyClient,
        launcher: Arc<dyn Launcher>,
    ) -> Result<Made, DefinitionError> {
        let client = || client.get().map_err(|error| refuse(entry, error.to_string()));
        match entry.kind {
            ToolKind::Http => http_tool(typed::<HttpToolConfig>(entry)?, client()?).map(Made::from),
            ToolKind::Program => {
                let config = typed::<ProgramToolConfig>(entry)?.relative_to(&entry.base_dir());
                program_tool(config, launcher).map(Made::from)
            }
            ToolKind::OpenApi => {
                let config = typed::<OpenApiConfig>(entry)?;
                let import = openapi::load(&config, &entry.base_dir(), client()?)
                    .map_err(|error| refuse(entry, error.with_causes()))?;
                let Import { tools, skipped, reduced, unmatched, .. } = import;
                Ok(Made { tools, skipped, reduced, unmatched })
            }
            ToolKind::Composed(sort) => {
                let config = composed::config(entry, sort)?;
                let comes_later = |part: &str| !registry.has(part) && self.is_of_server(part);
                match config.shape.tools().into_iter().any(comes_later) {
                    true => {
                        let home = self.home.as_ref().unwrap_or(registry);
                        late_composed_tool(config, home, self.timeout_default)
                    }
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
}

pub(super) fn typed<T: DeserializeOwned>(entry: &ToolEntry) -> Result<T, DefinitionError> {
    serde_json::from_value(entry.value.clone()).map_err(|error| refuse(entry, error.to_string()))
}

fn refuse(entry: &ToolEntry, message: String) -> DefinitionError {
    let problem = Problem { at: entry.kind.section().to_owned(), message };
    DefinitionError { tool: entry.label().to_owned(), problems: vec![problem] }
}
