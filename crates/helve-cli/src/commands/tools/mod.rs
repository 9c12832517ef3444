//! `helve tools`: list, show, search, check, export, lint.

mod check;
mod export;
mod lint;
mod list;
mod search;
mod show;

pub(crate) use show::find;

use crate::app::App;
use crate::exit::Exit;

/// List, show, search, export and check tools.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List every tool, one a line
    List(list::Args),
    /// Show everything about one tool
    Show(show::Args),
    /// Find tools by words or by a pattern of names
    Search(search::Args),
    /// Say whether a tool could run now, and what it lacks
    Check(check::Args),
    /// Write tools in a model provider's format
    Export(export::Args),
    /// Check definitions and schemas; nothing is run or fetched
    Lint(lint::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::List(args) => list::run(args, app),
        Command::Show(args) => show::run(&args, app),
        Command::Search(args) => search::run(&args, app),
        Command::Check(args) => check::run(args, app),
        Command::Export(args) => export::run(args, app),
        Command::Lint(args) => lint::run(&args, app),
    }
}
