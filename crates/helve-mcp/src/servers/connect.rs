//! Makes a connection to a server, by whatever way it has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{StreamExt, once};
use helve::BoxFuture;
use helve_net::{HeaderMap, HeaderName, HeaderValue};
use helve_sandbox::{Job, Limits, Policy, RunningBox};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Surroundings, login};
use crate::client::connection::Connection;
use crate::client::duplex::Duplex;
use crate::client::greet::{self, NotGreeted};
use crate::client::http::{Endpoint, Http};
use crate::client::hub::Hub;
use crate::client::link::{Link, LinkError, Receiver};
use crate::client::pipes::{LineWriter, lines};
use crate::client::{legacy_sse, websocket};
use crate::config::{CallerConfig, EraChoice, Place, ServerConfig, Setting, TransportChoice};
use crate::era::Era;
use crate::launch::Machine;
use crate::log::{Log, Source};

/// How long a server of the session era may take to say that it does not know the other one.
const PROBE_MAX: Duration = Duration::from_secs(5);
/// How long a program may take to end when its input is closed, and then when it is asked to.
const END_GRACE: Duration = Duration::from_millis(500);
const TERM_GRACE: Duration = Duration::from_secs(2);
/// The longest line of a program's standard error that is kept whole.
const STDERR_LINE_MAX: u64 = 8 << 10;

/// How a server turned out to be spoken to. Remembered, so that it is found out once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) transport: Transport,
    pub(crate) era: Era,
}

/// What carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
    Sse,
    Ws,
    InProcess,
}

impl Transport {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
            Self::Ws => "ws",
            Self::InProcess => "in_process",
        }
    }
}

/// On whose account a connection is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who<'a> {
    /// Helve, with the account that all share.
    Helve,
    /// Nobody in particular, who has no account.
    Nobody,
    /// A caller with their own account, by principal.
    Caller(&'a str),
}

impl Who<'_> {
    /// The name of the account under which tokens are kept. No caller is called so that theirs is another's.
    pub(crate) fn account(self) -> String {
        match self {
            Self::Helve => "helve".to_owned(),
            Self::Nobody => "nobody".to_owned(),
            Self::Caller(principal) => format!("caller:{principal}"),
        }
    }

    pub(crate) fn without_credentials(self) -> LinkError {
        let principal = match self {
            Self::Caller(principal) => Some(principal.to_owned()),
            Self::Helve | Self::Nobody => None,
        };
        LinkError::NoCredentials { principal }
    }
}

/// Connects and greets. `known` is how it went before.
pub(crate) async fn connect(
    name: &str,
    who: Who<'_>,
    config: &ServerConfig,
    surroundings: &Surroundings,
    hub: Arc<Hub>,
    known: Option<Way>,
    timeout: Duration,
) -> Result<(Connection, Way), LinkError> {
    // They may have been admitted a while ago.
    login::check_credentials(who, config, surroundings).await?;
    let attempt = Attempt { name, who, config, surroundings, hub, deadline: Instant::now() + timeout };
    match config.place() {
        Some(Place::Command(_)) => attempt.program(known).await,
        Some(Place::Url(_)) => attempt.address(known).await,
        None => Err(LinkError::unsent("its configuration must have either `command` or `url`")),
    }
}

struct Attempt<'a> {
    name: &'a str,
    /// Whose account is used.
    who: Who<'a>,
    config: &'a ServerConfig,
    surroundings: &'a Surroundings,
    hub: Arc<Hub>,
    deadline: Instant,
}

