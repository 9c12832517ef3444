//! `helve approvals list`: questions that wait, newest first.

use helve::{Approval, ApprovalId, ApprovalQuery, ApprovalState};
use jiff::{Timestamp, Zoned};
use serde_json::Value;

use super::{Desk, who};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::when;
use crate::exit::Exit;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone, Yield};

const AFTER_HELP: &str = "\
Examples:
  helve approvals list
  helve approvals list --state denied --tool mail/send
  helve approvals list --all --json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Questions in this state instead of those that wait
    #[arg(long, value_enum, value_name = "STATE", conflicts_with = "all")]
    state: Option<StateArg>,
    /// Questions in every state
    #[arg(long)]
    all: bool,
    /// Only about this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only from this principal
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only from this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only older ones than this: the last of the page before
    #[arg(long, value_name = "ID")]
    before: Option<ApprovalId>,
    /// Show at most this many
    #[arg(long, short = 'n', default_value_t = 50, value_name = "COUNT")]
    limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum StateArg {
    Pending,
    Approved,
    Denied,
    Expired,
    Used,
    Withdrawn,
}

impl From<StateArg> for ApprovalState {
    fn from(state: StateArg) -> Self {
        match state {
            StateArg::Pending => Self::Pending,
            StateArg::Approved => Self::Approved,
            StateArg::Denied => Self::Denied,
            StateArg::Expired => Self::Expired,
            StateArg::Used => Self::Used,
            StateArg::Withdrawn => Self::Withdrawn,
        }
    }
}

impl Args {
    fn query(&self) -> ApprovalQuery {
        let mut query = ApprovalQuery::default();
        query.state = (!self.all).then(|| self.state.map_or(ApprovalState::Pending, ApprovalState::from));
        query.tool.clone_from(&self.tool);
        query.principal.clone_from(&self.principal);
        query.session.clone_from(&self.session);
        query.before = self.before;
        query.limit = self.limit;
        query
    }
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let found = match Desk::open(app)? {
        // Nothing was ever recorded, which is an answer too.
        None => Vec::new(),
        Some(desk) => {
            let found = block_on(async { Ok(desk.runtime.approvals().list(args.query()).await?) })?;
            desk.ledger.close()?;
            found
        }
    };
    if app.ui.is_json() {
        app.ui.json(&found)?;
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        app.ui.note(match args.all {
            true => "nothing was asked yet",
            false if args.state.is_some() => "nothing; `helve approvals list --all` shows every question",
            false => "no question waits; `helve approvals list --all` shows what was decided",
        })?;
        return Ok(Exit::Done);
    }
    app.ui.table(table(&found))?;
    if found.len() == args.limit {
        app.ui.note("\nthere may be more; raise `--limit`")?;
    }
    if found.iter().any(|one| one.state == ApprovalState::Pending) {
        app.ui.note("\nwhat exactly would run, and deciding: helve approvals show ID")?;
    }
    Ok(Exit::Done)
}

fn table(found: &[Approval]) -> Table {
    const YIELDS: &[Yield] = &[Yield::Cut(4, 24), Yield::Drop(3), Yield::Cut(4, 8), Yield::Drop(0)];
    let now = Zoned::now();
    let mut table =
        Table::new(["asked", "approval", "tool", "by", "arguments", "state"]).one_line_rows(YIELDS);
    for one in found {
        table.row([
            Cell::new(when::brief(one.created_at, &now), Tone::Dim),
            Cell::from(one.id.to_string()),
            Cell::new(&one.tool, Tone::Strong),
            Cell::from(who(one)),
            Cell::from(arguments(one)),
            state_cell(one),
        ]);
    }
    table
}

/// On one line; what hides in it is escaped.
fn arguments(approval: &Approval) -> String {
    let value: Value = serde_json::from_str(approval.arguments.get()).unwrap_or_default();
    crate::ui::json::compact(&value).unwrap_or_default()
}

/// What became of it, and how long there is.
pub(super) fn state_cell(approval: &Approval) -> Cell {
    let left = || {
        let left = approval.expires_at.duration_since(Timestamp::now()).as_secs().max(0);
        match left {
            0..3_600 => format!("{} min left", left / 60),
            3_600..172_800 => format!("{} h left", left / 3_600),
            _ => format!("{} d left", left / 86_400),
        }
    };
    let state = approval.state;
    match state {
        ApprovalState::Pending => Cell::new(format!("{state}, {}", left()), Tone::Warn),
        ApprovalState::Approved => Cell::new(format!("{state}, {}", left()), Tone::Good),
        ApprovalState::Used => Cell::new(state.as_str(), Tone::Good),
        ApprovalState::Denied => Cell::new(state.as_str(), Tone::Bad),
        ApprovalState::Expired | ApprovalState::Withdrawn => Cell::new(state.as_str(), Tone::Dim),
    }
}
