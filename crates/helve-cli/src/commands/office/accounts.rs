//! `helve office accounts`: what is connected, when it was synced, and what is wrong.

use helve_office::Office;
use helve_office::connect::{AccountSettings, Auth, LOCAL};
use helve_store::office::AccountRow;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};

use super::{open, unusable};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::when;
use crate::exit::Exit;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone, Yield};

const AFTER_HELP: &str = "\
The account `local` is always there and needs no server: it has what you import, and what tools write to it.

Examples:
  helve office accounts
  helve office accounts --json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let office = open(app)?;
    // It makes the account `local` where there is none yet.
    office.accounts();
    let rows = block_on(async { Ok(office.db().accounts().await.map_err(|error| unusable(&error))?) })?;
    if app.ui.is_json() {
        app.ui.json(&rows.iter().map(|row| document(row, &office)).collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    app.ui.table(table(&rows, &office))?;
    if rows.len() == 1 {
        app.ui.note("\nnothing is connected; `helve connect mail` connects an account, `helve office demo load` loads a demo")?;
    }
    Ok(Exit::Done)
}

/// An account for programs. Never its secret: only where that lies.
pub(in crate::commands) fn document(row: &AccountRow, office: &Office) -> Value {
    let settings: Option<AccountSettings> = serde_json::from_str(&row.settings).ok();
    json!({
        "id": row.id, "kind": row.kind, "address": row.address, "name": row.name, "owner": row.owner,
        "has": has(row, office), "connected_at": row.created_at, "synced_at": row.synced_at,
        "trouble": trouble(row, office), "secret": settings.as_ref().map(secret),
        "settings": settings,
    })
}

fn secret(settings: &AccountSettings) -> String {
    match settings.auth() {
        Auth::Password(place) => place.to_string(),
        Auth::OAuth(login) => format!("a login at {}", login.issuer),
    }
}

/// What an account offers.
fn has(row: &AccountRow, office: &Office) -> Vec<&'static str> {
    let accounts = office.accounts();
    let Some(account) = accounts.iter().find(|account| account.id == row.id) else { return Vec::new() };
    let parts = [
        ("mail", account.mails.is_some()),
        ("sending", account.submit.is_some()),
        ("calendar", account.objects.is_some()),
    ];
    parts.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

fn trouble(row: &AccountRow, office: &Office) -> Option<String> {
    let aside = office.set_aside().iter().find(|aside| aside.id == row.id).map(|aside| aside.trouble.clone());
    aside.or_else(|| row.trouble.clone())
}

fn table(rows: &[AccountRow], office: &Office) -> Table {
    const YIELDS: &[Yield] = &[Yield::Drop(3), Yield::Drop(2), Yield::Cut(5, 20)];
    let mut table =
        Table::new(["account", "address", "has", "owner", "synced", "trouble"]).one_line_rows(YIELDS);
    let today = Zoned::now();
    for row in rows {
        let person = office
            .accounts()
            .iter()
            .find(|account| account.id == row.id)
            .and_then(|account| account.person.clone());
        let address = person.map(|person| person.address().to_string()).or_else(|| row.address.clone());
        table.row([
            Cell::new(&row.id, Tone::Strong),
            Cell::from(address.unwrap_or_default()),
            Cell::from(has(row, office).join(", ")),
            Cell::from(row.owner.clone().unwrap_or_else(|| "everybody".to_owned())),
            synced(row, &today),
            Cell::new(trouble(row, office).unwrap_or_default(), Tone::Warn),
        ]);
    }
    table
}

fn synced(row: &AccountRow, today: &Zoned) -> Cell {
    match row.synced_at {
        _ if row.id == LOCAL => Cell::new("needs no sync", Tone::Dim),
        Some(at) => Cell::new(format!("{} ({} ago)", when::brief(at, today), age(at)), Tone::Dim),
        None => Cell::new("never", Tone::Warn),
    }
}

/// How long ago, in one word.
pub(in crate::commands) fn age(at: Timestamp) -> String {
    match Timestamp::now().duration_since(at).as_secs().max(0) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}
