//! `helve approvals rules` and `revoke`: what was allowed for a whole session.

use helve::RuleId;
use helve::approval::{Rule, Same};
use jiff::{Timestamp, Zoned};

use super::{Desk, decider};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::when;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone, Yield};

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Also rules that no longer hold
    #[arg(long)]
    all: bool,
    /// Show at most this many
    #[arg(long, short = 'n', default_value_t = 50, value_name = "COUNT")]
    limit: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    /// The rule's id
    id: RuleId,
}

/// How many rules are looked at.
const LOOK_MAX: usize = 10_000;

pub(crate) fn list(args: &ListArgs, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let now = Timestamp::now();
    let mut found = match Desk::open(app)? {
        None => Vec::new(),
        Some(desk) => {
            let found = block_on(async { Ok(desk.runtime.approvals().rules(LOOK_MAX).await?) })?;
            desk.ledger.close()?;
            found
        }
    };
    found.retain(|rule| args.all || rule.holds(now));
    found.truncate(args.limit);
    if app.ui.is_json() {
        app.ui.json(&found)?;
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        app.ui.note("nothing is allowed for a session; `helve approvals approve ID --always` does that")?;
        return Ok(Exit::Done);
    }
    app.ui.table(table(&found, now))?;
    app.ui.note("\ntake one back: helve approvals revoke RULE")?;
    Ok(Exit::Done)
}

pub(crate) fn revoke(args: &RevokeArgs, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let decider = decider()?;
    let desk = Desk::needed(app)?;
    let revoked = block_on(async { Ok(desk.runtime.approvals().revoke(args.id, &decider).await?) })?;
    desk.ledger.close()?;
    let rule = revoked.ok_or_else(|| {
        Failure::usage(format!("there is no rule {}", args.id))
            .hint("`helve approvals rules` shows them and their ids")
    })?;
    if app.ui.is_json() {
        app.ui.json(&rule)?;
    } else {
        app.ui.line(format!("revoked: calls of `{}` ask again", rule.tool))?;
    }
    Ok(Exit::Done)
}

fn table(found: &[Rule], now: Timestamp) -> Table {
    const YIELDS: &[Yield] = &[Yield::Drop(5), Yield::Cut(3, 12), Yield::Drop(4)];
    let mut table = Table::new(["rule", "tool", "for", "same", "until", "made by"]).one_line_rows(YIELDS);
    let today = Zoned::now();
    for rule in found {
        let name = rule.agent.as_deref().or(rule.principal.as_deref()).unwrap_or("an unnamed caller");
        let session = rule.session.as_ref().map(|session| format!(" in {session}")).unwrap_or_default();
        let same = match &rule.same {
            Same::Everything => "all arguments".to_owned(),
            Same::Fields(fields) if fields.is_empty() => "nothing: any arguments".to_owned(),
            Same::Fields(fields) => fields.join(", "),
        };
        let until = match (&rule.revoked_at, rule.holds(now)) {
            (Some(at), _) => Cell::new(format!("revoked {}", when::brief(*at, &today)), Tone::Dim),
            (None, true) => Cell::from(when::brief(rule.expires_at, &today)),
            (None, false) => Cell::new("ended", Tone::Dim),
        };
        table.row([
            Cell::from(rule.id.to_string()),
            Cell::new(&rule.tool, Tone::Strong),
            Cell::from(format!("{name}{session}")),
            Cell::from(same),
            until,
            Cell::new(&rule.by, Tone::Dim),
        ]);
    }
    table
}
