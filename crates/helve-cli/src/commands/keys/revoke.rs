//! `helve keys revoke`: takes a key back.

use helve::KeyId;
use helve::identity::{Key, KeyState, Purpose};
use helve::ports::Ledger;
use jiff::Timestamp;

use super::list::document;
use super::open;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::local_user;
use crate::commands::caller;
use crate::exit::Exit;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The key's id, as `helve keys list` shows it, or its name where one key has it
    #[arg(value_name = "ID|NAME")]
    key: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    local_user("revoke keys")?;
    let ledger = open(app)?;
    let now = Timestamp::now();
    let revoked = block_on(async {
        let id = find(&*ledger, &args.key, now).await?;
        Ok(ledger.revoke_key(id, caller::local(), now).await?)
    });
    ledger.close()?;
    let key = revoked?.ok_or_else(|| none(&args.key))?;
    if app.ui.is_json() {
        app.ui.json(&document(&key, now))?;
    } else {
        app.ui.line(format!("revoked: `{}` no longer comes in with it", key.name))?;
    }
    Ok(Exit::Done)
}

/// The key of this id, or the one good key of this name.
async fn find(ledger: &dyn Ledger, text: &str, now: Timestamp) -> anyhow::Result<KeyId> {
    let keys = ledger.keys().await?;
    if let Ok(id) = text.parse::<KeyId>()
        && keys.iter().any(|key| key.id == id)
    {
        return Ok(id);
    }
    let is_meant = |key: &&Key| {
        key.name == text && key.purpose != Purpose::SignIn && key.state_at(now) == KeyState::Live
    };
    let named: Vec<_> = keys.iter().filter(is_meant).collect();
    match named.as_slice() {
        [] => Err(none(text).into()),
        [key] => Ok(key.id),
        several => Err(Failure::usage(format!("{} keys have the name `{text}`; say which", several.len()))
            .details(several.iter().map(|key| format!("helve keys revoke {}", key.id)))
            .into()),
    }
}

fn none(text: &str) -> Failure {
    Failure::usage(format!("there is no key `{text}`")).hint("`helve keys list --all` shows them")
}
