//! `helve rules`: what runs, asks or does not run.

mod change;
mod list;
pub(super) mod trust;

use crate::app::App;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A rule is a tool's name or a pattern, and in parentheses what its arguments look like:

  file-write(notes/*)            its main argument, here the path
  mail/send(to=*@example.com)    an argument by name
  web-scrape(domain:example.com) an address of that host, or below it
  code-execute(git log:*)        a command that begins so, and does not go on to another

Deny wins over ask, ask over allow, wherever they stand. An allow rule takes back only what a tool's
risk would ask: policies, labels and hooks still have their say.";

/// What to do with rules.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = AFTER_HELP)]
pub(crate) enum Command {
    /// List every rule, and the file that has it
    List(list::Args),
    /// Let calls run although their risk would ask
    Allow(change::Args),
    /// Ask a person before calls run
    Ask(change::Args),
    /// Keep calls from running
    Deny(change::Args),
    /// Set the mode: what happens to calls that no rule names
    Mode(change::ModeArgs),
    /// Review a project's allow rules, and let them count
    Trust(trust::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    use helve::gate::Stance;
    match command {
        Command::List(args) => list::run(&args, app),
        Command::Allow(args) => change::run(Stance::Allow, &args, app),
        Command::Ask(args) => change::run(Stance::Ask, &args, app),
        Command::Deny(args) => change::run(Stance::Deny, &args, app),
        Command::Mode(args) => change::mode(&args, app),
        Command::Trust(args) => trust::run(&args, app),
    }
}
