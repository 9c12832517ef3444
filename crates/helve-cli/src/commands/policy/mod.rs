//! `helve policy`: check, test, explain, show.

mod asked;
mod check;
mod explain;
mod schema;
mod show;
mod test;

use crate::app::App;
use crate::exit::Exit;

/// Check, test and explain who may do what.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Find mistakes in the policies
    Check(check::Args),
    /// Try the policies on cases from a file
    Test(test::Args),
    /// Say what is decided, and by which policy
    Explain(explain::Args),
    /// Print the policies in force
    Show(show::Args),
    /// Print the Cedar schema that policies are checked against
    Schema(schema::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::Check(args) => check::run(&args, app),
        Command::Test(args) => test::run(&args, app),
        Command::Explain(args) => explain::run(args, app),
        Command::Show(args) => show::run(&args, app),
        Command::Schema(args) => schema::run(&args, app),
    }
}
