//! `helve audit costs`: what calls cost, by tool, caller or session.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use helve::cost::{CostTotal, Spending, totals};
use helve::limit::CountBy;
use helve_host::wire;
use jiff::Timestamp;

use crate::app::App;
use crate::commands::when;
use crate::exit::Exit;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone};

const AFTER_HELP: &str = "\
Examples:
  helve audit costs
  helve audit costs --by caller --since 7d
  helve audit costs --by session --tool 'web-*' --json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What to add up by
    #[arg(long, default_value = "tool", value_parser = by())]
    by: CountBy,
    /// Only calls of this tool, or of all whose names fit: `mail/*`
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls that this principal answers for
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only calls of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only calls from this time on: `2026-11-15 10:00`, or an age such as `2h`
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    since: Option<Timestamp>,
}

fn by() -> impl TypedValueParser<Value = CountBy> {
    let all = [CountBy::Tool, CountBy::Caller, CountBy::Session];
    PossibleValuesParser::new(all.map(CountBy::as_str)).map(move |text| {
        all.into_iter().find(|one| one.as_str() == text).expect("clap let only these through")
    })
}

impl Args {
    fn fits(&self, spent: &Spending) -> bool {
        spent.is_of(self.tool.as_deref(), self.principal.as_deref(), self.session.as_deref())
    }
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let since = args.since.unwrap_or(Timestamp::UNIX_EPOCH);
    let spent = match wire::open_trail(&loaded)?.and_then(|audit| audit.spending(since)) {
        Ok(spent) => spent,
        // Nothing was ever recorded, which is an answer too.
        Err(error) if error.is_missing() => Vec::new(),
        Err(error) => return Err(super::unreadable(&error).into()),
    };
    let totals = totals(spent.into_iter().filter(|one| args.fits(one)), args.by);
    if app.ui.is_json() {
        app.ui.json(&totals)?;
        return Ok(Exit::Done);
    }
    if totals.is_empty() {
        app.ui.note(
            "no call cost anything; a tool says what it costs with `cost`: helve config keys tool.http",
        )?;
        return Ok(Exit::Done);
    }
    app.ui.table(table(&totals, args.by))?;
    Ok(Exit::Done)
}

fn table(totals: &[CostTotal], by: CountBy) -> Table {
    let mut table = match by {
        CountBy::Tool => Table::new(["tool", "calls", "cost", "unit"]),
        CountBy::Caller => Table::new(["caller", "calls", "cost", "unit"]),
        CountBy::Session => Table::new(["caller", "session", "calls", "cost", "unit"]),
    };
    for total in totals {
        let name = |name: &Option<String>| or_dash(name.as_deref().unwrap_or_default());
        let [calls, cost, unit] =
            [total.calls.to_string(), total.amount.clone(), total.unit.clone()].map(Cell::from);
        match by {
            CountBy::Tool => table.row([name(&total.tool), calls, cost, unit]),
            CountBy::Caller => table.row([name(&total.caller), calls, cost, unit]),
            CountBy::Session => table.row([name(&total.caller), name(&total.session), calls, cost, unit]),
        }
    }
    table
}

fn or_dash(name: &str) -> Cell {
    if name.is_empty() { Cell::new("-", Tone::Dim) } else { Cell::new(name, Tone::Strong) }
}
