//! `helve hooks`: the hooks that see calls and may object.

mod import;
mod list;
mod shown;
mod test;
pub(super) mod trust;
mod write;

use crate::app::App;
use crate::exit::Exit;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List every hook, in the order in which they count
    List,
    /// Review a project's hooks, and let them run
    Trust(trust::Args),
    /// Import the hooks of Claude Code
    Import(import::Args),
    /// See which hooks an event fires, and what they answer
    Test(test::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::List => list::run(app),
        Command::Trust(args) => trust::run(&args, app),
        Command::Import(args) => import::run(&args, app),
        Command::Test(args) => test::run(&args, app),
    }
}
