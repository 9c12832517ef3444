//! `helve mcp import`: servers from the files that people already have.

use std::path::Path;

use helve_host::config::origin::short;
use helve_host::config::{Loaded, load};
use helve_host::wire::mcp;
use helve_host::wire::trust::{self, Store};
use helve_mcp::import::{self, Homes, Imported, Kind, Scope, ServerFile};
use serde_json::{Value, json};

use super::ask::{Confirmation, ask};
use super::{prepare, show};
use crate::app::App;
use crate::commands::file;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

const AFTER_HELP: &str = "\
Reads `.mcp.json`, `.vscode/mcp.json` and `.cursor/mcp.json` of the project, and the files of Claude
Code, Claude Desktop, VS Code and Cursor in your home. You see each server before it is written into
helve.toml and trusted. A secret in such a file is not copied: Helve writes a reference, and says
which variable to set.

Exit codes:
  0 done   2 wrong use   3 a person must say yes

Examples:
  helve mcp import
  helve mcp import --from cursor
  helve mcp import github --yes";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only these servers
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only from the files of this program
    #[arg(long, value_enum, value_name = "KIND")]
    from: Option<From>,
    /// Write all into your own helve.toml. Left out: those of the project into the project's
    #[arg(long)]
    user: bool,
    /// Write and trust them as they are shown, without a question
    #[arg(long, short)]
    yes: bool,
}

/// The program whose files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum From {
    ClaudeCode,
    ClaudeDesktop,
    Vscode,
    Cursor,
}

impl From {
    fn is(self, kind: Kind) -> bool {
        match kind {
            Kind::ClaudeCode | Kind::ClaudeCodeUser => self == Self::ClaudeCode,
            Kind::ClaudeDesktop => self == Self::ClaudeDesktop,
            Kind::VsCode => self == Self::Vscode,
            Kind::Cursor => self == Self::Cursor,
        }
    }
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let project = loaded.project_file.as_deref().and_then(Path::parent).unwrap_or(&app.inputs.work_dir);
    let found = import::find(project, &Homes::of_user());
    let mut documents = Vec::new();
    let mut exit = Exit::Done;
    let mut waiting = 0;
    for found in found.iter().filter(|found| args.from.is_none_or(|from| from.is(found.kind))) {
        heading(found, app)?;
        let read = match import::read(found) {
            Ok(read) => read,
            Err(error) => {
                documents.push(json!({ "file": found.path, "error": error.to_string() }));
                app.ui.note(format!("  {error}"))?;
                continue;
            }
        };
        for refused in &read.refused {
            documents.push(json!({ "file": found.path, "name": refused.name, "error": refused.reason }));
            app.ui.note(format!(
                "  {} cannot be used: {}",
                refused.name,
                escape::one_line(&refused.reason, 300)
            ))?;
        }
        for mut server in read.servers {
            if !args.names.is_empty() && !args.names.contains(&server.name) {
                continue;
            }
            make_ready(&mut server, &loaded, app);
            let server = &server;
            let became = one(server, args, app)?;
            if became == Became::Waits {
                waiting += 1;
                exit = Exit::Waiting;
            }
            documents.push(document(server, found, became));
        }
    }
    if app.ui.is_json() {
        app.ui.json(&documents)?;
    } else if documents.is_empty() {
        app.ui.note("nothing was found to import; `helve mcp add` adds a server")?;
    } else if waiting > 0 {
        app.ui.note(
            "nothing was written: there is no terminal to ask on; --yes writes and trusts them as shown",
        )?;
    }
    Ok(exit)
}

fn heading(found: &ServerFile, app: &mut App<'_>) -> anyhow::Result<()> {
    if app.ui.is_json() {
        return Ok(());
    }
    let paint = app.ui.paint();
    let path = escape::one_line(&short(&found.path), 200);
    app.ui.line(format!("{}  {}", paint.bold(found.kind.as_str()), paint.dim(path)))?;
    Ok(())
}

/// What became of a server that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    Imported,
    /// There is one of this name.
    Present,
    Declined,
    /// Nobody was there to be asked.
    Waits,
}

/// Works out how a server is started here, as `helve mcp add` does.
fn make_ready(server: &mut Imported, loaded: &Loaded, app: &App<'_>) {
    let own = server.scope == Scope::User;
    let target = file::target(loaded, own, &app.inputs.work_dir).ok();
    let folder = target.as_deref().and_then(Path::parent).unwrap_or(&app.inputs.work_dir);
    let prepared = prepare::program(server.config.clone(), folder);
    server.notes.extend(prepared.note(&server.name));
    server.config = prepared.plan.config;
}

fn one(server: &Imported, args: &Args, app: &mut App<'_>) -> anyhow::Result<Became> {
    let loaded = load(&app.inputs)?;
    let name = &server.name;
    if loaded.config.mcp.servers.contains_key(name) {
        app.ui.note(format!("  {name} is configured already"))?;
        return Ok(Became::Present);
    }
    if !app.ui.is_json() {
        let paint = app.ui.paint();
        app.ui.line(format!("  {}", paint.bold(name)))?;
        app.ui.table(show::facts(name, &server.config))?;
        for note in &server.notes {
            app.ui.line(format!("  {} {}", paint.warn("!"), escape::one_line(note, 600)))?;
        }
    }
    match ask(&format!("Write {name} into helve.toml, and trust it?"), args.yes, app)? {
        Confirmation::Yes => {}
        Confirmation::No => return Ok(Became::Declined),
        Confirmation::Nobody => return Ok(Became::Waits),
    }
    write(server, args.user, &loaded, app)?;
    Ok(Became::Imported)
}

fn write(server: &Imported, user: bool, loaded: &Loaded, app: &mut App<'_>) -> anyhow::Result<()> {
    let own = user || server.scope == Scope::User;
    let target = file::target(loaded, own, &app.inputs.work_dir)?;
    file::change(&target, |text| {
        server.insert_into(text).map_err(|error| Failure::usage(error.to_string()))
    })?;
    let one = mcp::find_configured(&load(&app.inputs)?, &server.name)?;
    trust::open(Store::Servers)?.accept(&one.scope, &one.name, &one.config)?;
    if !app.ui.is_json() {
        let sign = app.ui.paint().good("✓");
        app.ui.line(format!("  {sign} {} is in {}", server.name, short(&target)))?;
    }
    Ok(())
}

fn document(server: &Imported, found: &ServerFile, became: Became) -> Value {
    let became = match became {
        Became::Imported => "imported",
        Became::Present => "present",
        Became::Declined => "declined",
        Became::Waits => "waiting",
    };
    json!({
        "file": found.path, "kind": found.kind.as_str(), "name": server.name, "became": became,
        "config": helve_mcp::trust::shown(&server.config), "notes": server.notes,
    })
}
