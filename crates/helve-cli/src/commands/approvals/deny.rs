//! `helve approvals deny`: do not let a call run, and say why.

use helve::approvals::Decision;

use super::{Desk, decider, failure};
use crate::app::App;
use crate::blocking::block_on;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Exit codes:
  0 denied   1 another person decided first, or it has expired   2 wrong use

Examples:
  helve approvals deny apr_01K9 --reason 'write to her by hand'";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The approval's id, or the beginning of it
    id: String,
    /// Why; the caller reads it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let decider = decider()?;
    let desk = Desk::needed(app)?;
    let denied = block_on(async {
        let asked = desk.find(&args.id).await?;
        let decision = Decision::Deny { reason: args.reason };
        Ok(desk.runtime.approvals().decide(asked.id, decision, &decider).await)
    })?;
    desk.ledger.close()?;
    let approval = denied.map_err(|error| failure(&error))?;
    if app.ui.is_json() {
        app.ui.json(&approval)?;
        return Ok(Exit::Done);
    }
    app.ui.line(format!("denied: `{}` does not run", approval.tool))?;
    if let Some(part) = &approval.part {
        app.ui.note(format!("`helve runs resume {}` ends its run as the tool says of failures", part.run))?;
    }
    Ok(Exit::Done)
}
