//! `helve mcp remove`: a server out of helve.toml.

use helve_mcp::import::remove_server;
use serde_json::json;

use super::file;
use crate::app::App;
use crate::config::Origin;
use crate::config::origin::short;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::wire::mcp;
use crate::wire::trust::{self, Store};

/// As typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server
    name: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let one = mcp::find_configured(&loaded, &args.name)?;
    let name = &one.name;
    let Origin::File { path, .. } = &one.origin else {
        return Err(Failure::usage(format!("`{name}` is in no file; it comes from {}", one.origin)).into());
    };
    file::change(path, |text| {
        let removed = remove_server(text, name).map_err(|error| Failure::usage(error.to_string()))?;
        removed.ok_or_else(|| Failure::usage(format!("`{name}` is not in {}", short(path))))
    })?;
    // What was known of it would otherwise hold for the next one of this name.
    trust::open(Store::Servers)?.revoke(&one.scope, name)?;
    mcp::pins(&mcp::state_folder()?, std::slice::from_ref(&one)).forget(name)?;
    if app.ui.is_json() {
        app.ui.json(&json!({ "removed": name, "file": path }))?;
    } else {
        let paint = app.ui.paint();
        app.ui.line(format!("{} removed {} from {}", paint.good("✓"), paint.bold(name), short(path)))?;
    }
    Ok(Exit::Done)
}
