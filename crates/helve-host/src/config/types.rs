//! The typed whole of `helve.toml`. The doc comments here are its documentation: `helve config
//! keys` and `docs/configuration.md` print them.

mod calls;

use std::collections::BTreeMap;
use std::path::PathBuf;

use helve::compose::{Conditional, MapOver, Parallel, Sequence};
use helve::{Risk, Settings};
use helve_sandbox::Level;
use helve_tools::composed::ComposedToolConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RetentionSection;
pub(crate) use calls::{Breaker, Execution, Limits, RegistrySection, Repair, RetryBudget};

/// Every key of `helve.toml`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How long tools may run.
    pub execution: Execution,
    /// The set of tools.
    pub registry: RegistrySection,
    /// Bounds on what goes in and out of a call, and on how many there are.
    pub limits: Limits,
    /// Tools that keep failing are left alone for a while.
    pub(crate) breaker: Breaker,
    /// How many failed attempts are repeated while a tool keeps failing. Each tool has a bucket of
    /// tokens: a failed attempt that would be repeated takes one, a success gives a part back, and
    /// attempts are repeated while more than half are there.
    pub(crate) retry_budget: RetryBudget,
    /// Mending of arguments that models often get wrong.
    pub repair: Repair,
    /// The durable record of every call.
    pub journal: JournalSection,
    /// A PostgreSQL database in place of the journal's file, for several replicas: `docs/scale.md`. It counts in your
    /// own file, in one that you name with `--config`, in the environment and with `--set`; not in a file that a
    /// project brings.
    pub store: super::store::StoreSection,
    /// What is hidden before a call is recorded.
    pub(crate) redact: Redact,
    /// Who may call.
    pub security: Security,
    /// Who comes in over HTTP, besides those with a key of Helve's own.
    pub identity: Identity,
    /// Everyday rules: what runs, asks or does not run, as in `deny = ["file-read(.env)"]`. Those of
    /// every file count together; of a project's file, what only makes things laxer (`allow`,
    /// `directories`, the modes `acceptEdits` and `bypassPermissions`) counts once you trust it:
    /// `helve trust`.
    pub rules: helve::permission::PermissionSet,
    /// What sessions have touched, so that strangers' words and private data do not meet unseen.
    pub labels: LabelsSection,
    /// Who may do what, in Cedar.
    pub policy: PolicySection,
    /// How calls ask a person, and how long an answer holds.
    pub approvals: ApprovalsSection,
    /// Traces of calls, for a collector of OpenTelemetry. It counts in your own file, in one that you
    /// name with `--config`, in the environment and with `--set`; not in a file that a project brings.
    pub(crate) telemetry: TelemetrySection,
    /// What outgoing requests may reach.
    pub net: helve_net::NetPolicy,
    /// How programs are confined.
    pub sandbox: SandboxSection,
    /// What the tool `code-execute` may do.
    pub code: helve_tools::code::CodeOptions,
    /// The tools that ship with Helve.
    pub builtin: Builtin,
    /// What the file tools may touch.
    pub files: helve_tools::files::FilesConfig,
    /// What the web tools may do: `web-search`, `web-scrape`, `http-get`, `http-request`.
    pub web: helve_tools::WebConfig,
    /// Mail, calendars, tasks and contacts: what the office tools may do. Accounts are connected with `helve connect`,
    /// and their passwords never stand here.
    pub office: OfficeSection,
    /// Hooks see calls, and whatever else happens to an agent, and may object. By event:
    /// `[[hooks.PreToolUse]]`. Those of all files are told; the person's own come first.
    pub hooks: BTreeMap<String, Vec<helve_tools::hooks::HookGroup>>,
    /// MCP servers whose tools are offered.
    pub mcp: helve_mcp::config::McpConfig,
    /// Accounts that tools may need, by name.
    pub integrations: BTreeMap<String, Integration>,
    /// Things that tools may need, by name, and how to find out whether they are at hand. Each has
    /// one of these keys.
    pub resources: BTreeMap<String, Resource>,
    /// Checks that tools ask for by id: a tool is called, and its result looked at.
    pub checks: BTreeMap<String, CheckSection>,
    /// What callers were granted.
    pub permissions: BTreeMap<String, Vec<String>>,
    /// Tools of your own.
    pub tool: ToolSections,
    /// OpenAPI documents, each turned into one tool an operation.
    pub openapi: Vec<helve_tools::openapi::OpenApiConfig>,
}

