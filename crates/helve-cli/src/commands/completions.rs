//! `helve completions`: a script for the shell.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::app::App;
use crate::args::Cli;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  helve completions bash > ~/.local/share/bash-completion/completions/helve
  helve completions zsh  > \"${fpath[1]}/_helve\"
  helve completions fish > ~/.config/fish/completions/helve.fish";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The shell to write completions for
    shell: Shell,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "helve", &mut script);
    app.ui.text(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}
