//! The servers that Helve is a client of: connected, watched over, and their tools registered.
//!
//! [`Servers`] holds them. Each is a `server` that connects when it is needed (`connect`), reads
//! what there is (`discover`), and whose tools (`tool`) are calls over its connection.

mod connect;
mod discover;
mod in_process;
mod listening;
pub(crate) mod login;
mod offer;
pub(crate) mod owners;
mod probe;
mod result;
mod served;
mod server;
mod status;
mod tool;
mod updates;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::future::join_all;
use helve::Registry;
use helve_sandbox::Sandbox;
use tokio::sync::broadcast;
use url::Url;

use crate::client::{Answers, Sampler};
use crate::config::{Secrets, ServerConfig};
use crate::log::{Line, Log};
use crate::names::check_servers;
use crate::oauth::{LoggedIn, LoginOptions, Next, OAuthError, TokenStore};
use crate::pins::Pins;

pub use in_process::{InProcess, Service};
pub use login::{caller_login, shared_login};
pub use offer::Offer;
use offer::text as text_of;
pub use probe::{Called, Probe, Report, ReportError, Stage};
pub(crate) use served::{Piece, Wish, served, to_watch};
use server::Common;
pub(crate) use server::Server;
pub use status::{ServerState, ServerStatus};
pub(crate) use tool::RESULT;
pub(crate) use updates::Watching;

/// How many changes are kept for a slow listener: more than one server tells at once.
const EVENTS_KEPT: usize = 2_048;

/// What servers need of the world.
#[derive(Clone)]
pub struct Surroundings {
    /// Starts the servers that are programs.
    pub sandbox: Sandbox,
    /// Reaches the servers that have an address.
    pub net: helve_net::Client,
    /// Looks up secrets.
    pub secrets: Secrets,
    /// Remembers what tools looked like. Without it nothing is held to what it was.
    pub pins: Option<Pins>,
    /// Answers servers that ask for a model, where the configuration lets them.
    pub sampler: Option<Sampler>,
    /// Keeps who we are to servers that want OAuth. Without it nobody can log in.
    pub tokens: Option<TokenStore>,
}

/// Something that happened at a server.
#[derive(Debug, Clone)]
pub struct ServerEvent {
    /// The name of the server.
    pub server: Arc<str>,
    /// Whose connection said so, where each caller has their own; it concerns nobody else.
    pub of: Option<Arc<str>>,
    /// What happened to the server.
    pub kind: ServerEventKind,
}

/// What can happen at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEventKind {
    /// Its state is another now.
    State(ServerState),
    /// It offers other tools, resources or prompts.
    Offer,
    /// A resource has new content.
    Updated(String),
}

/// What came of setting the servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct SetServers {
    /// New ones, and those whose configuration changed.
    pub added: Vec<String>,
    /// Those that are no longer there.
    pub removed: Vec<String>,
    /// Those that could not be used, and why.
    pub errors: BTreeMap<String, String>,
}

/// A server that was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server `{name}` was not added: {reason}")]
pub struct ServerRefused {
    /// The name it has in the configuration.
    pub name: String,
    /// Why it was not added.
    pub reason: String,
}

/// The file that the log of a server, by name, is kept in.
pub type LogFile = Box<dyn Fn(&str) -> std::path::PathBuf + Send + Sync>;

/// The servers that Helve is a client of. Cheap to clone.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    registry: Registry,
    surroundings: Surroundings,
    /// The client of servers that come from now on.
    net: Mutex<helve_net::Client>,
    servers: Mutex<BTreeMap<String, Arc<Server>>>,
    /// Where a server's log is kept on disk.
    log_file: OnceLock<LogFile>,
    events: broadcast::Sender<ServerEvent>,
}

impl Servers {
    /// No servers yet. The tools of those to come go into `registry`.
    pub fn new(registry: Registry, surroundings: Surroundings) -> Self {
        let (events, _) = broadcast::channel(EVENTS_KEPT);
        Self(Arc::new(Inner {
            registry,
            net: Mutex::new(surroundings.net.clone()),
            surroundings,
            servers: Mutex::default(),
            log_file: OnceLock::new(),
            events,
        }))
    }

