//! How old the office's index is. A server keeps it up to date; a single call finds what the last sync brought.

use helve::{Caller, Tool};
use helve_host::config::Loaded;
use helve_host::wire;
use helve_office::connect::LOCAL;
use helve_store::office::AccountRow;
use jiff::{SignedDuration, Timestamp};

use crate::commands::office::accounts::age;

/// From what age on it is worth a word.
const OLD: SignedDuration = SignedDuration::from_hours(1);

/// What to say of a call of this tool, one line for each account that was not synced lately. Nothing is made by that.
pub(super) fn remarks(tool: &Tool, caller: &Caller, loaded: &Loaded) -> Vec<String> {
    if !tool.definition().annotations.read_only || !wire::office::path(loaded).exists() {
        return Vec::new();
    }
    let is_office =
        wire::office::tools(loaded).is_ok_and(|all| all.iter().any(|one| one.name() == tool.name()));
    let Some(office) = wire::office::office(loaded).ok().filter(|_| is_office) else { return Vec::new() };
    let usable = office.accounts_of(caller);
    let rows = office.db().accounts_now().unwrap_or_default();
    let is_meant = |row: &&AccountRow| row.id != LOCAL && usable.iter().any(|account| account.id == row.id);
    rows.iter().filter(is_meant).filter_map(remark).collect()
}

fn remark(row: &AccountRow) -> Option<String> {
    let what = if row.kind == "dav" { "calendar" } else { "mail" };
    let when = match row.synced_at {
        Some(at) if Timestamp::now().duration_since(at) <= OLD => return None,
        Some(at) => format!("last synced {} ago", age(at)),
        None => "never synced".to_owned(),
    };
    Some(format!("{what} `{}` was {when}; `helve office sync` brings it up to date", row.id))
}
