//! `helve mcp remove`: a server out of helve.toml.

use helve_host::config::Origin;
use helve_host::config::origin::short;
use helve_host::wire::mcp;
use helve_host::wire::trust::{self, Store};
use helve_mcp::import::remove_server;
use serde_json::json;

use crate::app::App;
use crate::commands::file;
use crate::exit::Exit;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server to remove
    name: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let name = &args.name;
    let (scope, origin) = match loaded.broken_servers.get(name) {
        Some(broken) => (mcp::scope_at(&loaded, &broken.origin), broken.origin.clone()),
        None => {
            let one = mcp::find_configured(&loaded, name)?;
            (one.scope, one.origin)
        }
    };
    let Origin::File { path, .. } = &origin else {
        return Err(Failure::usage(format!("`{name}` is in no file; it comes from {origin}")).into());
    };
    file::change(path, |text| {
        let removed = remove_server(text, name).map_err(|error| Failure::usage(error.to_string()))?;
        removed.ok_or_else(|| Failure::usage(format!("`{name}` is not in {}", short(path))))
    })?;
    // What was known of it would otherwise hold for the next one of this name.
    trust::open(Store::Servers)?.revoke(&scope, name)?;
    mcp::pins_of(&mcp::state_folder()?, &scope).forget(name)?;
    if app.ui.is_json() {
        app.ui.json(&json!({ "removed": name, "file": path }))?;
    } else {
        let paint = app.ui.paint();
        app.ui.line(format!("{} removed {} from {}", paint.good("✓"), paint.bold(name), short(path)))?;
    }
    Ok(Exit::Done)
}
