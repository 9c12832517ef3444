//! `helve up`: prepares the store, checks the machine, shows what is there and what to type next, and
//! serves all of it. What other processes left in its middle is resumed in the background, so that nobody waits for it.

use std::net::SocketAddr;
use std::path::PathBuf;

use helve::Filter;
use helve_host::config::load;
use helve_host::wire;
use helve_store::Glance;
use serde_json::json;

use crate::app::App;
use crate::checks::{self, Check, Purpose, State};
use crate::commands::serve;
use crate::exit::Exit;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, escape};

const AFTER_HELP: &str = "\
Examples:
  helve up
  helve up --check
  helve up --listen 0.0.0.0:7777 --token-file tokens.txt

A token file has a token on each line, alone or after a name: `ada = TOKEN`. Where there is none,
Helve writes one with a token of its own, which only you can read.";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Serve on this address [default: 127.0.0.1:7777, or any free port where that is taken]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Accept the tokens in this file; Helve makes the file if it is missing
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Check, change nothing and serve nothing
    #[arg(long, conflicts_with_all = ["listen", "token_file"])]
    check: bool,
}

/// `127.0.0.1:7777`, or as people write it: `7777`, `:7777`, `localhost:7777`.
fn address(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let text = match (host, port.parse::<u16>()) {
        ("" | "localhost", Ok(port)) => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    text.parse().map_err(|_| "it is an address and a port, as in 127.0.0.1:7777".to_owned())
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    if let Some(address) = args.listen {
        serve::refuse_open(address, args.token_file.as_deref())?;
    }
    let purpose = if args.check { Purpose::Look } else { Purpose::Serve };
    // Opening the journal is one of the checks, and makes it where there is none, unless it is only looked.
    let checks = checks::all(app, purpose);
    let worst = checks.iter().map(|check| check.state).max().unwrap_or(State::Good);
    let next = if worst == State::Broken {
        vec![("helve doctor", "the same, after you mended it")]
    } else {
        next(app)
    };
    if app.ui.is_json() {
        let commands: Vec<_> = next.iter().map(|(command, _)| command).collect();
        app.ui.json(&json!({ "version": VERSION, "state": worst, "checks": checks, "next": commands }))?;
    } else {
        print(&checks, &next, app)?;
    }
    match worst {
        State::Broken if args.check || !checks.iter().all(|check| check.lets_serve) => Ok(Exit::Failed),
        _ if args.check => Ok(Exit::Done),
        _ => serve::http(args.listen, args.token_file, app),
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn print(checks: &[Check], next: &[(&str, &str)], app: &mut App<'_>) -> anyhow::Result<()> {
    let paint = app.ui.paint();
    app.ui.line(format!("{} {}", paint.bold("helve"), paint.dim(VERSION)))?;
    app.ui.line("")?;
    let mut table = Table::bare().indented();
    for check in checks {
        table.row([
            check.state.cell(),
            Cell::new(check.name, Tone::Dim),
            Cell::uncut(&check.found, Tone::Plain),
        ]);
        if let Some(fix) = &check.fix {
            table.row(["".into(), "".into(), Cell::uncut(format!("→ {fix}"), Tone::Warn)]);
        }
    }
    app.ui.table(table)?;
    app.ui.line("")?;
    app.ui.heading("Next")?;
    let mut table = Table::bare().indented();
    for (command, what) in next {
        table.row([Cell::to_copy(command, Tone::Strong), Cell::new(what, Tone::Dim)]);
    }
    app.ui.table(table)?;
    if app.ui.on_terminal()
        && let Some(path) = where_helve_is()
    {
        app.ui.line("")?;
        let hint = format!("`helve` is {path}; `cargo install --path crates/helve-cli` puts it on your PATH");
        app.ui.line(format!("  {}", paint.dim(&hint)))?;
    }
    Ok(())
}

/// Where this program is, unless typing its name finds it: after `cargo run` it does not.
fn where_helve_is() -> Option<String> {
    let here = std::env::current_exe().ok()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join("helve").is_file());
    let near =
        std::env::current_dir().ok().and_then(|folder| Some(here.strip_prefix(folder).ok()?.to_owned()));
    (!found).then(|| escape::visible(&near.unwrap_or(here).display().to_string()).into_owned())
}

/// What makes sense to type now: the first call for a newcomer, the record for one who has called.
fn next(app: &App<'_>) -> Vec<(&'static str, &'static str)> {
    let Ok(loaded) = load(&app.inputs) else { return Vec::new() };
    let is_new = match loaded.has_database() {
        true => false,
        false => {
            wire::refuse_brought(&loaded).is_err()
                || Glance::at(&loaded.journal_path)
                    .ok()
                    .flatten()
                    .is_none_or(|glance| glance.newest_call.is_none())
        }
    };
    let has_builtin = wire::registry(&loaded).is_ok_and(|registry| {
        registry.list(&Filter::default()).iter().any(|one| one.name().as_str() == "math-eval")
    });
    let mut next = Vec::new();
    if wire::trust::waiting(&loaded).is_ok_and(|waiting| !waiting.is_empty()) {
        next.push(("helve trust", "see what this project brings, and let it"));
    }
    next.push(("helve tools list", "every tool"));
    if has_builtin {
        next.push(("helve call math-eval expression='2^10 / 3'", "call one"));
    }
    if is_new {
        next.push(("helve tools export --format anthropic", "what a model is given"));
    } else {
        next.push(("helve audit list", "every call so far"));
        next.push(("helve audit verify", "prove that nothing was changed"));
    }
    if loaded.project_file.is_none() {
        next.push(("helve init", "start a project here"));
    }
    next
}