/// Who comes in over HTTP, besides those with a key of Helve's own.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// The issuer whose tokens (JWT) let callers in. It counts in your own file, in one that you name with
    /// `--config`, in the environment and with `--set`; not in a file that a project brings.
    pub jwt: Option<helve_server::JwtConfig>,
}

/// The durable record of every call.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JournalSection {
    /// The database file. A relative path starts at the folder of the file that names it. Left
    /// out: `.helve/helve.db` next to the project's helve.toml, or where there is no project
    /// `$XDG_STATE_HOME/helve/helve.db` (`~/.local/state/helve/helve.db`). A project that comes to a folder
    /// where a `helve up` runs with the latter goes on with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Which calls are safe on disk before they are answered: `changes`, those that may change
    /// the world, or `all`. The others follow within milliseconds.
    pub durability: Durability,
    /// Largest arguments that are kept in full, in bytes; of larger ones size, SHA-256 and the first kilobyte are
    /// kept. Of a call that is refused, 4 KiB at most. A call that may change the world keeps all of them,
    /// because it could not go on after a crash without.
    #[schemars(range(max = 1_073_741_824))]
    pub(crate) keep_arguments_bytes: usize,
    /// Largest result that is kept in full, in bytes; of a larger one only its size is kept.
    #[schemars(range(max = 1_073_741_824))]
    pub(crate) keep_results_bytes: usize,
    /// The same within a run, which may need the results of its parts after a crash.
    #[schemars(range(max = 1_073_741_824))]
    pub(crate) keep_run_results_bytes: usize,
    /// How often `helve up` checks the whole journal, as `helve audit verify` does, in seconds. The first
    /// time is a minute after its start. 0: never.
    pub verify_every_s: u64,
    /// How long it is kept.
    pub retention: RetentionSection,
}

impl Default for JournalSection {
    fn default() -> Self {
        Self {
            path: None,
            durability: Durability::default(),
            keep_arguments_bytes: Settings::default().journal_argument_bytes_max,
            keep_results_bytes: Settings::default().journal_result_bytes_max,
            keep_run_results_bytes: Settings::default().run_result_bytes_max,
            verify_every_s: 86_400,
            retention: RetentionSection::default(),
        }
    }
}

/// Which calls are safe on disk before they are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Those that may change the world.
    #[default]
    Changes,
    /// All of them.
    All,
}

/// What is hidden before a call is recorded.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Redact {
    /// Names of fields whose values are secret, whatever their schema says, besides the usual ones
    /// (`password`, `token`, `api_key`, …).
    pub names: Vec<String>,
}

/// Who may call.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Security {
    /// Whether a call without a principal is refused. The person at the command line has one.
    pub(crate) require_authentication: bool,
    /// The lowest risk at which a person is asked first: `low`, `medium`, `high` or `critical`.
    pub ask_from: Risk,
}

impl Default for Security {
    fn default() -> Self {
        let settings = Settings::default();
        Self { require_authentication: settings.require_authentication, ask_from: settings.ask_from }
    }
}

/// Mail, calendars, tasks and contacts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OfficeSection {
    /// Whether there are office tools. Without an account they work offline, on what you import and what they write.
    pub enabled: bool,
    /// The file that holds accounts, mails and calendars. A relative path starts at the folder of the file that names
    /// it. Left out: `office.db` next to the journal that you name in `journal.path`, or in `$XDG_STATE_HOME/helve`
    /// (`~/.local/state/helve`) for all projects. It counts in your own file, in one that you name with `--config`, in
    /// the environment and with `--set`; not in a file that a project brings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The zone in which times are told where nobody names another, as in `Europe/Berlin`. Left out: this machine's. One that
    /// a project names waits to be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Domains that mail may go to, such as `["example.com"]`. Empty: any. A project can name fewer, never more.
    #[schemars(length(max = 1_000))]
    pub(crate) recipient_domains: Vec<String>,
    /// How often `helve up` and `helve mcp serve` sync connected accounts, in seconds. 0: never.
    #[schemars(range(max = 86_400))]
    pub(crate) sync_every_s: u64,
    /// Your address in the account `local`, which needs no server. Its mails stay on this machine.
    pub address: String,
    /// Your name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Default for OfficeSection {
    fn default() -> Self {
        Self {
            enabled: true,
            path: None,
            time_zone: None,
            recipient_domains: Vec::new(),
            sync_every_s: 300,
            address: "me@helve.invalid".to_owned(),
            name: None,
        }
    }
}

