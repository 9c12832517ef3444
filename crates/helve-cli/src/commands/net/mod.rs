//! `helve net`: what outgoing requests may reach.

mod check;

use crate::app::App;
use crate::exit::Exit;

/// See what outgoing requests may reach.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Say whether a URL may be fetched, and why; without connecting
    Check(check::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::Check(args) => check::run(args, app),
    }
}