impl<'a> Attempt<'a> {
    fn done(
        &self,
        link: impl Link,
        greeting: crate::client::Greeting,
        transport: Transport,
    ) -> (Connection, Way) {
        let way = Way { transport, era: greeting.era };
        (Connection::new(Box::new(link), Arc::clone(&self.hub), greeting), way)
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Sessions come first: many programs of that era end at a request that they do not expect.
    async fn program(&self, known: Option<Way>) -> Result<(Connection, Way), LinkError> {
        let link = self.start_program().await?;
        let first = era(self.config, known).unwrap_or(Era::Session);
        let greeted = match first {
            Era::Session => greet::session(&link, &self.hub, self.time_left()).await,
            Era::Stateless => greet::stateless(&link, &self.hub, self.time_left()).await,
        };
        let greeted = match greeted {
            Err(refused @ (NotGreeted::Refused(_) | NotGreeted::Versions(..)))
                if self.config.era == EraChoice::Auto && first == Era::Session =>
            {
                let other = greet::stateless(&link, &self.hub, self.time_left()).await;
                other.map_err(|error| refused.or(error))
            }
            other => other,
        };
        match greeted {
            Ok(greeting) => Ok(self.done(link, greeting, Transport::Stdio)),
            Err(error) => {
                let reason = link.closed();
                link.close().await;
                // Why it ended says more than that nobody answered.
                Err(match (reason, error.into_error()) {
                    (Some(reason), LinkError::Closed { .. }) => LinkError::unsent(reason),
                    (_, error) => error,
                })
            }
        }
    }

    async fn start_program(&self) -> Result<Duplex, LinkError> {
        if let Some((path, end)) = self.config.leads_astray() {
            let (path, end) = (path.display(), end.display());
            let why = format!("`{path}` leads to `{end}` by now, which was not agreed to; see `helve trust`");
            return Err(LinkError::unsent(why));
        }
        let job = self.job().await?;
        let started = self.surroundings.sandbox.start(job).await;
        let mut running = started.map_err(|error| LinkError::unsent(error.to_string()))?;
        let gone = || LinkError::unsent("its streams are missing");
        let stdin = running.stdin.take().ok_or_else(gone)?;
        let stdout = running.stdout.take().ok_or_else(gone)?;
        if let Some(stderr) = running.stderr.take() {
            tokio::spawn(keep(stderr, Arc::clone(&self.hub.log)));
        }
        let running = Arc::new(Mutex::new(running));
        let at_end = ended(Arc::clone(&running));
        let frames = lines(stdout, self.config.limits.message_bytes).chain(once(at_end));
        let closer = Box::new(move || -> BoxFuture<'static, ()> { Box::pin(stop(running)) });
        Ok(Duplex::start(frames.boxed(), LineWriter(stdin), self.receiver(), closer))
    }

    async fn job(&self) -> Result<Job, LinkError> {
        let config = self.config;
        let secrets = &self.surroundings.secrets;
        let unresolved = |error: crate::config::SecretError| LinkError::unsent(error.to_string());
        let mut job = Job::new(config.command.clone().unwrap_or_default());
        for arg in &config.args {
            job.args.push(secrets.fill(arg).map_err(unresolved)?.expose_secret().to_owned());
            secrets.secrets_in(arg).iter().for_each(|secret| self.hub.log.hide(secret));
        }
        let path = match config.confined {
            true => helve_sandbox::policy::PATH.to_owned(),
            false => Machine::here().path(),
        };
        job.env.push(("PATH".to_owned(), path));
        if !config.confined
            && let Ok(home) = std::env::var("HOME")
        {
            job.env.push(("HOME".to_owned(), home));
        }
        for (name, setting) in self.settings(&config.env, |caller| &caller.env) {
            let value = self.resolve(setting).await?;
            job.env.retain(|(other, _)| other != name);
            job.env.push((name.clone(), value.expose_secret().to_owned()));
        }
        job.work_dir = config.cwd.clone();
        let mut read = config.read.clone();
        read.extend(config.cwd.clone().filter(|_| config.confined));
        let mut limits = Limits::default().long_lived();
        if let Some(memory) = config.memory_mb {
            limits.memory_bytes = memory << 20;
        }
        if let Some(pids) = config.pids {
            limits.pids = pids;
        }
        job.policy = Policy {
            read,
            write: config.write.clone(),
            network: config.network.clone(),
            limits,
            unconfined: !config.confined,
            ..job.policy
        };
        Ok(job)
    }

    /// The stateless era first: it costs one request, and servers of both eras are better at it.
    async fn address(&self, known: Option<Way>) -> Result<(Connection, Way), LinkError> {
        let endpoint = self.endpoint().await?;
        let scheme = endpoint.url.scheme().to_owned();
        let transport = match (self.config.transport, known.map(|way| way.transport)) {
            (TransportChoice::Ws, _) => Some(Transport::Ws),
            (TransportChoice::Sse, _) => Some(Transport::Sse),
            (TransportChoice::Http, _) => Some(Transport::Http),
            (TransportChoice::Auto, _) if matches!(scheme.as_str(), "ws" | "wss") => Some(Transport::Ws),
            (TransportChoice::Auto, known) => known,
        };
        match transport {
            Some(Transport::Ws) => self.websocket(endpoint).await,
            Some(Transport::Sse) => self.legacy_sse(endpoint).await,
            Some(Transport::Http | Transport::Stdio | Transport::InProcess) => {
                self.http(&endpoint, known).await
            }
            None => match self.http(&endpoint, known).await {
                // A server of 2024 knows no POST here.
                Err(refused @ LinkError::Status { status: 400 | 404 | 405 | 406 | 415 | 501, .. }) => {
                    self.legacy_sse(endpoint).await.map_err(|error| match error {
                        LinkError::Status { .. } => refused,
                        other => other,
                    })
                }
                other => other,
            },
        }
    }

    async fn http(&self, endpoint: &Endpoint, known: Option<Way>) -> Result<(Connection, Way), LinkError> {
        let chosen = era(self.config, known);
        if chosen != Some(Era::Session) {
            let link = Http::new(endpoint.clone(), self.receiver());
            let timeout = match chosen {
                Some(_) => self.time_left(),
                // The other era must have its turn.
                None => (self.time_left() / 2).min(PROBE_MAX),
            };
            match greet::stateless(&link, &self.hub, timeout).await {
                Ok(greeting) => return Ok(self.done(link, greeting, Transport::Http)),
                Err(error) if self.config.era == EraChoice::Stateless => return Err(error.into_error()),
                Err(NotGreeted::Link(
                    error @ (LinkError::Unauthorized { .. }
                    | LinkError::Redirected { .. }
                    | LinkError::Closed { unsent: true, .. }),
                )) => return Err(error),
                Err(error) => tracing::debug!(server = self.name, ?error, "not of the stateless era"),
            }
        }
        let link = Http::new(endpoint.clone(), self.receiver());
        match greet::session(&link, &self.hub, self.time_left()).await {
            Ok(greeting) => Ok(self.done(link, greeting, Transport::Http)),
            Err(error) => Err(error.into_error()),
        }
    }

    async fn legacy_sse(&self, endpoint: Endpoint) -> Result<(Connection, Way), LinkError> {
        let link = legacy_sse::connect(endpoint, self.receiver(), self.deadline).await?;
        let greeting =
            greet::session(&link, &self.hub, self.time_left()).await.map_err(NotGreeted::into_error)?;
        Ok(self.done(link, greeting, Transport::Sse))
    }

    async fn websocket(&self, endpoint: Endpoint) -> Result<(Connection, Way), LinkError> {
        let link = websocket::connect(endpoint, self.receiver(), self.deadline).await?;
        let greeting =
            greet::session(&link, &self.hub, self.time_left()).await.map_err(NotGreeted::into_error)?;
        Ok(self.done(link, greeting, Transport::Ws))
    }

    async fn endpoint(&self) -> Result<Endpoint, LinkError> {
        let secrets = &self.surroundings.secrets;
        let unresolved = |error: crate::config::SecretError| LinkError::unsent(error.to_string());
        let url = self.config.url.as_deref().unwrap_or_default();
        let is_secret = !secrets.secrets_in(url).is_empty();
        let url = secrets.fill_url(url).map_err(unresolved)?;
        let mut headers = HeaderMap::new();
        for (name, setting) in self.settings(&self.config.headers, |caller| &caller.headers) {
            let value = self.resolve(setting).await?;
            let bad = || LinkError::unsent(format!("the header `{name}` is no header"));
            let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(name.parse::<HeaderName>().map_err(|_| bad())?, value);
        }
        let net = self.surroundings.net.clone();
        let authorizer = match headers.contains_key(helve_net::header::AUTHORIZATION) {
            true => None,
            false => login::authorizer(&url, self.who, self.config, self.surroundings).await?,
        };
        let bytes_max = self.config.limits.message_bytes;
        Ok(Endpoint { client: net, url, is_secret, headers, authorizer, bytes_max })
    }

    /// The value of a setting, which the server's log is to leave out if it is secret.
    async fn resolve(&self, setting: &Setting) -> Result<SecretString, LinkError> {
        let secrets = &self.surroundings.secrets;
        let value = secrets.resolve(setting).await.map_err(|error| LinkError::unsent(error.to_string()))?;
        let parts = secrets.secret_parts(setting, value.expose_secret());
        parts.iter().for_each(|secret| self.hub.log.hide(secret));
        Ok(value)
    }

    /// What is shown to the server. To a caller's own connection nothing goes that all share and that is
    /// secret: it would be answered in another's name.
    fn settings(
        &self,
        all: &'a BTreeMap<String, Setting>,
        own: fn(&CallerConfig) -> &BTreeMap<String, Setting>,
    ) -> impl Iterator<Item = (&'a String, &'a Setting)> {
        let principal = match self.who {
            Who::Caller(principal) => Some(principal),
            Who::Helve | Who::Nobody => None,
        };
        let of_all = all.iter().filter(move |(_, setting)| principal.is_none() || !setting.is_secret());
        let caller = principal.and_then(|principal| self.config.callers.get(principal));
        of_all.chain(caller.into_iter().flat_map(own))
    }

    fn receiver(&self) -> Arc<dyn Receiver> {
        Arc::clone(&self.hub) as _
    }
}

/// The era to begin with, where it is said or known.
fn era(config: &ServerConfig, known: Option<Way>) -> Option<Era> {
    match config.era {
        EraChoice::Session => Some(Era::Session),
        EraChoice::Stateless => Some(Era::Stateless),
        EraChoice::Auto => known.map(|way| way.era),
    }
}

/// Keeps what a program writes to its standard error.
async fn keep(stderr: impl AsyncRead + Unpin, log: Arc<Log>) {
    use tokio::io::AsyncReadExt;
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(STDERR_LINE_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => log.add(Source::Stderr, &String::from_utf8_lossy(&line)),
        }
    }
}

/// Why there is nothing more to read from a program. What it wrote last is for its log and its status alone:
/// this goes to the caller.
async fn ended(running: Arc<Mutex<RunningBox>>) -> Result<Bytes, LinkError> {
    let wait = async { running.lock().await.wait().await };
    let how = match tokio::time::timeout(END_GRACE, wait).await {
        Ok(ended) => format!("the server {}", ended.end),
        Err(_) => "the server has closed its output".to_owned(),
    };
    // What it wrote last may still be on its way.
    tokio::task::yield_now().await;
    Err(LinkError::closed(how))
}

/// Its input is closed already: a good server ends by itself, others are asked and then made to.
async fn stop(running: Arc<Mutex<RunningBox>>) {
    let mut running = running.lock().await;
    if tokio::time::timeout(END_GRACE, running.wait()).await.is_ok() {
        return;
    }
    running.terminate();
    if tokio::time::timeout(TERM_GRACE, running.wait()).await.is_err() {
        running.finish().await;
    }
}
