//! `helve office`: what is connected, kept up to date, imported and tried.

pub(super) mod accounts;
mod demo;
pub(super) mod disconnect;
mod import;
mod sync;

use std::sync::Arc;

use helve_host::wire;
use helve_office::connect::LOCAL;
use helve_office::{Account, Office};
use helve_store::office::OfficeError;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;

/// See and sync connected accounts, import files, and try the demo.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List accounts: when each was synced, and what is wrong
    Accounts(accounts::Args),
    /// Fetch what is new from connected accounts
    Sync(sync::Args),
    /// Import mails, events, tasks and contacts from files
    Import(import::Args),
    /// Load or remove a small made-up data set
    Demo(demo::Args),
    /// Forget an account, its password and what was synced
    Disconnect(disconnect::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::Accounts(args) => accounts::run(&args, app),
        Command::Sync(args) => sync::run(&args, app),
        Command::Import(args) => import::run(&args, app),
        Command::Demo(args) => demo::run(&args, app),
        Command::Disconnect(args) => disconnect::run(&args, app),
    }
}

/// The office of this configuration.
pub(super) fn open(app: &mut App<'_>) -> Result<Arc<Office>, Failure> {
    let loaded = app.load_config()?;
    Ok(wire::office::office(&loaded)?)
}

/// The account that needs no server.
fn local(office: &Office) -> Result<Arc<Account>, Failure> {
    account(office, LOCAL)
}

/// The account of this name.
fn account(office: &Office, id: &str) -> Result<Arc<Account>, Failure> {
    if let Some(found) = office.accounts().iter().find(|account| account.id == id) {
        return Ok(Arc::clone(found));
    }
    if let Some(aside) = office.set_aside().iter().find(|aside| aside.id == id) {
        return Err(
            Failure::failed(format!("the account `{id}` cannot be used")).detail(aside.trouble.clone())
        );
    }
    Err(Failure::usage(format!("there is no account `{id}`")).hint("`helve office accounts` lists them"))
}

/// The file cannot be used.
pub(super) fn unusable(error: &OfficeError) -> Failure {
    Failure::failed("the office's file cannot be used").because(error)
}
