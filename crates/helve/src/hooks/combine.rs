//! What several hooks say together. A pure function of their answers in the order of registration.

use std::sync::Arc;

use helve_core::hook::{
    Elicited, HookEvent, HookFailure, HookOutput, HookVerdict, OnFailure, PermissionAnswer,
    PermissionDecision, SpecificOutput,
};
use helve_core::permission::Lasting;
use serde_json::{Map, Value};

use super::{Matched, Spoken};

/// Most that all hooks of one event may tell the model, in bytes.
const CONTEXT_BYTES_MAX: usize = 64 << 10;

/// What one hook answered.
#[derive(Clone)]
#[non_exhaustive]
pub struct Answered {
    /// Who: `hook 2 (./check.sh)`.
    pub by: Arc<str>,
    /// What it said, or why it said nothing.
    pub result: Result<HookOutput, HookFailure>,
    /// What its failure means.
    pub on_failure: OnFailure,
    spoken: Spoken,
    lasting: Lasting,
}

impl Answered {
    pub(super) fn new(one: &Matched<'_>, result: Result<HookOutput, HookFailure>) -> Self {
        let entry = &one.listed.entry;
        let on_failure = entry.on_failure.unwrap_or_else(|| entry.event.on_failure());
        let lasting = entry.lasting;
        Self { by: Arc::clone(&one.listed.by), result, on_failure, spoken: one.spoken, lasting }
    }
}

impl std::fmt::Debug for Answered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answered").field("by", &self.by).field("result", &self.result).finish_non_exhaustive()
    }
}

/// Something that a hook said.
#[derive(Debug, Clone, PartialEq)]
pub struct Attributed<T> {
    /// The label of the hook.
    pub by: Arc<str>,
    /// What the hook said.
    pub what: T,
}

/// What the hooks of an event say together.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fired {
    /// The event that the hooks saw.
    pub event: HookEvent,
    /// What each said, in the order of registration.
    pub answers: Vec<Answered>,
    /// The agent should stop, and why. This beats all else.
    pub stopped: Option<Attributed<String>>,
    /// What to do with a call: the strictest decision, and why.
    pub decision: Option<Attributed<(PermissionDecision, Option<String>)>>,
    /// Whatever the event is about must not happen, and why.
    pub blocked: Option<Attributed<String>>,
    /// Arguments that take the place of the call's: the last registered counts.
    pub updated_input: Option<Attributed<Map<String, Value>>>,
    /// A result that takes the place of the tool's: the last registered counts.
    pub updated_output: Option<Attributed<Value>>,
    /// The same, for a tool of an MCP server alone.
    pub updated_mcp_output: Option<Attributed<Value>>,
    /// What is said in place of the person who would be asked.
    pub permission: Option<Attributed<PermissionAnswer>>,
    /// Something for the model to know, in order.
    pub context: Vec<String>,
    /// Something for the user to know (`systemMessage`), in order. The model is not told.
    pub messages: Vec<String>,
    /// What of the context the user may see: that of hooks without `suppressOutput`.
    pub shown: Vec<String>,
    /// Hooks that wanted different things of which only one can be.
    pub conflicts: Vec<String>,
    /// Changes of permissions that reach less far than a hook said, because of whose it is.
    pub bounded: Vec<String>,
}

/// Combines answers, which are in the order of registration.
pub(crate) fn combine(event: HookEvent, answers: Vec<Answered>) -> Fired {
    let mut fired = Fired {
        event,
        answers: Vec::new(),
        stopped: None,
        decision: None,
        blocked: None,
        updated_input: None,
        updated_output: None,
        updated_mcp_output: None,
        permission: None,
        context: Vec::new(),
        messages: Vec::new(),
        shown: Vec::new(),
        conflicts: Vec::new(),
        bounded: Vec::new(),
    };
    for answered in &answers {
        match &answered.result {
            Ok(output) if output.is_async() => {}
            Ok(output) => fired.add(answered, output),
            Err(failure) if answered.on_failure == OnFailure::Block => fired.add_failure(answered, failure),
            Err(failure) => tracing::warn!(by = %answered.by, "a hook failed: {failure}"),
        }
    }
    fired.bound_context();
    fired.answers = answers;
    fired
}

impl Fired {
    /// All that is said to the model after the fact.
    pub(crate) fn for_model(&self) -> impl Iterator<Item = String> {
        let objection = self.blocked.as_ref().map(|said| format!("{} objects: {}", said.by, said.what));
        let stop = self.stopped.as_ref().map(|said| format!("{} says to stop here: {}", said.by, said.what));
        self.context.iter().cloned().chain(objection).chain(stop)
    }

    /// All that is said to the user.
    pub(crate) fn for_user(&self) -> impl Iterator<Item = String> {
        self.messages.iter().chain(&self.shown).cloned()
    }