    /// Keeps the logs of servers that come from now on in files as well, so that they can be read
    /// when this process has ended.
    pub fn keep_logs(&self, file: LogFile) {
        // The first to say it is the one who set the servers up.
        let _ = self.0.log_file.set(file);
    }

    /// Lets servers that come from now on send their requests with this client.
    pub fn set_net(&self, net: helve_net::Client) {
        *self.0.net.lock().unwrap_or_else(PoisonError::into_inner) = net;
    }

    /// Where tools are remembered as they were accepted.
    pub fn pins(&self) -> Option<&Pins> {
        self.0.surroundings.pins.as_ref()
    }

    /// Makes these the servers: others are stopped, those whose configuration changed begin anew,
    /// and the rest is left alone. Nothing waits for a connection.
    pub async fn set(&self, configs: BTreeMap<String, ServerConfig>) -> SetServers {
        let mut outcome = SetServers::default();
        // Those of this process were here first.
        let values: Vec<String> =
            self.all().iter().filter(|server| server.is_in_process()).map(|s| s.name().to_owned()).collect();
        let refused = check_servers(values.iter().chain(configs.keys()).map(String::as_str));
        outcome.errors.extend(refused.into_iter().map(|(name, why)| (name.to_owned(), why)));
        let mut namespaces: Vec<String> =
            configs.iter().map(|(name, config)| config.namespace(name).to_owned()).collect();
        namespaces.extend(values);
        let mut stopped = BTreeMap::new();
        {
            let mut servers = self.servers();
            servers.retain(|name, server| {
                if server.is_in_process() {
                    return true;
                }
                let stays = configs.get(name) == Some(server.config()) && !outcome.errors.contains_key(name);
                if !stays {
                    stopped.insert(name.clone(), Arc::clone(server));
                    if !configs.contains_key(name) {
                        outcome.removed.push(name.clone());
                    }
                }
                stays
            });
        }
        join_all(stopped.values().map(|server| server.stop())).await;
        for (name, config) in configs {
            if outcome.errors.contains_key(&name) || self.servers().contains_key(&name) {
                continue;
            }
            if let Some(problem) = config.check(&name).into_iter().next() {
                outcome.errors.insert(name, problem.to_string());
                continue;
            }
            let server = self.server(&name, config, &namespaces);
            if let Some(before) = stopped.get(&name) {
                server.inherit(before);
            }
            server.begin();
            self.servers().insert(name.clone(), server);
            outcome.added.push(name);
        }
        outcome
    }

