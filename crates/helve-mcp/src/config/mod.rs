//! MCP servers as they stand in `helve.toml`, under `[mcp.servers.NAME]`.
//!
//! A server is a program (`command`) or an address (`url`). Secrets are references ([`Setting`]) and
//! are looked up when a connection is made ([`Secrets`]).

mod callers;
mod check;
mod keyring;
mod literal;
mod reference;
mod secrets;
mod tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use callers::{CallerConfig, Credentials};
pub use keyring::{Keyring, KeyringError, NoKeyring, SystemKeyring};
pub(crate) use literal::{
    could_be_secret, embedded_secret, has_plain_secret, is_plain_secret, is_secret_name,
};
pub use reference::{Reference, Setting, Source};
pub use secrets::{SecretError, Secrets};
pub use tools::ToolRules;

/// MCP servers whose tools are offered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpConfig {
    /// The servers, by name. The name stands before the names of their tools.
    pub servers: BTreeMap<String, ServerConfig>,
}

/// An MCP server: a program (`command`) or an address (`url`).
///
/// `${env:NAME}` in `args`, `env`, `headers` and `url` stands for a variable of Helve's environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The program: a path, or a bare name such as `npx`. No shell reads it; arguments go into `args`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<PathBuf>,
    /// Its command-line arguments, word by word.
    pub args: Vec<String>,
    /// Its environment: plain text, or for a secret `{ env = "NAME" }`, `{ file = "PATH" }` or
    /// `{ keyring = "SERVICE/USER" }`. Nothing else is inherited but a `PATH`.
    pub env: BTreeMap<String, Setting>,
    /// The folder in which it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Files and folders that it may read besides the system's programs and libraries and its `cwd`.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may change.
    pub write: Vec<PathBuf>,
    /// Hosts that it may reach, as `HOST:PORT`.
    pub network: Vec<String>,
    /// Memory of all its processes together, in mebibytes; `sandbox.memory_mb` unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub memory_mb: Option<u64>,
    /// Processes and threads at a time; `sandbox.pids` unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32_768))]
    pub pids: Option<u32>,
    /// Whether it runs in a box. `false` lets it do all that Helve itself may do.
    pub confined: bool,

    /// The address: `https://`, `http://`, `wss://` or `ws://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of each request: plain text, or for a secret `{ env = "NAME", prefix = "Bearer " }`
    /// and the like.
    pub headers: BTreeMap<String, Setting>,
    /// How the address is spoken to: `auto` finds out.
    pub transport: TransportChoice,
    /// How to log in where the server wants OAuth. Left out: as the server's own metadata says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthConfig>,

    /// Whose account is used at the server: `shared` (unless said) is one for all callers, `caller` each
    /// caller's own. Then every principal that calls has its own connection, with its own login
    /// (`helve mcp login NAME --as PRINCIPAL`) or what `callers` says, and what else refers to a secret
    /// here only finds out which tools there are.
    #[serde(skip_serializing_if = "Credentials::is_shared")]
    pub credentials: Credentials,
    /// What single callers show to the server, by principal, where `credentials` is `caller`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub callers: BTreeMap<String, CallerConfig>,
    /// After how many idle seconds the connection of a single caller or client is closed, to be made again by
    /// its next call.
    #[schemars(range(min = 1, max = 604_800))]
    pub caller_idle_s: u64,

    /// Which era of the protocol it speaks: `auto` finds out.
    pub era: EraChoice,
    /// Whether it is used at all.
    pub enabled: bool,
    /// When it is started: `eager` with Helve, `on_demand` with the first call. Its tools are known
    /// either way.
    pub start: Start,
    /// Whether all clients share one connection. `false` gives each its own until its session ends, for
    /// servers that keep state of a session. Clients of the stateless era have no session, and each caller
    /// has one connection for all of theirs.
    pub shared: bool,
    /// What stands before its tools' names; the server's name unless said, `""` for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How long connecting to it may take, in seconds, each time that it is tried.
    #[schemars(range(min = 1, max = 3_600))]
    pub connect_timeout_s: u64,
    /// How often connecting is tried again, where the server did not answer in time, before a call that
    /// needs it fails. After that it is tried in the background, with growing
    /// pauses, and by the next call.
    #[schemars(range(max = 100))]
    pub connect_retries: u32,
    /// How long a call may go without an answer or a sign of progress, in seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_s: u64,
    /// How long a call may take in all, in seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_total_s: u64,
    /// After how many idle seconds it is stopped, to be started again by the next call. Left out:
    /// never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub idle_stop_s: Option<u64>,
    /// How often a server of which nothing is heard is asked whether it is still there, in seconds.
    /// One that does not answer is started anew.
    #[schemars(range(min = 1, max = 86_400))]
    pub health_s: u64,
    /// Which of its tools are used, and how carefully.
    pub tools: ToolRules,
    /// When a tool that was never seen before may be used: `first_use` at once, `ask` when a person
    /// has accepted it. A tool that has changed always waits for a person.
    pub pin: PinMode,
    /// Folders that the server gets as roots.
    pub roots: Vec<PathBuf>,
    /// Whether the server may ask for a model's answer.
    pub sampling: bool,
    /// Whether the server may ask the person questions.
    pub elicitation: bool,
    /// Bounds on what it may send.
    pub limits: ServerLimits,
    /// What all that its configuration names must lie in once links are followed, where a person agreed to
    /// no more; asked at every start. Set by the process that asked them, never by a file.
    #[serde(skip)]
    pub within: Option<Vec<PathBuf>>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            read: Vec::new(),
            write: Vec::new(),
            network: Vec::new(),
            memory_mb: None,
            pids: None,
            confined: true,
            url: None,
            headers: BTreeMap::new(),
            transport: TransportChoice::default(),
            oauth: None,
            credentials: Credentials::default(),
            callers: BTreeMap::new(),
            caller_idle_s: 300,
            era: EraChoice::default(),
            enabled: true,
            start: Start::default(),
            shared: true,
            namespace: None,
            connect_timeout_s: 10,
            connect_retries: 3,
            timeout_s: 30,
            timeout_total_s: 600,
            idle_stop_s: None,
            health_s: 60,
            tools: ToolRules::default(),
            pin: PinMode::default(),
            roots: Vec::new(),
            sampling: false,
            elicitation: true,
            limits: ServerLimits::default(),
            within: None,
        }
    }
}

