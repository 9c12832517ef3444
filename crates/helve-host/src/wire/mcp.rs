//! MCP servers: from configuration to connections, and what a person must have trusted first.
//!
//! INVARIANT: a server that a project brought is started only as a person has trusted it. [`attach`]
//! is the one way to start configured servers, and asks [`Configured::hold`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use helve::json::{escape_pointer, sha256_hex};
use helve::{Category, ErrorCode, Layer, Registry, Runtime, ToolError};
use helve_mcp::config::{Place, Secrets, ServerConfig};
use helve_mcp::log::Line;
use helve_mcp::oauth::TokenStore;
use helve_mcp::pins::Pins;
use helve_mcp::servers::{ServerState, ServerStatus, Servers, SetServers, Surroundings};
use helve_mcp::trust::{Scope, Trust, Verdict};
use helve_net::{Client, HostPattern, NetPolicy};
use helve_sandbox::Way;

use super::judges;
use super::trust::{self, Store};
use crate::Remark;
use crate::config::{BrokenServer, Inputs, Loaded, Origin, Problem, find};
use crate::error::HostError;

/// A server that the configuration names.
#[derive(Debug, Clone)]
pub struct Configured {
    pub name: String,
    /// With paths that start at the file's folder.
    pub config: ServerConfig,
    pub scope: Scope,
    /// The file, or whatever else, that names it.
    pub origin: Origin,
    pub verdict: Verdict,
}

impl Configured {
    /// Why it may not be started, if it may not.
    pub fn hold(&self) -> Option<String> {
        match &self.verdict {
            Verdict::Trusted => None,
            Verdict::Changed { .. } => {
                Some("its configuration has changed since it was trusted; `helve trust` shows how".to_owned())
            }
            Verdict::Unknown => Some("not trusted yet; `helve trust` shows what it would run".to_owned()),
        }
    }

    /// The same with whether it is trusted by now.
    pub fn judged_anew(&self, loaded: &Loaded) -> Self {
        let trust = trust::look(Store::Servers);
        let verdict = verdict(loaded, trust.as_ref(), &self.scope, &self.name, &self.config);
        Self { verdict, ..self.clone() }
    }

    /// What is in place of a connection: `pending`, and why.
    pub fn held_status(&self) -> Option<ServerStatus> {
        let state = if self.config.enabled { ServerState::Pending } else { ServerState::Disabled };
        Some(ServerStatus { state, ..unconnected(&self.name, &self.hold()?) })
    }

    /// Whether its tools could have this name. A server without a namespace could have any.
    pub fn may_have(&self, tool: &str) -> bool {
        let namespace = self.config.namespace(&self.name);
        let has = |separator: &str| {
            let prefix = format!("{}{separator}", namespace.replace('/', separator));
            tool.starts_with(&prefix)
        };
        namespace.is_empty() || has("/") || has("__")
    }
}

/// Every server that the configuration names, by name, with whether it may be started.
pub fn configured(loaded: &Loaded) -> Vec<Configured> {
    let trust = trust::look(Store::Servers);
    let servers = loaded.config.mcp.servers.iter();
    servers
        .map(|(name, config)| {
            let (scope, origin) = scope_of(loaded, name);
            let folder = match &origin {
                Origin::File { path, .. } => path.parent().unwrap_or(loaded.work_dir.as_path()),
                Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => loaded.work_dir.as_path(),
            };
            let mut config = config.clone().relative_to(folder);
            if let (Scope::Project(own), true) = (&scope, loaded.is_foreign(Layer::Project)) {
                // What is looked at now is all that it gets, wherever links lead by the time it starts.
                let agreed = helve_mcp::trust::leads_outside(&scope, &config).into_iter().map(|(_, end)| end);
                config.within = Some(std::iter::once(Way::to(own).end).chain(agreed).collect());
            }
            let verdict = verdict(loaded, trust.as_ref(), &scope, name, &config);
            Configured { name: name.clone(), config, scope, origin, verdict }
        })
        .collect()
}

