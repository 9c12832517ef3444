//! `helve audit export`: every call as one line of JSON.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use helve_host::config::origin::short;
use helve_host::wire::LedgerError;
use helve_store::StoreError;
use jiff::Timestamp;
use serde_json::json;

use crate::app::App;
use crate::commands::when;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::json::HarmlessLines;
use crate::ui::{count, unwritten};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only calls from this time on: `2026-11-15 10:00`, or an age such as `2h`
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    since: Option<Timestamp>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let audit = super::open(app)?;
    let Some(path) = &args.out else {
        let mut written = 0;
        let export = audit.export(args.since, HarmlessLines::new(app.ui.writer()), |calls| written = calls);
        export.map_err(|error| failed(error, written))?;
        return Ok(Exit::Done);
    };
    let file = File::create(path)
        .map_err(|error| Failure::failed(format!("cannot write {}", short(path))).because(&error))?;
    let mut out = BufWriter::new(file);
    let mut written = 0;
    let calls = audit.export(args.since, &mut out, |calls| written = calls).and_then(|calls| {
        out.flush().map_err(StoreError::Output)?;
        Ok(calls)
    });
    let calls = calls.map_err(|error| match error.into_output() {
        Ok(cause) => Failure::failed(format!("cannot write {}", short(path))).because(&cause),
        Err(other) => stopped(&other, written),
    })?;
    if app.ui.is_json() {
        app.ui.json(&json!({ "written": path, "calls": calls }))?;
    } else {
        app.ui.note(format!("wrote {} to {}", count(calls, "call"), short(path)))?;
    }
    Ok(Exit::Done)
}

/// Says how far it came: what was written holds.
fn stopped(error: &LedgerError, written: u64) -> Failure {
    super::unreadable(error).detail(format!("written up to there: {}", count(written, "call")))
}

fn failed(error: LedgerError, written: u64) -> anyhow::Error {
    match error.into_output() {
        // A reader that went away is not a fault; see `report`.
        Ok(cause) => unwritten(cause).into(),
        Err(other) => stopped(&other, written).into(),
    }
}
