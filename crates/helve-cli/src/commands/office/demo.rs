//! `helve office demo`: a small made-up data set, loaded and removed.

use helve_office::demo::{self, DemoCount};
use jiff::Zoned;
use serde_json::json;

use super::{local, open};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::local_user;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::count;

const AFTER_HELP: &str = "\
It goes to the account `local`, with dates around today. Removing takes out exactly what loading put in.

Examples:
  helve office demo load
  helve call search_emails query=budget
  helve office demo remove";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What to do with it
    #[arg(value_enum, value_name = "WHAT")]
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Put it in
    Load,
    /// Take it out
    Remove,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    local_user("load a demo")?;
    let office = open(app)?;
    let account = local(&office)?;
    let now = Zoned::now().with_time_zone(office.settings().zone.clone());
    let done = block_on(async {
        let done = match args.what {
            What::Load => demo::load(&account, &now).await,
            What::Remove => demo::remove(&account).await,
        };
        Ok(done.map_err(|fault| Failure::failed("the demo data could not be changed").because(&fault))?)
    })?;
    if app.ui.is_json() {
        let verb = if args.what == What::Load { "loaded" } else { "removed" };
        app.ui.json(&json!({ verb: done }))?;
        return Ok(Exit::Done);
    }
    let sign = app.ui.paint().good("✓");
    match (args.what, done == DemoCount::default()) {
        (What::Load, true) => {
            app.ui.line("the demo is there already; `helve office demo remove` takes it out")?
        }
        (What::Remove, true) => app.ui.line("there is no demo; `helve office demo load` puts it in")?,
        (What::Load, false) => {
            app.ui.line(format!("{sign} loaded {}", said(&done)))?;
            app.ui.note("helve call search_emails query=budget · helve call list_tasks")?;
        }
        (What::Remove, false) => app.ui.line(format!("{sign} removed {}", said(&done)))?,
    }
    Ok(Exit::Done)
}

fn said(done: &DemoCount) -> String {
    let DemoCount { mails, events, tasks, contacts } = *done;
    let count = |number: usize, noun| count(number as u64, noun);
    format!(
        "{}, {}, {} and {}",
        count(mails, "mail"),
        count(events, "event"),
        count(tasks, "task"),
        count(contacts, "contact")
    )
}
