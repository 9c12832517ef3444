//! What happens, for those who want to know as it happens. The journal is the record; this is not.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::caller::Caller;
use crate::error::ErrorCode;
use crate::id::{ApprovalId, CallId};
use crate::name::{Layer, ToolName};
use crate::run::Progress;
use crate::tool_code::ToolCode;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[non_exhaustive]
pub struct Event {
    /// When it happened.
    pub at: Timestamp,
    /// Who answers for the call that it is about. Not shown: it says whose it is to see.
    #[serde(skip)]
    pub principal: Option<String>,
    /// What happened, and the facts of it.
    #[serde(flatten)]
    pub kind: EventKind,
}

impl Event {
    /// Something that happened at a time.
    pub fn new(at: Timestamp, kind: EventKind) -> Self {
        Self { at, principal: None, kind }
    }

    /// Says whose it is.
    pub fn of(mut self, caller: &Caller) -> Self {
        self.principal.clone_from(&caller.principal);
        self
    }

    /// The event's name, as in `tools.executed`.
    pub fn name(&self) -> &'static str {
        match self.kind {
            EventKind::Executed { .. } => "tools.executed",
            EventKind::Failed { .. } => "tools.failed",
            EventKind::Pending { .. } => "tools.pending",
            EventKind::Registered { .. } => "tools.registered",
            EventKind::Replaced { .. } => "tools.replaced",
            EventKind::Unregistered { .. } => "tools.unregistered",
            EventKind::Progress { .. } => "tools.progress",
            EventKind::Notification { .. } => "tools.notification",
            EventKind::McpConnected { .. } => "tools.mcp-connected",
            EventKind::McpDisconnected { .. } => "tools.mcp-disconnected",
            EventKind::AuditVerified { .. } => "audit.verified",
            EventKind::AuditPruned { .. } => "audit.pruned",
        }
    }
}

/// The sorts of event.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(tag = "type", content = "payload")]
#[non_exhaustive]
pub enum EventKind {
    /// A tool ran and answered.
    #[serde(rename = "tools.executed")]
    Executed {
        /// The call that ended.
        call_id: CallId,
        /// The tool that ran.
        tool: ToolName,
        /// How long it took.
        duration_us: u64,
    },
    /// A call was refused, or its tool failed.
    #[serde(rename = "tools.failed")]
    Failed {
        /// The call that failed.
        call_id: CallId,
        /// The tool, as asked for.
        tool: Arc<str>,
        /// The error that it failed with.
        code: ErrorCode,
        /// The tool's own code for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_code: Option<ToolCode>,
        /// How long it took.
        duration_us: u64,
        /// Whether the tool may have done its work, and nobody knows. Told once: an answer from the record does
        /// not tell it again.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        may_have_happened: bool,
    },
    /// A person is asked.
    #[serde(rename = "tools.pending")]
    Pending {
        /// The call that waits.
        call_id: CallId,
        /// The tool that would run.
        tool: ToolName,
        /// The approval that decides it.
        approval_id: ApprovalId,
    },
    /// A tool came.
    #[serde(rename = "tools.registered")]
    Registered {
        /// The tool that can be called now.
        tool: ToolName,
        /// The layer in which it was registered.
        layer: Layer,
    },
    /// A tool was replaced by another of the same name and layer.
    #[serde(rename = "tools.replaced")]
    Replaced {
        /// The tool, as its new version has it.
        tool: ToolName,
        /// The layer in which both were registered.
        layer: Layer,
    },
    /// A tool went.
    #[serde(rename = "tools.unregistered")]
    Unregistered {
        /// The tool that was removed.
        tool: ToolName,
        /// The layer from which it was removed.
        layer: Layer,
    },
    /// A running call has come further.
    #[serde(rename = "tools.progress")]
    Progress {
        /// The call, as a whole.
        call_id: CallId,
        /// How far the call is.
        progress: Progress,
    },
    /// A tool's effect tells something.
    #[serde(rename = "tools.notification")]
    Notification {
        /// The call whose effect this is.
        call_id: CallId,
        /// The tool that declares the effect.
        tool: ToolName,
        /// The event that the tool declares, such as `file:changed`.
        event: String,
        /// What goes with it.
        payload: Value,
    },
    /// An MCP server is connected, and its tools are registered.
    #[serde(rename = "tools.mcp-connected")]
    McpConnected {
        /// The server, by its name in the configuration.
        server: Arc<str>,
        /// The tools that it brought.
        tools: Vec<ToolName>,
    },
    /// An MCP server is no longer connected.
    #[serde(rename = "tools.mcp-disconnected")]
    McpDisconnected {
        /// The server, by its name in the configuration.
        server: Arc<str>,
        /// Why it was disconnected, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The journal was checked from its first entry to its last.
    #[serde(rename = "audit.verified")]
    AuditVerified {
        /// How many entries are sound.
        entries: u64,
        /// What is wrong. Absent: nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// The oldest entries of the journal were removed, as `[journal.retention]` says.
    #[serde(rename = "audit.pruned")]
    AuditPruned {
        /// How many entries were removed.
        entries: u64,
        /// How many entries of calls that only read lost what was said in them.
        erased: u64,
        /// Why not more went. Absent: nothing was in the way.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
}
