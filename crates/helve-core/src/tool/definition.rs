//! What a tool says of itself: to models, to the gate, to people.

use std::collections::BTreeSet;
use std::fmt;

pub use helve_schema::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cost::Price;
use crate::effect::Effect;
use crate::name::ToolName;
use crate::precondition::Precondition;
use crate::retry::RetryPolicy;
use crate::run::{OnCrash, Recall, Undo};

/// Limits on a definition's own text, so that one tool cannot fill a model's context.
pub mod limits {
    /// Longest description or `when_to_use`, in bytes.
    pub const TEXT_BYTES_MAX: usize = 16 * 1024;
    /// Most examples a tool may carry.
    pub const EXAMPLES_MAX: usize = 32;
    /// Most aliases, integrations, preconditions or effects, each.
    pub const ITEMS_MAX: usize = 64;
}

/// Everything known of a tool but how it runs.
///
/// Made by a [`ToolBuilder`](crate::ToolBuilder) and checked when it becomes a
/// [`Tool`](crate::Tool).
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Definition {
    /// Full name: namespace and name, as `mail/send`.
    pub name: ToolName,
    /// Other names it answers to, such as a seed's `web:scrape`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// What it does, in enough detail for a model to choose it.
    pub description: String,
    /// When a model should choose it, and when not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    /// Uses that show a model how.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Example>,
    /// JSON Schema of the arguments; an object at the top.
    pub input_schema: Value,
    /// JSON Schema of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What sort of work it does.
    pub category: Category,
    /// How much harm a wrong call can do.
    pub risk: Risk,
    /// Whether a person is always asked, whatever the risk.
    pub requires_approval: bool,
    /// How long it may run; the runtime's default where absent, its maximum at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Who provides it.
    pub source: Source,
    /// Hints about its behaviour.
    pub annotations: Annotations,
    /// Which ways information takes through it. Absent where nobody said: then it counts as all, or as
    /// what is assumed of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facets: Option<BTreeSet<Facet>>,
    /// What is assumed of it where nobody said.
    #[serde(skip_serializing_if = "Assumed::is_empty")]
    pub assumed: Assumed,
    /// Accounts that must be connected before it can run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub integrations: Vec<String>,
    /// What becomes of a failure of the tool itself.
    pub failure_mode: FailureMode,
    /// Whether and how a failed attempt is repeated.
    pub retry: RetryPolicy,
    /// What must hold before it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<Precondition>,
    /// What it changes, beyond its result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// How it undoes what it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
    /// How to find out whether a call that was cut short had its effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall: Option<Recall>,
    /// What becomes of a run that was cut short.
    pub on_crash: OnCrash,
    /// What calls cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Price>,
}

impl Definition {
    /// Whether a call may change the world. Unless the author says read-only, it may.
    pub fn changes_world(&self) -> bool {
        !self.annotations.read_only
    }

    /// Whether two equal calls do no more than one.
    pub fn repeatable(&self) -> bool {
        self.annotations.read_only || self.annotations.idempotent
    }

    /// Whether the tool has this facet. One without labels has every facet.
    pub fn has_facet(&self, facet: Facet) -> bool {
        self.facets.as_ref().is_none_or(|facets| facets.contains(&facet))
    }
}

/// How much harm a wrong call can do. High and critical calls ask a person first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Looks, does not touch.
    Low,
    /// Changes something that can be changed back.
    #[default]
    Medium,
    /// Reaches people or money.
    High,
    /// Cannot be undone.
    Critical,
}

impl Risk {
    /// Every risk, lowest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What sort of work a tool does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Finds things outside.
    Search,
    /// Reads and writes files.
    File,
    /// Runs code that the caller wrote.
    Code,
    /// Sends requests over HTTP.
    Http,
    /// Computes on data it is given.
    Data,
    /// Reads from connected accounts.
    Query,
    /// Makes something new in a connected account.
    Create,
    /// Changes something in a connected account.
    Update,
    /// Prepares something for a person to finish.
    Draft,
    /// Reaches other people.
    External,
    /// None of these.
    #[default]
    Custom,
}

