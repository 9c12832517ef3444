//! `helve mcp trust`: let a project's server run, after a look at what it is.

use helve_host::wire::mcp::{self, Configured};
use helve_host::wire::trust::{self, Store};
use helve_mcp::trust::Verdict;
use serde_json::json;

use super::ask::{Confirmation, ask};
use super::show;
use crate::app::App;
use crate::exit::Exit;
use crate::ui::escape;

const AFTER_HELP: &str = "\
A project's server runs only after you have reviewed it. You trust it exactly as it is shown, in this
project. When its configuration changes, Helve asks again. `helve trust` reviews everything that a
project brings.

Exit codes:
  0 trusted   2 wrong use   3 a person must say yes   4 a person said no

Examples:
  helve mcp trust github
  helve mcp trust github files --yes";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The servers to trust
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Trust them as they are shown, without a question
    #[arg(long, short)]
    yes: bool,
    /// Trust them no longer
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    // All names first: a typing error must not leave half of it done.
    let find = |name: &String| mcp::find_configured(&loaded, name);
    let servers = args.names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let mut trust = trust::open(Store::Servers)?;
    let mut said = Vec::new();
    let mut exit = Exit::Done;
    for one in &servers {
        let name = &one.name;
        if args.revoke {
            let was = trust.revoke(&one.scope, name)?;
            said.push(json!({ "name": name, "revoked": was }));
            if !app.ui.is_json() {
                app.ui.line(if was {
                    format!("{name} is trusted no longer")
                } else {
                    format!("{name} was not trusted")
                })?;
            }
            continue;
        }
        if one.hold().is_none() {
            said.push(json!({ "name": name, "trusted": true, "asked": false }));
            app.ui.note(format!("{name} may run already"))?;
            continue;
        }
        if !app.ui.is_json() {
            print(one, app)?;
        }
        let answer = ask(&format!("Let {name} run like this?"), args.yes, app)?;
        match answer {
            Confirmation::Yes => {
                trust.accept(&one.scope, name, &one.config)?;
                if !app.ui.is_json() {
                    let sign = app.ui.paint().good("✓");
                    app.ui.line(format!("{sign} {name} is trusted"))?;
                }
            }
            Confirmation::No => exit = Exit::Denied,
            Confirmation::Nobody => {
                app.ui.note(format!("there is no terminal to ask on; helve mcp trust {name} --yes"))?;
                exit = Exit::Waiting;
            }
        }
        said.push(json!({ "name": name, "trusted": answer == Confirmation::Yes, "asked": true }));
    }
    if app.ui.is_json() {
        app.ui.json(&said)?;
    }
    Ok(exit)
}

/// Shows a server as it would run.
pub(in crate::commands) fn print(one: &Configured, app: &mut App<'_>) -> anyhow::Result<()> {
    let paint = app.ui.paint();
    let origin = one.origin.to_string();
    app.ui.line(format!("{}  {}", paint.bold(&one.name), paint.dim(escape::one_line(&origin, 200))))?;
    app.ui.table(show::facts(&one.name, &one.config))?;
    for (path, end) in helve_mcp::trust::leads_outside(&one.scope, &one.config) {
        let line = format!("{} -> {}", path.display(), end.display());
        app.ui.line(format!("  {}", paint.warn(escape::one_line(&line, 600))))?;
    }
    if let Verdict::Changed { diff, .. } = &one.verdict {
        app.ui.line(format!("  {}", paint.warn("it has changed since it was trusted:")))?;
        print_diff(diff, app)?;
    }
    Ok(())
}

/// Lines of a difference, painted.
pub(in crate::commands) fn print_diff(diff: &[String], app: &mut App<'_>) -> anyhow::Result<()> {
    let paint = app.ui.paint();
    for line in diff {
        let text = escape::one_line(line, 600);
        let painted = match line.as_bytes().first() {
            Some(b'+') => paint.good(text),
            Some(b'-') => paint.bad(text),
            _ => paint.dim(text),
        };
        app.ui.line(format!("    {painted}"))?;
    }
    Ok(())
}