/// Where a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// A program to start.
    Command(&'a Path),
    /// An address, with its references.
    Url(&'a str),
}

impl ServerConfig {
    /// A server that is a program.
    pub fn program<S: Into<String>>(command: impl Into<PathBuf>, args: impl IntoIterator<Item = S>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { command: Some(command.into()), args, ..Self::default() }
    }

    /// A server at an address.
    pub fn remote(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..Self::default() }
    }

    /// Where it is, if it says exactly one place.
    pub fn place(&self) -> Option<Place<'_>> {
        match (&self.command, &self.url) {
            (Some(command), None) => Some(Place::Command(command)),
            (None, Some(url)) => Some(Place::Url(url)),
            (None, None) | (Some(_), Some(_)) => None,
        }
    }

    /// What stands before the names of its tools, for a server of this name.
    pub fn namespace<'a>(&'a self, name: &'a str) -> &'a str {
        self.namespace.as_deref().unwrap_or(name)
    }

    /// How long connecting may take each time.
    pub fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.connect_timeout_s)
    }

    /// How long a call may go without an answer or a sign of progress.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s)
    }

    /// How long a call may take in all.
    pub fn timeout_total(&self) -> Duration {
        Duration::from_secs(self.timeout_total_s)
    }

    /// Reads relative paths as relative to `folder`, that of the configuration file. A bare command
    /// name stays one. A program starts in that folder unless it says where.
    pub fn relative_to(mut self, folder: &Path) -> Self {
        if let Some(command) = &mut self.command {
            if command.components().count() > 1 {
                *command = folder.join(&command);
            }
            self.cwd = Some(self.cwd.map_or_else(|| folder.to_owned(), |cwd| folder.join(cwd)));
        }
        for path in self.read.iter_mut().chain(&mut self.write).chain(&mut self.roots) {
            *path = folder.join(&path);
        }
        let secret = self.oauth.as_mut().and_then(|oauth| oauth.client_secret.as_mut());
        let of_callers = self.callers.values_mut().flat_map(CallerConfig::settings_mut);
        for setting in self.env.values_mut().chain(self.headers.values_mut()).chain(secret).chain(of_callers)
        {
            setting.relative_to(folder);
        }
        self
    }

    /// The files that it takes secrets from.
    pub fn secret_files(&self) -> impl Iterator<Item = &Path> {
        let secret = self.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
        let of_callers =
            self.callers.values().flat_map(|caller| caller.headers.values().chain(caller.env.values()));
        let settings = self.env.values().chain(self.headers.values()).chain(secret).chain(of_callers);
        settings.filter_map(Setting::file)
    }

    /// Where what it is given leads, with links followed: each path with its end.
    pub fn leads(&self) -> impl Iterator<Item = (&Path, PathBuf)> {
        let end = |path: &Path| helve_sandbox::Way::to(path).end;
        let command = self.command.as_deref().filter(|command| command.components().count() > 1);
        // The system's programs are everybody's, and change with every update.
        let command = command.filter(|command| !end(command).starts_with("/usr"));
        let paths = self.read.iter().chain(&self.write).chain(&self.cwd).map(PathBuf::as_path).chain(command);
        paths.map(move |path| (path, end(path)))
    }

    /// What leads elsewhere by now than a person agreed to.
    pub(crate) fn leads_astray(&self) -> Option<(&Path, PathBuf)> {
        let within = self.within.as_ref()?;
        self.leads().find(|(_, end)| !within.iter().any(|agreed| end.starts_with(agreed)))
    }
}

