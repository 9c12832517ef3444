//! Words for what happens in a run, the same wherever it is told.

use helve::ApprovalState;
use helve::record::RawJson;
use helve::run::{EffectState, Finding, PartState, StepKind, WaitingFor};
use serde_json::Value;

use crate::ui::table::Tone;
use crate::ui::{escape, json};

/// A sign and words for what became of a part.
pub(crate) fn part(state: PartState) -> (&'static str, &'static str, Tone) {
    match state {
        PartState::Running => ("…", "has not ended", Tone::Warn),
        PartState::Done => ("✓", "done, and stands", Tone::Good),
        PartState::Failed => ("✗", "failed", Tone::Bad),
        PartState::Cancelled => ("✗", "stopped", Tone::Bad),
        PartState::Waiting => ("?", "waits for approval", Tone::Warn),
        PartState::Unknown => ("?", "nobody knows whether it had its effect", Tone::Warn),
        PartState::Undone => ("↶", "done, and undone", Tone::Plain),
        PartState::UndoFailed => ("!", "done, could not be undone, and stands", Tone::Bad),
    }
}

/// A sign and words for what became of an effect.
pub(crate) fn effect(state: EffectState) -> (&'static str, &'static str, Tone) {
    match state {
        EffectState::Applied => ("✓", "applied", Tone::Good),
        EffectState::Skipped => ("·", "not due", Tone::Dim),
        EffectState::Failed => ("✗", "could not be applied", Tone::Bad),
        EffectState::RolledBack => ("↶", "applied, and taken back", Tone::Plain),
        EffectState::RollbackFailed => ("!", "applied, could not be taken back, and stands", Tone::Bad),
        EffectState::NotReached => ("·", "not reached", Tone::Dim),
    }
}

/// A sign and words for a step. `effect` is how an effect is called.
pub(crate) fn step(kind: &StepKind, effect: impl Fn(u32) -> String) -> (&'static str, String, Tone) {
    match kind {
        StepKind::Attempted { number, code } => {
            ("↻", format!("attempt {number} failed with {code}, and another follows"), Tone::Dim)
        }
        StepKind::Executed { .. } => ("·", "answered; its effects come next".to_owned(), Tone::Dim),
        StepKind::EffectApplied { index } => ("✓", format!("{} applied", effect(*index)), Tone::Good),
        StepKind::EffectSkipped { index } => ("·", format!("{} not due", effect(*index)), Tone::Dim),
        StepKind::EffectFailed { index, code } => {
            ("✗", format!("{} failed with {code}", effect(*index)), Tone::Bad)
        }
        StepKind::EffectRolledBack { index } => ("↶", format!("{} taken back", effect(*index)), Tone::Plain),
        StepKind::RollbackFailed { index } => {
            ("!", format!("{} could not be taken back, and stands", effect(*index)), Tone::Bad)
        }
        StepKind::UndoStarted => ("↶", "being undone".to_owned(), Tone::Dim),
        StepKind::Undone => ("↶", "undone".to_owned(), Tone::Plain),
        StepKind::UndoFailed { code } => {
            ("!", format!("could not be undone ({code}), and stands"), Tone::Bad)
        }
        StepKind::Resumed => ("▶", "resumed".to_owned(), Tone::Strong),
        StepKind::Waiting { reason, approval_id } => {
            let approval = approval_id.map(|id| format!(" {id}")).unwrap_or_default();
            ("?", format!("waits for {}{approval}", waiting(*reason)), Tone::Warn)
        }
        StepKind::Settled { answer, by } => {
            let by =
                by.as_ref().map(|by| format!(", says {}", escape::one_line(by, 100))).unwrap_or_default();
            let answer = match answer {
                Finding::Happened => "it did happen",
                Finding::DidNotHappen => "it did not happen",
            };
            ("·", format!("found out: {answer}{by}"), Tone::Strong)
        }
        StepKind::Asked { approval_id } => ("?", format!("a person is asked ({approval_id})"), Tone::Warn),
        StepKind::Decided { approval_id, decision, by } => {
            let by = by.as_ref().map(|by| format!(" by {}", escape::one_line(by, 100))).unwrap_or_default();
            let (sign, tone) = match decision {
                ApprovalState::Approved | ApprovalState::Used => ("✓", Tone::Good),
                ApprovalState::Denied => ("✗", Tone::Bad),
                ApprovalState::Pending | ApprovalState::Expired | ApprovalState::Withdrawn => {
                    ("·", Tone::Warn)
                }
            };
            (sign, format!("{decision}{by} ({approval_id})"), tone)
        }
        StepKind::Labelled { labels } => {
            let labels: Vec<_> = labels.iter().map(|label| label.as_str()).collect();
            ("·", format!("the session now holds what is {}", labels.join(" and ")), Tone::Dim)
        }
        StepKind::RuleUsed { rule_id } => {
            ("·", format!("nobody is asked: allowed for the session ({rule_id})"), Tone::Dim)
        }
        StepKind::RuleRevoked { rule_id, by } => {
            ("·", format!("{rule_id} was taken back by {}", escape::one_line(by, 100)), Tone::Dim)
        }
        StepKind::Told => ("·", "the caller was told how it ended".to_owned(), Tone::Dim),
        StepKind::RollingBack => ("↶", "rolled back after a crash".to_owned(), Tone::Warn),
        StepKind::CancelRequested => ("■", "a stop was requested".to_owned(), Tone::Warn),
        StepKind::Stopped { by } => {
            let by = escape::one_line(by, 100);
            ("■", format!("left as it is: {by} stopped the process; the next one goes on"), Tone::Warn)
        }
    }
}

/// Why a person is asked, or what they said.
pub(crate) fn said(kind: &StepKind, payload: Option<&RawJson>) -> Option<String> {
    let payload: Value = serde_json::from_str(payload?.get()).ok()?;
    let text = match kind {
        StepKind::Asked { .. } => {
            let reasons = payload["reasons"].as_array()?.iter().filter_map(Value::as_str);
            reasons.collect::<Vec<_>>().join("; ")
        }
        StepKind::Decided { .. } => {
            let reason = payload["reason"].as_str().map(str::to_owned);
            let edited = payload.get("edited").filter(|edited| !edited.is_null());
            let edited = edited.and_then(|edited| json::compact(edited).ok());
            let edited = edited.map(|edited| format!("with other arguments: {edited}"));
            reason.into_iter().chain(edited).collect::<Vec<_>>().join("; ")
        }
        _ => return None,
    };
    (!text.is_empty()).then(|| escape::one_line(&text, 400))
}

/// What a run waits for.
pub(crate) fn waiting(reason: WaitingFor) -> &'static str {
    match reason {
        WaitingFor::Approval => "approval",
        WaitingFor::UnknownOutcome => "a person who knows whether it had its effect",
        WaitingFor::Decision => "a decision",
        WaitingFor::Cancel => "an end, since it cannot go on",
    }
}
