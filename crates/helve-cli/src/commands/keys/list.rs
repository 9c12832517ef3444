//! `helve keys list`: who may come in.

use helve::Access;
use helve::identity::{Key, KeyState, Purpose};
use helve_host::wire;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};

use super::open;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::when;
use crate::exit::Exit;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone, Yield};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also keys that are no longer valid, and sign-in codes
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let now = Timestamp::now();
    let mut found = match wire::open_trail(&loaded)? {
        Err(error) if error.is_missing() => Vec::new(),
        Ok(_) | Err(_) => {
            let ledger = open(app)?;
            let found = block_on(async { Ok(ledger.keys().await?) })?;
            ledger.close()?;
            found
        }
    };
    let is_shown = |key: &Key| key.state_at(now) == KeyState::Live && key.purpose != Purpose::SignIn;
    let were_some = found.iter().any(|key| key.purpose != Purpose::SignIn);
    found.retain(|key| args.all || is_shown(key));
    if app.ui.is_json() {
        app.ui.json(&found.iter().map(|key| document(key, now)).collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        app.ui.note(match were_some {
            true => "no key is good any more; `helve keys list --all` shows those that were",
            false => "there are no keys; `helve keys create NAME` makes one",
        })?;
        return Ok(Exit::Done);
    }
    app.ui.table(table(&found, now))?;
    Ok(Exit::Done)
}

/// What anybody may know of a key.
pub(super) fn document(key: &Key, now: Timestamp) -> Value {
    json!({
        "id": key.id, "name": key.name, "purpose": key.purpose, "kind": key.kind, "roles": key.roles,
        "access": key.access, "state": key.state_at(now), "made_by": key.made_by, "made_at": key.made_at,
        "expires_at": key.expires_at, "revoked_by": key.revoked_by, "revoked_at": key.revoked_at,
        "used_at": key.used_at,
    })
}

fn table(found: &[Key], now: Timestamp) -> Table {
    const YIELDS: &[Yield] = &[Yield::Drop(6), Yield::Drop(4), Yield::Cut(3, 12)];
    let mut table =
        Table::new(["key", "name", "for", "tools", "roles", "state", "last used"]).one_line_rows(YIELDS);
    let today = Zoned::now();
    for key in found {
        let good_for = match key.purpose {
            Purpose::Call => "calling",
            Purpose::Decide => "deciding",
            Purpose::SignIn => "signing in",
        };
        let tools = match &key.access {
            Access::All if key.purpose == Purpose::Call => "all".to_owned(),
            Access::All => String::new(),
            Access::Only(tools) => tools.join(", "),
        };
        let state = match key.state_at(now) {
            KeyState::Live => match key.expires_at {
                Some(at) => Cell::from(format!("until {}", when::brief(at, &today))),
                None => Cell::new("good", Tone::Good),
            },
            KeyState::Expired => Cell::new("expired", Tone::Dim),
            KeyState::Revoked => Cell::new("revoked", Tone::Warn),
            KeyState::Used => Cell::new("used", Tone::Dim),
        };
        let used = key.used_at.map_or_else(|| "never".to_owned(), |at| when::brief(at, &today));
        table.row([
            Cell::from(key.id.to_string()),
            Cell::new(&key.name, Tone::Strong),
            Cell::from(good_for),
            Cell::from(tools),
            Cell::from(key.roles.join(", ")),
            state,
            Cell::new(used, Tone::Dim),
        ]);
    }
    table
}
