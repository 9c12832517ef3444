//! `helve runs undo`: takes back what a finished run did.

use helve::run::{Finding, PartReport, PartState};
use helve::{CallId, Outcome, Status};
use helve_host::wire::{self, OpenLedger};
use serde_json::Value;

use super::words;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::local_user;
use crate::commands::outcome::{self, Show};
use crate::commands::{caller, progress};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::Ui;

const AFTER_HELP: &str = "\
Helve undoes the steps, newest first, with the tool that each step's own tool names, and never undoes one
twice. It lists what cannot be undone. If a step was stopped or got no answer, Helve asks what became of
it where the tool says how (`recall`); otherwise say what you found, with --happened or --did-not-happen.

Exit codes:
  0 all is undone   1 effects remain   2 wrong use   3 a tool that undoes needs approval first";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The run's id, or enough of its beginning
    id: String,
    /// This call, which was in doubt, had its effect
    #[arg(long, value_name = "CALL")]
    happened: Option<String>,
    /// What that call returned
    #[arg(long, value_name = "JSON", requires = "happened")]
    result: Option<String>,
    /// This call, which was in doubt, had no effect
    #[arg(long, value_name = "CALL")]
    did_not_happen: Option<String>,
}

impl Args {
    /// What the person found out.
    fn answers(&self, ledger: &OpenLedger) -> Result<Vec<(CallId, Finding, Option<Value>)>, Failure> {
        let result = self.result.as_deref().map(super::resume::parse_result).transpose()?;
        let happened = self.happened.as_ref().map(|id| (id, Finding::Happened, result));
        let did_not = self.did_not_happen.as_ref().map(|id| (id, Finding::DidNotHappen, None));
        let answers = happened.into_iter().chain(did_not);
        answers
            .map(|(id, answer, result)| Ok((super::find(ledger, id)?.facts.call_id, answer, result)))
            .collect()
    }
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let (loaded, ledger) = super::open(app)?;
    let run = super::find_run(&ledger, &args.id)?;
    let answers = args.answers(&ledger)?;
    let by = match answers.is_empty() {
        true => None,
        false => Some(local_user("say what became of a step")?),
    };
    let registry = wire::registry(&loaded)?;
    let runtime = wire::runtime(&loaded, registry, ledger.port(), wire::settings(&loaded.config))?;
    // Ctrl-C may end this at any time: what is left is cut short, and resumed like any run.
    let line = progress::Line::new(app.ui);
    let outcome = block_on(async {
        let undoing = async {
            for (call_id, answer, result) in answers {
                runtime.settle_call(run, call_id, answer, result, by.clone()).await?;
            }
            runtime.undo_run(run, caller::local()).await
        };
        let undone = progress::watched(&runtime, line, Box::pin(undoing)).await;
        runtime.flush_traces(wire::TRACES_WAIT).await;
        match undone {
            Ok(undone) => Ok(undone),
            Err(error) => Err(super::explained(&error, &ledger, &loaded).await.into()),
        }
    })?;
    ledger.close()?;
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
