//! The gate: collects the votes, judges them, and asks where the verdict is to ask.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use helve_core::approval::{Asked, Grant};
use helve_core::event::EventKind;
use helve_core::hook::PermissionAnswer;
use helve_core::permission::PermissionResult;
use helve_core::ports::{Clock, Ledger};
use helve_core::{
    Approval, ApprovalId, ApprovalState, Approved, Call, ErrorCode, Outcome, Pending, Stance, Tool,
    ToolError, Vote, VoteSource,
};
use serde_json::Value;
use tokio::time::Instant;

use super::ask::{self, pending, question};
use super::hooks_before;
use super::judge::{MayAsk, Reasons, Verdict, denial};
use super::prepare::{PreparedCall, fit};
use super::ready::ReadyCall;
use super::record::{BeforeWork, unavailable};
use super::resolve::ResolvedCall;
use super::votes::{ask_session_rules, collect_votes, refuse, still_allowed};
use crate::approvals::{binding, outcome_of_repeated};
use crate::hooks::HookRunner;
use crate::permissions::{PermissionQuestion, suggestions};
use crate::runs::parse;
use crate::runtime::{Engine, Judges, Settings, stop, stop::Stop};

/// How long the program around Helve may take to answer.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(600);

/// A call that may run. Only this stage makes one, and only this can be executed.
pub(super) struct PermittedCall {
    tool: Tool,
    call: Box<Call>,
    permission: Permission,
}

/// Why a call may run, as far as a person has a part in it.
#[derive(Default)]
pub(super) struct Permission {
    /// The approval that its start uses up.
    pub(super) grant: Option<Box<Grant>>,
    /// The approval by which it runs: that of the grant, or the one that it had used up before its run was cut short.
    pub(super) approved: Option<Arc<Approved>>,
}

impl PermittedCall {
    /// A call that may run without a person's approval.
    fn unasked(tool: Tool, call: Box<Call>) -> Self {
        Self { tool, call, permission: Permission::default() }
    }

    /// A call that runs by an approval, which its start uses up.
    fn by(grant: Grant, tool: Tool, call: Box<Call>) -> Self {
        let approved = Some(Arc::new(Approved::from(&grant)));
        Self { tool, call, permission: Permission { grant: Some(Box::new(grant)), approved } }
    }

    /// The tool that may run.
    pub(super) fn tool(&self) -> &Tool {
        &self.tool
    }

    /// The call, as it will run.
    pub(super) fn call(&self) -> &Call {
        &self.call
    }

    /// The tool, the call, and why it may run.
    pub(super) fn into_parts(self) -> (Tool, Box<Call>, Permission) {
        (self.tool, self.call, self.permission)
    }
}

pub(super) enum Decision {
    Allow(PermittedCall),
    Ask(Pending),
    /// It was made before, and its run waited for a person: this is how that stands.
    Known(Box<Outcome>),
}

/// A call that was permitted before its run was cut short is still permitted, if it is the same:
/// the tool as it was, the arguments as they were, or as a person had edited them.
pub(super) fn permitted_before(
    prepared: PreparedCall,
    record: &mut BeforeWork<'_, '_>,
) -> ControlFlow<PermittedCall, PreparedCall> {
    let Some((_, earlier)) = record.subject.cut_short() else { return ControlFlow::Continue(prepared) };
    let ResolvedCall { tool, call } = &prepared.0;
    let Some(started) = earlier.started.as_ref() else { return ControlFlow::Continue(prepared) };
    let arguments = parse(&started.arguments);
    let edited = started.grant.as_ref().and_then(|grant| grant.asked.as_ref());
    let same = arguments == call.arguments
        || edited.is_some_and(|asked| *asked == binding(tool, call, record.subject.part()));
    if started.digest != *tool.digest() || started.withheld || !same {
        return ControlFlow::Continue(prepared);
    }
    let approved = started.grant.as_ref().map(|grant| Arc::new(grant.into()));
    let ResolvedCall { tool, mut call } = prepared.0;
    if arguments != call.arguments {
        record.arguments.keep(&arguments);
        call.arguments = arguments;
    }
    record.ballot.add(Vote::new(VoteSource::Earlier, Stance::Allow));
    let permission = Permission { grant: None, approved };
    ControlFlow::Break(PermittedCall { tool, call, permission })
}

