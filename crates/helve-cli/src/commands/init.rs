//! `helve init`: a commented helve.toml in this folder.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};

use helve_host::config::find::FILE_NAME;
use helve_host::config::origin::short;
use helve_host::config::{Loaded, load};
use helve_host::wire;
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;

/// What is written. A test reads it back with every comment taken away.
const TEMPLATE: &str = include_str!("init.toml");

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Overwrite a helve.toml that is already there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let path = app.inputs.work_dir.join(FILE_NAME);
    let mut options = OpenOptions::new();
    options.write(true);
    // Creating and checking in one step: a file that appears in between is never overwritten.
    if args.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let mut file = options.open(&path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::usage("there is already a helve.toml in this folder")
            .hint("`helve init --force` overwrites it; `helve config show` shows what it says"),
        _ => Failure::failed("helve.toml cannot be written").because(&error),
    })?;
    file.write_all(TEMPLATE.as_bytes())?;
    let loaded = load(&app.inputs)?;
    let is_adopted = wire::journal::keep_adopted(&loaded)?;
    if app.ui.is_json() {
        app.ui.json(&json!({ "written": path, "journal": loaded.journal_path }))?;
        return Ok(Exit::Done);
    }
    let paint = app.ui.paint();
    app.ui.line(format!("{} wrote {}", paint.good("✓"), paint.bold(FILE_NAME)))?;
    app.ui.note(recorded(&loaded, is_adopted))?;
    app.ui.note("uncomment a tool in it, then: helve tools lint helve.toml && helve tools list")?;
    Ok(Exit::Done)
}

/// Where calls in this folder are recorded from now on.
fn recorded(loaded: &Loaded, is_adopted: bool) -> String {
    let shown = short(&loaded.journal_path);
    if is_adopted {
        return format!("calls here go on in {shown}, which the running `helve up` uses");
    }
    match wire::journal::outside(loaded) {
        Some(user) => {
            let user = short(&user);
            format!(
                "calls here are recorded in {shown}; earlier ones without a project stay in {user}, and servers that \
                 run already (`helve mcp serve`) use that until they are restarted"
            )
        }
        None => format!("calls here are recorded in {shown}"),
    }
}