    /// Adds a server that is a value of this process, made with `rmcp` or by Helve
    /// ([`McpServer`](crate::server::McpServer)): its tools are tools like those of any other. It
    /// stays whatever servers are [set](Self::set). Fails where the name is taken or unfit.
    ///
    /// ```
    /// # use helve::Runtime;
    /// # use helve_mcp::servers::{ServerRefused, Servers, Surroundings};
    /// use rmcp::ServerHandler;
    ///
    /// struct Counter;
    ///
    /// impl ServerHandler for Counter {}
    ///
    /// # async fn example(surroundings: Surroundings) -> Result<(), ServerRefused> {
    /// let runtime = Runtime::builder().build();
    /// let servers = Servers::new(runtime.registry().clone(), surroundings);
    /// servers.add_in_process("counter", Counter)?;
    /// servers.settled().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_in_process(&self, name: &str, service: impl InProcess) -> Result<(), ServerRefused> {
        let mut servers = self.servers();
        let names = servers.keys().map(String::as_str).chain([name]);
        if let Some((name, reason)) = check_servers(names).into_iter().next() {
            return Err(ServerRefused { name: name.to_owned(), reason });
        }
        let namespaces: Vec<String> =
            servers.iter().map(|(name, server)| server.config().namespace(name).to_owned()).collect();
        let server = self.server(name, ServerConfig::default(), &namespaces);
        server.set_service(service.into_service());
        server.begin();
        servers.insert(name.to_owned(), server);
        Ok(())
    }

    fn server(&self, name: &str, config: ServerConfig, namespaces: &[String]) -> Arc<Server> {
        let answers = self.answers(&config);
        let log =
            self.0.log_file.get().map_or_else(Log::default, |file| {
                Log::kept_in(file(name), config.limits.stderr_bytes as u64)
            });
        let common = Common {
            registry: self.0.registry.clone(),
            surroundings: Surroundings {
                net: self.0.net.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                ..self.0.surroundings.clone()
            },
            events: self.0.events.clone(),
        };
        Server::new(name, config, answers, namespaces, common, Arc::new(log))
    }

    fn answers(&self, config: &ServerConfig) -> Answers {
        let root = |path: &std::path::PathBuf| {
            let url = url::Url::from_file_path(path).ok()?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            Some((url.to_string(), name))
        };
        Answers {
            elicitation: config.elicitation,
            sampling: config.sampling,
            sampler: self.0.surroundings.sampler.clone().filter(|_| config.sampling),
            roots: config.roots.iter().filter_map(root).collect(),
        }
    }

    /// Waits until every server that starts with Helve is connected and listed, or has failed.
    pub async fn settled(&self) {
        let servers: Vec<_> = self.servers().values().cloned().collect();
        for server in servers {
            server.settled().await;
        }
    }

    /// How every server is, by name.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.servers().values().map(|server| server.status()).collect()
    }

    /// The last lines of a server's log, if there is such a server.
    pub fn log(&self, name: &str, limit: usize) -> Option<Vec<Line>> {
        self.get(name).map(|server| server.log().last(limit))
    }

    /// Stops a server and connects it anew. Whether there is such a server.
    pub async fn restart(&self, name: &str) -> bool {
        let Some(server) = self.get(name) else { return false };
        server.restart().await;
        true
    }

    /// Lets a person log in to a server that wants it, and connects it anew. Asks for more than
    /// there is where that is what the server refused last. `open` gets the address for a browser.
    pub async fn login(&self, name: &str, open: impl FnOnce(&Url)) -> Result<LoggedIn, OAuthError> {
        let setting = |reason: String| OAuthError::Setting { reason };
        let server = self.get(name).ok_or_else(|| setting(format!("no MCP server named `{name}`")))?;
        let session = shared_login(server.config(), &self.0.surroundings).await;
        let session = session.map_err(|error| setting(error.to_string()))?;
        let session = session.ok_or_else(|| setting(format!("nobody can log in to `{name}`")))?;
        let challenged = match server.challenge() {
            Some(challenge) => Some(session.challenged(&challenge, None).await?),
            None => None,
        };
        let port = server.config().oauth.as_ref().and_then(|oauth| oauth.callback_port);
        let options = match challenged {
            Some(Next::StepUp { scope }) => LoginOptions { port, ..LoginOptions::step_up(&scope) },
            Some(Next::Retry | Next::NeedsLogin { .. }) | None => {
                LoginOptions { port, ..LoginOptions::default() }
            }
        };
        let logged_in = session.login(options, open).await?;
        server.restart().await;
        server.settled().await;
        Ok(logged_in)
    }

    /// Looks again at what a server offers: after its tools were accepted. Whether there is such a
    /// server.
    pub async fn refresh(&self, name: &str) -> bool {
        let Some(server) = self.get(name) else { return false };
        server.refresh().await;
        true
    }

    /// Learns of what happens at servers.
    pub fn subscribe(&self) -> broadcast::Receiver<ServerEvent> {
        self.0.events.subscribe()
    }

    /// Stops them all.
    pub async fn close(&self) {
        let servers = std::mem::take(&mut *self.servers());
        join_all(servers.values().map(|server| server.stop())).await;
    }

    /// The registry that their tools are in.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// What a server offers, as far as is known, if there is such a server.
    pub fn offer(&self, name: &str) -> Option<Arc<Offer>> {
        self.get(name).map(|server| server.offer())
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Server>> {
        self.servers().get(name).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Server>> {
        self.servers().values().cloned().collect()
    }

    fn servers(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Server>>> {
        self.0.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
