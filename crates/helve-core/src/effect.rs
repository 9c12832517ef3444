//! What a tool changes beyond its result, as declared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A declared change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// What changes, for people.
    pub description: String,
    /// Whether it can be rolled back.
    #[serde(default)]
    pub reversible: bool,
    /// The change.
    #[serde(flatten)]
    pub change: Change,
}

/// The four sorts of change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Change {
    /// A state gets another value.
    StateChange {
        /// Its key.
        state: String,
        /// How it changes.
        change: StateOperation,
        /// The value, where the operation takes one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
    },
    /// Memory is written.
    Memory {
        /// Which memory.
        scope: MemoryScope,
        /// How.
        operation: MemoryOperation,
        /// The entry.
        key: String,
        /// The value, where the operation takes one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
    },
    /// Somebody is told. Cannot be undone.
    Notification {
        /// The event's name.
        event: String,
        /// What goes with it.
        #[serde(default)]
        payload: Value,
    },
    /// Another tool is called.
    Cascade {
        /// The other tool.
        tool: String,
        /// When: an expression over the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<String>,
        /// Its arguments, templated from this call.
        #[serde(default)]
        arguments: Value,
    },
}

/// How a state changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateOperation {
    /// To a value.
    Set,
    /// To nothing.
    Clear,
    /// Up.
    Increment,
    /// Down.
    Decrement,
}

/// How memory changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryOperation {
    /// To a value.
    Write,
    /// From one value to another.
    Update,
    /// To nothing.
    Delete,
}

/// How long memory lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryScope {
    /// One loop of an agent.
    Working,
    /// One session.
    ShortTerm,
    /// The agent's life.
    LongTerm,
}
