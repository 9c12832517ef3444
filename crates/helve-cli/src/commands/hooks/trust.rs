//! `helve hooks trust`: let a project's hooks run, after a look at what they are.

use helve_host::config::Loaded;
use helve_host::wire::hooks;
use helve_host::wire::trust::{self, Store};
use helve_mcp::trust::Verdict;
use serde_json::{Value, json};

use crate::app::App;
use crate::commands::mcp::ask::{Confirmation, ask};
use crate::commands::mcp::trust::print_diff;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

const AFTER_HELP: &str = "\
A project's hooks run only after you have reviewed them; until then Helve denies the calls that they
would see. You trust all hooks together, exactly as they are shown. When one changes, Helve asks
again. Trust does not cover what a script does that a hook starts: read the script, too.
`helve trust` reviews everything that a project brings.

Exit codes:
  0 trusted   2 wrong use   3 a person must say yes   4 a person said no

Examples:
  helve hooks trust
  helve hooks trust --yes
  helve hooks trust --revoke";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Trust them as they are shown, without a question
    #[arg(long, short)]
    yes: bool,
    /// Trust them no longer
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
}

pub(super) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    refuse_broken(&loaded)?;
    let mut trust = trust::open(Store::Hooks)?;
    let scope = trust::scope(&loaded);
    if args.revoke {
        let was = trust.revoke(&scope, hooks::NAME)?;
        if app.ui.is_json() {
            app.ui.json(&json!({ "revoked": was }))?;
        } else {
            app.ui.line(if was {
                "the hooks are trusted no longer"
            } else {
                "the hooks were not trusted"
            })?;
        }
        return Ok(Exit::Done);
    }
    let of_project = hooks::of_project(&loaded);
    let verdict = hooks::verdict(&loaded);
    let (Some(of_project), true) = (&of_project, verdict != Verdict::Trusted) else {
        if app.ui.is_json() {
            app.ui.json(&json!({ "trusted": true }))?;
        } else {
            app.ui.note(match of_project {
                Some(_) => "the project's hooks may run already",
                None => "this project has no hooks of its own",
            })?;
        }
        return Ok(Exit::Done);
    };
    if !app.ui.is_json() {
        print(of_project, &verdict, app)?;
    }
    let answer = ask("Let the project's hooks run like this?", args.yes, app)?;
    let exit = match answer {
        Confirmation::Yes => {
            trust.accept_value(&scope, hooks::NAME, of_project.clone())?;
            Exit::Done
        }
        Confirmation::No => Exit::Denied,
        Confirmation::Nobody => {
            app.ui.note("there is no terminal to ask on; helve hooks trust --yes")?;
            Exit::Waiting
        }
    };
    if app.ui.is_json() {
        app.ui.json(&json!({ "trusted": answer == Confirmation::Yes }))?;
    } else if answer == Confirmation::Yes {
        let sign = app.ui.paint().good("✓");
        app.ui.line(format!("{sign} the project's hooks are trusted"))?;
    }
    Ok(exit)
}

/// Shows a project's hooks. All of it: what one may read, change and reach counts as much as its
/// command.
pub(in crate::commands) fn print(
    of_project: &Value,
    verdict: &Verdict,
    app: &mut App<'_>,
) -> anyhow::Result<()> {
    app.ui.line(escape::visible(&serde_json::to_string_pretty(of_project)?))?;
    if let Verdict::Changed { diff, .. } = verdict {
        let paint = app.ui.paint();
        app.ui.line(format!("  {}", paint.warn("they have changed since they were trusted:")))?;
        print_diff(diff, app)?;
    }
    Ok(())
}

/// Nobody trusts what cannot be used: mended, it would be something else.
fn refuse_broken(loaded: &Loaded) -> Result<(), Failure> {
    let broken = hooks::set(loaded).broken;
    match broken.is_empty() {
        true => Ok(()),
        false => Err(Failure::usage("the configuration has hooks that cannot be used")
            .details(broken)
            .hint("`helve config keys hooks` documents the keys")),
    }
}
