//! `helve runs resume`: go on with what was cut short or waits.

use helve::run::Finding;
use helve::runs::Story;
use helve::runs::{RecoveredRun, Resumption, Settlement};
use helve::{Outcome, Runtime, Status};
use helve_host::HostError;
use helve_host::config::Loaded;
use helve_host::wire::{self, OpenLedger};
use serde_json::{Value, json};

use super::state::State;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::local_user;
use crate::commands::outcome::{self, Show};
use crate::commands::{interrupt, progress};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, Ui};

const AFTER_HELP: &str = "\
A run goes on after its last finished step; finished steps do not run again. If it is unknown whether a
step had its effect, the run waits until you say what you found.

Exit codes:
  0 done   1 it failed, or waits to know what happened   2 wrong use   3 waiting for approval

Examples:
  helve runs resume call_01M7H16XEHKR643RM10TSZ48R2
  helve runs resume call_01M7H16X --did-not-happen
  helve runs resume call_01M7H16X --happened --result '{\"order\": 17}'
  helve runs resume --all";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The run's id, or enough of its beginning
    #[arg(required_unless_present = "all")]
    id: Option<String>,
    /// The step that it waits for had its effect
    #[arg(long, conflicts_with_all = ["did_not_happen", "all"])]
    happened: bool,
    /// What that step returned
    #[arg(long, value_name = "JSON", requires = "happened")]
    result: Option<String>,
    /// The step that it waits for had no effect: its tool runs again
    #[arg(long, conflicts_with = "all")]
    did_not_happen: bool,
    /// Every run that was cut short, as its tool says: resume, roll back, or leave it to a person
    #[arg(long, conflicts_with = "id")]
    all: bool,
}

impl Args {
    fn settlement(&self) -> Result<Option<Settlement>, Failure> {
        let result = self.result.as_deref().map(parse_result).transpose()?;
        let answer = match (self.happened, self.did_not_happen) {
            (true, _) => Finding::Happened,
            (false, true) => Finding::DidNotHappen,
            (false, false) => return Ok(None),
        };
        let by = Some(local_user("say what became of a step")?);
        Ok(Some(Settlement { call_id: None, answer, result, by }))
    }
}

/// What a step returned, as typed.
pub(super) fn parse_result(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::usage("`--result` is not JSON")
            .because(&error)
            .hint("text stands in quotes of its own, as in --result '\"text\"'")
    })
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let settlement = args.settlement()?;
    let (loaded, ledger) = super::open(app)?;
    let exit = match &args.id {
        Some(id) => one(id, settlement, &loaded, &ledger, app.ui)?,
        None => all(&loaded, &ledger, app.ui)?,
    };
    ledger.close()?;
    Ok(exit)
}

fn runtime(loaded: &Loaded, ledger: &OpenLedger) -> Result<Runtime, HostError> {
    let registry = wire::registry(loaded)?;
    wire::runtime(loaded, registry, ledger.port(), wire::settings(&loaded.config))
}

fn one(
    id: &str,
    settlement: Option<Settlement>,
    loaded: &Loaded,
    ledger: &OpenLedger,
    ui: &mut Ui,
) -> anyhow::Result<Exit> {
    let run = super::find_run(ledger, id)?;
    let runtime = runtime(loaded, ledger)?;
    let outcome = block_on(async {
        if settlement.is_some() {
            expect_question(&super::story(ledger, run).await?)?;
        }
        let running = progress::watched(
            &runtime,
            progress::Line::new(ui),
            Box::pin(runtime.resume_run(run, settlement)),
        );
        let stop = async || {
            if let Err(error) = runtime.cancel_run(run).await {
                tracing::error!(%run, %error, "the run could not be stopped");
            }
        };
        let outcome = interrupt::until_interrupt(running, ui, stop).await;
        runtime.flush_traces(wire::TRACES_WAIT).await;
        match outcome {
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(super::explained(&error, ledger, loaded).await.into()),
        }
    })?;
    outcome::print(&outcome, &Show::default(), ui)?;
    Ok(Exit::from(&outcome))
}