fn verdict(
    loaded: &Loaded,
    trust: Option<&Trust>,
    scope: &Scope,
    name: &str,
    config: &ServerConfig,
) -> Verdict {
    match (scope, trust) {
        // What the person wrote into their own file is what they want.
        (Scope::User, _) => Verdict::Trusted,
        (Scope::Project(_), _) if !loaded.is_foreign(Layer::Project) => Verdict::Trusted,
        (Scope::Project(_), Some(trust)) => trust.check(scope, name, config),
        (Scope::Project(_), None) => Verdict::Unknown,
    }
}

/// The files that servers without a box are made of.
pub(super) fn scripts(loaded: &Loaded) -> Vec<PathBuf> {
    let unboxed = configured(loaded).into_iter().map(|one| one.config).filter(|config| !config.confined);
    let scripts = |config: ServerConfig| {
        let folder = config.cwd.unwrap_or_default();
        config.command.map(|command| judges::scripts_of(&command, &config.args, &folder)).unwrap_or_default()
    };
    unboxed.flat_map(scripts).collect()
}

/// One server by name, or what was probably meant.
pub fn find_configured(loaded: &Loaded, name: &str) -> Result<Configured, HostError> {
    let mut all = configured(loaded);
    if let Some(at) = all.iter().position(|one| one.name == name) {
        return Ok(all.swap_remove(at));
    }
    if let Some(broken) = loaded.broken_servers.get(name) {
        return Err(HostError::usage(format!("the MCP server `{name}` is broken"))
            .details(broken.problems.iter().map(|problem| problem.line()))
            .hint(format!("mend it, or take it out: `helve mcp remove {name}`")));
    }
    let failure = HostError::usage(format!("there is no MCP server named `{name}`"));
    Err(match crate::suggest::nearest(name, all.iter().map(|one| one.name.as_str())) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint("`helve mcp list` shows them all; `helve mcp add` adds one"),
    })
}

/// Whose word a server is: the project's, if the project's file has anything to say about it.
fn scope_of(loaded: &Loaded, name: &str) -> (Scope, Origin) {
    let origins = loaded.origins_below(&format!("/mcp/servers/{}", escape_pointer(name)));
    let of_file = |file: &Path| {
        let lines =
            origins.iter().filter(|origin| matches!(origin, Origin::File { path, .. } if path == file));
        lines.min_by_key(|origin| match origin {
            Origin::File { line, .. } => *line,
            Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => usize::MAX,
        })
    };
    if let Some(file) = &loaded.project_file
        && let Some(origin) = of_file(file)
    {
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        return (Scope::Project(folder), (*origin).clone());
    }
    let origin = loaded.user_file.as_deref().and_then(of_file).or_else(|| origins.first());
    (Scope::User, origin.map_or(Origin::Default, |origin| (*origin).clone()))
}

/// Where Helve keeps what it knows about servers; made where it is not there.
pub fn state_folder() -> Result<PathBuf, HostError> {
    let folder = find::mcp_state().ok_or_else(|| {
        HostError::usage("there is no place to remember MCP servers: neither HOME nor XDG_STATE_HOME is set")
    })?;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(&folder)
        .map_err(|error| HostError::failed(format!("cannot make {}", folder.display())).because(&error))?;
    Ok(folder)
}

/// The folder of a scope: of two projects with a server of one name, each has its own.
pub(crate) fn scope_folder(scope: &Scope) -> String {
    match scope {
        Scope::User => "user".to_owned(),
        Scope::Project(path) => {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            format!("project-{}", &sha256_hex(real.as_os_str().as_encoded_bytes())[..16])
        }
    }
}

/// What the tools of these servers looked like.
pub fn pins(state: &Path, servers: &[Configured]) -> Pins {
    let pins = Pins::open(pins_folder(state, &Scope::User));
    servers.iter().for_each(|one| pins.place(&one.name, pins_folder(state, &one.scope)));
    pins
}

/// What the tools of the servers of a scope looked like.
pub fn pins_of(state: &Path, scope: &Scope) -> Pins {
    Pins::open(pins_folder(state, scope))
}

