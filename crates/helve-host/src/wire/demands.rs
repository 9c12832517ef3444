//! What a tool of a project asks for beyond the project's own folder.
//!
//! A tool that asks for nothing of this runs without trust: a program in a box that reads and writes in the
//! project's folder alone, a request to a public address that carries no secret, and what is made of the one
//! or the other. Each of the others waits, see [`super::brought`].
//!
//! What a request sends is for the model to say, and labels watch that. In a tool made of others the project
//! says it, so one that would send what another reads here waits, and so does one that calls tools which are
//! not the project's with words of the project's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use helve::{Layer, Tool};
use helve_mcp::trust::Scope;
use helve_net::{NetPolicy, Url};
use helve_sandbox::Sandbox;
use helve_tools::http::HttpToolConfig;
use helve_tools::openapi::{self, OpenApiConfig};
use helve_tools::program::ProgramToolConfig;
use serde_json::{Value, json};

use super::tools::typed;
use super::{builtin_as_shipped, composed, is_remote, mcp, web};
use crate::config::place::{Lead, OwnFolder};
use crate::config::{Config, Loaded, ToolEntry, ToolKind};

/// Something that a tool asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    /// To run as the user does.
    NoBox,
    /// To read outside of the project.
    Read(Lead),
    /// To change something outside of the project.
    Write(Lead),
    /// To start a program that is neither the system's nor the project's.
    Start(Lead),
    /// Hosts that a program may reach.
    Network(Vec<String>),
    /// A secret: `${env:NAME}`.
    Secret(String),
    /// An address on this machine, in a private network, or one that the user's `net.allow` opens.
    Address(String),
    /// A document that is fetched when tools are listed.
    Fetch(String),
    /// That a document says who gets a secret.
    AnyServer,
    /// To be called in the place of another tool.
    Replace(String),
    /// To call a tool that is not the project's.
    Call(String),
    /// To send out, by the second, what the first gets to read here.
    Combine(String, String),
    /// To change what is remembered in a journal that is not the project's own.
    Remember,
    /// More of something than programs get.
    More(&'static str, u64),
}

impl Demand {
    /// What stands before it where a person looks at it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NoBox => "box",
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Start(_) => "start",
            Self::Network(_) => "network",
            Self::Secret(_) => "secret",
            Self::Address(_) => "address",
            Self::Fetch(_) => "fetch",
            Self::AnyServer => "server",
            Self::Replace(_) => "replaces",
            Self::Call(_) => "calls",
            Self::Combine(..) => "sends",
            Self::Remember => "remembers",
            Self::More(what, _) => what,
        }
    }
}

/// As a person must see it.
impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBox => f.write_str("NOT confined: it can do all that you can"),
            Self::Read(lead) | Self::Write(lead) | Self::Start(lead) => write!(f, "{lead}"),
            Self::Network(hosts) => f.write_str(&hosts.join(", ")),
            Self::Secret(text) | Self::Fetch(text) => f.write_str(text),
            Self::Address(address) => {
                write!(f, "{address}, on this machine, in a private network, or in your `net.allow`")
            }
            Self::AnyServer => f.write_str(
                "whichever the document names, now and later, gets the secrets; `server` in helve.toml says who",
            ),
            Self::Replace(whom) | Self::Call(whom) => f.write_str(whom),
            Self::Combine(reads, sends) => write!(f, "what `{reads}` reads here, by `{sends}`"),
            Self::Remember => f.write_str("in your own journal, which this project goes on with"),
            Self::More(_, number) => write!(f, "{number}, more than programs get"),
        }
    }
}

/// What a tool asks for, of which some depends on the moment: where paths lead.
#[derive(Debug, Clone)]
pub(super) struct Demands {
    own: OwnFolder,
    fixed: Vec<Demand>,
    paths: Vec<(Use, PathBuf)>,
}

/// What is done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
    Start,
}

impl Demands {
    /// What it asks for at this moment.
    pub(super) fn now(&self) -> Vec<Demand> {
        let outside = |(how, path): &(Use, PathBuf)| {
            let lead = self.lead(*how, path);
            let is_of_system = *how != Use::Write && SYSTEM.iter().any(|system| lead.end.starts_with(system));
            let demand = match how {
                Use::Read => Demand::Read(lead.clone()),
                Use::Write => Demand::Write(lead.clone()),
                Use::Start => Demand::Start(lead.clone()),
            };
            (!lead.is_inside && !is_of_system).then_some(demand)
        };
        self.fixed.iter().cloned().chain(self.paths.iter().filter_map(outside)).collect()
    }

