//! `helve mcp diff`: tools that are not what was accepted.

use helve_host::wire;
use helve_host::wire::mcp::{self, Configured, Which};
use helve_mcp::pins::Pending;
use helve_mcp::servers::ServerState;
use serde_json::{Value, json};

use super::trust::print_diff;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::servers;
use crate::exit::Exit;
use crate::ui::escape;

const AFTER_HELP: &str = "\
Helve pins each tool as it first saw it or as you accepted it: name, description, schemas, annotations,
and the server's configuration. It does not use a tool that has changed until you accept it.

Exit codes:
  0 nothing waits   1 tools wait to be accepted, or the server could not be asked   2 wrong use

Examples:
  helve mcp diff github
  helve mcp accept github create_issue";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The server whose tools to compare
    name: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let Waiting { one, pending, was_asked } = pending(&args.name, app)?;
    if app.ui.is_json() {
        app.ui.json(&pending.iter().map(document).collect::<Vec<_>>())?;
    } else if pending.is_empty() {
        app.ui.note(match was_asked {
            true => format!("the tools of `{}` are what was accepted", one.name),
            false => {
                format!("`{}` could not be asked; of what was seen of it before, nothing waits", one.name)
            }
        })?;
    } else {
        print(&pending, app)?;
        let name = &one.name;
        app.ui.note(format!("accept them: helve mcp accept {name} TOOL…, or --all"))?;
    }
    Ok(if pending.is_empty() && was_asked { Exit::Done } else { Exit::Failed })
}

/// The tools of a server that wait.
pub(super) struct Waiting {
    pub(super) one: Configured,
    pub(super) pending: Vec<Pending>,
    /// Whether the server could be asked just now.
    pub(super) was_asked: bool,
}

/// The tools that wait, after a look at the server if it can be had.
pub(super) fn pending(name: &str, app: &mut App<'_>) -> anyhow::Result<Waiting> {
    let loaded = app.load_config()?;
    let one = mcp::find_configured(&loaded, name)?;
    let registry = wire::registry(&loaded)?;
    let (remarks, was_asked) = block_on(async {
        let attached = servers::attach(&loaded, &registry, Which::Named(name), app).await?;
        let remarks = attached.remarks();
        let was_asked = attached.status().iter().all(|one| one.state == ServerState::Connected);
        attached.close().await;
        Ok((remarks, was_asked))
    })?;
    app.note(&remarks);
    let pending = mcp::pins(&mcp::state_folder()?, std::slice::from_ref(&one)).pending(name)?;
    Ok(Waiting { one, pending, was_asked })
}

pub(super) fn document(one: &Pending) -> Value {
    json!({ "tool": one.tool, "new": one.new, "digest": one.digest, "diff": one.diff })
}

pub(super) fn print(pending: &[Pending], app: &mut App<'_>) -> anyhow::Result<()> {
    let paint = app.ui.paint();
    for one in pending {
        let what = if one.new { "is new" } else { "has changed" };
        app.ui.line(format!("{} {what}", paint.bold(escape::one_line(&one.tool, 128))))?;
        print_diff(&one.diff, app)?;
    }
    Ok(())
}