/// Makes these the servers of a Helve that runs. Where the pins of one lie depends on whose it is, which
/// may be another than when Helve was started.
pub async fn set(
    servers: &Servers,
    started: Vec<Configured>,
    loaded: &Loaded,
) -> Result<SetServers, HostError> {
    let reached: Vec<_> = started.iter().map(|one| &one.config).collect();
    servers.set_net(client(&loaded.config.net, &reached)?);
    if let Some(pins) = servers.pins() {
        let state = state_folder()?;
        started.iter().for_each(|one| pins.place(&one.name, pins_folder(&state, &one.scope)));
    }
    Ok(servers.set(configs(started)).await)
}

fn pins_folder(state: &Path, scope: &Scope) -> PathBuf {
    state.join("pins").join(scope_folder(scope))
}

/// Where the log of a server is kept.
pub(crate) fn log_file(state: &Path, scope: &Scope, name: &str) -> PathBuf {
    // A name that is no file's name is refused long before; here it must not lead elsewhere.
    let safe = name.replace(['/', '\\', '\0'], "_");
    state.join("logs").join(scope_folder(scope)).join(format!("{safe}.log"))
}

/// The lines of a server's log, oldest first.
pub fn kept_log(one: &Configured) -> Result<Vec<Line>, HostError> {
    let file = log_file(&state_folder()?, &one.scope, &one.name);
    helve_mcp::log::read_kept(&file)
        .map_err(|error| HostError::failed(format!("cannot read {}", file.display())).because(&error))
}

/// What servers need of the world. `reached` are addresses that a person has agreed to: one on this
/// machine or in a private network can be reached although `[net]` does not list it.
pub fn surroundings(
    loaded: &Loaded,
    servers: &[Configured],
    reached: &[&ServerConfig],
) -> Result<Surroundings, HostError> {
    let state = state_folder()?;
    let tokens = TokenStore::open(&state)
        .map_err(|error| HostError::failed("the logins to MCP servers cannot be read").because(&error))?;
    let sandbox = super::sandbox(loaded);
    Ok(Surroundings {
        secrets: Secrets::system(sandbox.clone()),
        sandbox,
        net: client(&loaded.config.net, reached)?,
        pins: Some(pins(&state, servers)),
        sampler: None,
        tokens: Some(tokens),
    })
}

/// The guarded client, which may also reach these servers themselves.
pub fn client(policy: &NetPolicy, reached: &[&ServerConfig]) -> Result<Client, HostError> {
    let mut policy = policy.clone();
    policy.allow.extend(reached.iter().filter_map(|config| own_address(config)));
    Client::new(policy).map_err(|error| HostError::failed("requests cannot be sent").because(&error))
}

fn own_address(config: &ServerConfig) -> Option<HostPattern> {
    let Some(Place::Url(url)) = config.place() else { return None };
    let url = url::Url::parse(url).ok()?;
    let port = url.port_or_known_default()?;
    format!("{}:{port}", url.host_str()?).parse().ok()
}

