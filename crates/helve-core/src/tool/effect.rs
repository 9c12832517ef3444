//! What a tool changes beyond its result. The pipeline's `effects` stage applies it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::BoxFuture;
use crate::context::Context;
use crate::error::ToolError;
use crate::expression::Expression;
use crate::memory::MemoryScope;
use crate::template::Template;
use crate::tool::tagged_table;

/// A declared change.
///
/// Its templates and its condition are over `arguments` and `result` of the call. The `value` of a
/// change in memory also sees `former`: what was there before, `null` where nothing was.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Effect {
    /// What changes, for people.
    pub description: String,
    /// Whether it is taken back when a later effect fails or the run is undone.
    #[schemars(default)]
    pub reversible: bool,
    /// Only when this holds. Absent: always.
    #[schemars(default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Expression>,
    /// What changes, and how.
    #[serde(flatten)]
    pub change: Change,
}

impl Effect {
    /// Whether it is made after a call that succeeded.
    pub fn after_success(&self) -> bool {
        self.tells_on() != Some(TellOn::Failure)
    }

    /// Whether it is made after a call that failed: of the four sorts, only notifications are sent then.
    pub fn after_failure(&self) -> bool {
        matches!(self.tells_on(), Some(TellOn::Failure | TellOn::End))
    }

    fn tells_on(&self) -> Option<TellOn> {
        match &self.change {
            Change::Notification { on, .. } => Some(*on),
            Change::StateChange { .. } | Change::Memory { .. } | Change::Cascade { .. } => None,
        }
    }

    /// A change that is always made and cannot be taken back.
    pub fn new(description: impl Into<String>, change: Change) -> Self {
        Self { description: description.into(), reversible: false, when: None, change }
    }

    /// Lets it be taken back.
    pub fn reversible(mut self) -> Self {
        self.reversible = true;
        self
    }

    /// Makes it only when `condition` holds.
    pub fn when(mut self, condition: Expression) -> Self {
        self.when = Some(condition);
        self
    }
}

impl<'de> Deserialize<'de> for Effect {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// What every sort has.
        #[derive(Deserialize)]
        struct OfAll {
            description: String,
            #[serde(default)]
            reversible: bool,
            when: Option<Expression>,
        }
        let (OfAll { description, reversible, when }, change) =
            tagged_table::read(deserializer, &["description", "reversible", "when"])?;
        Ok(Self { description, reversible, when, change })
    }
}

/// The four sorts of change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A state gets another value.
    StateChange {
        /// Its key in memory: text, or a template of it.
        state: Template,
        /// How it changes.
        change: StateOperation,
        /// The value to set, or by how much to count (1 where absent).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Template>,
        /// Which memory holds the state.
        #[serde(default)]
        scope: MemoryScope,
    },
    /// Memory is written.
    Memory {
        /// Which memory the key belongs to.
        #[serde(default)]
        scope: MemoryScope,
        /// How the value changes.
        operation: MemoryOperation,
        /// The key: text, or a template of it.
        key: Template,
        /// The value, where the operation takes one, perhaps made from the `former` one. Absent: the
        /// result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Template>,
        /// How long it is remembered. Absent: until it is changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_ms: Option<u64>,
    },
    /// A notification is sent. Cannot be taken back.
    Notification {
        /// The event's name.
        event: String,
        /// After what end.
        #[serde(default, skip_serializing_if = "TellOn::is_success")]
        on: TellOn,
        /// What goes with it. Absent: the result, or the error of a call that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload: Option<Template>,
    },
    /// Another tool is called, as the same caller. Taken back by that tool's own undo.
    Cascade {
        /// The other tool.
        tool: String,
        /// The arguments of that call.
        #[serde(default)]
        arguments: Template,
    },
}

/// After what end of a call the notification is sent. Where it failed, `result` is `null` and `error` says why; where it
/// succeeded, `error` is `null`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TellOn {
    /// The call succeeded.
    #[default]
    Success,
    /// The tool ran and the call failed.
    Failure,
    /// On success and on failure.
    End,
}

impl TellOn {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_success(&self) -> bool {
        matches!(self, Self::Success)
    }
}

/// How a state changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateOperation {
    /// To a value.
    Set,
    /// Empties the value.
    Clear,
    /// Adds to the number that is there.
    Increment,
    /// Takes from the number that is there.
    Decrement,
}

/// How memory changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryOperation {
    /// To a value, whether or not there is one.
    Write,
    /// To another value, where there is one.
    Update,
    /// Removes the value.
    Delete,
}

/// Applies an effect in the tool's own way, instead of as its declaration says.
///
/// After a crash `apply` may be called again for the same call: it must do no harm then.
pub trait EffectHandler: Send + Sync + 'static {
    /// Applies the effect. What it returns is kept for [`EffectHandler::roll_back`], in the
    /// journal: no secrets.
    fn apply(
        &self,
        arguments: Value,
        result: Value,
        context: Context,
    ) -> BoxFuture<'static, Result<Value, ToolError>>;

    /// Takes back what was applied.
    fn roll_back(&self, applied: Value, context: Context) -> BoxFuture<'static, Result<(), ToolError>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn memory_is_that_of_the_session_unless_said() {
        let effect = |scope: Option<&str>| {
            let mut written = json!({ "type": "memory", "operation": "write", "key": "k" });
            scope.into_iter().for_each(|scope| written["scope"] = scope.into());
            match serde_json::from_value(written).unwrap() {
                Change::Memory { scope, .. } => scope,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(effect(None), MemoryScope::ShortTerm);
        assert_eq!(effect(Some("long-term")), MemoryScope::LongTerm);
    }
}
