//! `helve audit`: what the journal knows of past calls, and proof that nobody changed it.

mod accept;
mod checkpoint;
mod costs;
mod export;
mod list;
mod show;
mod verify;

use helve_host::config::origin::short;
use helve_host::wire::{self, LedgerError, Trail};
pub(crate) use list::status_cell;
pub(crate) use show::caller;

use helve_store::{Audit, StoreError};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;

/// Read and verify the record of every call.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Calls, newest first
    List(list::Args),
    /// Show everything that was recorded of one call
    Show(show::Args),
    /// Add up what calls cost, by tool, caller or session
    Costs(costs::Args),
    /// Prove that no record was changed or removed
    Verify(verify::Args),
    /// Write every call as one line of JSON, oldest first
    Export(export::Args),
    /// Accept a journal that has lost entries
    Accept(accept::Args),
    /// Sign how far the journal has come, to keep the proof elsewhere
    Checkpoint(checkpoint::Args),
    /// Print the key that checks checkpoints
    Key(checkpoint::KeyArgs),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::List(args) => list::run(args, app),
        Command::Show(args) => show::run(&args, app),
        Command::Costs(args) => costs::run(&args, app),
        Command::Verify(args) => verify::run(&args, app),
        Command::Export(args) => export::run(&args, app),
        Command::Accept(args) => accept::run(&args, app),
        Command::Checkpoint(args) => checkpoint::run(&args, app),
        Command::Key(args) => checkpoint::key(&args, app),
    }
}

/// The record of this configuration, which must be there.
fn open(app: &mut App<'_>) -> Result<Trail, Failure> {
    let loaded = app.load_config()?;
    wire::open_trail(&loaded)?.map_err(not_there)
}

/// The journal's file, which must be there.
fn open_file(app: &mut App<'_>) -> Result<Audit, Failure> {
    let loaded = app.load_config()?;
    wire::need_file(&loaded, "keep what `helve audit verify --json` prints in `chains` on another machine")?;
    wire::open_audit(&loaded)?.map_err(|error| not_there(error.into()))
}

fn not_there(error: LedgerError) -> Failure {
    match error {
        LedgerError::File(StoreError::Missing(path)) => Failure::failed(format!(
            "there is no journal at {}",
            short(&path)
        ))
        .hint("the first `helve call` makes it; `helve config show journal` says why it is looked for there"),
        LedgerError::File(StoreError::Gone { .. }) => Failure::failed(error.to_string())
            .hint("put the database back from a copy, or accept the loss: `helve audit accept`"),
        error if error.is_missing() => {
            Failure::failed(error.to_string()).hint("the first `helve call` makes its tables")
        }
        other => unreadable(&other),
    }
}

fn unreadable(error: &LedgerError) -> Failure {
    Failure::failed("the journal cannot be read").because(error).hint("`helve doctor` checks the store")
}
