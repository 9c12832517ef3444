//! `helve mcp accept`: tools as they are now.

use helve_host::config::load;
use helve_host::wire::mcp;
use helve_mcp::pins::Pending;
use serde_json::json;

use super::ask::{Confirmation, ask};
use super::diff;
use super::instance::Running;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::count;

const AFTER_HELP: &str = "\
Exit codes:
  0 accepted, or nothing waits   2 wrong use   3 a person must say yes   4 a person said no

Examples:
  helve mcp accept github                 shows each difference, and asks
  helve mcp accept github create_issue
  helve mcp accept github --all";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The server whose tools to accept
    name: String,
    /// These tools, by the server's names
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
    /// All that wait
    #[arg(long, conflicts_with = "tools")]
    all: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let diff::Waiting { one, mut pending, .. } = diff::pending(&args.name, app)?;
    if let Some(unknown) = args.tools.iter().find(|tool| pending.iter().all(|one| one.tool != **tool)) {
        return Err(Failure::usage(format!("`{unknown}` of `{}` does not wait to be accepted", args.name))
            .hint(format!("`helve mcp diff {}` shows what does", args.name))
            .into());
    }
    pending.retain(|one| args.tools.is_empty() || args.tools.contains(&one.tool));
    let mut exit = Exit::Done;
    let mut accepted: Vec<Pending> = Vec::new();
    for one in pending {
        if !app.ui.is_json() {
            diff::print(std::slice::from_ref(&one), app)?;
        }
        let said = args.all || !args.tools.is_empty();
        match ask(&format!("Accept {} like this?", one.tool), said, app)? {
            Confirmation::Yes => accepted.push(one),
            Confirmation::No => exit = Exit::Denied,
            Confirmation::Nobody => exit = Exit::Waiting,
        }
    }
    mcp::pins(&mcp::state_folder()?, std::slice::from_ref(&one)).accept(&args.name, &accepted)?;
    if !accepted.is_empty() {
        use_at_once(&args.name, app)?;
    }
    if app.ui.is_json() {
        let tools: Vec<_> = accepted.iter().map(|one| &one.tool).collect();
        app.ui.json(&json!({ "server": args.name, "accepted": tools }))?;
    } else if exit == Exit::Waiting {
        app.ui.note(format!(
            "there is no terminal to ask on; name the tools, or `helve mcp accept {} --all`",
            args.name
        ))?;
    } else {
        app.ui.note(format!("{} accepted", count(accepted.len(), "tool")))?;
    }
    Ok(exit)
}

/// A `helve up` that runs looks again at what the server offers.
fn use_at_once(name: &str, app: &mut App<'_>) -> anyhow::Result<()> {
    let loaded = load(&app.inputs)?;
    if let Some(running) = Running::find(&loaded) {
        running.restart(name)?;
    }
    Ok(())
}
