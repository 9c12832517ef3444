//! `helve store status`: what the ledger takes on disk.

use helve_host::wire;
use helve_store::{PrunePlan, StoreStatus};
use jiff::Timestamp;

use super::{bytes, failed};
use crate::app::App;
use crate::commands::when;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::{Ui, count};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    wire::need_file(
        &loaded,
        "ask the server: `SELECT pg_size_pretty(pg_database_size(current_database()))`",
    )?;
    let unreadable = |error| -> Failure { failed("the journal cannot be read", &error) };
    let audit = wire::open_audit(&loaded)?.map_err(unreadable)?;
    let status = audit.status().map_err(unreadable)?;
    let retention = &loaded.config.journal.retention;
    let plan = retention
        .is_set()
        .then(|| audit.prune_plan(&retention.at(&loaded.config.limits.calls, Timestamp::now(), "")));
    let plan = plan.transpose().map_err(unreadable)?;
    if app.ui.is_json() {
        let mut document = serde_json::to_value(&status)?;
        document["prunable"] = serde_json::to_value(&plan)?;
        app.ui.json(&document)?;
    } else {
        print(&status, plan.as_ref(), app.ui)?;
    }
    Ok(Exit::Done)
}

fn print(status: &StoreStatus, plan: Option<&PrunePlan>, ui: &mut Ui) -> anyhow::Result<()> {
    let entries = match status.first_entry {
        0 => "none".to_owned(),
        first => format!("{first} to {}", status.last_entry),
    };
    let mut rows = vec![
        ("entries", entries),
        ("calls", status.calls.to_string()),
        ("oldest", status.oldest.map_or_else(|| "none".to_owned(), when::shown)),
        ("database", format!("{}, of which {} are free", bytes(status.bytes), bytes(status.free_bytes))),
        ("log", bytes(status.log_bytes)),
        ("bytes a call", status.bytes_per_call.to_string()),
        ("kept files", bytes(status.files_bytes)),
    ];
    rows.push(match plan {
        None => ("prunable", "nothing says what may go; see `[journal.retention]`".to_owned()),
        Some(plan) => ("prunable", format!("{}, {}", count(plan.entries(), "entry"), bytes(plan.bytes))),
    });
    rows.extend(plan.and_then(|plan| plan.held.as_ref()).map(|hold| ("held", hold.to_string())));
    if status.aside_bytes > 0 {
        rows.push((
            "put aside",
            format!("{} in helve.db.before; delete it once it is not needed", bytes(status.aside_bytes)),
        ));
    }
    rows.into_iter().try_for_each(|(name, value)| ui.line(format!("{name:<13}{value}")))?;
    Ok(())
}