pub(super) async fn decide(
    engine: &Arc<Engine>,
    ready: ReadyCall,
    record: &mut BeforeWork<'_, '_>,
) -> Result<Decision, ToolError> {
    let ResolvedCall { tool, call } = ready.0;
    let never_ask = collect_votes(&engine.judges, engine.settings.ask_from, &tool, &call, record).await?;
    let reasons = match record.ballot.judge(MayAsk::Yes) {
        Verdict::Deny(vote) => return Err(denial(&vote)),
        Verdict::Allow => None,
        Verdict::Ask(reasons) => Some(reasons),
    };
    if let Some(id) = record.subject.origin().approval() {
        let used_up = use_up(&engine.judges, &*engine.ledger, &*engine.clock, tool, call, id, record);
        return Box::pin(used_up).await;
    }
    if tool.is_composed() && record.subject.origin().is_outside() {
        let outer = binding(&tool, &call, None);
        let known = outcome_of_repeated(engine, &call, outer, record.subject.received_at()).await;
        if let Some(known) = known.map_err(unavailable)? {
            return Ok(Decision::Known(Box::new(known)));
        }
    }
    match reasons {
        None => Ok(Decision::Allow(PermittedCall::unasked(tool, call))),
        // Rare and large, so on the heap, as are conditions.
        Some(reasons) => Box::pin(ask(engine, tool, call, reasons, never_ask, record)).await,
    }
}

/// Asks a person, or finds that one was asked before.
async fn ask(
    engine: &Arc<Engine>,
    tool: Tool,
    call: Box<Call>,
    reasons: Reasons,
    never_ask: Option<Vote>,
    record: &mut BeforeWork<'_, '_>,
) -> Result<Decision, ToolError> {
    if !reasons.asks_each_time() {
        ask_session_rules(&*engine.ledger, &*engine.clock, &tool, &call, record).await?;
    }
    let may_ask = never_ask.as_ref().map_or(MayAsk::Yes, MayAsk::No);
    let reasons = match record.ballot.judge(may_ask) {
        Verdict::Ask(reasons) => reasons,
        Verdict::Allow => return Ok(Decision::Allow(PermittedCall::unasked(tool, call))),
        Verdict::Deny(vote) => return Err(refuse(vote, record.ballot)),
    };
    let runner = HookRunner::of_calls(engine);
    let hooked = ask_hooks(&runner, &engine.settings, tool, call, &reasons, record).await?;
    let (tool, call) = match hooked {
        ControlFlow::Break(permitted) => return Ok(Decision::Allow(permitted)),
        ControlFlow::Continue(unanswered) => unanswered,
    };
    let asking = (&engine.judges, &engine.settings, &engine.stop);
    let (tool, call) = match ask_program(asking, tool, call, &reasons, record).await? {
        ControlFlow::Break(permitted) => return Ok(Decision::Allow(permitted)),
        ControlFlow::Continue(unanswered) => unanswered,
    };
    if let Some(used) = ask::used_before(&*engine.ledger, &tool, &call, record).await? {
        return permit(&engine.judges, tool, call, used, record).await;
    }
    // What the run did so far must be on disk before something that may take days.
    record.subject.settle_run().await?;
    let until = call.approval_wait.map(|wait| Instant::now() + wait);
    let mut question = question(engine, &tool, &call, reasons, record).await?;
    loop {
        question.approval.created_at = engine.clock.now();
        let asked = engine.ledger.ask(question.clone().into()).await.map_err(unavailable)?;
        let approval = match asked {
            Asked::New(approval) => {
                engine.questions.feed.nudge();
                approval
            }
            Asked::Standing(approval) => approval,
            // The call that used it up did nothing and gave the key back.
            Asked::Approved(used) if used.state == ApprovalState::Used && !question.insist => {
                if let Some(used) = ask::used_before(&*engine.ledger, &tool, &call, record).await? {
                    return permit(&engine.judges, tool, call, used, record).await;
                }
                question.insist = true;
                continue;
            }
            Asked::Approved(approval) => {
                return permit(&engine.judges, tool, call, approval, record).await;
            }
            Asked::Denied(approval) | Asked::Expired(approval) => return Err(no(&approval, record)),
            Asked::TooMany => return Err(ask::too_many(engine.settings.approvals.pending_max)),
            Asked::ShareUsed => return Err(ask::share_used(engine.settings.approvals.pending_share)),
        };
        let waits = |until: &Instant| Instant::now() < *until && !engine.stop.has_begun();
        let Some(until) = until.filter(waits) else {
            return Ok(Decision::Ask(pending(&approval)));
        };
        // A person who is to be asked once more has been.
        question.insist = false;
        let (call_id, approval_id) = (record.subject.call_id(), approval.id);
        let told = || EventKind::Pending { call_id, tool: tool.name().clone(), approval_id };
        engine.registry.bus().publish_of(&call.caller, told);
        let (feed, token) = (&engine.questions.feed, call.cancellation.as_ref());
        feed.until_decided(approval.id, until, token, &engine.stop).await.map_err(unavailable)?;
        if call.cancellation.as_ref().is_some_and(|token| token.is_cancelled()) {
            return Err(ask::taken_back(&approval));
        }
        // A caller that withdrew the question does not want it put again.
        let now = engine.ledger.approval(approval.id).await.map_err(unavailable)?;
        if let Some(withdrawn) = now.filter(|now| now.state == ApprovalState::Withdrawn) {
            return Err(no(&withdrawn, record));
        }
    }
}