impl Category {
    /// Every category, in the order of the declaration.
    pub const ALL: [Self; 11] = [
        Self::Search,
        Self::File,
        Self::Code,
        Self::Http,
        Self::Data,
        Self::Query,
        Self::Create,
        Self::Update,
        Self::Draft,
        Self::External,
        Self::Custom,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::File => "file",
            Self::Code => "code",
            Self::Http => "http",
            Self::Data => "data",
            Self::Query => "query",
            Self::Create => "create",
            Self::Update => "update",
            Self::Draft => "draft",
            Self::External => "external",
            Self::Custom => "custom",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Who provides a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A tool that ships with Helve.
    Builtin,
    /// An MCP server.
    Mcp,
    /// A Rust function.
    #[default]
    Function,
    /// Configuration: an HTTP API, a program, a composition.
    Plugin,
}

impl Source {
    /// Every source, in the order of the declaration.
    pub const ALL: [Self; 4] = [Self::Builtin, Self::Mcp, Self::Function, Self::Plugin];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Mcp => "mcp",
            Self::Function => "function",
            Self::Plugin => "plugin",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Hints about behaviour, with the defaults of MCP: a tool that says nothing is taken to write,
/// to destroy, not to be repeatable, and to reach the open world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Annotations {
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool changes nothing.
    pub read_only: bool,
    /// May delete or overwrite.
    pub destructive: bool,
    /// Two equal calls do no more than one.
    pub idempotent: bool,
    /// Reaches beyond this machine.
    pub open_world: bool,
}

impl Default for Annotations {
    fn default() -> Self {
        Self { title: None, read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

impl Annotations {
    /// A tool that only looks, at this machine.
    pub fn pure() -> Self {
        Self { title: None, read_only: true, destructive: false, idempotent: true, open_world: false }
    }
}

/// A way that information takes through a tool. The operator or the tool's author says so, never
/// a server of itself: whether private data may meet untrusted text is decided by these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Facet {
    /// Brings in text that anybody may have written.
    ReadsUntrusted,
    /// Brings in what not everybody may know.
    ReadsPrivate,
    /// Sends what it is given out of this machine.
    Egress,
    /// Changes something that stays.
    Mutates,
}

impl Facet {
    /// Every facet, in the order of the declaration.
    pub const ALL: [Self; 4] = [Self::ReadsUntrusted, Self::ReadsPrivate, Self::Egress, Self::Mutates];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadsUntrusted => "reads_untrusted",
            Self::ReadsPrivate => "reads_private",
            Self::Egress => "egress",
            Self::Mutates => "mutates",
        }
    }
}

/// What is assumed of a tool whose facets nobody has said: what its host can tell from the outside, such as
/// whether it reaches beyond this machine. What the tool says of itself may add to it, and takes nothing away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Assumed {
    /// The ways that information takes.
    pub facets: BTreeSet<Facet>,
    /// Who gets what it is given, where it sends.
    #[serde(default)]
    pub sends_to: SendsTo,
}

impl Assumed {
    /// Whether nothing is assumed.
    pub fn is_empty(&self) -> bool {
        self.facets.is_empty()
    }
}

/// Who gets what a tool is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SendsTo {
    /// Anybody: it writes where others read, or goes where its arguments say.
    #[default]
    Anybody,
    /// The server that has the tool, and nobody else: it only looks something up there. What came from that
    /// server goes back to where it was.
    ItsServer,
}

impl fmt::Display for Facet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What becomes of a failure of the tool itself. Denials and invalid arguments are always errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FailureMode {
    /// The call fails.
    #[default]
    Error,
    /// The call succeeds with the error as its result, marked as a failure.
    Return,
}

/// A use that shows a model how: a line of text, or arguments with what was asked for.
///
/// Arguments must fit the input schema; that is checked when the tool is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Example {
    /// Free text, such as `User: "Who is Sarah?" → query_context({ "query": "Sarah" })`.
    Text(String),
    /// Arguments, with the request that leads to them.
    Arguments {
        /// What the user said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// What to call the tool with.
        arguments: Value,
    },
}

impl Example {
    /// What the tool is called with, where it says so.
    pub fn arguments(&self) -> Option<&Value> {
        match self {
            Self::Text(_) => None,
            Self::Arguments { arguments, .. } => Some(arguments),
        }
    }

    /// The example as one line for a model.
    pub fn to_line(&self, tool: &str) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Arguments { user: Some(user), arguments } => {
                format!("User: \"{user}\" → {tool}({arguments})")
            }
            Self::Arguments { user: None, arguments } => format!("{tool}({arguments})"),
        }
    }
}

/// A definition that was refused, with everything that is wrong with it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("tool `{tool}` is refused: {}", list(.problems))]
pub struct DefinitionError {
    /// The name it gave.
    pub tool: String,
    /// What is wrong; never empty.
    pub problems: Vec<Problem>,
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
}