    /// Whether what it asks for can change without its definition.
    pub(super) fn can_change(&self) -> bool {
        !self.paths.is_empty()
    }

    /// All that a program may be given, where these are granted.
    pub(super) fn within(&self, granted: &[Demand]) -> Vec<PathBuf> {
        let ends = granted.iter().filter_map(|demand| match demand {
            Demand::Read(lead) | Demand::Write(lead) | Demand::Start(lead) => Some(lead.end.clone()),
            Demand::NoBox
            | Demand::Network(_)
            | Demand::Secret(_)
            | Demand::Address(_)
            | Demand::Fetch(_)
            | Demand::AnyServer
            | Demand::Replace(_)
            | Demand::Call(_)
            | Demand::Combine(..)
            | Demand::Remember
            | Demand::More(..) => None,
        });
        std::iter::once(self.own.path().to_owned()).chain(ends).collect()
    }

    /// The file that is started or used, with links followed.
    fn lead(&self, how: Use, path: &Path) -> Lead {
        match how {
            Use::Read | Use::Write => self.own.lead(path),
            Use::Start => {
                let found = Sandbox::default().locate(path).unwrap_or_else(|_| path.to_owned());
                Lead { named: path.to_owned(), ..self.own.lead(&found) }
            }
        }
    }
}

/// What every box shows, and nothing of which is the user's.
const SYSTEM: [&str; 3] = ["/usr", "/bin", "/lib"];

/// What an entry of a project asks for. What cannot be read is refused when it is made, and asks for nothing.
pub(super) fn of_entry(entry: &ToolEntry, loaded: &Loaded, known: &KnownTools) -> Demands {
    let own = OwnFolder::of(entry.file());
    let mut demands = Demands { own, fixed: known.replaced_by(entry), paths: Vec::new() };
    demands.fixed.extend(calls(entry, loaded));
    match entry.kind {
        ToolKind::Program => {
            if let Ok(config) = typed::<ProgramToolConfig>(entry) {
                demands.add_program(&config, &loaded.config);
            }
        }
        ToolKind::Http => {
            if let Ok(config) = typed::<HttpToolConfig>(entry) {
                let HttpToolConfig { common: _, method: _, url, headers, query, body, response: _ } = config;
                demands.add_secrets(&json!([url, headers, query, body]));
                demands.add_address(&url, &loaded.config.net);
            }
        }
        ToolKind::OpenApi => {
            if let Ok(config) = typed::<OpenApiConfig>(entry) {
                demands.add_api(&config, &loaded.config.net);
            }
        }
        // Its parts are tools of their own, and each is asked for itself.
        ToolKind::Composed(_) => {}
    }
    demands.fixed.extend(combined(entry, loaded));
    if loaded.is_adopted() && remembers(entry) {
        demands.fixed.push(Demand::Remember);
    }
    demands
}

/// The tools that an entry has called, by itself or after it, and that are not the project's. What only
/// counts and tells the time does no harm.
fn calls(entry: &ToolEntry, loaded: &Loaded) -> Vec<Demand> {
    let called: BTreeSet<_> = called_by(entry).into_iter().collect();
    let is_harmless = |name: &String| HARMLESS.contains(name) || !of_project(name, loaded).is_empty();
    called
        .into_iter()
        .filter(|name| !is_harmless(name))
        .map(|name| Demand::Call(format!("`{name}`")))
        .collect()
}

/// Whether an entry changes what is remembered.
fn remembers(entry: &ToolEntry) -> bool {
    let effects = entry.value.get("effects").and_then(Value::as_array).into_iter().flatten();
    let mut sorts = effects.filter_map(|effect| effect.get("type").and_then(Value::as_str));
    sorts.any(|sort| matches!(sort, "memory" | "state_change"))
}

/// The tools that an entry has called: its parts, and those of its effects, its undo and its recall.
fn called_by(entry: &ToolEntry) -> Vec<String> {
    let value = &entry.value;
    let named = |value: &Value| value.get("tool").and_then(Value::as_str).map(str::to_owned);
    let effects = value.get("effects").and_then(Value::as_array).into_iter().flatten();
    let others = ["undo", "recall"].into_iter().filter_map(|key| value.get(key));
    composed::parts(entry).into_iter().chain(effects.chain(others).filter_map(named)).collect()
}