/// A call that is made because it was approved uses that approval up, whether or not it would still need
/// one: else it could be made as often as a caller comes back for it. Nobody is asked anew.
async fn use_up(
    judges: &Judges,
    ledger: &dyn Ledger,
    clock: &dyn Clock,
    tool: Tool,
    call: Box<Call>,
    id: ApprovalId,
    record: &mut BeforeWork<'_, '_>,
) -> Result<Decision, ToolError> {
    let found = ledger.approval(id).await.map_err(unavailable)?;
    let Some(mut approval) = found else {
        return Err(ToolError::new(ErrorCode::ApprovalDenied, format!("there is no approval {id}")));
    };
    approval.state = approval.state_at(clock.now());
    if approval.state != ApprovalState::Approved {
        return Err(no(&approval, record));
    }
    if approval.binding != binding(&tool, &call, record.subject.part()) {
        let is_same_tool = approval.digest == *tool.digest();
        let what = if is_same_tool { "its caller, or what they may use," } else { "the tool" };
        let message = format!("this call of `{}` is not as it was approved: {what} has changed", tool.name());
        return Err(ToolError::new(ErrorCode::ApprovalStale, message)
            .suggest("make the call again; a person is asked about it as it is now"));
    }
    permit(judges, tool, call, approval, record).await
}

/// Lets hooks answer in place of a person, where they want to.
async fn ask_hooks(
    runner: &HookRunner<'_>,
    settings: &Settings,
    tool: Tool,
    mut call: Box<Call>,
    reasons: &Reasons,
    record: &mut BeforeWork<'_, '_>,
) -> Result<ControlFlow<PermittedCall, (Tool, Box<Call>)>, ToolError> {
    let suggestions = suggestions(&tool, reasons.asks_each_time());
    let suggestions = suggestions.iter().filter_map(|update| serde_json::to_value(update).ok()).collect();
    match hooks_before::permission_request(runner, settings, &tool, &call, suggestions, record).await? {
        None => Ok(ControlFlow::Continue((tool, call))),
        Some(PermissionAnswer::Deny { message, interrupt }) => {
            let error = hooks_before::no(&tool, message.as_deref().unwrap_or("a hook gave no reason"));
            Err(match interrupt {
                Some(true) => error.suggest("stop here, and tell the user why"),
                Some(false) | None => error,
            })
        }
        Some(PermissionAnswer::Allow { updated_input, updated_permissions }) => {
            if let Some(input) = updated_input {
                call.arguments = Value::Object(input);
            }
            let judges = runner.judges();
            still_allowed(judges, &tool, &call, record.subject, record.ballot).await?;
            judges.apply(&call.caller, &updated_permissions.unwrap_or_default()).await?;
            Ok(ControlFlow::Break(PermittedCall::unasked(tool, call)))
        }
    }
}

/// Lets the program around Helve answer, where it wants to.
async fn ask_program(
    (judges, settings, stop): (&Judges, &Settings, &Stop),
    tool: Tool,
    mut call: Box<Call>,
    reasons: &Reasons,
    record: &mut BeforeWork<'_, '_>,
) -> Result<ControlFlow<PermittedCall, (Tool, Box<Call>)>, ToolError> {
    let Some(program) = &judges.permissions.can_use_tool else {
        return Ok(ControlFlow::Continue((tool, call)));
    };
    let suggestions = suggestions(&tool, reasons.asks_each_time());
    let call_id = record.subject.call_id().to_string();
    let question = PermissionQuestion::new(&tool, &call, call_id, &reasons.all(), suggestions);
    let asked = program.can_use_tool(Arc::new(question));
    let answer = tokio::select! {
        // In its own task: code that panics must not end the call.
        answer = tokio::time::timeout(PROGRAM_TIMEOUT, tokio::spawn(asked)) => answer,
        () = cancelled(&call) => return Err(ToolError::new(ErrorCode::Cancelled, "the call was taken back")),
        by = stop.over() => return Err(stop::refused(&by)),
    };
    // A program that breaks denies.
    let answer = match answer {
        Ok(Ok(Ok(answer))) => answer,
        Ok(Ok(Err(why))) => return Err(refuse(program_denies(format!("it failed: {why}")), record.ballot)),
        Ok(Err(_panicked)) => return Err(refuse(program_denies("it broke"), record.ballot)),
        Err(_late) => return Err(refuse(program_denies("it did not answer in time"), record.ballot)),
    };
    match answer {
        None => Ok(ControlFlow::Continue((tool, call))),
        Some(PermissionResult::Deny { message, .. }) => Err(refuse(program_denies(message), record.ballot)),
        Some(PermissionResult::Allow { updated_input, updated_permissions, .. }) => {
            if let Some(mut input) = updated_input.filter(|input| *input != call.arguments) {
                fit(settings, &tool, &mut input)?;
                call.arguments = input;
                record.arguments.change("the program that was asked", &call.arguments);
            }
            let (updates, bounded) = program.lasting().bound(updated_permissions.unwrap_or_default());
            let vote = Vote::new(VoteSource::Program, Stance::Allow);
            record.ballot.add(match bounded {
                Some(remark) => vote.because(remark),
                None => vote,
            });
            still_allowed(judges, &tool, &call, record.subject, record.ballot).await?;
            judges.apply(&call.caller, &updates).await?;
            Ok(ControlFlow::Break(PermittedCall::unasked(tool, call)))
        }
    }
}

