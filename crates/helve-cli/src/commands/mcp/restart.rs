//! `helve mcp restart`, and how commands find the `helve up` that runs.

use serde_json::{Value, json};

use crate::app::App;
use crate::config::Loaded;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::wire::mcp;

/// As typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server
    name: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let one = mcp::find_configured(&loaded, &args.name)?;
    let Some(instance) = running(&loaded)? else {
        return Err(Failure::failed("no `helve up` runs here, so there is nothing to restart")
            .hint("without one, every command starts the servers it needs anew")
            .into());
    };
    let status = instance.restart(&one.name)?;
    if app.ui.is_json() {
        app.ui.json(&status)?;
    } else {
        let sign = app.ui.paint().good("✓");
        app.ui.line(format!("{sign} {} was started anew", one.name))?;
        app.ui.note(format!("helve mcp status {}", one.name))?;
    }
    Ok(Exit::Done)
}

/// A `helve up` that runs.
pub(super) struct Instance {}

impl Instance {
    pub(super) fn status(&self) -> Result<Vec<Value>, Failure> {
        Ok(Vec::new())
    }

    fn restart(&self, name: &str) -> Result<Value, Failure> {
        Ok(json!({ "name": name }))
    }
}

/// The `helve up` that runs with this configuration, if one does.
pub(super) fn running(_loaded: &Loaded) -> Result<Option<Instance>, Failure> {
    Ok(None)
}
