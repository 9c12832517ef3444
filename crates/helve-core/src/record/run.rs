//! The durable story of a call: its parts, its effects, and how it can be undone or resumed.
//!
//! A call that changes the world or is composed of others is a run, under the call's own id.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::BoxFuture;
use crate::approval::ApprovalState;
use crate::context::Context;
use crate::error::{ErrorCode, ToolError};
use crate::expression::Expression;
use crate::id::{ApprovalId, CallId, RuleId};
use crate::label::LabelSet;
use crate::record::RawJson;
use crate::template::Template;

/// Where a call stands within a bigger one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The call that all of it belongs to.
    pub run: CallId,
    /// Which part: the names of steps from the outside in, as in `fetch/1`. The same each time the
    /// run is resumed, so that what has finished is not done twice.
    pub path: Arc<str>,
}

/// The step of a path at which a call undoes the one that the path leads to until there. A tool's own steps are
/// never spelled so.
pub const UNDO: &str = "undo";

/// How the step of a path begins at which an effect of the call that the path leads to until there calls another
/// one. A tool's own steps never begin so.
pub const EFFECT: &str = "effect-";

/// Whether the call at `path` was made by an effect of another one.
///
/// ```
/// use helve_core::run::is_effect;
/// assert!(is_effect("effect-0") && is_effect("hotel/effect-1"));
/// assert!(!is_effect("effect-0/ask") && !is_effect("hotel/~2effect-0"));
/// ```
pub fn is_effect(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|step| step.starts_with(EFFECT))
}

/// Whether the call at `path` undoes another one.
///
/// ```
/// use helve_core::run::is_undo;
/// assert!(is_undo("undo") && is_undo("hotel/undo"));
/// assert!(!is_undo("hotel/undo/ask") && !is_undo("hotel/~2undo"));
/// ```
pub fn is_undo(path: &str) -> bool {
    path.rsplit('/').next() == Some(UNDO)
}

/// How many calls on the way to `path`, the one there included, undo another one. To undo any of those would
/// be to do again what was undone.
///
/// ```
/// use helve_core::run::undoings;
/// assert_eq!(["hotel", "undo", "hotel/undo/ask", "hotel/undo/ask/undo"].map(undoings), [0, 1, 1, 2]);
/// ```
pub fn undoings(path: &str) -> usize {
    path.split('/').filter(|step| *step == UNDO).count()
}

/// Something that happened in the middle of a run.
#[derive(Debug, Clone)]
pub struct Step {
    /// When it happened.
    pub at: Timestamp,
    /// The call that it concerns: the run itself or one of its parts.
    pub call_id: CallId,
    /// The run to which that call belongs.
    pub run: CallId,
    /// What happened to the call.
    pub kind: StepKind,
    /// What was said, secrets removed: the result for [`StepKind::Executed`], else an error.
    pub payload: Option<RawJson>,
}

