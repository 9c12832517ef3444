//! Each precondition, decided as its declaration says or by the tool's own code.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use helve_core::memory::MemoryPlace;
use helve_core::pattern;
use helve_core::ports::{Memory, ToolHost};
use helve_core::precondition::{Check, Condition, DependencyStatus, Precondition};
use helve_core::{Call, CallId, Caller, Context, ContextParts, Tool};
use serde_json::Value;

use super::{ConditionReport, Conditions, NamedCheck, code, completed, tool_check};
use crate::runtime::{Engine, Settings};

/// Longest reason, in characters: a check can say anything.
const REASON_CHARS_MAX: usize = 500;

/// Whether something holds, or why it does not.
pub(super) type Verdict = Result<(), String>;

/// For which call conditions are checked.
#[derive(Clone, Copy)]
pub(crate) struct CheckedCall<'a> {
    pub(crate) call_id: CallId,
    pub(crate) tool: &'a Tool,
    pub(crate) call: &'a Call,
}

impl CheckedCall<'_> {
    fn caller(&self) -> &Arc<Caller> {
        &self.call.caller
    }

    pub(super) fn arguments(&self) -> &Value {
        &self.call.arguments
    }

    /// What a check knows of the call that it is made for.
    pub(super) fn context(&self, host: Arc<dyn ToolHost>, deadline: Instant) -> Context {
        let caller = Arc::clone(self.caller());
        let known = ContextParts::new(self.call_id, self.tool.name().clone(), caller, deadline);
        Context::from(ContextParts { host: Some(host), ..known })
    }
}

/// Checks all preconditions of a tool at once, and tells of each whether it holds.
pub(crate) async fn evaluate(engine: &Arc<Engine>, asked: CheckedCall<'_>) -> Vec<ConditionReport> {
    let preconditions = asked.tool.definition().preconditions.iter().enumerate();
    join_all(preconditions.map(|(index, precondition)| report(engine, asked, index, precondition))).await
}

async fn report(
    engine: &Arc<Engine>,
    asked: CheckedCall<'_>,
    index: usize,
    precondition: &Precondition,
) -> ConditionReport {
    let time = time(&engine.settings, asked);
    let verdict = tokio::time::timeout(time, verdict(engine, asked, index, &precondition.condition, time));
    let verdict = verdict.await.unwrap_or_else(|_| Err(format!("no answer within {} ms", time.as_millis())));
    ConditionReport {
        description: precondition.description.clone(),
        kind: precondition.condition.kind(),
        critical: precondition.critical,
        holds: verdict.is_ok(),
        reason: verdict.err().map(shortened),
    }
}

/// No check gets more time than the caller has for the whole call.
fn time(settings: &Settings, asked: CheckedCall<'_>) -> Duration {
    let allowed = settings.precondition_timeout;
    asked.call.timeout.map_or(allowed, |timeout| timeout.min(allowed))
}

async fn verdict(
    engine: &Arc<Engine>,
    asked: CheckedCall<'_>,
    index: usize,
    condition: &Condition,
    time: Duration,
) -> Verdict {
    let run = |check: &Arc<dyn Check>, otherwise| {
        code::run_check(Arc::clone(engine) as _, Arc::clone(check), asked, time, otherwise)
    };
    if let Some(check) = asked.tool.check(index) {
        return run(check, "it does not hold now".to_owned()).await;
    }
    match condition {
        Condition::Resource { resource } => match engine.conditions.resources.get(resource) {
            Some(check) => run(check, format!("`{resource}` is not available now")).await,
            None => Err(format!(
                "the resource `{resource}` is not declared; say how to check it under \
                 `resources` in the runtime's configuration"
            )),
        },
        Condition::State { state, scope, .. } => {
            let place = MemoryPlace::of(asked.caller(), *scope, state.as_str());
            has_state(&engine.memory, asked, index, place).await
        }
        Condition::Permission { permission } => is_granted(&engine.conditions, asked.caller(), permission),
        Condition::Dependency { tool, status: DependencyStatus::Available } => {
            if engine.registry.has(tool) {
                Ok(())
            } else {
                Err(format!("no tool `{tool}` is registered"))
            }
        }
        Condition::Dependency { tool, status: DependencyStatus::Completed } => {
            completed::has_completed(&engine.registry, &engine.memory, asked.caller(), tool).await
        }
        Condition::Custom { id } => match engine.conditions.checks.get(id) {
            Some(NamedCheck::Code(check)) => run(check, format!("the check `{id}` says no")).await,
            Some(NamedCheck::Tool(check)) => tool_check::call_tool(engine, asked, check).await,
            None => Err(format!(
                "the check `{id}` is not declared; say what it does under `checks` in the \
                 runtime's configuration"
            )),
        },
    }
}

/// Compares a state with what is expected. The reason never shows the value, which may be secret.
async fn has_state(memory: &dyn Memory, asked: CheckedCall<'_>, index: usize, place: MemoryPlace) -> Verdict {
    let Some(expected) = asked.tool.expected(index) else {
        return Err("nobody knows what is expected".to_owned());
    };
    let (scope, key) = (place.scope.as_str(), place.key.clone());
    let found = memory.read(place).await.map_err(|error| error.to_string())?;
    let value = found.map(|remembered| remembered.value);
    match (expected.holds(value.as_ref()), &value) {
        (Ok(true), _) => Ok(()),
        (Ok(false), Some(_)) => Err(format!("`{key}` in {scope} memory has another value")),
        (Ok(false), None) => Err(format!("there is no `{key}` in {scope} memory")),
        (Err(error), _) => Err(error.to_string()),
    }
}

fn is_granted(conditions: &Conditions, caller: &Caller, permission: &str) -> Verdict {
    let of = |principal: &str| conditions.grants.get(principal).into_iter().flatten();
    let own = caller.principal.as_deref().into_iter().flat_map(of);
    let mut grants = caller.grants.iter().chain(own).chain(of(EVERYBODY));
    if grants.any(|grant| pattern::matches(grant, permission)) {
        return Ok(());
    }
    let who = caller.principal.as_deref().unwrap_or("the caller");
    Err(format!("`{permission}` was not granted to {who}"))
}

/// Who is meant by a grant to everybody.
const EVERYBODY: &str = "*";

fn shortened(reason: String) -> String {
    match reason.char_indices().nth(REASON_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &reason[..end]),
        None => reason,
    }
}
