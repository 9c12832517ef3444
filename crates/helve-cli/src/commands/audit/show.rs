//! `helve audit show`: everything recorded of one call.

use helve::record::{Attempt, GateRecord, HandlerEnd, RawJson, VoteRecord};
use helve::run::StepKind;
use helve::{ApprovalId, Caller};
use helve_host::wire::Trail;
use helve_store::{CallRecord, Shown};
use serde::Serialize;

use super::list;
use crate::app::App;
use crate::commands::runs::words;
use crate::commands::when;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, Ui, escape, json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The call's id, or enough of its beginning
    id: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let audit = super::open(app)?;
    let shown = audit.show(&args.id).map_err(|error| match error {
        error if error.is_not_an_id() => Failure::usage(error.to_string()),
        other => super::unreadable(&other),
    })?;
    let call = match shown {
        Shown::Call(call) => call,
        Shown::Ambiguous(ids) => {
            return Err(Failure::usage(format!("several calls have ids that begin with `{}`", args.id))
                .details(ids.iter().map(ToString::to_string))
                .into());
        }
        Shown::Nothing => {
            return Err(Failure::usage(format!("no call has an id that begins with `{}`", args.id))
                .hint("`helve audit list` shows the latest")
                .into());
        }
    };
    let decided_by = decided_by(&audit, &call);
    if app.ui.is_json() {
        app.ui.json(&Document { call: &call, decided_by: decided_by.as_deref() })?;
    } else {
        print(&call, decided_by.as_deref(), app.ui)?;
    }
    Ok(Exit::Done)
}

/// The record, and the person who decided whether the call may run.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    call: &'a CallRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<&'a str>,
}

/// Who decided about a call. The question may have been put by an earlier call, which waited: its own steps
/// tell then.
fn decided_by(audit: &Trail, call: &CallRecord) -> Option<String> {
    let told = call.steps.iter().rev().find_map(|step| match &step.kind {
        StepKind::Decided { by, .. } => by.clone(),
        _ => None,
    });
    let question = call.approval_used.or(call.ending.as_ref().and_then(|ending| ending.approval_id));
    // A question that was forgotten, or a file that is damaged, does not keep the rest from being shown.
    let by_question = |id: ApprovalId| Some(audit.approval(id).ok()??.ruling?.by);
    let gate =
        || call.ending.as_ref()?.gate.as_ref()?.by.iter().find_map(|by| by_vote(audit, by, by_question));
    told.or_else(|| by_question(question?)).or_else(gate)
}

/// Who is behind what the gate went by: `approval apr_…`, or a rule that somebody made of one. Calls that only read
/// have no start that says which approval they used.
fn by_vote(audit: &Trail, by: &str, by_question: impl Fn(ApprovalId) -> Option<String>) -> Option<String> {
    match by.strip_prefix("approval rule ") {
        Some(rule) => {
            let rule = audit.approval_rule(rule.parse().ok()?).ok()??;
            Some(format!("{}, by the rule {} of {}", rule.by, rule.id, when::shown(rule.made_at)))
        }
        None => by_question(by.strip_prefix("approval ")?.parse().ok()?),
    }
}

/// Who called, in one line.
pub(crate) fn caller(caller: &Caller) -> String {
    let mut parts = vec![caller.principal.clone().unwrap_or_else(|| "nobody".to_owned())];
    parts.extend(caller.agent.as_ref().map(|agent| format!("agent {agent}")));
    parts.extend(caller.session.as_ref().map(|session| format!("session {session}")));
    parts.join(", ")
}

fn print(call: &CallRecord, decided_by: Option<&str>, ui: &mut Ui) -> anyhow::Result<()> {
    ui.heading(&call.facts.call_id.to_string())?;
    ui.table(facts(call, decided_by))?;
    let payload = &call.payload;
    section("Arguments", payload.arguments.as_ref(), ui)?;
    if let Some(cut) = &payload.cut {
        ui.line("")?;
        ui.heading("Arguments, too long to be kept")?;
        ui.line(format!("  {}…", escape::one_line(&cut.head, cut.head.len())))?;
        ui.line(format!("  {} bytes, sha256 {}", cut.bytes, cut.sha256))?;
    }
    if !payload.repairs.is_empty() {
        ui.line("")?;
        ui.heading("Repairs")?;
        for repair in &payload.repairs {
            let path = if repair.path.is_empty() { "the arguments" } else { &repair.path };
            ui.line(format!("  {}: {}", escape::one_line(path, 200), escape::one_line(&repair.detail, 300)))?;
        }
    }
    section("Result", payload.result.as_ref(), ui)?;
    if let Some(error) = &payload.error {
        ui.line("")?;
        ui.heading("Error")?;
        ui.line(format!("  {}", escape::visible(error.message()).replace('\n', "\n  ")))?;
        for field in error.field_errors() {
            ui.line(format!("  {}", escape::one_line(&field.message, 400)))?;
        }
    }
    Ok(())
}

