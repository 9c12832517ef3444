//! `helve keys revoke`: takes a key back.

use helve::KeyId;
use helve::ports::Keys;
use jiff::Timestamp;

use super::list::document;
use super::open;
use crate::app::App;
use crate::commands::approvals::local_user;
use crate::commands::caller;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::wire;

/// As typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The key's id: the public part, as `helve keys list` shows it
    #[arg(value_parser = key_id)]
    id: KeyId,
}

fn key_id(text: &str) -> Result<KeyId, String> {
    text.parse().map_err(|error| format!("{error}; `helve keys list` shows the ids of all keys"))
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    local_user("revoke keys")?;
    let store = open(app)?;
    let now = Timestamp::now();
    let revoked = wire::block_on(async { Ok(store.revoke_key(args.id, caller::local(), now).await?) })?;
    store.close()?;
    let key = revoked.ok_or_else(|| {
        Failure::usage(format!("there is no key {}", args.id)).hint("`helve keys list --all` shows them")
    })?;
    if app.ui.is_json() {
        app.ui.json(&document(&key, now))?;
    } else {
        app.ui.line(format!("revoked: `{}` no longer comes in with it", key.name))?;
    }
    Ok(Exit::Done)
}