/// What a tool reads here and sends out, by itself or by what it has called, if it does both.
fn combined(entry: &ToolEntry, loaded: &Loaded) -> Option<Demand> {
    let (mut ahead, mut seen) = (vec![(entry.label().to_owned(), entry)], BTreeSet::new());
    let (mut reads, mut sends) = (None, None);
    while let Some((name, entry)) = ahead.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let called = called_by(entry);
        match entry.kind {
            ToolKind::Program => reads = Some(name),
            ToolKind::Http | ToolKind::OpenApi => sends = Some(name),
            ToolKind::Composed(_) => {}
        }
        let entries =
            |name: String| of_project(&name, loaded).into_iter().map(move |one| (name.clone(), one));
        ahead.extend(called.into_iter().flat_map(entries));
    }
    Some(Demand::Combine(reads?, sends?))
}

/// The project's entries that a name may mean.
fn of_project<'l>(name: &str, loaded: &'l Loaded) -> Vec<&'l ToolEntry> {
    let means = |entry: &&ToolEntry| match entry.kind {
        ToolKind::OpenApi => {
            name.strip_prefix(entry.label()).is_some_and(|rest| rest.starts_with(['/', '_']))
        }
        ToolKind::Http | ToolKind::Program | ToolKind::Composed(_) => entry.names().any(|one| one == name),
    };
    loaded.tools.iter().filter(|entry| loaded.is_foreign(entry.layer)).filter(means).collect()
}

/// Built-in tools that reach nothing: they count, measure and tell the time.
static HARMLESS: LazyLock<BTreeSet<String>> =
    LazyLock::new(|| helve_tools::builtin_tools().iter().map(|tool| tool.name().to_string()).collect());

impl Demands {
    fn add_program(&mut self, config: &ProgramToolConfig, limits: &Config) {
        let ProgramToolConfig {
            common: _,
            command,
            args: _,
            env,
            work_dir,
            output_bytes_max: _,
            reach,
            memory_mb,
            pids,
        } = config;
        self.add_secrets(&json!(env));
        if !reach.confined {
            // All else is nothing compared with that.
            self.fixed.push(Demand::NoBox);
            return;
        }
        if !reach.network.is_empty() {
            self.fixed.push(Demand::Network(reach.network.clone()));
        }
        let sandbox = &limits.sandbox;
        let bounds = [
            ("memory_mb", *memory_mb, sandbox.memory_mb),
            ("pids", pids.map(u64::from), u64::from(sandbox.pids)),
        ];
        for (what, asked, bound) in bounds {
            self.fixed.extend(asked.filter(|asked| *asked > bound).map(|asked| Demand::More(what, asked)));
        }
        let is_path = command.components().count() > 1;
        let command = if is_path { self.own.path().join(command) } else { command.clone() };
        self.paths.push((Use::Start, command));
        self.paths.push((Use::Read, work_dir.clone().unwrap_or_else(|| PathBuf::from("."))));
        self.paths.extend(reach.read.iter().map(|path| (Use::Read, path.clone())));
        self.paths.extend(reach.write.iter().map(|path| (Use::Write, path.clone())));
    }

    fn add_api(&mut self, config: &OpenApiConfig, net: &NetPolicy) {
        let OpenApiConfig {
            namespace: _,
            document,
            server,
            server_variables,
            include: _,
            exclude: _,
            read_only_only: _,
            auth,
            headers,
            query,
            output_schemas: _,
            requires_approval: _,
            timeout_ms: _,
            retry: _,
            integrations: _,
            response_bytes_max: _,
        } = config;
        self.add_secrets(&json!([server, server_variables, auth, headers, query]));
        match is_remote(document) {
            true => {
                self.fixed.push(Demand::Fetch(document.clone()));
                self.add_address(document, net);
            }
            false => self.paths.push((Use::Read, PathBuf::from(document))),
        }
        // The document says it in the place of the file, and is a part of what is trusted.
        let named = match (server, is_remote(document)) {
            (Some(server), _) => Some(server.clone()),
            (None, false) => openapi::server_of(config, self.own.path()).map(String::from),
            (None, true) => None,
        };
        if let Some(server) = named {
            self.add_address(&server, net);
        }
        match server {
            Some(_) => {}
            None if self.fixed.iter().any(|demand| matches!(demand, Demand::Secret(_))) => {
                self.fixed.push(Demand::AnyServer);
            }
            None => {}
        }
    }

    /// Every reference to a variable of the environment.
    fn add_secrets(&mut self, value: &Value) {
        let mut found = BTreeSet::new();
        references(value, &mut found);
        self.fixed.extend(found.into_iter().map(Demand::Secret));
    }

    fn add_address(&mut self, url: &str, net: &NetPolicy) {
        if let Ok(url) = Url::parse(url)
            && net.needs_entry(&url)
        {
            let host = url.host_str().unwrap_or_default();
            let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
            self.fixed.push(Demand::Address(format!("{host}{port}")));
        }
    }
}

