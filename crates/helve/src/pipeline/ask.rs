//! A question to a person: what they need to know before they decide.

use std::sync::Arc;

use helve_core::approval::{Ask, Mark};
use helve_core::json::canonical;
use helve_core::record::RawJson;
use helve_core::{Approval, ApprovalId, Call, Context, ErrorCode, Label, LabelSet, Tool, ToolError};
use jiff::{SignedDuration, Timestamp};
use serde_json::value::RawValue;

use super::effects::guarded;
use super::judge::Reasons;
use super::record::BeforeWork;
pub(super) use crate::approvals::pending;
use crate::approvals::{binding, leads_outside};
use crate::runs::parse;
use crate::runtime::Engine;
use crate::sessions::{self, Fresh};

/// Longest preview, in bytes.
const PREVIEW_BYTES_MAX: usize = 64 << 10;

/// The question whether a call may run.
pub(super) async fn question(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &Call,
    reasons: Reasons,
    record: &BeforeWork<'_, '_>,
) -> Ask {
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
    approval.preview = preview(engine, tool, call, record).await;
    approval.reasons = reasons;
    approval.advice =
        call.advice.as_ref().map(|advice| record.arguments.scrubber().advice(advice).into_inner());
    approval.asks_each_time = asks_each_time;
    approval.risk = tool.definition().risk;
    approval.marks = marks(engine, tool, call).await;
    approval.part = record.subject.part().cloned();
    approval.outer = record.subject.part().and_then(|_| record.subject.run()?.outer().map(str::to_owned));
    approval.idempotency_key = call.idempotency_key.clone();
    approval.created_at = now;
    approval.expires_at = now.saturating_add(settings.ttl).unwrap_or(Timestamp::MAX);
    approval.binding = binding(tool, call, record.subject.part());
    Ask {
        approval,
        denied_for: SignedDuration::try_from(settings.denied_for).unwrap_or(SignedDuration::MAX),
        insist: call.asks_again,
        pending_max: settings.pending_max,
        pending_share: settings.pending_share,
    }
}

/// What a person should mind.
async fn marks(engine: &Engine, tool: &Tool, call: &Call) -> Vec<Mark> {
    let mut marks = Mark::of(tool.definition());
    let session = sessions::of(engine, &call.caller, Fresh::known()).await;
    // Where that cannot be read the call does not run anyway.
    let labels = session.ok().flatten().map_or(LabelSet::NONE, |session| session.labels());
    if labels.has(Label::Untrusted) {
        marks.push(Mark::UntrustedSession);
    }
    if leads_outside(&call.arguments, &engine.settings.approvals.own_domains) {
        marks.push(Mark::OutsideDomain);
    }
    marks
}

/// The same JSON in canonical form.
fn in_order(json: &RawJson) -> RawJson {
    RawValue::from_string(canonical(&parse(json))).unwrap_or_else(|_| json.clone())
}

/// What the tool says would happen. One that fails says that; it must not keep a person from
/// deciding.
async fn preview(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &Call,
    record: &BeforeWork<'_, '_>,
) -> Option<String> {
    let at_most = engine.settings.precondition_timeout;
    let deadline = std::time::Instant::now() + at_most;
    let context =
        Context::new(record.subject.call_id(), tool.name().clone(), Arc::clone(&call.caller), deadline);
    let (handler, arguments) = (Arc::clone(tool.handler()), call.arguments.clone());
    // All of it in a task of its own: code that panics must not end the call.
    let preview = Box::pin(async move {
        match handler.preview(&arguments, context) {
            Some(preview) => preview.await.map(Some),
            None => Ok(None),
        }
    });
    let text = match tokio::time::timeout(at_most, guarded(&engine.settings, preview)).await {
        Ok(Ok(text)) => text?,
        Ok(Err(error)) => format!("(no preview: {error})"),
        Err(_) => "(no preview: the tool took too long)".to_owned(),
    };
    let mut text = without(record, text);
    if text.len() > PREVIEW_BYTES_MAX {
        text.truncate(text.floor_char_boundary(PREVIEW_BYTES_MAX));
        text.push_str("\n… (cut)");
    }
    Some(text)
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
