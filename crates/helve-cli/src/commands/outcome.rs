//! How a call ended, for a person or a program.

use std::path::PathBuf;

use anyhow::Context as _;
use helve::run::{EffectReport, EffectState, PartReport, PartState};
use helve::{ErrorCode, Outcome, Pending, Status, ToolError};
use serde_json::Value;

use crate::commands::runs::words;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, Ui, escape, json};

/// What the command line says about showing an outcome.
#[derive(Default)]
pub(crate) struct Show {
    /// Where the result goes instead of the screen.
    pub(crate) out: Option<PathBuf>,
    /// The time that this call was given, where that is less than the tool has.
    pub(crate) timeout_ms: Option<u64>,
    /// The MCP server that the tool is of.
    pub(crate) server: Option<String>,
}

pub(crate) fn print(outcome: &Outcome, show: &Show, ui: &mut Ui) -> anyhow::Result<()> {
    if let (Some(path), Status::Done(output)) = (&show.out, &outcome.status) {
        let text = shown(&output.value)? + "\n";
        std::fs::write(path, text)
            .with_context(|| format!("the result cannot be written to {}", path.display()))?;
    }
    if ui.is_json() {
        ui.json(outcome)?;
        return Ok(());
    }
    for repair in &outcome.repairs {
        // A repair of the whole has no path.
        let path = if repair.path.is_empty() { "the arguments" } else { &repair.path };
        ui.note(format!(
            "mended {}: {}",
            escape::one_line(path, 200),
            escape::one_line(&repair.detail, 200)
        ))?;
    }
    if let Some(earlier) = outcome.replay_of {
        ui.note(format!("the tool did not run again: this is the stored outcome of {earlier}"))?;
    }
    match &outcome.status {
        Status::Done(output) => {
            match &show.out {
                Some(path) => ui.note(format!("wrote {}", path.display()))?,
                None => ui.line(shown(&output.value)?)?,
            }
            if output.is_failure {
                ui.note(match output.value.get("error") {
                    None if !outcome.degraded.is_empty() => "not all of it worked",
                    _ => "the tool failed and returned its failure as the result",
                })?;
            }
        }
        Status::Failed(error) => print_error(error, outcome, show, ui)?,
        Status::Pending(pending) => print_pending(pending, outcome, ui)?,
    }
    details(outcome, ui)?;
    footer(outcome, ui)?;
    Ok(())
}

/// What a person should know in addition to the result: what stands, and what is less than it seems.
fn details(outcome: &Outcome, ui: &mut Ui) -> anyhow::Result<()> {
    for text in &outcome.messages {
        ui.note(format!("a hook says: {}", escape::one_line(text, 2_000)))?;
    }
    for condition in &outcome.degraded {
        ui.note(format!("did less: {}", escape::one_line(condition, 400)))?;
    }
    if let Some(cost) = &outcome.cost {
        ui.note(format!("cost: {cost}"))?;
    }
    // Effects of a success are as they should be.
    let unusual =
        |effect: &EffectReport| !matches!(effect.state, EffectState::Applied | EffectState::Skipped);
    if !outcome.is_success() || outcome.effects.iter().any(unusual) {
        print_effects(&outcome.effects, ui)?;
    }
    if !outcome.parts.is_empty() {
        print_parts(&outcome.parts, ui)?;
        let run = outcome.call_id;
        ui.error_line(format!(
            "{} `helve runs show {run}` shows what happened, and what to do next",
            ui.error_paint().accent("hint:")
        ))?;
    }
    Ok(())
}

/// What became of the parts of a run.
pub(crate) fn print_parts(parts: &[PartReport], ui: &mut Ui) -> anyhow::Result<()> {
    let mut table = Table::bare().indented();
    for part in parts.iter().filter(|part| !has_undone(part, parts)) {
        let (sign, said, tone) = words::part(part.state);
        table.row([
            Cell::new(format!("{sign} {}", part.path), tone),
            Cell::new(&part.tool, Tone::Strong),
            Cell::new(said, tone),
        ]);
    }
    ui.error_table(table)?;
    Ok(())
}

/// Whether a part was there to undo another one and did: then that one says so.
fn has_undone(part: &PartReport, parts: &[PartReport]) -> bool {
    let undone = part.path.strip_suffix("/undo").filter(|_| part.state == PartState::Done);
    undone.is_some_and(|path| {
        parts.iter().any(|other| *other.path == *path && other.state == PartState::Undone)
    })
}