    /// Why whatever the event is about must not happen, if it must not.
    pub fn refusal(&self) -> Option<&str> {
        if let Some(stopped) = &self.stopped {
            return Some(&stopped.what);
        }
        if let Some(Attributed { what: (PermissionDecision::Deny, why), .. }) = &self.decision {
            return Some(why.as_deref().unwrap_or(NO_REASON));
        }
        if let Some(Attributed { what: PermissionAnswer::Deny { message, .. }, .. }) = &self.permission {
            return Some(message.as_deref().unwrap_or(NO_REASON));
        }
        self.blocked.as_ref().map(|blocked| blocked.what.as_str())
    }

    /// Hooks that gave no answer that could be used, and why.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &HookFailure)> {
        self.answers.iter().filter_map(|one| Some((&*one.by, one.result.as_ref().err()?)))
    }

    /// Of these, the hooks without whose answer nothing may pass.
    pub(crate) fn blocking_failures(&self) -> impl Iterator<Item = (&str, &HookFailure)> {
        let blocking = self.answers.iter().filter(|one| one.on_failure == OnFailure::Block);
        blocking.filter_map(|one| Some((&*one.by, one.result.as_ref().err()?)))
    }

    /// All of it as one hook would have said it.
    pub fn to_output(&self) -> HookOutput {
        let mut output = HookOutput::none();
        let mut specific = SpecificOutput::default();
        let said = |text: &[String]| (!text.is_empty()).then(|| text.join("\n"));
        output.system_message = said(&self.messages);
        specific.additional_context = said(&self.context);
        if let Some(stopped) = &self.stopped {
            output.goes_on = Some(false);
            output.stop_reason = Some(stopped.what.clone());
        }
        if let Some(Attributed { what: (decision, why), .. }) = &self.decision {
            specific.permission_decision = Some(*decision);
            specific.permission_decision_reason = why.clone();
        }
        if let Some(blocked) = &self.blocked {
            output.decision = Some(HookVerdict::Block);
            output.reason = Some(blocked.what.clone());
        }
        specific.updated_input = self.updated_input.as_ref().map(|said| said.what.clone());
        specific.updated_tool_output = self.updated_output.as_ref().map(|said| said.what.clone());
        specific.updated_mcp_tool_output = self.updated_mcp_output.as_ref().map(|said| said.what.clone());
        specific.decision = self.permission.as_ref().map(|said| said.what.clone());
        self.add_rest(&mut output, &mut specific);
        if specific != SpecificOutput::default() {
            specific.hook_event_name = Some(self.event.as_str().to_owned());
            output.specific = Some(Box::new(specific));
        }
        output
    }

    /// What nobody combines: of several, the last registered counts.
    fn add_rest(&self, output: &mut HookOutput, specific: &mut SpecificOutput) {
        let heard = self.answers.iter().filter_map(|one| one.result.as_ref().ok());
        for one in heard.filter(|one| !one.is_async()) {
            output.suppress_output = one.suppress_output.or(output.suppress_output);
            let Some(own) = one.specific.as_deref() else { continue };
            let later = |own: &Option<String>, former: &mut Option<String>| {
                if own.is_some() {
                    former.clone_from(own);
                }
            };
            later(&own.session_title, &mut specific.session_title);
            later(&own.initial_user_message, &mut specific.initial_user_message);
            specific.suppress_original_prompt =
                own.suppress_original_prompt.or(specific.suppress_original_prompt);
            specific.retry = own.retry.or(specific.retry);
            if let Some(paths) = &own.watch_paths {
                specific.watch_paths.get_or_insert_default().extend(paths.iter().cloned());
            }
            // A no is heard before a yes.
            if let Some(action) = own.action
                && (action != Elicited::Accept || specific.action.is_none_or(|said| said == Elicited::Accept))
            {
                specific.action = Some(action);
                specific.content.clone_from(&own.content);
            }
        }
    }

    fn add(&mut self, answered: &Answered, output: &HookOutput) {
        let by = &answered.by;
        if output.goes_on == Some(false) && self.stopped.is_none() {
            let why = output.stop_reason.as_deref().or(output.why()).unwrap_or(NO_REASON);
            self.stopped = Some(attributed(by, why.to_owned()));
        }
        if let Some(message) = &output.system_message {
            self.messages.push(message.clone());
        }
        let why = output.why().map(str::to_owned);
        let is_before = self.event == HookEvent::PreToolUse;
        let is_request = self.event == HookEvent::PermissionRequest;
        match output.decision() {
            Some(decision) if is_before => self.decide(by, decision, why),
            Some(PermissionDecision::Deny) if is_request => self.permit(by, deny(why)),
            Some(PermissionDecision::Allow) if is_request => self.permit(by, allow()),
            Some(PermissionDecision::Deny) => self.block(by, why.unwrap_or_else(|| NO_REASON.to_owned())),
            Some(PermissionDecision::Allow | PermissionDecision::Ask | PermissionDecision::Defer) | None => {}
        }
        let Some(specific) = output.specific.as_deref() else { return };
        if let Some(context) = specific.additional_context.as_ref().filter(|text| !text.is_empty()) {
            self.context.push(context.clone());
            if output.suppress_output != Some(true) {
                self.shown.push(context.clone());
            }
        }
        if let Some(input) = &specific.updated_input {
            let input = answered.spoken.arguments(input.clone());
            replace(&mut self.updated_input, attributed(by, input), "the arguments", &mut self.conflicts);
        }
        if let Some(value) = &specific.updated_tool_output {
            replace(
                &mut self.updated_output,
                attributed(by, value.clone()),
                "the result",
                &mut self.conflicts,
            );
        }
        if let Some(value) = &specific.updated_mcp_tool_output {
            replace(
                &mut self.updated_mcp_output,
                attributed(by, value.clone()),
                "the result",
                &mut self.conflicts,
            );
        }
        if let Some(answer) = &specific.decision {
            let answer = match answer.clone() {
                PermissionAnswer::Allow { updated_input, updated_permissions } => {
                    let bounded = updated_permissions.map(|updates| answered.lasting.bound(updates));
                    let (updated_permissions, remark) = bounded.unzip();
                    self.bounded.extend(remark.flatten().map(|remark| format!("{by}: {remark}")));
                    let updated_input = updated_input.map(|input| answered.spoken.arguments(input));
                    PermissionAnswer::Allow { updated_input, updated_permissions }
                }
                deny => deny,
            };
            self.permit(by, answer);
        }
    }

    fn add_failure(&mut self, answered: &Answered, failure: &HookFailure) {
        let by = &answered.by;
        let why = format!("it failed: {failure}");
        match self.event {
            HookEvent::PreToolUse => self.decide(by, PermissionDecision::Deny, Some(why)),
            HookEvent::PermissionRequest => self.permit(by, deny(Some(why))),
            _ => self.block(by, why),
        }
    }

    fn decide(&mut self, by: &Arc<str>, decision: PermissionDecision, why: Option<String>) {
        match &mut self.decision {
            Some(Attributed { what: (former, _), .. }) if *former > decision => {}
            Some(Attributed { what: (former, reasons), .. }) if *former == decision => {
                add_reason(reasons, why)
            }
            _ => self.decision = Some(attributed(by, (decision, why))),
        }
    }

    fn block(&mut self, by: &Arc<str>, why: String) {
        match &mut self.blocked {
            Some(blocked) => blocked.what = format!("{}; {why}", blocked.what),
            None => self.blocked = Some(attributed(by, why)),
        }
    }

    /// A no beats a yes; of two yes, the later one's arguments count, and both change permissions.
    fn permit(&mut self, by: &Arc<str>, answer: PermissionAnswer) {
        use PermissionAnswer::{Allow, Deny};
        let Some(former) = &mut self.permission else {
            self.permission = Some(attributed(by, answer));
            return;
        };
        match (&mut former.what, answer) {
            (Deny { message, interrupt }, Deny { message: why, interrupt: stops }) => {
                add_reason(message, why);
                *interrupt = stops.or(*interrupt);
            }
            (Deny { .. }, Allow { .. }) => {}
            (Allow { .. }, deny @ Deny { .. }) => *former = attributed(by, deny),
            (
                Allow { updated_input: input, updated_permissions: updates },
                Allow { updated_input, updated_permissions },
            ) => {
                if let Some(new) = updated_input {
                    if input.as_ref().is_some_and(|old| *old != new) {
                        self.conflicts.push(conflict("the arguments", &former.by, by));
                    }
                    *input = Some(new);
                    former.by = Arc::clone(by);
                }
                if let Some(more) = updated_permissions {
                    updates.get_or_insert_default().extend(more);
                }
            }
        }
    }

    fn bound_context(&mut self) {
        for texts in [&mut self.context, &mut self.shown, &mut self.messages] {
            let mut left = CONTEXT_BYTES_MAX;
            texts.retain_mut(|text| {
                let fits = text.len() <= left;
                left = left.saturating_sub(text.len());
                fits
            });
        }
    }
}

const NO_REASON: &str = "it gave no reason";

fn attributed<T>(by: &Arc<str>, what: T) -> Attributed<T> {
    Attributed { by: Arc::clone(by), what }
}

fn allow() -> PermissionAnswer {
    PermissionAnswer::Allow { updated_input: None, updated_permissions: None }
}

fn deny(message: Option<String>) -> PermissionAnswer {
    PermissionAnswer::Deny { message, interrupt: None }
}

fn add_reason(reasons: &mut Option<String>, why: Option<String>) {
    *reasons = match (reasons.take(), why) {
        (Some(former), Some(why)) => Some(format!("{former}; {why}")),
        (former, why) => former.or(why),
    };
}

fn replace<T: PartialEq>(
    place: &mut Option<Attributed<T>>,
    new: Attributed<T>,
    what: &str,
    conflicts: &mut Vec<String>,
) {
    if let Some(former) = place.as_ref().filter(|former| former.what != new.what) {
        conflicts.push(conflict(what, &former.by, &new.by));
    }
    *place = Some(new);
}

fn conflict(what: &str, former: &str, later: &str) -> String {
    format!("{former} and {later} both changed {what}; {later} was registered later, and counts")
}
