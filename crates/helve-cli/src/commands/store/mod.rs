//! `helve store`: keeping a ledger for years. Backups, restoring one, pruning, and what it takes on disk.

mod backup;
mod prune;
mod restore;
mod status;

use helve_store::{Progress, Stage};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;

/// Back up, restore, prune and measure the record of calls.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show how much disk the record takes, and how old it is
    Status(status::Args),
    /// Copy the record, in use or not, into a new folder
    Backup(backup::Args),
    /// Put a backup in place of the record
    Restore(restore::Args),
    /// Remove the oldest records, provably
    Prune(prune::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::Status(args) => status::run(&args, app),
        Command::Backup(args) => backup::run(&args, app),
        Command::Restore(args) => restore::run(&args, app),
        Command::Prune(args) => prune::run(&args, app),
    }
}

/// How far it is, in a few words.
fn said(far: Progress) -> String {
    match far.stage {
        Stage::Copying => format!("copying {} of {}", bytes(far.done), bytes(far.total)),
        Stage::Checking => format!("checking the chain: {} entries", far.done),
        Stage::Placing => "putting it in place".to_owned(),
        _ => "comparing files with their digests".to_owned(),
    }
}

/// So many bytes, in few characters.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

fn failed(what: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::failed(what.to_owned()).because(error)
}
