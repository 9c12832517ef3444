//! `helve doctor`: what is wrong with this machine or the configuration, and how to mend it.

use serde_json::json;

use crate::app::App;
use crate::checks::{self, Check, Purpose, State};
use crate::exit::Exit;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let mut checks = checks::all(app, Purpose::Try);
    // Without a configuration nothing more can be tried.
    let mut probed = None;
    if let Ok(loaded) = helve_host::config::load(&app.inputs) {
        let (check, found) = checks::sandbox::probe(&loaded);
        checks.push(check);
        probed = found;
    }
    let worst = checks.iter().map(|check| check.state).max().unwrap_or(State::Good);
    if app.ui.is_json() {
        let guards = probed.as_ref().map(guards);
        app.ui.json(&json!({ "state": worst, "checks": checks, "sandbox": guards }))?;
    } else {
        app.ui.table(table(&checks))?;
        if let Some(probed) = &probed {
            app.ui.line("")?;
            app.ui.table(checks::sandbox::table(probed))?;
        }
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

/// What the probe of the sandbox found, for programs.
fn guards(probed: &helve_sandbox::Probed) -> serde_json::Value {
    let guards = helve_sandbox::Guard::ALL.map(|guard| {
        let enforced = probed.confinement.enforced.contains(&guard);
        json!({ "guard": guard, "enforced": enforced, "held": probed.held.contains(&guard) })
    });
    json!({ "level": probed.confinement.level, "guards": guards, "why": probed.confinement.why })
}

fn table(checks: &[Check]) -> Table {
    let mut table = Table::bare();
    for check in checks {
        table.row([
            check.state.cell(),
            Cell::new(check.name, Tone::Strong),
            Cell::uncut(&check.found, Tone::Plain),
        ]);
        if let Some(fix) = &check.fix {
            table.row(["".into(), "".into(), Cell::uncut(format!("→ {fix}"), Tone::Dim)]);
        }
    }
    table
}
