//! `helve mcp`: servers whose tools are used, and tools served.

mod accept;
mod add;
pub(crate) mod ask;
mod diff;
mod grant;
mod import;
pub(crate) mod instance;
mod list;
pub(crate) mod login;
mod logs;
mod prepare;
mod remove;
mod restart;
mod serve;
pub(super) mod show;
mod status;
mod test;
pub(super) mod trust;

use crate::app::App;
use crate::exit::Exit;

/// Use the tools of MCP servers, and serve tools to MCP clients.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List every server that is configured; nothing is started
    List,
    /// Add a server to helve.toml, and test it
    Add(add::Args),
    /// Let a server's box do more: files, hosts, or no box
    Grant(grant::Args),
    /// Remove a server from helve.toml
    Remove(remove::Args),
    /// Import servers from the files of Claude Code, Claude Desktop, VS Code and Cursor
    Import(import::Args),
    /// Review a project's server, and let it run
    Trust(trust::Args),
    /// Show the state of each server
    Status(status::Args),
    /// Show what a server wrote besides its messages
    Logs(logs::Args),
    /// Connect to any server once, and say what happened
    Test(test::Args),
    /// Stop a server and start it anew, in the `helve up` that runs
    Restart(restart::Args),
    /// Show tools that have changed since they were accepted
    Diff(diff::Args),
    /// Accept tools as they are now
    Accept(accept::Args),
    /// Log in to a server that asks for an account
    Login(login::LoginArgs),
    /// Forget a login
    Logout(login::LogoutArgs),
    /// Serve one MCP client over standard input and output
    Serve(serve::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::List => list::run(app),
        Command::Add(args) => add::run(args, app),
        Command::Grant(args) => grant::run(args, app),
        Command::Remove(args) => remove::run(&args, app),
        Command::Import(args) => import::run(&args, app),
        Command::Trust(args) => trust::run(&args, app),
        Command::Status(args) => status::run(&args, app),
        Command::Logs(args) => logs::run(&args, app),
        Command::Test(args) => test::run(args, app),
        Command::Restart(args) => restart::run(&args, app),
        Command::Diff(args) => diff::run(&args, app),
        Command::Accept(args) => accept::run(&args, app),
        Command::Login(args) => login::login(&args, app),
        Command::Logout(args) => login::logout(&args, app),
        Command::Serve(args) => serve::run(args, app),
    }
}
