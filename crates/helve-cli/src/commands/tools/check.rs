//! `helve tools check`: whether a tool could run now, and what it lacks.

use helve::ConditionReport;
use helve_host::wire;
use serde_json::{Value, json};

use super::show;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::caller::CallerArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone};

const AFTER_HELP: &str = "\
Exit codes:
  0 it could run   1 something critical does not hold   2 wrong use

Examples:
  helve tools check browser/open
  helve tools check shop/order --arguments '{\"article\": 7}' --session s-1 --json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The tool's full name, alias or provider name
    name: String,
    /// Arguments as JSON, for checks that look at them
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    #[command(flatten)]
    caller: CallerArgs,
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let arguments = args.arguments.as_deref().map(read).transpose()?;
    let loaded = app.load_config()?;
    let registry = wire::registry(&loaded)?;
    let name = show::find(&registry, &args.name)?.name().clone();
    let ledger = wire::open_ledger(&loaded)?;
    let runtime = wire::runtime(&loaded, registry, ledger.port(), wire::settings(&loaded.config))?;
    let caller = args.caller.resolve();
    let checked = block_on(async { Ok(runtime.check_tool(name.as_str(), caller, arguments).await) })?;
    ledger.close()?;
    let reports = checked.map_err(|error| Failure::usage(error.message()))?;
    let ready = reports.iter().all(|report| report.holds || !report.critical);
    let degraded = ready && reports.iter().any(|report| !report.holds);
    if app.ui.is_json() {
        let document = json!({ "tool": name, "ready": ready, "degraded": degraded, "conditions": reports });
        app.ui.json(&document)?;
    } else {
        print(name.as_str(), &reports, ready, degraded, app)?;
    }
    Ok(if ready { Exit::Done } else { Exit::Failed })
}

fn read(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::usage("`--arguments` is not JSON").because(&error))
}

fn print(
    name: &str,
    reports: &[ConditionReport],
    ready: bool,
    degraded: bool,
    app: &mut App<'_>,
) -> anyhow::Result<()> {
    if !reports.is_empty() {
        let mut table = Table::new(["holds", "type", "critical", "what", "why not"]);
        for report in reports {
            table.row([
                verdict(report),
                report.kind.into(),
                Cell::from(if report.critical { "yes" } else { "no" }),
                Cell::from(&report.description),
                Cell::new(report.reason.as_deref().unwrap_or_default(), Tone::Dim),
            ]);
        }
        app.ui.table(table)?;
    }
    app.ui.note(match (reports.is_empty(), ready, degraded) {
        (true, _, _) => format!("`{name}` needs nothing"),
        (false, true, false) => format!("`{name}` could run now"),
        (false, true, true) => format!("`{name}` could run now, and would do less"),
        (false, false, _) => format!("`{name}` cannot run now"),
    })?;
    Ok(())
}

fn verdict(report: &ConditionReport) -> Cell {
    match (report.holds, report.critical) {
        (true, _) => Cell::new("yes", Tone::Good),
        (false, true) => Cell::new("no", Tone::Bad),
        (false, false) => Cell::new("no", Tone::Warn),
    }
}
