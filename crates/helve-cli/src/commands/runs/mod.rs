//! `helve runs`: calls that change things or have parts, and what can be done about each.

mod cancel;
mod list;
mod resume;
mod show;
mod undo;

mod next;
mod state;
mod timeline;
pub(crate) mod words;

use helve::CallId;
use helve::ports::{JournalError, OpenRun};
use helve::runs::RunError;
use helve_host::config::Loaded;
use helve_host::wire::{self, OpenLedger};
use helve_store::{CallRecord, Shown};

use self::next::Undoable;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use helve::runs::Story;

/// See, resume, undo and stop runs: calls that change things or have parts.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List runs: those that have not ended first, then the latest
    List(list::Args),
    /// Show what happened in one run, step by step, and what to do next
    Show(show::Args),
    /// Go on with a run that was cut short or waits
    Resume(resume::Args),
    /// Undo what a finished run did
    Undo(undo::Args),
    /// Stop a run, wherever it is
    Cancel(cancel::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::List(args) => list::run(&args, app),
        Command::Show(args) => show::run(&args, app),
        Command::Resume(args) => resume::run(args, app),
        Command::Undo(args) => undo::run(&args, app),
        Command::Cancel(args) => cancel::run(&args, app),
    }
}

/// How many open runs are asked for in one go.
const PAGE: usize = 1_000;
/// How many open runs are looked at. With more than this, something else is wrong.
const OPEN_MAX: usize = 10_000;

/// Every run that has not ended, oldest first.
pub(crate) async fn open_runs(ledger: &OpenLedger) -> Result<Vec<OpenRun>, JournalError> {
    let mut open: Vec<OpenRun> = Vec::new();
    while open.len() < OPEN_MAX {
        let page = ledger.open_runs(open.last().map(|last| last.run), PAGE).await?;
        if page.is_empty() {
            break;
        }
        open.extend(page);
    }
    Ok(open)
}

/// The journal of this configuration, which must be there: who has no journal has no runs.
fn open(app: &mut App<'_>) -> Result<(Loaded, OpenLedger), Failure> {
    let loaded = app.load_config()?;
    if wire::open_trail(&loaded)?.is_err_and(|error| error.is_missing()) {
        return Err(Failure::failed(format!(
            "there is no journal at {}, so there are no runs",
            loaded.ledger()
        ))
        .hint("`helve config show journal` says why it is looked for there"));
    }
    let ledger = wire::open_ledger(&loaded)?;
    Ok((loaded, ledger))
}

/// What is recorded of a run.
async fn story(ledger: &OpenLedger, run: CallId) -> anyhow::Result<Story> {
    let open = open_runs(ledger).await?.into_iter().find(|open| open.run == run);
    let entries = ledger.history(run).await?;
    Story::new(run, entries, open.as_ref()).ok_or_else(|| failure(&RunError::NotFound(run)).into())
}

/// The call of this id, or of one that begins so.
fn find(ledger: &OpenLedger, id: &str) -> Result<CallRecord, Failure> {
    let shown = ledger.trail().show(id).map_err(|error| match error {
        error if error.is_not_an_id() => Failure::usage(error.to_string()).hint(LIST),
        other => {
            Failure::failed("the journal cannot be read").because(&other).hint("`helve doctor` checks it")
        }
    })?;
    match shown {
        Shown::Call(call) => Ok(*call),
        Shown::Ambiguous(ids) => {
            Err(Failure::usage(format!("several calls have ids that begin with `{id}`"))
                .details(ids.iter().map(ToString::to_string))
                .hint("give more of the id"))
        }
        Shown::Nothing => Err(Failure::usage(format!("no run begins with `{id}`")).hint(LIST)),
    }
}

/// The run of this id. Not the run of a part: who names a part may not mean all of it.
fn find_run(ledger: &OpenLedger, id: &str) -> Result<CallId, Failure> {
    let call = find(ledger, id)?;
    let call_id = call.facts.call_id;
    match call.facts.part {
        None => Ok(call_id),
        Some(part) => {
            let message = format!("{call_id} is the part `{}` of the run {}", part.path, part.run);
            Err(Failure::usage(message)
                .hint(format!("name the run: {}", part.run))
                .hint(format!("`helve runs show {}` shows all of it", part.run)))
        }
    }
}

const LIST: &str = "`helve runs list --all` shows runs and their ids";

/// What a person can do about it, where the run itself tells: the same that `helve runs show` offers.
async fn explained(error: &RunError, ledger: &OpenLedger, loaded: &Loaded) -> Failure {
    let (RunError::Open(run) | RunError::Ended(run)) = error else { return failure(error) };
    let Ok(story) = story(ledger, *run).await else { return failure(error) };
    let next = next::next(&story, &Undoable::of(loaded)).into_iter();
    let failure = failure(error).hint(format!("`helve runs show {run}` shows what happened"));
    next.fold(failure, |failure, next| failure.hint(format!("`{}`: {}", next.command, next.what)))
}

/// What a person can do about it.
fn failure(error: &RunError) -> Failure {
    match error {
        RunError::NotFound(_) => Failure::usage(error.to_string()).hint(LIST),
        RunError::Busy(run) => Failure::failed(format!("{run} is running in another process"))
            .hint(format!("`helve runs show {run}` shows how far it is"))
            .hint(format!("`helve runs cancel {run}` asks it to stop")),
        RunError::Ended(run) => Failure::usage(format!("{run} has ended")),
        RunError::Open(run) => Failure::usage(format!("{run} has not ended, so it cannot be undone yet")),
        RunError::NotInDoubt(_) => {
            Failure::usage(error.to_string()).hint("`helve runs show ID` names such calls under “Next”")
        }
        RunError::ChangedNothing(run) => {
            Failure::usage(error.to_string()).hint(format!("`helve runs show {run}` shows what it did"))
        }
        RunError::IsUndo(run) => Failure::usage(error.to_string())
            .hint(format!("`helve runs show {run}` says which; call that run's tool again instead")),
        RunError::Journal(error) => Failure::failed("the journal cannot be used")
            .because(error)
            .hint("`helve doctor` says what is wrong"),
        other => Failure::failed(other.to_string()).hint(LIST),
    }
}
