//! `helve tools search`: by words, best first, or by a pattern of names.

use helve::Registry;
use helve_host::wire::mcp::Which;
use serde_json::json;

use super::list;
use crate::app::App;
use crate::commands::servers;
use crate::exit::Exit;
use crate::failure::Failure;

const AFTER_HELP: &str = "\
Examples:
  helve tools search count words in a text
  helve tools search --pattern 'mail/*'";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What the tool should do
    #[arg(required_unless_present = "pattern", conflicts_with = "pattern")]
    words: Vec<String>,
    /// A pattern of full names with `*` and `?`
    #[arg(long, value_name = "GLOB")]
    pattern: Option<String>,
    /// Show at most this many
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    limit: usize,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let registry = helve_host::wire::registry(&loaded)?;
    let here = list::Here::of(&loaded);
    servers::with_tools(&loaded, &registry, Which::All, app, |app| search(args, &registry, &here, app))
}

fn search(args: &Args, registry: &Registry, here: &list::Here, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let (found, json) = match &args.pattern {
        Some(pattern) => {
            let mut found = registry.matching(pattern);
            found.truncate(args.limit);
            let json = json!(found);
            (found, json)
        }
        None => {
            let hits = registry.search(&args.words.join(" "), args.limit);
            let json = json!(hits);
            (hits.into_iter().map(|hit| hit.registered).collect(), json)
        }
    };
    if app.ui.is_json() {
        app.ui.json(&json)?;
    } else if !found.is_empty() {
        app.ui.table(list::table(&found, here))?;
    }
    if found.is_empty() && !app.ui.is_json() {
        let sought = args.pattern.clone().unwrap_or_else(|| args.words.join(" "));
        return Err(Failure::failed(format!("no tool fits `{sought}`"))
            .hint("`helve tools list` shows them all")
            .into());
    }
    Ok(if found.is_empty() { Exit::Failed } else { Exit::Done })
}
