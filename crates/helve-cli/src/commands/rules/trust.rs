//! `helve rules trust`: let a project's own allow rules count, after a look at them.

use helve::Layer;
use helve::permission::PermissionSet;
use helve_host::config::rules::{self, BroughtRules};
use helve_host::wire::rules::RuleFiles;
use helve_mcp::trust::Verdict;
use serde_json::json;

use crate::app::App;
use crate::commands::mcp::ask::{Confirmation, ask};
use crate::exit::Exit;
use crate::ui::escape;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Trust them as they are shown, without a question
    #[arg(long, short)]
    yes: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let brought = rules::brought(&loaded)?.filter(|_| loaded.is_foreign(Layer::Project));
    let Some(BroughtRules { held, all, .. }) = brought.filter(|one| one.verdict != Verdict::Trusted) else {
        match app.ui.is_json() {
            true => app.ui.json(&json!({ "trusted": true, "asked": false }))?,
            false => app.ui.line("there is nothing to trust: all of the project's rules count")?,
        }
        return Ok(Exit::Done);
    };
    if !app.ui.is_json() {
        print(&held, app)?;
    }
    let answer = ask("Let that count?", args.yes, app)?;
    let exit = match answer {
        Confirmation::Yes => {
            RuleFiles::of(&loaded).trust(&all)?;
            Exit::Done
        }
        Confirmation::No => Exit::Denied,
        Confirmation::Nobody => {
            app.ui.note("there is no terminal to ask on; helve rules trust --yes")?;
            Exit::Waiting
        }
    };
    if app.ui.is_json() {
        app.ui.json(&json!({ "trusted": answer == Confirmation::Yes, "asked": true }))?;
    } else if answer == Confirmation::Yes {
        let sign = app.ui.paint().good("✓");
        app.ui.line(format!("{sign} they count, until they change"))?;
    }
    Ok(exit)
}

/// Shows what a project's rules allow.
pub(in crate::commands) fn print(held: &PermissionSet, app: &mut App<'_>) -> anyhow::Result<()> {
    app.ui.line("This project wants to allow:")?;
    let mode = held.mode.iter().map(|mode| format!("the mode {}", mode.as_str()));
    let folders = held.directories.iter().map(|folder| format!("changes below {folder}"));
    for line in held.allow.iter().map(ToString::to_string).chain(mode).chain(folders) {
        app.ui.line(format!("  {}", escape::one_line(&line, 200)))?;
    }
    Ok(())
}