/// Which servers a command needs.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// Every server that is configured.
    All,
    /// The one of this name.
    Named(&'a str),
    /// Those that could have this tool or its parts, if nobody else has, and those that hooks call.
    With(&'a str),
    /// The same, or all where the tool runs code that calls others.
    ForCode(&'a str),
    /// Those that hooks call.
    OfHooks,
}

/// Servers that are connected, as far as they can be.
pub struct Attached {
    pub servers: Option<Servers>,
    /// Those that may not be started.
    held: Vec<Configured>,
    /// Those that the configuration describes wrongly.
    errors: BTreeMap<String, String>,
}

impl Attached {
    /// How each is.
    pub fn status(&self) -> Vec<ServerStatus> {
        let mut all: Vec<_> = self.servers.iter().flat_map(Servers::status).collect();
        all.extend(self.held.iter().filter_map(Configured::held_status));
        let failed = |(name, reason): (&String, &String)| ServerStatus {
            state: ServerState::Failed,
            ..unconnected(name, reason)
        };
        all.extend(self.errors.iter().map(failed));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// What keeps servers from being used.
    pub fn remarks(&self) -> Vec<Remark> {
        let troubled = self.status().into_iter().filter(|one| match one.state {
            ServerState::Connected => one.reason.is_some(),
            ServerState::Disabled => false,
            ServerState::Pending | ServerState::NeedsAuth | ServerState::Failed => true,
        });
        troubled
            .map(|one| Remark {
                found: format!(
                    "MCP server `{}`: {}",
                    one.name,
                    one.reason.unwrap_or_else(|| "it is not connected".to_owned())
                ),
                fix: format!("see `helve mcp status {}`", one.name),
            })
            .collect()
    }

    /// Why a tool that a server should have is not there.
    pub fn why_not(&self) -> Option<ToolError> {
        let troubled = |one: &ServerStatus| one.state != ServerState::Connected || one.reason.is_some();
        let one = self.status().into_iter().find(troubled)?;
        let name = &one.name;
        let reason = one.reason.unwrap_or_else(|| one.state.as_str().to_owned());
        let held = self.held.iter().any(|held| held.name == *name);
        let code = match one.state {
            _ if held => ErrorCode::PermissionDenied,
            ServerState::NeedsAuth => ErrorCode::IntegrationMissing,
            ServerState::Disabled => ErrorCode::ToolNotFound,
            ServerState::Pending | ServerState::Connected | ServerState::Failed => ErrorCode::McpConnection,
        };
        Some(
            ToolError::new(code, format!("MCP server `{name}`: {reason}"))
                .suggest(format!("see `helve mcp status {name}`")),
        )
    }

    /// Ends the servers and waits until they are gone.
    pub async fn close(&self) {
        if let Some(servers) = &self.servers {
            servers.close().await;
        }
    }
}

fn unconnected(name: &str, reason: &str) -> ServerStatus {
    ServerStatus {
        name: name.to_owned(),
        state: ServerState::Pending,
        reason: Some(reason.to_owned()),
        since: jiff::Timestamp::now(),
        transport: None,
        era: None,
        protocol: None,
        server: None,
        tools: 0,
        tool_names: Vec::new(),
        resources: 0,
        prompts: 0,
        latency_ms: None,
        restarts: 0,
        remarks: Vec::new(),
    }
}

/// Starts the servers that are needed and may be started, and waits until each is connected and
/// listed or has failed. Their tools go into `registry`. `waits` is told meanwhile which it waits for.
pub async fn attach(
    loaded: &Loaded,
    registry: &Registry,
    which: Which<'_>,
    waits: &mut (dyn FnMut(&[String]) + Send),
) -> Result<Attached, HostError> {
    let mut chosen = configured(loaded);
    let broken = broken(loaded, which);
    match which {
        Which::All => {}
        Which::Named(name) => chosen.retain(|one| one.name == name),
        Which::With(tool) => {
            let mut called = super::hooks::tools_called(loaded);
            called.extend(tools_behind(tool, registry));
            chosen.retain(|one| called.iter().any(|tool| one.may_have(tool)));
        }
        Which::ForCode(tool) => {
            // Code names the tools that it calls as it goes.
            let is_code =
                registry.get(tool).is_some_and(|found| found.tool.definition().category == Category::Code);
            if !is_code {
                return Box::pin(attach(loaded, registry, Which::With(tool), waits)).await;
            }
        }
        Which::OfHooks => {
            let of_hooks = super::hooks::tools_called(loaded);
            chosen.retain(|one| of_hooks.iter().any(|tool| one.may_have(tool)));
        }
    }
    if chosen.is_empty() {
        return Ok(Attached { servers: None, held: Vec::new(), errors: broken });
    }
    let (held, started): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|one| one.hold().is_some());
    let servers = open(loaded, registry, &started)?;
    let set = servers.set(configs(started)).await;
    settle(&servers, waits).await;
    let errors = set.errors.into_iter().chain(broken).collect();
    Ok(Attached { servers: Some(servers), held, errors })
}

/// The servers that the files describe wrongly, where all or these are asked for. A call of one of their tools
/// is told by the registry.
fn broken(loaded: &Loaded, which: Which<'_>) -> BTreeMap<String, String> {
    let is_asked_for = |name: &str| match which {
        Which::All => true,
        Which::Named(wanted) => wanted == name,
        Which::With(_) | Which::ForCode(_) | Which::OfHooks => false,
    };
    let broken = loaded.broken_servers.iter().filter(|(name, _)| is_asked_for(name));
    let lines = |one: &BrokenServer| one.problems.iter().map(Problem::line).collect::<Vec<_>>().join("; ");
    broken.map(|(name, one)| (name.clone(), lines(one))).collect()
}

/// Whose word a server of this place would be.
pub fn scope_at(loaded: &Loaded, origin: &Origin) -> Scope {
    match (origin, &loaded.project_file) {
        (Origin::File { path, .. }, Some(file)) if path == file => {
            Scope::Project(file.parent().unwrap_or(Path::new("/")).to_owned())
        }
        (Origin::File { .. } | Origin::Default | Origin::Env { .. } | Origin::Flag { .. }, _) => Scope::User,
    }
}

/// The tools that a call of this one needs and that are not here: itself, or parts of it.
fn tools_behind(tool: &str, registry: &Registry) -> Vec<String> {
    let (mut missing, mut seen, mut next) = (Vec::new(), BTreeSet::new(), vec![tool.to_owned()]);
    while let Some(name) = next.pop() {
        match registry.get(&name) {
            Some(found) if seen.insert(name.clone()) => next.extend(found.tool.handler().parts()),
            Some(_) => {}
            None => missing.push(name),
        }
    }
    missing
}

/// Servers to be set, which remember what they should.
pub fn open(loaded: &Loaded, registry: &Registry, started: &[Configured]) -> Result<Servers, HostError> {
    let reached: Vec<_> = started.iter().map(|one| &one.config).collect();
    let servers = Servers::new(registry.clone(), surroundings(loaded, started, &reached)?);
    let state = state_folder()?;
    let scopes: BTreeMap<_, _> = started.iter().map(|one| (one.name.clone(), one.scope.clone())).collect();
    servers.keep_logs(Box::new(move |name| log_file(&state, scopes.get(name).unwrap_or(&Scope::User), name)));
    Ok(servers)
}

/// Starts all that may be started, behind this runtime. Nobody waits for a connection. With them those that are not
/// set, and why.
pub async fn start(
    loaded: &Loaded,
    runtime: &Runtime,
) -> Result<(Servers, Vec<(String, String)>), HostError> {
    let (started, held): (Vec<_>, Vec<_>) =
        configured(loaded).into_iter().partition(|one| one.hold().is_none());
    let servers = open(loaded, runtime.registry(), &started)?;
    let set = servers.set(configs(started)).await;
    let held = held.into_iter().filter_map(|one| Some((one.name.clone(), one.hold()?)));
    Ok((servers, held.chain(set.errors).collect()))
}

/// Servers as they are set.
pub fn configs(servers: Vec<Configured>) -> BTreeMap<String, ServerConfig> {
    servers.into_iter().map(|one| (one.name, one.config)).collect()
}

/// What the files look like that say which servers run and what may be called: another one when one of
/// them has changed.
pub fn fingerprint(inputs: &Inputs) -> String {
    let project = match &inputs.config {
        Some(file) => Some(inputs.work_dir.join(file)),
        None => find::project_file(&inputs.work_dir).ok().flatten(),
    };
    let local = project.as_deref().and_then(Path::parent).and_then(find::local_file);
    let files: Vec<_> =
        [find::user_file(), project, local].into_iter().flatten().chain(trust::files()).collect();
    fingerprint_of(files.iter().map(PathBuf::as_path))
}

/// What files look like: another text when one of them has changed.
pub fn fingerprint_of<'p>(files: impl Iterator<Item = &'p Path>) -> String {
    let digest = |file| fs::read(file).ok().map(|bytes| sha256_hex(&bytes)).unwrap_or_default();
    files.map(digest).collect::<Vec<_>>().join(" ")
}

/// Waits for the servers, and tells for whom.
async fn settle(servers: &Servers, waits: &mut (dyn FnMut(&[String]) + Send)) {
    let mut events = servers.subscribe();
    let settled = servers.settled();
    tokio::pin!(settled);
    loop {
        let waits_for: Vec<_> = servers
            .status()
            .into_iter()
            .filter(|one| one.state == ServerState::Pending)
            .map(|one| one.name)
            .collect();
        if !waits_for.is_empty() {
            waits(&waits_for);
        }
        tokio::select! {
            () = &mut settled => return,
            // One that was missed is as good as one that came.
            _ = events.recv() => {}
        }
    }
}
