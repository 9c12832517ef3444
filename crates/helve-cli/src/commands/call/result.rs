//! How a call ended, for a person or a program.

use std::path::Path;

use anyhow::Context as _;
use helve::{ErrorCode, Outcome, Pending, Status, ToolError};
use serde_json::Value;

use crate::ui::{Ui, escape, json};

pub(super) fn print(outcome: &Outcome, out: Option<&Path>, ui: &mut Ui) -> anyhow::Result<()> {
    if let (Some(path), Status::Done(output)) = (out, &outcome.status) {
        let text = shown(&output.value)? + "\n";
        std::fs::write(path, text)
            .with_context(|| format!("the result cannot be written to {}", path.display()))?;
    }
    if ui.is_json() {
        ui.json(outcome)?;
        return Ok(());
    }
    for repair in &outcome.repairs {
        ui.note(format!("mended {}: {}", repair.path, escape::one_line(&repair.detail, 200)))?;
    }
    match &outcome.status {
        Status::Done(output) => {
            match out {
                Some(path) => ui.note(format!("wrote {}", path.display()))?,
                None => ui.line(shown(&output.value)?)?,
            }
            if output.is_failure {
                ui.note("the tool failed and returned its failure as the result")?;
            }
        }
        Status::Failed(error) => print_error(error, outcome, ui)?,
        Status::Pending(pending) => print_pending(pending, ui)?,
    }
    footer(outcome, ui)?;
    Ok(())
}

/// Text as it is, anything else as indented JSON.
fn shown(value: &Value) -> serde_json::Result<String> {
    match value {
        Value::String(text) => Ok(escape::visible(text).into_owned()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            json::pretty(value)
        }
    }
}

fn print_error(error: &ToolError, outcome: &Outcome, ui: &mut Ui) -> anyhow::Result<()> {
    let paint = ui.error_paint();
    ui.error_line(format!(
        "{} {}",
        paint.bad(format!("{}:", error.code())),
        escape::visible(error.message())
    ))?;
    // One that stands in the message already would be said twice.
    for field in error.field_errors().iter().filter(|field| !error.message().contains(&field.message)) {
        ui.error_line(format!("  {}", escape::one_line(&field.message, 400)))?;
    }
    if let Some(example) = error.example() {
        let text = json::compact(example)?;
        ui.error_line(format!("{} helve call {} '{text}'", paint.accent("for example:"), outcome.tool))?;
    }
    let hints = match next_step(error.code(), &outcome.tool) {
        Some(step) => vec![step],
        None => error.suggestions().iter().map(|line| escape::one_line(line, 400)).collect(),
    };
    for hint in hints {
        ui.error_line(format!("{} {hint}", paint.accent("hint:")))?;
    }
    Ok(())
}

/// What a person at a command line does next, where that differs from what a model would do.
fn next_step(code: ErrorCode, tool: &str) -> Option<String> {
    match code {
        ErrorCode::ValidationFailed => Some(format!("`helve tools show {tool}` lists its parameters")),
        ErrorCode::JournalUnavailable => Some("`helve doctor` finds out what is wrong".to_owned()),
        ErrorCode::ToolNotFound => Some("`helve tools list` shows every tool".to_owned()),
        ErrorCode::Timeout => {
            Some("`timeout_ms` of the tool, or `execution.default_timeout_ms`, allows more".to_owned())
        }
        ErrorCode::NotAuthorized
        | ErrorCode::HookDenied
        | ErrorCode::IntegrationMissing
        | ErrorCode::PreconditionFailed
        | ErrorCode::ApprovalDenied
        | ErrorCode::ApprovalExpired
        | ErrorCode::PermissionDenied
        | ErrorCode::Cancelled
        | ErrorCode::RateLimit
        | ErrorCode::Network
        | ErrorCode::ServerError
        | ErrorCode::Lock
        | ErrorCode::ExecutionFailed
        | ErrorCode::SandboxViolation
        | ErrorCode::OutputInvalid
        | ErrorCode::OutputTooLarge
        | ErrorCode::EffectFailed
        | ErrorCode::NoBranchMatched
        | ErrorCode::McpConnection
        | ErrorCode::MaxRetriesExceeded
        | ErrorCode::OutcomeUnknown
        | ErrorCode::Internal => None,
    }
}

fn print_pending(pending: &Pending, ui: &mut Ui) -> anyhow::Result<()> {
    let paint = ui.error_paint();
    ui.error_line(format!("{} a person must approve this call first", paint.warn("waiting:")))?;
    for reason in &pending.reasons {
        ui.error_line(format!("  {}", escape::one_line(reason, 400)))?;
    }
    ui.error_line(format!("  approval {}", pending.approval_id))?;
    Ok(())
}

fn footer(outcome: &Outcome, ui: &mut Ui) -> anyhow::Result<()> {
    if !ui.on_terminal() {
        return Ok(());
    }
    let ms = outcome.duration_us as f64 / 1_000.0;
    let replay = outcome.replay_of.map(|id| format!(" · stored outcome of {id}")).unwrap_or_default();
    ui.note(format!(
        "\n{} · {ms:.1} ms{replay} · helve audit show {}",
        escape::one_line(&outcome.tool, 128),
        outcome.call_id
    ))?;
    Ok(())
}
