//! `helve doctor`: what is wrong with this machine or the configuration, and how to mend it.

use serde_json::json;

use crate::app::App;
use crate::checks::{self, Check, State};
use crate::exit::Exit;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let checks = checks::all(app);
    let worst = checks.iter().map(|check| check.state).max().unwrap_or(State::Good);
    if app.ui.is_json() {
        app.ui.json(&json!({ "state": worst, "checks": checks }))?;
    } else {
        app.ui.table(table(&checks))?;
        app.ui.line("")?;
        let paint = app.ui.paint();
        app.ui.line(match worst {
            State::Good => paint.good("all is well"),
            State::Warning => paint.warn("works, with warnings"),
            State::Broken => paint.bad("something is broken"),
        })?;
    }
    Ok(match worst {
        State::Good | State::Warning => Exit::Done,
        State::Broken => Exit::Failed,
    })
}

fn table(checks: &[Check]) -> Table {
    let mut table = Table::bare();
    for check in checks {
        table.row([check.state.cell(), Cell::new(check.name, Tone::Strong), Cell::from(&check.found)]);
        if let Some(fix) = &check.fix {
            table.row(["".into(), "".into(), Cell::new(format!("→ {fix}"), Tone::Dim)]);
        }
    }
    table
}
