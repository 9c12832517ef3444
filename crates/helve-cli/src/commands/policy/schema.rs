//! `helve policy schema`: the Cedar schema that policies are checked against.

use helve_host::wire;
use helve_host::wire::mcp::Which;
use serde_json::json;

use crate::app::App;
use crate::commands::servers;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the calls of this tool
    tool: Option<String>,
    /// Connect MCP servers first, for their tools
    #[arg(long)]
    connect: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let registry = wire::registry(&loaded)?;
    let which = match (&args.tool, args.connect) {
        (Some(tool), _) => Which::With(tool),
        (None, true) => Which::All,
        (None, false) => Which::Named(""),
    };
    servers::with_tools(&loaded, &registry, which, app, |app| {
        let tools = match &args.tool {
            Some(name) => vec![crate::commands::tools::find(&registry, name)?.tool],
            None => wire::policy::tools(&registry),
        };
        let text = helve_policy::schema(&tools);
        if app.ui.is_json() {
            app.ui.json(&json!({ "schema": text }))?;
        } else {
            app.ui.text(&text)?;
        }
        Ok(Exit::Done)
    })
}
