//! `helve session`: what sessions have touched, and what was allowed for them.

mod end;
mod list;
mod show;

use crate::app::App;
use crate::exit::Exit;

/// What to do with sessions.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List sessions, last changed first
    List(list::Args),
    /// Explain a session's labels: where they came from, and what they forbid
    Show(show::Args),
    /// End a session for good: revoke what was allowed for it, and let nothing run in it any more
    End(end::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::List(args) => list::run(&args, app),
        Command::Show(args) => show::run(&args, app),
        Command::End(args) => end::run(&args, app),
    }
}
