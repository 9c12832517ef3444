//! `helve trust`: everything that a project brings and that counts only once a person has seen it.

mod list;
mod revoke;
mod show;

use helve_host::suggest;
use helve_host::wire::trust::{self, Brought};
use helve_mcp::trust::Verdict;
use serde_json::{Value, json};

use crate::app::App;
use crate::commands::mcp::ask::{Confirmation, ask};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::count;

const AFTER_HELP: &str = "\
Some of what a project brings waits until you have reviewed it: tools and settings that reach beyond
the project's own folder, name a secret, open an address, fetch something or take the place of a tool
you know; programs without a box, MCP servers, hooks, and rules that allow.

Trust holds for this folder and exactly for what is shown, with links followed. When something
changes, or a link leads elsewhere, Helve asks again. Trust does not cover what a script does: read
the script, too. Your own helve.toml, and a file that you name with --config, need no trust.

Exit codes:
  0 nothing waits any more   2 wrong use   3 a person must say yes   4 a person said no

Examples:
  helve trust
  helve trust --only deploy --yes
  helve trust list
  helve trust revoke deploy";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Trust everything as it is shown, without a question
    #[arg(long, short)]
    yes: bool,
    /// Only what has this name: a tool's, a server's, `settings`, `hooks` or `rules`
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show what is trusted here, what waits, and what has changed since
    List,
    /// Stop trusting what a project brings
    Revoke(revoke::Args),
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match &args.command {
        None => review(args, app),
        Some(Command::List) => list::run(app),
        Some(Command::Revoke(args)) => revoke::run(args, app),
    }
}

/// Shows all that waits, and asks once.
fn review(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let brought = trust::brought(&loaded)?;
    known(&args.only, &brought)?;
    let is_chosen = |one: &&Brought| args.only.is_empty() || args.only.contains(&one.name);
    let chosen: Vec<_> = brought.iter().filter(|one| one.waits()).filter(is_chosen).collect();
    if chosen.is_empty() {
        match app.ui.is_json() {
            true => app.ui.json(&json!({ "waiting": [], "trusted": [] }))?,
            false => app.ui.note(match brought.is_empty() {
                true => "nothing here needs to be trusted",
                false => "nothing waits to be trusted; see what is: helve trust list",
            })?,
        }
        return Ok(Exit::Done);
    }
    if !app.ui.is_json() {
        for one in &chosen {
            show::print(one, app)?;
            app.ui.line("")?;
        }
    }
    let things = if chosen.len() == 1 { "this".to_owned() } else { format!("these {}", chosen.len()) };
    let answer = ask(&format!("Trust {things} as shown?"), args.yes, app)?;
    if answer == Confirmation::Yes {
        // All or as much as can be: what was accepted before one that fails stays accepted.
        chosen.iter().try_for_each(|one| one.accept(&loaded))?;
    }
    if app.ui.is_json() {
        let documents: Vec<_> = chosen.iter().copied().map(document).collect();
        app.ui.json(&match answer {
            Confirmation::Yes => json!({ "waiting": [], "trusted": documents }),
            Confirmation::No | Confirmation::Nobody => json!({ "waiting": documents, "trusted": [] }),
        })?;
    } else if answer == Confirmation::Yes {
        let sign = app.ui.paint().good("✓");
        app.ui.line(format!("{sign} {} trusted, as shown", count(chosen.len(), "thing")))?;
    }
    Ok(match answer {
        Confirmation::Yes => Exit::Done,
        Confirmation::No => Exit::Denied,
        Confirmation::Nobody => {
            app.ui.note("there is no terminal to ask on; look at it, then: helve trust --yes")?;
            Exit::Waiting
        }
    })
}

/// Refuses names that are nobody's.
fn known(names: &[String], all: &[Brought]) -> Result<(), Failure> {
    let is_there = |name: &&String| all.iter().any(|one| one.name == **name);
    let Some(name) = names.iter().find(|name| !is_there(name)) else { return Ok(()) };
    let failure = Failure::usage(format!("nothing here that needs trust is named `{name}`"));
    Err(match suggest::nearest(name, all.iter().map(|one| one.name.as_str())) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint("`helve trust list` shows what there is"),
    })
}

/// One thing, for programs.
fn document(one: &Brought) -> Value {
    let mut document = json!({
        "kind": one.kind(), "name": one.name, "origin": one.origin, "trust": trust::word(&one.verdict),
        "definition": one.definition(),
    });
    if let Verdict::Changed { diff, .. } = &one.verdict {
        document["diff"] = json!(diff);
    }
    document
}
