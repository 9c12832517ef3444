//! `helve keys`: who may come in over HTTP.
//!
//! A user of these commands has opened the journal's own file as this machine's user.

mod create;
mod list;
mod revoke;
mod sign_in;

use helve_host::wire::{self, OpenLedger};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;

pub(crate) use sign_in::new_code;

/// Let others in over HTTP: make, list and revoke their keys.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a key, and show it once
    Create(create::Args),
    /// List keys, newest first; their secrets are never shown
    List(list::Args),
    /// Revoke a key; a running `helve up` follows within a second
    Revoke(revoke::Args),
    /// Show a link that signs you in to the page, once
    SignIn(sign_in::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::Create(args) => create::run(args, app),
        Command::List(args) => list::run(&args, app),
        Command::Revoke(args) => revoke::run(&args, app),
        Command::SignIn(args) => sign_in::run(&args, app),
    }
}

/// The journal of this configuration, made where there is none.
fn open(app: &mut App<'_>) -> Result<OpenLedger, Failure> {
    let loaded = app.load_config()?;
    Ok(wire::open_ledger(&loaded)?)
}
