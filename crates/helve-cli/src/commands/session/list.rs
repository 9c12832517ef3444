//! `helve session list`: sessions, last changed first.

use jiff::Zoned;
use serde_json::json;

use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::Desk;
use crate::commands::when;
use crate::exit::Exit;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only those of this caller
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Show at most this many
    #[arg(long, short = 'n', default_value_t = 50, value_name = "COUNT")]
    limit: usize,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let found = match Desk::open(app)? {
        None => Vec::new(),
        Some(desk) => {
            let found =
                block_on(async { Ok(desk.runtime.sessions(args.principal.clone(), args.limit).await?) })?;
            desk.ledger.close()?;
            found
        }
    };
    if app.ui.is_json() {
        let found: Vec<_> = found
            .iter()
            .map(|(key, state)| {
                json!({ "principal": key.principal, "session": key.session,
                "labels": state.labels(), "state": state })
            })
            .collect();
        app.ui.json(&found)?;
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        app.ui.note("no session has touched anything yet, and nothing was allowed for one")?;
        return Ok(Exit::Done);
    }
    let now = Zoned::now();
    let mut table = Table::new(["caller", "session", "labels", "rules", "changed"]);
    for (key, state) in &found {
        let labels: Vec<_> = state.labels().iter().map(|label| label.as_str()).collect();
        let changed = match state.ended_at {
            Some(at) => format!("ended {}", when::brief(at, &now)),
            None => when::brief(state.changed_at, &now).to_string(),
        };
        let tone = if state.labels().has_met() { Tone::Warn } else { Tone::Plain };
        let rules = &state.permissions;
        let count = rules.allow.len() + rules.ask.len() + rules.deny.len();
        table.row([
            Cell::new(key.principal.as_deref().unwrap_or("nobody"), Tone::Strong),
            Cell::new(key.session.as_deref().unwrap_or("-"), Tone::Plain),
            Cell::new(if labels.is_empty() { "-".to_owned() } else { labels.join(", ") }, tone),
            Cell::new(count.to_string(), Tone::Dim),
            Cell::new(changed, Tone::Dim),
        ]);
    }
    app.ui.table(table)?;
    app.ui.note("\nexplain one: helve session show SESSION --as CALLER")?;
    Ok(Exit::Done)
}