/// `${…}` in any text of a value.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let parts = text.split("${").skip(1);
            found.extend(parts.map(|part| format!("${{{}}}", part.split('}').next().unwrap_or_default())));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(fields) => fields.iter().for_each(|(key, field)| {
            references(&Value::from(key.as_str()), found);
            references(field, found);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The tools that are known without the project: by their names as people and models read them.
pub(super) struct KnownTools {
    names: BTreeMap<String, String>,
    /// Namespaces of the user's APIs and MCP servers, whose tools are not known here.
    namespaces: BTreeMap<String, String>,
}

/// The names of what ships with Helve, whatever was left out or is not set up.
static SHIPPED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let web = web::checked(&Default::default()).unwrap_or_default();
    let names = |tool: &Tool| {
        let definition = tool.definition();
        definition
            .aliases
            .iter()
            .map(ToString::to_string)
            .chain(Some(tool.name().to_string()))
            .collect::<Vec<_>>()
    };
    // It is there once a provider is configured.
    let search = Some("web-search".to_owned());
    builtin_as_shipped().iter().chain(&web).flat_map(names).chain(search).collect()
});

impl KnownTools {
    pub(super) fn of(loaded: &Loaded) -> Self {
        let own = loaded.tools.iter().filter(|entry| entry.layer == Layer::Org);
        let (apis, tools): (Vec<_>, Vec<_>) = own.partition(|entry| entry.kind == ToolKind::OpenApi);
        let shipped = SHIPPED.iter().map(|name| (folded(name), format!("the built-in tool `{name}`")));
        let tools = tools.iter().flat_map(|entry| entry.names());
        let tools = tools.map(|name| (folded(name), format!("your own tool `{name}`")));
        let servers = mcp::configured(loaded).into_iter().filter(|one| one.scope == Scope::User);
        let servers = servers.map(|one| one.config.namespace(&one.name).to_string());
        let namespaces = apis.iter().map(|entry| entry.label().to_owned()).chain(servers);
        Self {
            names: shipped.chain(tools).collect(),
            namespaces: namespaces.map(|name| (folded(&name), name)).collect(),
        }
    }

    /// Whose place an entry would take.
    fn replaced_by(&self, entry: &ToolEntry) -> Vec<Demand> {
        let whose = |name: &str| {
            let name = folded(name);
            let within = |namespace: &String| {
                !namespace.is_empty() && (name == *namespace || name.starts_with(&format!("{namespace}-")))
            };
            let of_namespace = || {
                let (_, shown) = self.namespaces.iter().find(|(namespace, _)| within(namespace))?;
                Some(format!("a tool of your own `{shown}`"))
            };
            self.names.get(&name).cloned().or_else(of_namespace)
        };
        let below = |namespace: &str| {
            let start = format!("{}-", folded(namespace));
            let taken = self.names.iter().find(|(name, _)| name.starts_with(&start));
            whose(namespace).or_else(|| taken.map(|(_, whose)| whose.clone()))
        };
        let found: BTreeSet<_> = match entry.kind {
            ToolKind::OpenApi => below(entry.label()).into_iter().collect(),
            ToolKind::Http | ToolKind::Program | ToolKind::Composed(_) => {
                entry.names().filter_map(whose).collect()
            }
        };
        found.into_iter().map(Demand::Replace).collect()
    }
}

/// A name as a hasty reader takes it: in one case, with one sort of mark between words. So it is the same
/// as providers see it, `mail__send` for `mail/send`.
fn folded(name: &str) -> String {
    let words = name.split(['_', '.', '/', '-']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_read_alike_are_one() {
        for (one, other) in [
            ("file-read", "file_read"),
            ("file-read", "File-Read"),
            ("mail/send", "mail__send"),
            ("a/b", "a-b"),
        ] {
            assert_eq!(folded(one), folded(other));
        }
        assert_ne!(folded("file-read"), folded("file-reader"));
        assert!(SHIPPED.iter().any(|name| name == "http-request"), "{SHIPPED:?}");
    }

    #[test]
    fn every_reference_is_found() {
        let mut found = BTreeSet::new();
        references(&json!({ "a": ["Bearer ${env:A}"], "x${env:C}": "${env:B}${env:D}" }), &mut found);
        let names: Vec<_> = found.iter().map(String::as_str).collect();
        assert_eq!(names, ["${env:A}", "${env:B}", "${env:C}", "${env:D}"]);
    }
}