/// The sorts of step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum StepKind {
    /// An attempt failed, and another one follows.
    Attempted {
        /// Which attempt, from 1.
        number: u32,
        /// Why it failed.
        code: ErrorCode,
    },
    /// The tool has answered; its effects come next.
    Executed {
        /// Whether the payload lacks something of the result: a secret, or all of it for its size.
        withheld: bool,
    },
    /// An effect was applied.
    EffectApplied {
        /// Which effect, counted from 0.
        index: u32,
    },
    /// An effect was not due: its condition does not hold.
    EffectSkipped {
        /// Which effect, counted from 0.
        index: u32,
    },
    /// An effect could not be applied.
    EffectFailed {
        /// Which effect, counted from 0.
        index: u32,
        /// The error that it failed with.
        code: ErrorCode,
    },
    /// An applied effect was taken back.
    EffectRolledBack {
        /// Which effect, counted from 0.
        index: u32,
    },
    /// An applied effect could not be taken back, and stands.
    RollbackFailed {
        /// Which effect, counted from 0.
        index: u32,
    },
    /// What the tool itself did is about to be undone.
    UndoStarted,
    /// What the tool itself did was undone.
    Undone,
    /// What the tool itself did could not be undone, and stands.
    UndoFailed {
        /// The error that it failed with.
        code: ErrorCode,
    },
    /// The run was resumed after its process had gone.
    Resumed,
    /// The run waits for a person.
    Waiting {
        /// What the run waits for.
        #[serde(rename = "for")]
        reason: WaitingFor,
        /// The question, where it is an approval.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval_id: Option<ApprovalId>,
    },
    /// It was found out what became of a part whose outcome was unknown: a person said so, or the tool that
    /// knows. The payload is its result, where a person gave one.
    Settled {
        /// What they said.
        answer: Finding,
        /// The person who said so. Absent: the tool told, or an earlier version wrote this.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A person is asked whether the call may run. The payload says why.
    Asked {
        /// The approval that was requested.
        approval_id: ApprovalId,
    },
    /// A question was decided, or ran out. The payload says why, and what was edited.
    Decided {
        /// The approval that was requested.
        approval_id: ApprovalId,
        /// What became of it.
        decision: ApprovalState,
        /// The person who decided. Absent: nobody did, as when time ran out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The session has touched something new.
    Labelled {
        /// The labels that rose.
        labels: LabelSet,
    },
    /// Nobody was asked, because a person had allowed the like for the session.
    RuleUsed {
        /// The rule that stood in for a person.
        rule_id: RuleId,
    },
    /// Such a rule was taken back.
    RuleRevoked {
        /// The rule that no longer holds.
        rule_id: RuleId,
        /// The person who took it back.
        by: String,
    },
    /// A stop of the run was requested.
    CancelRequested,
    /// The process at it was stopped. The run is left as it is, for the next process to resume.
    Stopped {
        /// Who stopped the process.
        by: String,
    },
    /// The run is not gone on with after a crash: what it did is undone.
    RollingBack,
    /// The caller was told how the run ended, after it had waited for a person.
    Told,
}

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor {
    /// A part needs approval.
    Approval,
    /// A part was cut short, and nobody knows whether it had its effect.
    UnknownOutcome,
    /// Its tool leaves it to a person whether a run that was cut short goes on.
    Decision,
    /// An end: it cannot go on as it is. Its tool is gone or is not as it was, or something was not kept.
    Cancel,
}

/// What a person found out about a part whose outcome was unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It did happen.
    Happened,
    /// It did not happen, and may be done now.
    DidNotHappen,
}

/// What to do with a run that was cut short, once its process has gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnCrash {
    /// Go on after the last step that had finished. A part whose outcome is unknown is asked for
    /// its result, repeated where that is harmless, or left to a person.
    #[default]
    Resume,
    /// Undo what was done.
    RollBack,
    /// Leave it to a person.
    Ask,
}

/// How a tool undoes what it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Undo {
    /// By a call of another tool.
    Tool {
        /// The other tool.
        tool: String,
        /// Its arguments, made from `arguments` and `result` of the call to be undone.
        #[serde(default)]
        arguments: Template,
    },
    /// By the tool's own code.
    #[serde(skip_deserializing)]
    #[schemars(skip)]
    Handler,
}

/// How to find out whether a call that was cut short had its effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recall {
    /// The tool to ask. It must only read.
    pub tool: String,
    /// Its arguments, made from `arguments` of the call and its idempotency `key`.
    #[serde(default)]
    pub arguments: Template,
    /// Whether the call had its effect: an expression over `answer`, and `arguments` and `key`.
    pub happened: Expression,
    /// What the call would have returned, made from the same. Absent: the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Template>,
}