/// Who may do what, in Cedar.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PolicySection {
    /// Files of policies, relative to this file. None: the policy that ships. Those of a project can
    /// only take away from what yours, or the one that ships, permit.
    #[schemars(length(max = 100))]
    pub files: Vec<PathBuf>,
}

/// How calls ask a person, and how long an answer holds.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalsSection {
    /// How long a question can be decided, and then how long its approval can be used, in seconds.
    /// What nobody decides in time is denied.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub(crate) ttl_s: u64,
    /// How long calls wait for a person, in seconds. 0: they end as pending, and are made again once
    /// a person has decided.
    #[schemars(range(max = 31_536_000))]
    pub(crate) wait_s: u64,
    /// How long a denial answers the same call again without anybody being asked, in seconds.
    #[schemars(range(max = 31_536_000))]
    pub(crate) denied_for_s: u64,
    /// How long “always for this session” holds at most, in seconds, where the person does not
    /// say how long.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub(crate) session_rule_ttl_s: u64,
    /// Most questions that may wait at a time. Calls that would ask beyond that are refused.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) pending_max: usize,
    /// Most of them that one caller's calls may have put, so that nobody takes every place.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) pending_share: usize,
    /// How long questions that came to an end can be listed, in seconds. The journal keeps what was
    /// asked and decided for ever.
    #[schemars(range(min = 86_400, max = 315_360_000))]
    pub(crate) keep_s: u64,
    /// Your own domains, such as `example.com`. Where arguments name a mail or web address elsewhere,
    /// the person who decides is told.
    pub(crate) own_domains: Vec<String>,
    /// An address that is asked before a person is, as `can_use_tool` of the Claude Agent SDK: the
    /// question is posted, and a `PermissionResult` or `null` comes back. Only your own helve.toml may
    /// name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ask_url: Option<String>,
    /// How people reach the page on which they decide, such as `https://helve.example.com`. MCP clients
    /// that can open pages are led there. Left out: `webhook.base_url`, or else the address that `helve up`
    /// listens on. Only your own helve.toml may name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_url: Option<String>,
    /// Where questions are told as they come; for `helve up`.
    pub webhook: helve_server::WebhookConfig,
}

impl Default for ApprovalsSection {
    fn default() -> Self {
        let Settings { approvals, .. } = Settings::default();
        Self {
            ttl_s: approvals.ttl.as_secs(),
            wait_s: approvals.wait.as_secs(),
            denied_for_s: approvals.denied_for.as_secs(),
            session_rule_ttl_s: approvals.rule_ttl.as_secs(),
            pending_max: approvals.pending_max,
            pending_share: approvals.pending_share,
            keep_s: approvals.keep.as_secs(),
            own_domains: approvals.own_domains,
            ask_url: None,
            page_url: None,
            webhook: helve_server::WebhookConfig::default(),
        }
    }
}

/// The tools that ship with Helve.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Builtin {
    /// Names of built-in tools to leave out; `["*"]` leaves out all.
    pub without: Vec<String>,
}

/// How programs are confined.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSection {
    /// The least confinement that will do: `L3` (namespaces and a cgroup), `L2` (namespaces), `L2p` (and
    /// no `/proc`), `L1` (Landlock and seccomp alone). What this machine cannot confine so far does not
    /// run; `helve doctor` shows what it can.
    pub min_level: Level,
    /// Memory of all processes of a program together, in mebibytes.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub memory_mb: u64,
    /// Processes and threads of a program at a time.
    #[schemars(range(min = 1, max = 32_768))]
    pub pids: u32,
    /// Time on a processor of all processes of a program together, in seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub cpu_s: u64,
    /// How much the work directory and temporary files of a program may hold, in mebibytes.
    #[schemars(range(min = 1, max = 65_536))]
    pub work_mb: u64,
}

