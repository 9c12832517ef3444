//! How a server is.

use jiff::Timestamp;
use serde::Serialize;

use crate::era::Era;

/// How a server is, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServerState {
    /// Not connected, and nothing is wrong: it is being connected, or nobody has needed it yet.
    Pending,
    /// It is connected and answers.
    Connected,
    /// It asks for a login.
    NeedsAuth,
    /// It could not be reached, or was lost. It is tried again.
    Failed,
    /// The configuration says that it is not used.
    Disabled,
}

impl ServerState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connected => "connected",
            Self::NeedsAuth => "needs-auth",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
        }
    }
}

/// How a server is, in full.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ServerStatus {
    /// Its name in the configuration.
    pub name: String,
    /// In a word.
    pub state: ServerState,
    /// Why, where something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when the server has been in this state.
    pub since: Timestamp,
    /// How it is spoken to: `stdio`, `http`, `sse`, `ws`, `in_process`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<&'static str>,
    /// The protocol's era.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub era: Option<Era>,
    /// The protocol's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The server's own name and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How many tools of it can be used.
    pub tools: usize,
    /// Their names here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_names: Vec<String>,
    /// How many resources it lists.
    pub resources: usize,
    /// How many prompts it lists.
    pub prompts: usize,
    /// How long its last answer to us took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// How often it was connected anew.
    pub restarts: u32,
    /// What is not as it should be: tools that were refused, renamed or wait for a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}
