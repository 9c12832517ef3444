//! `helve runs cancel`: stops a run, wherever it is.

use std::time::Duration;

use helve::run::PartState;
use helve::runs::Story;
use helve::{CallId, ErrorCode, Outcome};
use helve_host::wire::{self, OpenLedger};
use serde_json::json;
use tokio::time::Instant;

use super::state::State;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::outcome::{self, Show};
use crate::commands::progress::Line;
use crate::exit::Exit;
use crate::ui::Ui;

const AFTER_HELP: &str = "\
If another process works on the run, this command asks that process to stop it, and waits. A run that
was cut short, or that waits, ends here. If its tool says `on_error = \"undo\"`, Helve undoes what its
steps did; it lists that in any case.

Exit codes:
  0 it ended, and nothing went wrong   1 it did not end, or effects remain
  2 wrong use   3 a tool that undoes needs approval first";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The run's id, or enough of its beginning
    id: String,
    /// How long to wait for another process to stop it
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

/// How often to look whether it has ended.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let (loaded, ledger) = super::open(app)?;
    let run = super::find_run(&ledger, &args.id)?;
    let registry = wire::registry(&loaded)?;
    let runtime = wire::runtime(&loaded, registry, ledger.port(), wire::settings(&loaded.config))?;
    let exit = block_on(async {
        let ended = match runtime.cancel_run(run).await {
            Ok(ended) => ended,
            Err(error) => return Err(super::explained(&error, &ledger, &loaded).await.into()),
        };
        runtime.flush_traces(wire::TRACES_WAIT).await;
        match ended {
            Some(outcome) => ended_here(&outcome, app.ui),
            None => {
                app.ui.note(format!("asked {run} to stop; it runs in another process"))?;
                let story = until_ended(&ledger, run, Duration::from_secs(args.wait), app.ui).await?;
                ended_elsewhere(&story, app.ui)
            }
        }
    })?;
    ledger.close()?;
    Ok(exit)
}

fn ended_here(outcome: &Outcome, ui: &mut Ui) -> anyhow::Result<Exit> {
    outcome::print(outcome, &Show::default(), ui)?;
    let cancelled = outcome.error().is_some_and(|error| error.code() == ErrorCode::Cancelled);
    let wrong = |state| matches!(state, PartState::UndoFailed | PartState::Unknown);
    let went_well = cancelled && !outcome.parts.iter().any(|part| wrong(part.state));
    Ok(if went_well { Exit::Done } else { Exit::from(outcome) })
}

/// Looks until the run has ended, but not for ever.
async fn until_ended(ledger: &OpenLedger, run: CallId, at_most: Duration, ui: &Ui) -> anyhow::Result<Story> {
    let (began, mut line) = (Instant::now(), Line::new(ui));
    loop {
        let story = super::story(ledger, run).await?;
        let going_on = matches!(story.state, State::Running | State::Stopping | State::BeingUndone);
        if !going_on || began.elapsed() >= at_most {
            return Ok(story);
        }
        line.show(&format!("waiting for it to stop, {} s", began.elapsed().as_secs()));
        tokio::time::sleep(PAUSE).await;
    }
}

fn ended_elsewhere(story: &Story, ui: &mut Ui) -> anyhow::Result<Exit> {
    let run = story.run;
    let (exit, said) = match story.state {
        State::Cancelled => (Exit::Done, format!("{run} was stopped")),
        State::Running | State::Stopping | State::BeingUndone => {
            (Exit::Failed, format!("{run} has not stopped yet; it will as soon as its process listens"))
        }
        State::CutShort => {
            (Exit::Failed, format!("the process of {run} has gone; cancel it again to end it here"))
        }
        State::WaitingForApproval => (Exit::Waiting, format!("{run} waits for approval")),
        State::WaitingForUnknownOutcome | State::WaitingForDecision | State::WaitingForCancel => {
            (Exit::Failed, format!("{run} waits for a person"))
        }
        State::Done | State::Failed | State::InDoubt | State::Undone | State::PartlyUndone => (
            Exit::Failed,
            format!("{run} ended by itself before it could be stopped: {}", story.state.as_str()),
        ),
    };
    let wrong = |state| matches!(state, PartState::UndoFailed | PartState::Unknown);
    let exit = if story.parts.iter().any(|part| wrong(part.state)) { Exit::Failed } else { exit };
    if ui.is_json() {
        ui.json(&json!({ "run": run, "state": story.state, "parts": story.parts }))?;
        return Ok(exit);
    }
    ui.line(said)?;
    outcome::print_parts(&story.parts, ui)?;
    ui.note(format!("what happened: helve runs show {run}"))?;
    Ok(exit)
}
