//! A question to a person: what they need to know before they decide.

use std::sync::Arc;
use std::time::Duration;

use helve_core::approval::{Ask, Mark};
use helve_core::json::canonical;
use helve_core::ports::Ledger;
use helve_core::record::RawJson;
use helve_core::{
    Approval, ApprovalId, ApprovalQuery, ApprovalState, Call, Context, ContextParts, ErrorCode, Label,
    LabelSet, Preview, Tool, ToolError,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::value::RawValue;

use super::effects::guarded;
use super::execute::{claim, key_conflict};
use super::judge::Reasons;
use super::record::{BeforeWork, unavailable};
pub(super) use crate::approvals::pending;
use crate::approvals::{binding, leads_outside};
use crate::runs::parse;
use crate::runtime::{Engine, Settings};
use crate::sessions::{Fresh, Sessions};

/// The question whether a call may run.
pub(super) async fn question(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &Call,
    reasons: Reasons,
    record: &BeforeWork<'_, '_>,
) -> Result<Ask, ToolError> {
    let preview = preview(engine, tool, call, record).await?;
    let (now, settings) = (engine.clock.now(), &engine.settings.approvals);
    let asks_each_time = reasons.asks_each_time();
    let mut reasons = reasons.all();
    // What an agent says of its call may repeat what it was given.
    reasons.iter_mut().for_each(|reason| *reason = without(record, std::mem::take(reason)));
    let (arguments, withheld) = record.arguments.shown();
    let mut approval = Approval::new(
        ApprovalId::new(now),
        tool.name().to_shared(),
        Arc::clone(tool.digest()),
        record.subject.call_id(),
    );
    approval.caller = Arc::clone(&call.caller);
    approval.arguments = arguments.map_or_else(|| RawJson::from(RawValue::NULL.to_owned()), in_order);
    approval.withheld = withheld;
    (approval.preview, approval.fingerprint) =
        preview.map(|shown| (Some(shown.text), shown.fingerprint)).unwrap_or_default();
    approval.reasons = reasons;
    approval.advice =
        call.advice.as_ref().map(|advice| record.arguments.scrubber().advice(advice).into_inner());
    approval.asks_each_time = asks_each_time;
    approval.risk = tool.definition().risk;
    approval.marks = marks(&engine.judges.sessions, &engine.settings.approvals.own_domains, tool, call).await;
    approval.part = record.subject.part().cloned();
    approval.outer = record.subject.part().and_then(|_| record.subject.run()?.outer().map(str::to_owned));
    approval.idempotency_key = call.idempotency_key.clone();
    approval.created_at = now;
    approval.expires_at = now.saturating_add(settings.ttl).unwrap_or(Timestamp::MAX);
    approval.binding = binding(tool, call, record.subject.part());
    Ok(Ask {
        approval,
        denied_for: SignedDuration::try_from(settings.denied_for).unwrap_or(SignedDuration::MAX),
        insist: call.asks_again,
        pending_max: settings.pending_max,
        pending_share: settings.pending_share,
    })
}

/// The approval that this call has used up already, under its idempotency key. What it would use may be gone since,
/// because of that very call, so nobody looks at it: the ledger answers with what became of the call. A call that did
/// nothing has given its key back, and what it used up is used up: a person is asked anew.
///
/// A key that belongs to another call is refused here already: a person need not decide about what cannot run.
pub(super) async fn used_before(
    ledger: &dyn Ledger,
    tool: &Tool,
    call: &Call,
    record: &BeforeWork<'_, '_>,
) -> Result<Option<Approval>, ToolError> {
    let Some(key) = &call.idempotency_key else { return Ok(None) };
    let holder = ledger.key_holder(claim(tool, call, key)).await.map_err(unavailable)?;
    let Some(holder) = holder else { return Ok(None) };
    let mut query = ApprovalQuery::default();
    (query.state, query.tool) = (Some(ApprovalState::Used), Some(tool.name().to_string()));
    query.principal.clone_from(&call.caller.principal);
    let used = ledger.approvals(query).await.map_err(unavailable)?;
    let binding = binding(tool, call, record.subject.part());
    let is_of_holder =
        |approval: &Approval| approval.binding == binding && approval.used_by == Some(holder.call_id);
    match used.into_iter().find(is_of_holder) {
        // Also where a person had edited the arguments, with which the key was claimed then.
        Some(approval) => Ok(Some(approval)),
        None if holder.same_arguments => Ok(None),
        None => Err(key_conflict(holder.call_id)),
    }
}

/// What a person should mind.
async fn marks(sessions: &Sessions, own_domains: &[String], tool: &Tool, call: &Call) -> Vec<Mark> {
    let mut marks = Mark::of(tool.definition());
    let session = sessions.of(&call.caller, Fresh::known()).await;
    // Where that cannot be read the call does not run anyway.
    let labels = session.ok().flatten().map_or(LabelSet::NONE, |session| session.labels());
    if labels.has(Label::Untrusted) {
        marks.push(Mark::UntrustedSession);
    }
    if leads_outside(&call.arguments, own_domains) {
        marks.push(Mark::OutsideDomain);
    }
    marks
}

/// The same JSON in canonical form.
fn in_order(json: &RawJson) -> RawJson {
    RawValue::from_string(canonical(&parse(json))).unwrap_or_else(|_| json.clone())
}

/// What the tool says would happen. Where it must say that and cannot, the call ends; any other tool that fails says
/// so, and must not keep a person from deciding.
async fn preview(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &Call,
    record: &BeforeWork<'_, '_>,
) -> Result<Option<Preview>, ToolError> {
    let made = match make_preview(engine, tool, call, record).await {
        Ok(Some(preview)) if !preview.has_plain_fingerprint() => Err(no_fingerprint(tool)),
        made => made,
    };
    let mut preview = match made {
        Ok(Some(preview)) => preview,
        Ok(None) => return Ok(None),
        Err(error) if tool.handler().needs_preview() => return Err(error.nothing_done()),
        Err(error) => Preview::new(format!("(no preview: {error})")),
    };
    preview.text = without(record, preview.text);
    if preview.text.len() > Preview::TEXT_BYTES_MAX {
        preview.text.truncate(preview.text.floor_char_boundary(Preview::TEXT_BYTES_MAX));
        preview.text.push_str("\n… (cut)");
    }
    Ok(Some(preview))
}

async fn make_preview(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &Call,
    record: &BeforeWork<'_, '_>,
) -> Result<Option<Preview>, ToolError> {
    let at_most = preview_timeout(&engine.settings, tool);
    let deadline = std::time::Instant::now() + at_most;
    let known =
        ContextParts::new(record.subject.call_id(), tool.name().clone(), Arc::clone(&call.caller), deadline);
    let context = Context::from(ContextParts {
        part: record.subject.part().cloned(),
        idempotency_key: call.idempotency_key.clone(),
        host: Some(Arc::clone(engine) as _),
        ..known
    });
    let (handler, arguments) = (Arc::clone(tool.handler()), call.arguments.clone());
    // All of it in its own task: code that panics must not end the call.
    let preview = Box::pin(async move {
        match handler.preview(&arguments, context) {
            Some(preview) => preview.await.map(Some),
            None => Ok(None),
        }
    });
    // The limit is out here, so `guarded` has none of its own: it makes a panic an error.
    let made = tokio::time::timeout(at_most, guarded(Duration::MAX, preview)).await;
    made.unwrap_or_else(|_late| Err(ToolError::new(ErrorCode::Timeout, "the tool took too long")))
}

/// How long a tool may take to show what it would do. One that must show it looks at all that the call would use, a file
/// on a slow server say, so it gets the time that it names for a call.
fn preview_timeout(settings: &Settings, tool: &Tool) -> Duration {
    let own = tool.definition().timeout_ms.filter(|_| tool.handler().needs_preview());
    let own = own.map_or(Duration::ZERO, Duration::from_millis).min(settings.timeout_max);
    settings.precondition_timeout.max(own)
}

fn no_fingerprint(tool: &Tool) -> ToolError {
    let most = Preview::FINGERPRINT_BYTES_MAX;
    ToolError::failed(format!(
        "the preview of `{}` has a fingerprint that is not 1 to {most} visible ASCII characters; this is a defect \
         in the tool",
        tool.name()
    ))
}

/// A text without the call's secrets.
fn without(record: &BeforeWork<'_, '_>, text: String) -> String {
    record.arguments.scrubber().text(text).into_inner()
}

pub(super) fn too_many(max: usize) -> ToolError {
    no_place(format!("{max} calls wait for approval already, and no more may"))
}

pub(super) fn share_used(share: usize) -> ToolError {
    no_place(format!("{share} calls of this caller wait for approval already, and no more may"))
}

fn no_place(message: String) -> ToolError {
    ToolError::new(ErrorCode::PermissionDenied, message)
        .suggest("tell the user that calls wait for approval; do not repeat this one meanwhile")
}

pub(super) fn taken_back(approval: &Approval) -> ToolError {
    let message = format!("the call was taken back while it waited for approval {}", approval.id);
    ToolError::new(ErrorCode::Cancelled, message)
        .suggest("the question stands: once it is approved, the same call runs")
}