fn program_denies(why: impl Into<String>) -> Vote {
    Vote::new(VoteSource::Program, Stance::Deny).because(why)
}

async fn cancelled(call: &Call) {
    match &call.cancellation {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

/// A person has approved the call, perhaps with other arguments, and perhaps long after everybody was
/// heard. Who is refused now leaves the approval as it is: only a start uses it up.
async fn permit(
    judges: &Judges,
    tool: Tool,
    call: Box<Call>,
    approval: Approval,
    record: &mut BeforeWork<'_, '_>,
) -> Result<Decision, ToolError> {
    let permitted = permitted_by(tool, call, approval, record);
    still_allowed(judges, &permitted.tool, &permitted.call, record.subject, record.ballot).await?;
    Ok(Decision::Allow(permitted))
}

fn permitted_by(
    tool: Tool,
    mut call: Box<Call>,
    approval: Approval,
    record: &mut BeforeWork<'_, '_>,
) -> PermittedCall {
    record.ballot.add(Vote::named(VoteSource::Person, format!("approval {}", approval.id), Stance::Allow));
    let (asked, fingerprint) = (approval.binding, approval.fingerprint);
    let edited: Option<Value> = approval.ruling.and_then(|ruling| ruling.edited).map(|edited| parse(&edited));
    let Some(edited) = edited else {
        let grant = Grant { approval_id: approval.id, binding: asked, asked: None, fingerprint };
        return PermittedCall::by(grant, tool, call);
    };
    call.arguments = edited;
    record.arguments.change("the person who approved the call", &call.arguments);
    // Made anew from what will run, and compared with what was approved when it is used up.
    let binding = binding(&tool, &call, record.subject.part());
    let grant = Grant { approval_id: approval.id, binding, asked: Some(asked), fingerprint };
    PermittedCall::by(grant, tool, call)
}

/// A call does not run because of how its question ended, which its record tells as it tells every other no.
fn no(approval: &Approval, record: &mut BeforeWork<'_, '_>) -> ToolError {
    *record.refused_by = Some(approval.id);
    let error = denied(approval);
    match error.code() {
        // Nobody said no: the question was taken back.
        ErrorCode::Cancelled => {}
        _ => {
            let by = format!("approval {}", approval.id);
            record.ballot.add(Vote::named(VoteSource::Person, by, Stance::Deny));
        }
    }
    error
}

/// Why a question was answered with no.
pub(crate) fn denied(approval: &Approval) -> ToolError {
    let ruling = approval.ruling.as_ref();
    let by = ruling.map(|ruling| format!(" by {}", ruling.by)).unwrap_or_default();
    let why = ruling.and_then(|ruling| ruling.reason.as_deref());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let tool = &approval.tool;
    match approval.state {
        ApprovalState::Expired => {
            let message = match ruling {
                // What was denied stays so: only an approval runs out.
                Some(_) => format!(
                    "this call of `{tool}` was approved{by}, but not made in time, and the approval has run out ({})",
                    approval.id
                ),
                None => format!("no person approved this call of `{tool}` in time ({})", approval.id),
            };
            ToolError::new(ErrorCode::ApprovalExpired, message)
                .suggest("ask the user whether it is still wanted; calling again asks anew")
        }
        ApprovalState::Withdrawn => {
            ToolError::new(ErrorCode::Cancelled, format!("the question {} was taken back{why}", approval.id))
        }
        ApprovalState::Used => {
            let message = format!("the approval {} of this call of `{tool}` was used already", approval.id);
            ToolError::new(ErrorCode::ApprovalDenied, message)
                .suggest("call again only if it is meant to happen once more; a person is then asked again")
        }
        ApprovalState::Pending | ApprovalState::Approved | ApprovalState::Denied => {
            let message = format!("this call of `{tool}` was denied{by}{why}");
            ToolError::new(ErrorCode::ApprovalDenied, message)
                .suggest("do not repeat it; do what the reason says, or ask the user what they want instead")
        }
    }
}
