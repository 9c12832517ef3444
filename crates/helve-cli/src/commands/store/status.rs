//! `helve store status`: what the ledger takes on disk.

use helve_store::StoreStatus;

use super::{bytes, failed};
use crate::app::App;
use crate::commands::when;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::Ui;
use crate::wire;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let unreadable = |error| -> Failure { failed("the journal cannot be read", &error) };
    let status = wire::open_audit(&loaded)?.and_then(|audit| audit.status()).map_err(unreadable)?;
    match app.ui.is_json() {
        true => app.ui.json(&status)?,
        false => print(&status, app.ui)?,
    }
    Ok(Exit::Done)
}

fn print(status: &StoreStatus, ui: &mut Ui) -> anyhow::Result<()> {
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
    if status.aside_bytes > 0 {
        rows.push((
            "put aside",
            format!("{} in helve.db.before; delete it once nobody needs it", bytes(status.aside_bytes)),
        ));
    }
    rows.into_iter().try_for_each(|(name, value)| ui.line(format!("{name:<13}{value}")))?;
    Ok(())
}
