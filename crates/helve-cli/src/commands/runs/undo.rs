//! `helve runs undo`: takes back what a finished run did.

use helve::run::{PartReport, PartState};
use helve::{Outcome, Status};

use super::words;
use crate::app::App;
use crate::commands::outcome::{self, Show};
use crate::commands::{caller, progress};
use crate::exit::Exit;
use crate::ui::Ui;
use crate::wire;

const AFTER_HELP: &str = "\
Each step is undone by the tool that its own tool names, newest first. Nothing is undone twice. What
cannot be undone stands, and is listed.

Exit codes:
  0 all is undone   1 something stands   2 wrong use   3 a tool that undoes needs approval first";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The run's id, or enough of its beginning
    id: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let (loaded, store) = super::open(app)?;
    let run = super::find_run(&store, &args.id)?;
    let registry = wire::registry(&loaded)?;
    let runtime = wire::runtime(&loaded, registry, store.clone(), wire::settings(&loaded.config))?;
    // Ctrl-C may end this at any time: what is left is cut short, and resumed like any run.
    let line = progress::Line::new(app.ui);
    let outcome = wire::block_on(async {
        let undone =
            progress::watched(&runtime, line, Box::pin(runtime.undo_run(run, caller::local()))).await;
        runtime.flush_traces(wire::TRACES_WAIT).await;
        Ok(undone.map_err(|error| super::failure(&error))?)
    })?;
    store.close()?;
    if app.ui.is_json() || !outcome.is_success() {
        outcome::print(&outcome, &Show::default(), app.ui)?;
    } else {
        print(&outcome, app.ui)?;
    }
    Ok(Exit::from(&outcome))
}

fn print(outcome: &Outcome, ui: &mut Ui) -> anyhow::Result<()> {
    if let Some(earlier) = outcome.replay_of {
        ui.line("it is undone already; nothing is undone twice")?;
        ui.note(format!("\nsee what was undone: helve runs show {earlier}"))?;
        return Ok(());
    }
    let parts = parts(outcome);
    let changed: Vec<_> = parts.iter().filter(|part| part.state == PartState::Undone).collect();
    if changed.is_empty() {
        ui.line("there was nothing to undo")?;
    }
    let paint = ui.paint();
    // As they were undone: newest first.
    for part in changed.into_iter().rev() {
        let (sign, _, tone) = words::part(part.state);
        let path = if part.path.is_empty() { String::new() } else { format!("`{}` ", part.path) };
        ui.line(tone.paint(paint, &format!("{sign} undone: {path}{}", part.tool)))?;
    }
    ui.note(format!("\nthe undo is a run of its own: helve runs show {}", outcome.call_id))?;
    Ok(())
}

/// The parts that the result of an undo lists.
fn parts(outcome: &Outcome) -> Vec<PartReport> {
    let Status::Done(output) = &outcome.status else { return Vec::new() };
    serde_json::from_value(output.value["parts"].clone()).unwrap_or_default()
}