fn facts(call: &CallRecord, decided_by: Option<&str>) -> Table {
    let mut table = Table::bare().indented();
    let mut fact = |name: &str, value: Cell| table.row([Cell::new(name, Tone::Dim), value]);
    fact("tool", Cell::new(&call.facts.tool, Tone::Strong));
    fact("status", list::status_cell(call));
    fact("caller", caller(&call.facts.caller).into());
    fact("received", when::shown(call.facts.received_at).into());
    let mut optional = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            fact(name, value.into());
        }
    };
    optional("damaged", call.damaged.clone());
    optional("started", call.started_at.map(when::shown));
    optional("finished", call.finished_at.map(when::shown));
    optional("risk", call.facts.risk.map(|risk| risk.to_string()));
    optional("changes things", Some(if call.facts.changes_world { "may" } else { "no" }.to_owned()));
    optional("decided by", decided_by.map(str::to_owned));
    optional("approval used", call.approval_used.map(|id| id.to_string()));
    optional("part", call.facts.part.as_ref().map(|part| format!("`{}` of the run {}", part.path, part.run)));
    optional("undoes", call.facts.undo_of.map(|run| run.to_string()));
    optional("correlation", call.facts.correlation_id.clone());
    optional("idempotency key", call.facts.idempotency_key.as_ref().map(|key| key.to_string()));
    if let Some(ending) = &call.ending {
        optional("gate", ending.gate.as_ref().map(gate_line));
        for vote in call.payload.votes.iter().filter_map(vote_line) {
            optional("because", Some(vote));
        }
        optional(
            "the agent said",
            call.payload.advice.as_deref().map(|advice| escape::one_line(&advice.words(), 500)),
        );
        optional("cost", ending.cost.as_ref().map(|cost| cost.to_string()));
        // The status has the tool's own code, where there is one.
        optional("code", ending.code.map(|code| code.to_string()).filter(|_| ending.tool_code.is_some()));
        optional("failed in", ending.stage.map(|stage| stage.to_string()));
        optional("approval", ending.approval_id.map(|id| id.to_string()));
        optional("outcome of", ending.replay_of.map(|id| id.to_string()));
        let stages = ending.timings.iter().map(|(stage, nanos)| format!("{stage} {}", when::duration(nanos)));
        optional("timings", Some(stages.collect::<Vec<_>>().join(" · ")));
        for (index, attempt) in ending.attempts.iter().enumerate() {
            optional("attempt", Some(format!("{}: {}", index + 1, attempt_line(attempt))));
        }
        optional("result bytes", ending.result_bytes.map(|bytes| bytes.to_string()));
        let attached = call.payload.attached.as_ref();
        optional("attached", attached.map(|one| format!("{} bytes, sha256 {}", one.bytes, one.sha256)));
    }
    for step in &call.steps {
        let effect = |index: u32| effect(call, index);
        let (_, what, _) = words::step(&step.kind, effect);
        let said = words::said(&step.kind, step.payload.as_ref());
        let said = said.map(|said| format!(": {said}")).unwrap_or_default();
        optional("step", Some(format!("{what}{said}, {}", when::after(call.facts.received_at, step.at))));
    }
    optional("erased", call.erased_at.map(when::shown));
    for link in &call.chain {
        optional("chain", Some(format!("{}:{}", link.seq, link.hash)));
    }
    table
}

fn gate_line(gate: &GateRecord) -> String {
    let by: Vec<_> = gate.by.iter().map(|by| escape::one_line(by, 200)).collect();
    match by.is_empty() {
        true => gate.said.to_string(),
        false => format!("{}, by {}", gate.said, by.join(" and ")),
    }
}

pub(super) fn vote_line(vote: &VoteRecord) -> Option<String> {
    let reason = vote.reason.as_ref()?;
    Some(format!("{}: {}", escape::one_line(&vote.by, 200), escape::one_line(reason, 600)))
}

fn effect(call: &CallRecord, index: u32) -> String {
    let effects = call.ending.as_ref().map_or(&[][..], |ending| &ending.effects);
    match usize::try_from(index).ok().and_then(|index| effects.get(index)) {
        Some(effect) => format!("effect `{}`", effect.description),
        None => format!("effect {}", index + 1),
    }
}

fn attempt_line(attempt: &Attempt) -> String {
    let end = match attempt.handler {
        HandlerEnd::Returned => "returned",
        HandlerEnd::Panicked => "panicked",
        HandlerEnd::Stopped => "was stopped",
        HandlerEnd::Abandoned => "was left behind and may still be running",
    };
    let code = attempt.code.map(|code| format!(" with {code}")).unwrap_or_default();
    format!("{end}{code} after {}", when::duration(attempt.duration_us.saturating_mul(1_000)))
}

fn section(title: &str, value: Option<&RawJson>, ui: &mut Ui) -> anyhow::Result<()> {
    let Some(value) = value else { return Ok(()) };
    let value: serde_json::Value = serde_json::from_str(value.get())?;
    ui.line("")?;
    ui.heading(title)?;
    for line in json::pretty(&value)?.lines() {
        ui.line(format!("  {line}"))?;
    }
    Ok(())
}
