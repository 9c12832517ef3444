//! What must hold before a tool runs, as declared. The pipeline's `ready` stage checks it.

mod expected;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::BoxFuture;
use crate::context::Context;
use crate::error::ToolError;
use crate::memory::MemoryScope;
use crate::tool::tagged_table;

pub use expected::{Compares, Expected, Operator};

/// A condition with what it means when it does not hold.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Precondition {
    /// What must hold, for people and models.
    pub description: String,
    /// Whether the tool must not run without it. Otherwise it runs in degraded mode.
    #[schemars(default = "yes")]
    pub critical: bool,
    /// What is checked.
    #[serde(flatten)]
    pub condition: Condition,
}

impl Precondition {
    /// A condition without which the tool must not run.
    pub fn critical(description: impl Into<String>, condition: Condition) -> Self {
        Self { description: description.into(), critical: true, condition }
    }

    /// A condition without which the tool does less.
    pub fn preferred(description: impl Into<String>, condition: Condition) -> Self {
        Self { description: description.into(), critical: false, condition }
    }
}

impl<'de> Deserialize<'de> for Precondition {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// What every sort has.
        #[derive(Deserialize)]
        struct OfAll {
            description: String,
            #[serde(default = "yes")]
            critical: bool,
        }
        let (OfAll { description, critical }, condition) =
            tagged_table::read(deserializer, &["description", "critical"])?;
        Ok(Self { description, critical, condition })
    }
}

fn yes() -> bool {
    true
}

/// Checks a condition in the tool's own way, instead of as its declaration says. An error counts
/// as "does not hold".
pub trait Check: Send + Sync + 'static {
    /// Whether the condition holds for a call with these arguments.
    fn holds(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<bool, ToolError>>;
}

impl<F, R> Check for F
where
    F: Fn(Value, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<bool, ToolError>> + Send + 'static,
{
    fn holds(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<bool, ToolError>> {
        Box::pin(self(arguments, context))
    }
}

/// The five sorts of condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// Something is at hand, such as a browser.
    Resource {
        /// The name under which the program declares the resource.
        resource: String,
    },
    /// A state has a value, or satisfies a predicate such as `> 0`.
    State {
        /// The key of the state in memory.
        state: String,
        /// The value, or a predicate: text that begins with `>`, `>=`, `<`, `<=`, `==` or `!=`.
        /// `null` and `false` also hold where there is no value.
        expected: Value,
        /// Which memory holds the state.
        #[serde(default)]
        scope: MemoryScope,
    },
    /// The caller was granted something.
    Permission {
        /// What was granted.
        permission: String,
    },
    /// Another tool is there, or has completed in this session.
    Dependency {
        /// The other tool.
        tool: String,
        /// What is asked of it.
        status: DependencyStatus,
    },
    /// A check that a pack or the embedding program provides.
    Custom {
        /// The id under which the check is registered.
        id: String,
    },
}

impl Condition {
    /// The word for its sort.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Resource { .. } => "resource",
            Self::State { .. } => "state",
            Self::Permission { .. } => "permission",
            Self::Dependency { .. } => "dependency",
            Self::Custom { .. } => "custom",
        }
    }
}

/// What a dependency asks of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DependencyStatus {
    /// It has completed in this session.
    Completed,
    /// It is registered.
    Available,
}
