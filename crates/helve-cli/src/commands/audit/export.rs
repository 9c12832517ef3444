//! `helve audit export`: every call as one line of JSON.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use helve_store::StoreError;
use serde_json::json;

use crate::app::App;
use crate::config::origin::short;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::json::HarmlessLines;
use crate::ui::{count, unwritten};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let audit = super::open(app)?;
    let Some(path) = &args.out else {
        audit.export(HarmlessLines::new(app.ui.writer()), |_| {}).map_err(failed)?;
        return Ok(Exit::Done);
    };
    let file = File::create(path)
        .map_err(|error| Failure::failed(format!("cannot write {}", short(path))).because(&error))?;
    let mut out = BufWriter::new(file);
    let calls = audit.export(&mut out, |_| {}).and_then(|calls| {
        out.flush().map_err(StoreError::Output)?;
        Ok(calls)
    });
    let calls = calls.map_err(|error| match error {
        StoreError::Output(cause) => Failure::failed(format!("cannot write {}", short(path))).because(&cause),
        other => super::unreadable(&other),
    })?;
    if app.ui.is_json() {
        app.ui.json(&json!({ "written": path, "calls": calls }))?;
    } else {
        app.ui.note(format!("wrote {} to {}", count(calls, "call"), short(path)))?;
    }
    Ok(Exit::Done)
}

fn failed(error: StoreError) -> anyhow::Error {
    match error {
        // A reader that went away is not a fault; see `report`.
        StoreError::Output(cause) => unwritten(cause).into(),
        other => super::unreadable(&other).into(),
    }
}