/// What a tool knows of a call that was cut short.
#[derive(Debug, Clone, PartialEq)]
pub enum Recalled {
    /// It had its effect, and this is its result.
    Happened(Value),
    /// It had none so far. Where its process has gone, that is believed once the tool's time is over: until then
    /// the server may be at work on it still.
    DidNotHappen,
    /// It had none, and will have none: only the process that made the call was at work on it.
    WillNotHappen,
    /// Nobody can tell. A tool that can say more, such as where to look, fails with `outcome_unknown` instead.
    Unknown,
}

/// Undoes what a tool did.
pub trait UndoHandler: Send + Sync + 'static {
    /// Undoes a call with these arguments and this result.
    fn undo(
        &self,
        arguments: Value,
        result: Value,
        context: Context,
    ) -> BoxFuture<'static, Result<(), ToolError>>;
}

impl<F, R> UndoHandler for F
where
    F: Fn(Value, Value, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), ToolError>> + Send + 'static,
{
    fn undo(
        &self,
        arguments: Value,
        result: Value,
        context: Context,
    ) -> BoxFuture<'static, Result<(), ToolError>> {
        Box::pin(self(arguments, result, context))
    }
}

/// Finds out whether a call that was cut short had its effect.
pub trait RecallHandler: Send + Sync + 'static {
    /// What became of a call with these arguments. The context has its idempotency key.
    fn recall(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Recalled, ToolError>>;
}

impl<F, R> RecallHandler for F
where
    F: Fn(Value, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Recalled, ToolError>> + Send + 'static,
{
    fn recall(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Recalled, ToolError>> {
        Box::pin(self(arguments, context))
    }
}

/// What became of one part of a run, for people and models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartReport {
    /// The path of the part within its run, such as `fetch/1`.
    pub path: Arc<str>,
    /// The call that ran the part.
    pub call_id: CallId,
    /// The full name of the tool that the part called.
    pub tool: Arc<str>,
    /// What became of it.
    pub state: PartState,
}

/// What became of one part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// It was started, and has not ended.
    Running,
    /// It succeeded, and stands.
    Done,
    /// The part failed.
    Failed,
    /// It was stopped.
    Cancelled,
    /// A person is asked.
    Waiting,
    /// Nobody knows whether it had its effect.
    Unknown,
    /// It succeeded, and was undone.
    Undone,
    /// It succeeded and should be undone, but could not be; it stands.
    UndoFailed,
}

/// What became of one effect, for people and models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EffectReport {
    /// What the effect changes.
    pub description: String,
    /// What became of it.
    pub state: EffectState,
}

/// What became of one effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// It was applied, and stands.
    Applied,
    /// It was not due.
    Skipped,
    /// It could not be applied.
    Failed,
    /// It was applied, and taken back.
    RolledBack,
    /// It was applied, and should but could not be taken back; it stands.
    RollbackFailed,
    /// An earlier one had failed.
    NotReached,
}

impl EffectState {
    /// What became of an effect, where a step is about one.
    pub fn after(step: &StepKind) -> Option<Self> {
        match step {
            StepKind::EffectApplied { .. } => Some(Self::Applied),
            StepKind::EffectSkipped { .. } => Some(Self::Skipped),
            StepKind::EffectFailed { .. } => Some(Self::Failed),
            StepKind::EffectRolledBack { .. } => Some(Self::RolledBack),
            StepKind::RollbackFailed { .. } => Some(Self::RollbackFailed),
            StepKind::Attempted { .. }
            | StepKind::Executed { .. }
            | StepKind::UndoStarted
            | StepKind::Undone
            | StepKind::UndoFailed { .. }
            | StepKind::Resumed
            | StepKind::Waiting { .. }
            | StepKind::Settled { .. }
            | StepKind::Asked { .. }
            | StepKind::Decided { .. }
            | StepKind::Labelled { .. }
            | StepKind::RuleUsed { .. }
            | StepKind::RuleRevoked { .. }
            | StepKind::CancelRequested
            | StepKind::Stopped { .. }
            | StepKind::RollingBack
            | StepKind::Told => None,
        }
    }
}

/// How far something has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// How much is done.
    pub done: f64,
    /// Of how much, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