/// An answer must have a question: said of the wrong step, it would do harm.
fn expect_question(story: &Story) -> Result<(), Failure> {
    let run = story.run;
    match story.state {
        State::WaitingForUnknownOutcome => Ok(()),
        State::CutShort => Err(Failure::usage(format!("{run} has not asked yet what became of a step"))
            .hint(format!("`helve runs resume {run}` goes on as far as it can, and asks"))),
        State::WaitingForApproval | State::WaitingForDecision | State::WaitingForCancel => {
            Err(Failure::usage(format!("{run} does not wait to know what became of a step"))
                .hint(format!("`helve runs show {run}` says what it waits for")))
        }
        State::Running
        | State::Stopping
        | State::BeingUndone
        | State::Done
        | State::Failed
        | State::InDoubt
        | State::Cancelled
        | State::Undone
        | State::PartlyUndone => {
            Err(Failure::usage(format!("{run} is {}; it does not wait", story.state.as_str()))
                .hint(format!("`helve runs show {run}` shows what happened")))
        }
    }
}

fn all(loaded: &Loaded, ledger: &OpenLedger, ui: &mut Ui) -> anyhow::Result<Exit> {
    let runtime = runtime(loaded, ledger)?;
    let line = progress::Line::new(ui);
    let recovered = block_on(async {
        let recovered = progress::watched(&runtime, line, runtime.recover()).await;
        runtime.flush_traces(wire::TRACES_WAIT).await;
        Ok(recovered?)
    })?;
    let failed = recovered.iter().any(|one| matches!(one.resumption, Resumption::Failed(_)));
    if ui.is_json() {
        ui.json(&recovered.iter().map(document).collect::<Vec<_>>())?;
    } else if recovered.is_empty() {
        ui.note("no run was cut short; `helve runs list --waiting` shows those that wait for you")?;
    } else {
        ui.table(table(&recovered))?;
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn document(one: &RecoveredRun) -> Value {
    match &one.resumption {
        Resumption::Ended(outcome) => json!({ "run": one.run, "became": "ended", "outcome": outcome }),
        Resumption::Waits(outcome) => json!({ "run": one.run, "became": "waits", "outcome": outcome }),
        Resumption::Failed(error) => {
            json!({ "run": one.run, "became": "left", "error": super::failure(error) })
        }
    }
}

fn table(recovered: &[RecoveredRun]) -> Table {
    let mut table = Table::new(["run", "tool", "became", "next"]);
    for one in recovered {
        let (tool, became, why, tone) = match &one.resumption {
            Resumption::Ended(outcome) if outcome.is_success() => {
                (&*outcome.tool, "done", String::new(), Tone::Good)
            }
            Resumption::Ended(outcome) => (&*outcome.tool, "failed", said(outcome), Tone::Bad),
            Resumption::Waits(outcome) => (&*outcome.tool, "waits", said(outcome), Tone::Warn),
            Resumption::Failed(error) => ("", "left", format!(": {error}"), Tone::Bad),
        };
        let next = match &one.resumption {
            Resumption::Ended(outcome) if outcome.is_success() => String::new(),
            Resumption::Ended(_) | Resumption::Waits(_) | Resumption::Failed(_) => {
                format!("helve runs show {}", one.run)
            }
        };
        table.row([
            Cell::from(one.run.to_string()),
            Cell::new(tool, Tone::Strong),
            Cell::new(format!("{became}{why}"), tone),
            Cell::to_copy(next, Tone::Dim),
        ]);
    }
    table
}

fn said(outcome: &Outcome) -> String {
    match &outcome.status {
        Status::Failed(error) => format!(": {}", error.message()),
        Status::Pending(_) => " for approval".to_owned(),
        Status::Done(_) => String::new(),
    }
}
