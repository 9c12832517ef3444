//! `helve memory set`: remember a value.

use helve::memory::{MemoryChange, Operation};
use helve::ports::Memory as _;
use jiff::SignedDuration;
use serde_json::Value;

use super::{OwnerArgs, document, span, with_memory};
use crate::app::App;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  helve memory set api.rateLimit.remaining 60 --session s-1 --ttl 1h
  helve memory set user/name Ada --scope long-term --agent assistant
  helve memory set plan '{\"step\": 2}' --if-version 41";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The key to set
    key: String,
    /// The value: JSON, or else text
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Forget it after this time, as in `90s`, `2h` or `7d`
    #[arg(long, value_name = "TIME", value_parser = span)]
    ttl: Option<SignedDuration>,
    /// Only if the value is still at this version; 0: only if there is none
    #[arg(long, value_name = "NUMBER")]
    if_version: Option<u64>,
    #[command(flatten)]
    owner: OwnerArgs,
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let Args { key, value, ttl, if_version, owner } = args;
    let value = serde_json::from_str(&value).unwrap_or(Value::String(value));
    let mut change = MemoryChange::new(Operation::Write(value));
    change.time_to_live = ttl;
    change.expected_version = if_version;
    let place = owner.place(key.clone());
    let changed = with_memory(app, async |runtime| runtime.memory().change(place, change).await)?;
    if let Some(after) = changed.after {
        if app.ui.is_json() {
            app.ui.json(&document(&key, &after))?;
        } else {
            app.ui.note(format!("remembered, version {}", after.version))?;
        }
    }
    Ok(Exit::Done)
}
