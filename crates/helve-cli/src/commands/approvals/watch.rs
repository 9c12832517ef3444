//! `helve approvals watch`: questions and decisions as they come.

use helve::{Approval, ApprovalQuery, ApprovalState};
use jiff::Zoned;

use super::{Desk, who};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::when;
use crate::exit::Exit;
use crate::ui::{Ui, escape, json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Stop after this many
    #[arg(long, short = 'n', value_name = "COUNT")]
    limit: Option<usize>,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let desk = Desk::needed(app)?;
    block_on(watch(args, &desk, app.ui))?;
    desk.ledger.close()?;
    Ok(Exit::Done)
}

async fn watch(args: &Args, desk: &Desk, ui: &mut Ui) -> anyhow::Result<()> {
    let approvals = desk.runtime.approvals();
    // Before what waits is read, so that nothing falls in between.
    let mut changes = approvals.watch().await?;
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut waiting = approvals.list(ApprovalQuery::pending()).await?;
    waiting.reverse();
    for one in waiting {
        if left == 0 {
            return Ok(());
        }
        print(&one, ui)?;
        left -= 1;
    }
    while left > 0 {
        let change = tokio::select! {
            change = changes.next() => change,
            stopped = tokio::signal::ctrl_c() => {
                stopped?;
                return Ok(());
            }
        };
        match change {
            Some(approval) => {
                print(&approval, ui)?;
                left -= 1;
            }
            None => ui.note("some were missed; `helve approvals list --all` shows them")?,
        }
    }
    Ok(())
}

fn print(approval: &Approval, ui: &mut Ui) -> anyhow::Result<()> {
    if ui.is_json() {
        ui.line(json::compact(approval)?)?;
    } else {
        let paint = ui.paint();
        let state = approval.state.as_str();
        let state = match approval.state {
            ApprovalState::Pending => paint.warn(state).to_string(),
            ApprovalState::Approved | ApprovalState::Used => paint.good(state).to_string(),
            ApprovalState::Denied => paint.bad(state).to_string(),
            ApprovalState::Expired | ApprovalState::Withdrawn => paint.dim(state).to_string(),
        };
        let by = match (&approval.ruling, approval.state) {
            (Some(ruling), ApprovalState::Approved | ApprovalState::Denied | ApprovalState::Withdrawn) => {
                format!(" by {}", escape::one_line(&ruling.by, 100))
            }
            _ => String::new(),
        };
        ui.line(format!(
            "{} {state}{by}  {}  {} from {}  {}",
            when::brief(approval.created_at, &Zoned::now()),
            approval.id,
            escape::one_line(&approval.tool, 128),
            escape::one_line(&who(approval), 80),
            escape::one_line(approval.arguments.get(), 200),
        ))?;
    }
    ui.flush()?;
    Ok(())
}