fn print_effects(effects: &[EffectReport], ui: &mut Ui) -> anyhow::Result<()> {
    let mut table = Table::bare().indented();
    for effect in effects {
        let (sign, said, tone) = words::effect(effect.state);
        table.row([Cell::new(sign, tone), Cell::from(&effect.description), Cell::new(said, tone)]);
    }
    ui.error_table(table)?;
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

fn print_error(error: &ToolError, outcome: &Outcome, show: &Show, ui: &mut Ui) -> anyhow::Result<()> {
    let paint = ui.error_paint();
    ui.error_line(format!(
        "{} {}",
        paint.bad(format!("{}:", error.name())),
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
    if error.may_have_happened() {
        ui.error_line(format!(
            "{} it may have happened all the same; do not call again before you know",
            paint.warn("in doubt:")
        ))?;
    }
    for hint in hints(error, &outcome.tool, show) {
        ui.error_line(format!("{} {hint}", paint.accent("hint:")))?;
    }
    Ok(())
}

/// What the error suggests, then what a person at a command line can do.
fn hints(error: &ToolError, tool: &str, show: &Show) -> Vec<String> {
    let suggestions = error.suggestions().iter().filter_map(|line| for_person(line));
    let suggestions = suggestions.map(|line| escape::one_line(&line, 400));
    let next = next_step(error.code(), tool, show);
    // A server's own error has said so already.
    let is_said = |next: &String| {
        next.contains("timeout_s") && error.suggestions().iter().any(|said| said.contains("timeout_s"))
    };
    suggestions.chain(next.filter(|next| !is_said(next))).collect()
}

/// What a suggestion says to a person. It is written for a model, which is told what to tell its user; here the user
/// reads it.
fn for_person(suggestion: &str) -> Option<String> {
    const TOLD: [&str; 8] = [
        "tell the user to ",
        "tell the user that ",
        "tell the user: ",
        "tell the user, who can ",
        "tell the operator to ",
        "tell the operator: ",
        "tell the user",
        "tell the operator",
    ];
    /// For a program that calls again and again by itself.
    const FOR_MODELS: [&str; 4] =
        ["do not repeat ", "do what the reason says, ", "do something else, or ask", "ask the user whether "];
    let clauses = suggestion.split("; ").filter_map(|clause| {
        if FOR_MODELS.iter().any(|start| clause.starts_with(start))
            || clause == "stop here, and tell the user why"
        {
            return None;
        }
        let said = TOLD.iter().fold(clause.to_owned(), |text, told| text.replacen(told, "", 1));
        Some(said).filter(|said| !said.trim().is_empty())
    });
    let said = clauses.collect::<Vec<_>>().join("; ");
    (!said.is_empty()).then_some(said)
}

/// What a person at a command line can do besides what the error suggests.
fn next_step(code: ErrorCode, tool: &str, show: &Show) -> Option<String> {
    match code {
        ErrorCode::ValidationFailed => Some(format!("`helve tools show {tool}` lists its parameters")),
        ErrorCode::ToolNotFound => Some("`helve tools list` shows every tool".to_owned()),
        ErrorCode::Timeout => Some(match show.timeout_ms {
            Some(ms) => {
                format!("this call had at most {ms} ms (`--timeout-ms`); give it more, or leave that out")
            }
            None => match &show.server {
                Some(server) => format!(
                    "`timeout_s` and `timeout_total_s` in `[mcp.servers.{server}]`, up to \
                     `execution.max_timeout_ms`, allow more"
                ),
                None => "`timeout_ms` of the tool, or `execution.default_timeout_ms`, allows more".to_owned(),
            },
        }),
        ErrorCode::NotAuthorized
        | ErrorCode::HookDenied
        | ErrorCode::IntegrationMissing
        | ErrorCode::PreconditionFailed
        | ErrorCode::ApprovalDenied
        | ErrorCode::ApprovalExpired
        | ErrorCode::ApprovalStale
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
        | ErrorCode::OutcomeUnknown
        | ErrorCode::JournalUnavailable
        | ErrorCode::Stopping
        | ErrorCode::Internal => None,
    }
}

fn print_pending(pending: &Pending, outcome: &Outcome, ui: &mut Ui) -> anyhow::Result<()> {
    let paint = ui.error_paint();
    ui.error_line(format!("{} a person must approve this call first", paint.warn("waiting:")))?;
    for reason in &pending.reasons {
        ui.error_line(format!("  {}", escape::one_line(reason, 400)))?;
    }
    ui.error_line(format!("  approval {}", pending.approval_id))?;
    let (id, hint) = (pending.approval_id, paint.accent("hint:"));
    ui.error_line(format!("{hint} `helve approvals show {id}` shows what exactly would run"))?;
    ui.error_line(format!(
        "{hint} `helve approvals approve {id}` lets it run, `helve approvals deny {id}` does not"
    ))?;
    // A run says by itself how it goes on.
    if outcome.parts.is_empty() {
        ui.error_line(format!("{hint} then make the same call again; with `--wait` it goes on by itself"))?;
    }
    Ok(())
}

fn footer(outcome: &Outcome, ui: &mut Ui) -> anyhow::Result<()> {
    if !ui.on_terminal() {
        return Ok(());
    }
    let ms = outcome.duration_us as f64 / 1_000.0;
    ui.note(format!(
        "\n{} · {ms:.1} ms · helve audit show {}",
        escape::one_line(&outcome.tool, 128),
        outcome.call_id
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_suggests_is_always_shown() {
        let show = Show::default();
        let ran = "the tool did run; find out what it did before calling again";
        for code in ErrorCode::ALL {
            let error = ToolError::new(*code, "it failed").suggest(ran);
            assert_eq!(hints(&error, "x", &show).first().map(String::as_str), Some(ran), "{code}");
        }
    }

    #[test]
    fn a_person_is_not_told_what_a_model_should_tell_them() {
        for (for_model, said) in [
            (
                "tell the user to set `KEY` where Helve runs; it is needed",
                Some("set `KEY` where Helve runs; it is needed"),
            ),
            ("tell the user that the account may not do this", Some("the account may not do this")),
            (
                "tell the user, who can raise `cost` in `[[limits.calls]]`",
                Some("raise `cost` in `[[limits.calls]]`"),
            ),
            (
                "ask for less, or tell the operator to raise `memory_mb`",
                Some("ask for less, or raise `memory_mb`"),
            ),
            (
                "tell the operator; `helve doctor` says what is wrong",
                Some("`helve doctor` says what is wrong"),
            ),
            (
                "ask the user whether it is still wanted; calling again asks anew",
                Some("calling again asks anew"),
            ),
            ("do not repeat it; do what the reason says, or ask the user what they want instead", None),
            ("do not repeat it; tell the user", None),
            ("stop here, and tell the user why", None),
            ("check that the URL is valid", Some("check that the URL is valid")),
        ] {
            assert_eq!(for_person(for_model).as_deref(), said, "{for_model}");
        }
    }
}
