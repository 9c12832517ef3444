//! `helve runs show`: what happened in one run, step by step, and what to do next.

use helve::record::Entry;
use helve::runs::Story;
use serde_json::{Value, json};

use super::next::{Next, Undoable, next};
use super::state::{self, State};
use crate::app::App;
use crate::blocking::block_on;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, Ui, escape};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run's id or that of one of its parts, or enough of its beginning
    id: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let (loaded, ledger) = super::open(app)?;
    let call = super::find(&ledger, &args.id)?;
    let run = call.facts.part.as_ref().map_or(call.facts.call_id, |part| part.run);
    let story = block_on(super::story(&ledger, run))?;
    ledger.close()?;
    if story.parts.is_empty() && !story.facts.changes_world {
        return Err(Failure::usage(format!("{run} is no run: it changes nothing and has no parts"))
            .hint(format!("`helve audit show {run}` shows everything recorded of it"))
            .into());
    }
    let next = next(&story, &Undoable::of(&loaded));
    if app.ui.is_json() {
        app.ui.json(&document(&story, &next))?;
    } else {
        print(&story, &next, app.ui)?;
    }
    Ok(Exit::Done)
}

fn print(story: &Story, next: &[Next], ui: &mut Ui) -> anyhow::Result<()> {
    let paint = ui.paint();
    let tool = escape::one_line(&story.facts.tool, 128);
    let state = state::tone(story.state).paint(paint, story.state.as_str());
    ui.line(format!("{} · {} · {state}", paint.bold(story.run), paint.accent(tool)))?;
    if let Some(undone) = story.facts.undo_of {
        ui.line(format!("undoes {undone}"))?;
    }
    ui.line("")?;
    ui.table(super::timeline::table(story))?;
    let question = question(story);
    if let Some(question) = &question {
        ui.line("")?;
        ui.line(escape::one_line(question, 400))?;
    }
    if story.state == State::PartlyUndone && next.is_empty() {
        ui.line("")?;
        ui.line("nothing here undoes what stands; take it back where it was done")?;
    }
    print_next(next, ui)
}

pub(super) fn print_next(next: &[Next], ui: &mut Ui) -> anyhow::Result<()> {
    if next.is_empty() {
        return Ok(());
    }
    ui.line("")?;
    ui.heading("Next")?;
    let mut table = Table::bare().indented();
    for Next { command, what } in next {
        table.row([Cell::to_copy(command, Tone::Strong), Cell::new(what, Tone::Dim)]);
    }
    ui.table(table)?;
    Ok(())
}

/// What a run that waits wants to know.
fn question(story: &Story) -> Option<String> {
    let waiting = story.waiting.as_ref().filter(|_| story.state.is_waiting())?;
    let what = match story.path(waiting.call_id) {
        Some(path) => format!("step `{path}` ({}, {})", story.tool(waiting.call_id), waiting.call_id),
        None => format!("`{}` itself", story.facts.tool),
    };
    Some(match story.state {
        State::WaitingForUnknownOutcome => {
            format!("Did {what} have its effect? It was cut short; look, then say so.")
        }
        State::WaitingForApproval => {
            let approval = waiting.approval_id.map(|id| format!(" ({id})")).unwrap_or_default();
            format!("May {what} run{approval}?")
        }
        _ => {
            let why = waiting.why.as_ref().map(|error| format!(": {}", error.message())).unwrap_or_default();
            format!("What should become of it? It cannot go on by itself{why}.")
        }
    })
}

fn document(story: &Story, next: &[Next]) -> Value {
    let standing = story.standing();
    let next: Vec<_> = next.iter().map(|next| &next.command).collect();
    json!({
        "call_id": story.run,
        "run": story.run,
        "tool": story.facts.tool,
        "state": standing.state,
        "waiting": standing.waiting,
        "in_doubt": standing.in_doubt,
        "received_at": story.facts.received_at,
        "caller": story.facts.caller,
        "undo_of": story.facts.undo_of,
        "parts": story.parts,
        "next": next,
        "history": story.entries.iter().map(entry).collect::<Vec<_>>(),
    })
}

fn entry(entry: &Entry) -> Value {
    match entry {
        Entry::Started(started) => json!({
            "type": "started", "at": started.at, "call_id": started.facts.call_id, "facts": started.facts,
            "grant": started.grant, "arguments": started.arguments, "withheld": started.withheld, "digest": started.digest,
        }),
        Entry::Step(step) => {
            let mut document = json!({ "type": "step", "at": step.at, "call_id": step.call_id });
            if let (Value::Object(document), Ok(Value::Object(kind))) =
                (&mut document, serde_json::to_value(&step.kind))
            {
                document.extend(kind);
                document.extend(step.payload.as_ref().map(|said| ("payload".to_owned(), json!(said))));
            }
            document
        }
        Entry::Finished(finished) => json!({
            "type": "finished", "at": finished.at, "call_id": finished.facts.call_id, "facts": finished.facts,
            "ending": finished.ending, "payload": finished.payload,
        }),
    }
}
