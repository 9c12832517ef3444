//! `helve trust revoke`: trust it no longer.

use helve_host::wire::trust;
use serde_json::json;

use super::known;
use crate::app::App;
use crate::exit::Exit;
use crate::ui::escape;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A tool's or server's name, `settings`, `hooks` or `rules` [default: all in this folder]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let mut all = trust::brought(&loaded)?;
    let gone = trust::gone(&loaded, &all);
    all.extend(gone);
    known(&args.names, &all)?;
    let mut revoked = Vec::new();
    for one in all.iter().filter(|one| args.names.is_empty() || args.names.contains(&one.name)) {
        if one.revoke(&loaded)? {
            revoked.push(one);
        }
    }
    if app.ui.is_json() {
        let said: Vec<_> =
            revoked.iter().map(|one| json!({ "kind": one.kind(), "name": one.name })).collect();
        app.ui.json(&json!({ "revoked": said }))?;
        return Ok(Exit::Done);
    }
    for one in &revoked {
        let what = if one.kind() == one.name { String::new() } else { format!("{} ", one.kind()) };
        app.ui.line(format!("{what}{}: trusted no longer", escape::one_line(&one.name, 128)))?;
    }
    if revoked.is_empty() {
        app.ui.note("nothing of this was trusted")?;
    }
    Ok(Exit::Done)
}
