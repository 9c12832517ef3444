//! `helve audit checkpoint` and `key`: proof that can be kept where nobody who writes the journal can.

use std::path::PathBuf;

use helve_store::{CheckpointError, SigningKey};
use jiff::Timestamp;
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::count;

const AFTER_HELP: &str = "\
A checkpoint is a signed note: how many entries the journal has, and the hash of the last. Keep it,
and the key that checks it, on another machine. Anyone who changes, removes or rewrites an entry that it
covers cannot make the journal fit it again.

Examples:
  helve audit key > helve-audit.pub
  helve audit checkpoint --out monday.txt
  helve audit verify --checkpoint monday.txt --key \"$(cat helve-audit.pub)\"";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Write it to this file instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KeyArgs {}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let audit = super::open_file(app)?;
    // What is not sound is not signed.
    let found = audit.verify(|_| {}).map_err(|error| super::unreadable(&error.into()))?;
    if let Some(problem) = &found.first_problem {
        return Err(Failure::failed("the journal is not sound, so it is not signed")
            .detail(problem.what.clone())
            .hint("`helve audit verify` says more")
            .into());
    }
    let key = open_key(app)?;
    let (checkpoint, note) = audit.checkpoint(&key, Timestamp::now()).map_err(|error| failure(&error))?;
    if let Some(file) = &args.out {
        std::fs::write(file, &note)
            .map_err(|error| Failure::failed(format!("cannot write {}", file.display())).because(&error))?;
    }
    if app.ui.is_json() {
        let key = key.verifying().to_string();
        app.ui.json(&json!({ "checkpoint": checkpoint, "note": note, "key": key }))?;
    } else if args.out.is_some() {
        let sign = app.ui.paint().good("✓");
        app.ui.line(format!("{sign} {} signed", count(checkpoint.head.seq, "entry")))?;
        app.ui.note("keep it, and what `helve audit key` prints, on another machine")?;
    } else {
        app.ui.text(&note)?;
    }
    Ok(Exit::Done)
}

pub(crate) fn key(_args: &KeyArgs, app: &mut App<'_>) -> anyhow::Result<Exit> {
    super::open_file(app)?;
    let key = open_key(app)?.verifying().to_string();
    match app.ui.is_json() {
        true => app.ui.json(&json!({ "key": key }))?,
        false => app.ui.line(key)?,
    }
    Ok(Exit::Done)
}

fn open_key(app: &mut App<'_>) -> Result<SigningKey, Failure> {
    SigningKey::open(&app.load_config()?.journal_path).map_err(|error| failure(&error))
}

fn failure(error: &CheckpointError) -> Failure {
    Failure::failed("nothing can be signed").because(error)
}
