//! `helve tools export`: tools as a model provider wants them.

use std::path::PathBuf;

use helve::formats::{ExportOptions, Format, Strictness, export};
use helve::{Registry, Tool};
use helve_host::config::origin::short;
use helve_host::wire::mcp::Which;
use serde_json::json;

use super::list::FilterArgs;
use super::{list, show};
use crate::app::App;
use crate::commands::servers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::{count, json as json_text};

const AFTER_HELP: &str = "\
Examples:
  helve tools export --format anthropic
  helve tools export --format openai --strict off time-now math-eval
  helve tools export --format mcp --out tools.json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only these tools; all where none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The format of which provider
    #[arg(long, value_parser = list::one_of(&Format::ALL, |format| format.as_str()))]
    format: Format,
    /// Whether the provider holds the model to the schema
    #[arg(long, value_enum, default_value = "usual", value_name = "WHEN")]
    strict: Strict,
    /// Also tools whose integration is not connected
    #[arg(long)]
    unavailable: bool,
    /// Cut descriptions to this many characters
    #[arg(long, value_name = "COUNT")]
    description_chars: Option<usize>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
}

/// What to ask of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Strict {
    Usual,
    Off,
    WhereAllowed,
}

impl From<Strict> for Strictness {
    fn from(strict: Strict) -> Self {
        match strict {
            Strict::Usual => Self::Usual,
            Strict::Off => Self::Off,
            Strict::WhereAllowed => Self::WhereAllowed,
        }
    }
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let registry = helve_host::wire::registry(&loaded)?;
    let here = list::Here::of(&loaded);
    servers::with_tools(&loaded, &registry, Which::All, app, |app| write(args, &registry, &here, app))
}

fn write(args: Args, registry: &Registry, here: &list::Here, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let filter = args.filter.resolve();
    let tools: Vec<Tool> = if args.names.is_empty() {
        let all = registry.list(&filter).into_iter().map(|registered| registered.tool);
        let (shown, lacking): (Vec<_>, Vec<_>) =
            all.partition(|tool| args.unavailable || here.lacks(tool).is_empty());
        list::note_lacking(lacking.iter(), here, app)?;
        shown
    } else {
        let find = |name: &String| show::find(registry, name).map(|registered| registered.tool);
        args.names.iter().map(find).collect::<Result<_, _>>()?
    };
    let options = ExportOptions {
        strictness: args.strict.into(),
        description_chars_max: args.description_chars,
        ..here.export_options()
    };
    let document = export(&tools, args.format, &options);
    let Some(path) = &args.out else {
        // For a person to read; a program asks for one line.
        let text =
            if app.ui.is_json() { json_text::compact(&document)? } else { json_text::pretty(&document)? };
        app.ui.line(text)?;
        return Ok(Exit::Done);
    };
    std::fs::write(path, json_text::pretty(&document)? + "\n")
        .map_err(|error| Failure::failed(format!("cannot write {}", short(path))).because(&error))?;
    if app.ui.is_json() {
        app.ui.json(&json!({ "written": path, "tools": tools.len() }))?;
    } else {
        app.ui.note(format!(
            "wrote {} for {} to {}",
            count(tools.len(), "tool"),
            args.format,
            short(path)
        ))?;
    }
    Ok(Exit::Done)
}
