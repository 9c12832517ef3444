//! `helve rules trust`: let a project's own allow rules count, after a look at them.

use crate::app::App;
use crate::commands::mcp::ask::{Answer, ask};
use crate::config::rules;
use crate::exit::Exit;
use crate::ui::escape;
use crate::wire::rules::RuleFiles;
use serde_json::json;

/// As typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Trust them as they are shown, without a question
    #[arg(long, short)]
    yes: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let Some(held) = rules::places(&loaded)?.held else {
        match app.ui.is_json() {
            true => app.ui.json(&json!({ "trusted": true, "asked": false }))?,
            false => app.ui.line("there is nothing to trust: all of the project's rules count")?,
        }
        return Ok(Exit::Done);
    };
    if !app.ui.is_json() {
        app.ui.line("This project wants to allow:")?;
        let lines = held.allow.iter().map(ToString::to_string).chain(
            held.mode
                .iter()
                .map(|mode| format!("the mode {}", mode.as_str()))
                .chain(held.directories.iter().map(|folder| format!("changes below {folder}"))),
        );
        for line in lines {
            app.ui.line(format!("  {}", escape::one_line(&line, 200)))?;
        }
    }
    let answer = ask("Let that count?", args.yes, app)?;
    let exit = match answer {
        Answer::Yes => {
            let set = rules::of_file(loaded.project_file.as_deref())?;
            RuleFiles::of(&loaded).trust(&set)?;
            Exit::Done
        }
        Answer::No => Exit::Denied,
        Answer::Nobody => {
            app.ui.note("nobody is there to be asked; helve rules trust --yes")?;
            Exit::Waiting
        }
    };
    if app.ui.is_json() {
        app.ui.json(&json!({ "trusted": answer == Answer::Yes, "asked": true }))?;
    } else if answer == Answer::Yes {
        let sign = app.ui.paint().good("✓");
        app.ui.line(format!("{sign} they count, until they change"))?;
    }
    Ok(exit)
}
