//! `helve connect`: an account is found, tried, and kept.
//!
//! Nothing is kept of an account whose login does not work. A secret comes from a terminal without being shown, from
//! standard input or from where a reference leads, and never from an argument.

mod account;
mod ask;
mod dav;
mod jmap;
mod login;
mod mail;
mod secret;
mod server_url;

use helve_office::connect::discover_dav::Service;

use crate::app::App;
use crate::commands::approvals::local_user;
use crate::exit::Exit;

/// Connect an account: mail, calendars, contacts.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Connect mail, by IMAP and SMTP
    Mail(mail::Args),
    /// Connect calendars and tasks, by CalDAV
    Calendar(dav::Args),
    /// Connect contacts, by CardDAV
    Contacts(dav::Args),
    /// Connect mail, by JMAP
    Jmap(jmap::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    local_user("connect accounts")?;
    match command {
        Command::Mail(args) => mail::run(args, app),
        Command::Calendar(args) => dav::run(args, Service::Calendars, app),
        Command::Contacts(args) => dav::run(args, Service::Contacts, app),
        Command::Jmap(args) => jmap::run(args, app),
    }
}
