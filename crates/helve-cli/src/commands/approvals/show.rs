//! `helve approvals show`: one question, with all that a person needs to decide it.

use helve::record::RawJson;
use helve::{Approval, ApprovalState};
use helve_host::wire;
use helve_store::{AuditQuery, CallRecord};
use serde_json::Value;

use super::list::state_cell;
use super::{Desk, who};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::audit::status_cell;
use crate::commands::when;
use crate::exit::Exit;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, Ui, escape, json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The approval's id, or the beginning of it
    id: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let desk = Desk::needed(app)?;
    let approval = block_on(desk.find(&args.id))?;
    desk.ledger.close()?;
    if app.ui.is_json() {
        app.ui.json(&approval)?;
        return Ok(Exit::Done);
    }
    print(&approval, app.ui)?;
    let before = before(&approval, app)?;
    if !before.is_empty() {
        app.ui.line("")?;
        app.ui.heading("What the same caller did before")?;
        let mut table = Table::bare().indented();
        for call in before {
            let when = Cell::new(when::shown(call.facts.received_at), Tone::Dim);
            table.row([when, Cell::new(&*call.facts.tool, Tone::Strong), status_cell(&call)]);
        }
        app.ui.table(table)?;
    }
    Ok(Exit::Done)
}

/// The last calls of the same caller in the same session.
fn before(approval: &Approval, app: &mut App<'_>) -> anyhow::Result<Vec<CallRecord>> {
    const SHOWN_MAX: usize = 5;
    let mut query = AuditQuery::default();
    query.principal.clone_from(&approval.caller.principal);
    query.session.clone_from(&approval.caller.session);
    query.before = Some(approval.call_id);
    query.limit = SHOWN_MAX;
    Ok(wire::open_trail(&app.load_config()?)??.list(&query)?)
}

pub(super) fn print(approval: &Approval, ui: &mut Ui) -> anyhow::Result<()> {
    let paint = ui.paint();
    ui.line(format!("{} · {}", paint.bold(approval.id.to_string()), escape::one_line(&approval.tool, 128)))?;
    ui.line("")?;
    ui.table(facts(approval))?;
    section("Arguments", &approval.arguments, ui)?;
    if approval.withheld {
        ui.line(format!(
            "  {}",
            paint.warn("something secret is not shown; the approval is bound to it too")
        ))?;
    }
    if let Some(edited) = approval.ruling.as_ref().and_then(|ruling| ruling.edited.as_ref()) {
        section("Edited to", edited, ui)?;
    }
    if let Some(preview) = &approval.preview {
        ui.line("")?;
        ui.heading("What the tool says would happen")?;
        for line in super::preview::shown(preview, paint) {
            ui.line(format!("  {line}").trim_end())?;
        }
        if approval.fingerprint.is_some() {
            let held =
                "if this changes before the call runs, the call is refused and has to be asked about again";
            ui.line(format!("  {}", paint.dim(held)))?;
        }
    }
    let next = next(approval);
    if !next.is_empty() {
        ui.line("")?;
        ui.heading("Next")?;
        let mut table = Table::bare().indented();
        for (command, what) in next {
            table.row([Cell::to_copy(command, Tone::Strong), Cell::new(what, Tone::Dim)]);
        }
        ui.table(table)?;
    }
    Ok(())
}

fn facts(approval: &Approval) -> Table {
    let mut table = Table::bare().indented();
    let mut fact = |name: &str, value: Cell| table.row([Cell::new(name, Tone::Dim), value]);
    fact("state", state_cell(approval));
    fact("asked by", who(approval).into());
    fact("asked", when::shown(approval.created_at).into());
    fact("until", when::shown(approval.expires_at).into());
    for reason in &approval.reasons {
        fact("because", escape::one_line(reason, 400).into());
    }
    if let Some(advice) = &approval.advice {
        fact("the agent said", escape::one_line(&advice.words(), 500).into());
    }
    fact("risk", approval.risk.to_string().into());
    for mark in &approval.marks {
        fact("mind", Cell::new(mark.words(), Tone::Warn));
    }
    match &approval.part {
        Some(part) => fact("call", format!("step `{}` of the run {}", part.path, part.run).into()),
        None => fact("call", approval.call_id.to_string().into()),
    }
    if let Some(ruling) = &approval.ruling {
        fact("decided by", escape::one_line(&ruling.by, 200).into());
        fact("decided", when::shown(ruling.at).into());
        if let Some(reason) = &ruling.reason {
            fact("reason", escape::one_line(reason, 400).into());
        }
        if let Some(rule) = ruling.rule {
            fact("made the rule", rule.to_string().into());
        }
    }
    if let Some(call) = approval.used_by {
        fact("used by", call.to_string().into());
    }
    fact("tool digest", approval.digest.to_string().into());
    fact("binding", approval.binding.clone().into());
    table
}

fn section(title: &str, value: &RawJson, ui: &mut Ui) -> anyhow::Result<()> {
    let value: Value = serde_json::from_str(value.get())?;
    ui.line("")?;
    ui.heading(title)?;
    for line in json::pretty(&value)?.lines() {
        ui.line(format!("  {line}"))?;
    }
    Ok(())
}

/// What can be typed next.
fn next(approval: &Approval) -> Vec<(String, &'static str)> {
    let id = approval.id;
    let of = |verb: &str, flags: &str, what| (format!("helve approvals {verb} {id}{flags}"), what);
    match approval.state {
        ApprovalState::Pending => {
            let always = " --always";
            let what = "… and do not ask again in this session for the same arguments";
            [
                Some(of("approve", "", "let it run, once")),
                approval.can_be_edited().then(|| of("approve", " --edit JSON", "… with other arguments")),
                approval.can_be_remembered().then(|| of("approve", always, what)),
                Some(of("deny", " --reason TEXT", "do not let it run; the caller is told why")),
            ]
            .into_iter()
            .flatten()
            .collect()
        }
        ApprovalState::Approved => match &approval.part {
            Some(part) => vec![(format!("helve runs resume {}", part.run), "go on with the run")],
            None => Vec::new(),
        },
        ApprovalState::Used => approval
            .used_by
            .map(|call| vec![(format!("helve audit show {call}"), "what came of it")])
            .unwrap_or_default(),
        ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Withdrawn => Vec::new(),
    }
}