impl Default for SandboxSection {
    fn default() -> Self {
        let limits = helve_sandbox::Limits::default();
        Self {
            min_level: Level::default(),
            memory_mb: limits.memory_bytes >> 20,
            pids: limits.pids,
            cpu_s: limits.cpu_s,
            work_mb: limits.work_bytes >> 20,
        }
    }
}

/// An account that tools may need.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Integration {
    /// The environment variable that holds its secret: the account is connected when it is set.
    pub env: String,
}

/// Something that tools may need, and how to find out whether it is at hand.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Resource {
    /// A program that can be started: a path, or a name to be looked up in `PATH`.
    Command(PathBuf),
    /// A file or folder that is there. A relative path starts at the folder of the file that names
    /// it.
    File(PathBuf),
    /// An environment variable that is set.
    Env(String),
    /// A tool that is registered.
    Tool(String),
}

/// A check that calls a tool and looks at its result.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckSection {
    /// The tool. It must be read-only, not composed, and without preconditions of its own.
    pub tool: String,
    /// The arguments that the tool is called with.
    #[serde(default)]
    pub arguments: serde_json::Map<String, serde_json::Value>,
    /// Whether the condition holds: an expression over `result`, as in `result.remaining > 0`.
    pub expect: String,
}

/// Tools of your own.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolSections {
    /// Tools that send a request to an HTTP API.
    pub http: Vec<helve_tools::http::HttpToolConfig>,
    /// Tools that run a program: arguments as JSON on its standard input, the answer as JSON on
    /// its standard output.
    pub program: Vec<helve_tools::program::ProgramToolConfig>,
    /// Tools that call others one after the other.
    pub(crate) sequence: Vec<ComposedToolConfig<Sequence>>,
    /// Tools that call others side by side.
    pub(crate) parallel: Vec<ComposedToolConfig<Parallel>>,
    /// Tools that call others where a condition holds.
    pub(crate) conditional: Vec<ComposedToolConfig<Conditional>>,
    /// Tools that call another for each item of a list.
    pub map: Vec<ComposedToolConfig<MapOver>>,
}

/// Traces of calls, for a collector of OpenTelemetry.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TelemetrySection {
    /// Where the collector takes OTLP over HTTP, as in `http://localhost:4318`; `/v1/traces` is added
    /// unless it is there. It may be on this machine. Absent: nothing is told.
    pub(crate) otlp_endpoint: Option<String>,
    /// What is sent along, such as a token: `{ authorization = "Bearer ${env:OTLP_TOKEN}" }`.
    pub headers: BTreeMap<String, helve_mcp::config::Setting>,
    /// The name of the service in traces.
    #[schemars(length(min = 1, max = 256))]
    pub(crate) service_name: String,
    /// Whether the beginnings of arguments and results are told too, as the journal has them: without
    /// what is secret in them.
    pub content: bool,
    /// Which part of the traces that begin here is told. For a call that brings a `traceparent`,
    /// the beginner of its trace has decided.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) sample_ratio: f64,
}

impl Default for TelemetrySection {
    fn default() -> Self {
        Self {
            otlp_endpoint: None,
            headers: BTreeMap::new(),
            service_name: "helve".to_owned(),
            content: false,
            sample_ratio: 1.0,
        }
    }
}

/// What sessions have touched, so that strangers' words and private data do not meet unseen.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LabelsSection {
    /// What happens when a session that has read untrusted text and private data is about to send
    /// something out or change something: `ask`, `deny`, or `off`. Calls that you type yourself
    /// (`helve call` without `--session`) are not labelled.
    pub when_met: helve::sessions::WhenMet,
    /// What a tool counts as whose `facets` nobody has written: `assumed`, as what Helve can see of its
    /// reach (a tool of a server at an address, or of a program without a box, brings strangers' words and
    /// sends; one that was given files, an account or a private address reads private data); `all`, as one
    /// that does all of that, so that the second such call of a session asks; or `ignored`.
    pub unlabelled: helve::sessions::Unlabelled,
    /// How long the labels of a caller hold that names no session, in seconds.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub(crate) principal_ttl_s: u64,
}

impl Default for LabelsSection {
    fn default() -> Self {
        Self {
            when_met: helve::sessions::WhenMet::Ask,
            unlabelled: helve::sessions::Unlabelled::Assumed,
            principal_ttl_s: 3_600,
        }
    }
}
