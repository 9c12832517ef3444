//! `helve mcp`: serve tools to MCP clients.

mod serve;

use crate::app::App;
use crate::exit::Exit;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Serve one MCP client over standard input and output
    Serve(serve::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::Serve(args) => serve::run(args, app),
    }
}
