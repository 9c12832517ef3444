//! `helve connect`: an account, found, tried and kept.

use crate::app::App;
use crate::exit::Exit;

/// Connect an account: mail, calendars, contacts.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Mail, by IMAP and SMTP
    Mail,
}

pub(crate) fn run(command: Command, _app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::Mail => Ok(Exit::Failed),
    }
}
