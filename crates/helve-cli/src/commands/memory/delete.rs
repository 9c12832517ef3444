//! `helve memory delete`: forget a value.

use helve::memory::{MemoryChange, Operation};
use helve::ports::Memory as _;
use serde_json::json;

use super::{OwnerArgs, with_memory};
use crate::app::App;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The key to forget
    key: String,
    /// Only if the value is still at this version
    #[arg(long, value_name = "NUMBER")]
    if_version: Option<u64>,
    #[command(flatten)]
    owner: OwnerArgs,
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let Args { key, if_version, owner } = args;
    let mut change = MemoryChange::new(Operation::Delete);
    change.expected_version = if_version;
    let place = owner.place(key.clone());
    let changed = with_memory(app, async |runtime| runtime.memory().change(place, change).await)?;
    // Nothing to forget is no failure: it is as it should be.
    let deleted = changed.before.is_some();
    if app.ui.is_json() {
        app.ui.json(&json!({ "key": key, "deleted": deleted }))?;
    } else {
        app.ui.note(if deleted { "forgotten" } else { "nothing was remembered under this key" })?;
    }
    Ok(Exit::Done)
}
