//! `helve mcp restart`: stop a server and start it anew, in the `helve up` that runs.

use helve_host::wire::mcp;
use helve_mcp::servers::ServerState;

use super::instance::Running;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server to restart
    name: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let one = mcp::find_configured(&loaded, &args.name)?;
    let Some(running) = Running::find(&loaded) else {
        return Err(Failure::failed("no `helve up` runs here, so there is nothing to restart")
            .hint("without one, every command starts the servers it needs anew")
            .into());
    };
    let status = running.restart(&one.name)?;
    let state = status["state"].as_str().unwrap_or("unknown");
    let is_there = state == ServerState::Connected.as_str();
    if app.ui.is_json() {
        app.ui.json(&status)?;
    } else if is_there {
        let sign = app.ui.paint().good("✓");
        app.ui.line(format!("{sign} {} was started anew", one.name))?;
        app.ui.note(format!("helve mcp status {}", one.name))?;
    } else {
        let sign = app.ui.paint().bad("✗");
        let reason = status["reason"].as_str().map(|reason| format!(": {}", escape::visible(reason)));
        app.ui.line(format!("{sign} {} is {state}{}", one.name, reason.unwrap_or_default()))?;
        app.ui.note(format!("helve mcp logs {}", one.name))?;
    }
    Ok(if is_there { Exit::Done } else { Exit::Failed })
}