/// How an address is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TransportChoice {
    /// Find out by trying.
    #[default]
    Auto,
    /// Streamable HTTP, the current transport.
    Http,
    /// The older HTTP with server-sent events.
    Sse,
    /// WebSocket, subprotocol `mcp`.
    Ws,
}

/// Which era of the protocol a server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EraChoice {
    /// Find out by asking.
    #[default]
    Auto,
    /// With sessions, up to 2025-11-25.
    Session,
    /// Without, from 2026-07-28 on.
    Stateless,
}

/// When a server is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// As soon as Helve starts.
    #[default]
    Eager,
    /// With the first call.
    OnDemand,
}

/// When a tool that was never seen before may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PinMode {
    /// At once: what it looks like then is what it is held to.
    #[default]
    FirstUse,
    /// When a person has accepted it.
    Ask,
}

/// How to log in where a server wants OAuth.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OAuthConfig {
    /// The client's id, where it was registered by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its secret, where it has one: a reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Setting>,
    /// Where a document about this client is that authorization servers can read, instead of an id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// What to ask for; what the server says it needs unless said.
    pub scopes: Vec<String>,
    /// The port of this machine at which the browser comes back; any free one unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub callback_port: Option<u16>,
}

/// Bounds on what a server may send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerLimits {
    /// Largest message, in bytes.
    #[schemars(range(min = 1_024, max = 1_073_741_824))]
    pub message_bytes: usize,
    /// Most tools, and as many resources and prompts.
    #[schemars(range(min = 1, max = 100_000))]
    pub items: usize,
    /// Most pages of a list.
    #[schemars(range(min = 1, max = 10_000))]
    pub pages: usize,
    /// Calls that may run at once; more wait.
    #[schemars(range(min = 1, max = 10_000))]
    pub calls: usize,
    /// Callers and clients that are connected at once, where each has its own connection. The one that
    /// was idle for longest makes room.
    #[schemars(range(min = 1, max = 10_000))]
    pub callers: usize,
    /// How much of what it writes to stderr is kept, in bytes.
    #[schemars(range(max = 16_777_216))]
    pub stderr_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            message_bytes: 16 << 20,
            items: 2_000,
            pages: 200,
            calls: 256,
            callers: 64,
            stderr_bytes: 256 << 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<McpConfig, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn servers_are_read_with_their_defaults() {
        let config = parse(
            r#"
            [servers.fs]
            command = "npx"
            args = ["-y", "server-filesystem", "."]
            env = { A = "plain", B = { env = "TOKEN" }, C = { file = "token.txt" }, D = { keyring = "gh/me" } }
            read = ["."]
            start = "on_demand"
            tools = { allow = ["read_*"], risk = { "write_*" = "high" } }

            [servers.web]
            url = "https://mcp.example.com/mcp"
            headers.Authorization = { env = "TOKEN", prefix = "Bearer " }
            transport = "http"
            era = "stateless"
            namespace = ""
            oauth = { client_id = "x", scopes = ["read"] }
            pin = "ask"
            "#,
        )
        .unwrap();
        let (fs, web) = (&config.servers["fs"], &config.servers["web"]);
        assert_eq!(fs.place(), Some(Place::Command(Path::new("npx"))));
        assert!(fs.confined && fs.shared && fs.enabled && !fs.sampling);
        assert_eq!((fs.timeout_s, fs.timeout_total_s, fs.start), (30, 600, Start::OnDemand));
        assert_eq!(fs.namespace("fs"), "fs");
        assert_eq!(web.namespace("web"), "");
        assert_eq!(web.pin, PinMode::Ask);
        assert!(config.servers.iter().all(|(name, server)| server.check(name).is_empty()));
    }

    #[test]
    fn what_is_unknown_or_misspelled_is_refused() {
        for text in [
            "[servers.a]\ncomand = 'x'",
            "[servers.a]\ncommand = 'x'\nera = 'modern'",
            "[servers.a]\ncommand = 'x'\nenv = { A = { envs = 'B' } }",
            "[servers.a]\ncommand = 'x'\nenv = { A = { env = 'B', file = 'C' } }",
            "[servers.a]\ncommand = 'x'\nenv = { A = { prefix = 'B' } }",
            "[servers.a]\ncommand = 'x'\nenv = { A = 1 }",
            "[servers.a]\ncommand = 'x'\ntools = { risks = {} }",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_what_was_read() {
        let mut server = ServerConfig::program("npx", ["-y"]);
        server.env.insert("A".to_owned(), Setting::from_env("B").with_prefix("x "));
        server.env.insert("C".to_owned(), Setting::Text("plain".to_owned()));
        let config = McpConfig { servers: BTreeMap::from([("a".to_owned(), server)]) };
        let text = toml::to_string(&config).unwrap();
        assert_eq!(parse(&text).unwrap(), config, "{text}");
    }

    #[test]
    fn relative_paths_start_at_the_file() {
        let mut server = ServerConfig::program("./run.sh", [""; 0]);
        server.read = vec![".".into(), "/abs".into()];
        server.env.insert("A".to_owned(), Setting::from_file("secret.txt"));
        let server = server.relative_to(Path::new("/p"));
        assert_eq!(server.command.as_deref(), Some(Path::new("/p/./run.sh")));
        assert_eq!(server.cwd.as_deref(), Some(Path::new("/p")));
        assert_eq!(server.read, [PathBuf::from("/p/."), "/abs".into()]);
        assert_eq!(server.env["A"], Setting::from_file("/p/secret.txt"));
        let bare = ServerConfig::program("npx", [""; 0]).relative_to(Path::new("/p"));
        assert_eq!(bare.command.as_deref(), Some(Path::new("npx")));
    }

    #[test]
    fn the_schema_says_what_the_reader_accepts() {
        let schema = serde_json::to_value(schemars::schema_for!(McpConfig)).unwrap();
        let schema = helve::Schema::compile(schema).unwrap();
        for (setting, right) in [
            (r#"{ env = "A", prefix = "Bearer " }"#, true),
            (r#"{ keyring = "a/b" }"#, true),
            (r#""text""#, true),
            (r#"{ envs = "A" }"#, false),
            ("1", false),
        ] {
            let text = format!("[servers.a]\nurl = 'https://a.example'\nheaders.X = {setting}");
            let value: serde_json::Value = toml::from_str(&text).unwrap();
            assert_eq!(schema.accepts(&value), right, "{setting}");
            assert_eq!(parse(&text).is_ok(), right, "{setting}");
        }
    }
}
