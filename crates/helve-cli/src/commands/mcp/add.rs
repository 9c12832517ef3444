//! `helve mcp add`: a server into helve.toml.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use helve_host::config::load;
use helve_host::config::origin::short;
use helve_host::wire;
use helve_host::wire::mcp::Configured;
use helve_host::wire::trust::Store;
use helve_mcp::config::{Place, ServerConfig, Setting, TransportChoice};
use helve_mcp::counted::{Account, By, Counted};
use helve_mcp::import::insert_server;
use helve_mcp::servers::{Probe, Report};
use serde_json::{Map, Value, json};

use super::ask::{Confirmation, ask, somebody_is_there};
use super::grant::Grants;
use super::{prepare, show, test};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::file;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, escape};

const AFTER_HELP: &str = "\
Do not write a secret into the file: `--env TOKEN=env:GITHUB_TOKEN` writes a reference to your
environment variable. Helve looks for a program on your PATH and where installers put programs below
your home. Its box contains its own code and the files that its arguments name. Helve shows what it
adds, trusts it as shown, and tests it once.

Examples:
  helve mcp add time -- uvx mcp-server-time
  helve mcp add files --write /srv/docs -- /usr/local/bin/mcp-files /srv/docs
  helve mcp add github --header 'Authorization=Bearer env:GITHUB_TOKEN' https://api.example.com/mcp
  helve mcp add --user notes http://127.0.0.1:3000/mcp";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Its name, which stands before the names of its tools
    name: String,
    /// The server's address, if it runs elsewhere
    #[arg(conflicts_with = "command")]
    url: Option<String>,
    /// A variable of its environment; `K=env:VAR` refers to yours
    #[arg(long, value_name = "K=V", requires = "command")]
    env: Vec<String>,
    /// A header of every request; `K=env:VAR` refers to a variable of your environment
    #[arg(long, value_name = "K=V", requires = "url")]
    header: Vec<String>,
    /// How the address is spoken to
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto", requires = "url")]
    transport: TransportArg,
    /// Write to your own helve.toml instead of the project's
    #[arg(long)]
    user: bool,
    #[command(flatten)]
    grants: Grants,
    /// Do not connect to it now
    #[arg(long)]
    no_test: bool,
    /// Add it as it is shown, without a question
    #[arg(long, short)]
    yes: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// How an address is spoken to, as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TransportArg {
    Auto,
    Http,
    Sse,
    Ws,
}

impl From<TransportArg> for TransportChoice {
    fn from(typed: TransportArg) -> Self {
        match typed {
            TransportArg::Auto => Self::Auto,
            TransportArg::Http => Self::Http,
            TransportArg::Sse => Self::Sse,
            TransportArg::Ws => Self::Ws,
        }
    }
}

/// `K=V`, `K=env:VAR` and `K=Bearer env:VAR` as settings.
pub(super) fn settings(flag: &str, pairs: &[String]) -> Result<BTreeMap<String, Setting>, Failure> {
    let read = |pair: &String| {
        let (name, value) = pair.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            Failure::usage(format!("`{flag}` needs a name and a value"))
                .hint(format!("write it as `{flag} NAME=VALUE`, or `{flag} NAME=env:VARIABLE`"))
        })?;
        let setting = match value.rsplit_once("env:") {
            Some((prefix, variable)) if prefix.is_empty() || prefix.ends_with(' ') => {
                Setting::from_env(variable).with_prefix(prefix)
            }
            _ => Setting::from(value),
        };
        Ok((name.to_owned(), setting))
    };
    pairs.iter().map(read).collect()
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let before = app.load_config()?;
    let Args { name, .. } = &args;
    if let Some(one) = wire::mcp::configured(&before).into_iter().find(|one| one.name == *name) {
        let place = one.origin.to_string();
        return Err(Failure::usage(format!("there is an MCP server named `{name}` already, in {place}"))
            .hint(format!("take another name, or `helve mcp remove {name}` first"))
            .into());
    }
    let target = file::target(&before, args.user, &app.inputs.work_dir)?;
    let folder = target.parent().unwrap_or(&app.inputs.work_dir);
    let Described { config, note, asks } = described(&args, &app.inputs.work_dir, folder)?;
    let problems = config.check(name);
    if !problems.is_empty() {
        return Err(Failure::usage(format!("`{name}` cannot be added like this"))
            .details(problems.iter().map(ToString::to_string))
            .hint("`helve config keys mcp` documents what a server can have")
            .into());
    }
    if asks && !args.yes && somebody_is_there(app) {
        app.ui.table(show::facts(name, &config))?;
        if ask(&format!("Add {name} like this?"), args.yes, app)? == Confirmation::No {
            return Ok(Exit::Denied);
        }
    }
    file::change(&target, |text| {
        insert_server(text, name, &config).map_err(|error| Failure::usage(error.to_string()))
    })?;
    let after = load(&app.inputs)?;
    wire::journal::keep_adopted(&after)?;
    let one = wire::mcp::find_configured(&after, name)?;
    // Who typed it has seen it.
    wire::trust::open(Store::Servers)?.accept(&one.scope, name, &one.config)?;
    if let Some(note) = note {
        app.ui.note(format!("note: {note}"))?;
    }
    if let Some(shown) = shown(&one.config) {
        app.ui.note(format!("note: its box shows it {shown}"))?;
    }
    let report = match args.no_test {
        true => None,
        false => {
            let found = wire::mcp::surroundings(&after, &[], &[&one.config])?;
            let probe = Probe {
                total: Duration::from_secs(60),
                step: Duration::from_secs(30),
                call: None,
                tools_max: after.config.registry.tools_max,
            };
            Some(block_on(async { Ok(probe.look(one.config.clone(), found).await) })?)
        }
    };
    print(&one, &target, report.as_ref(), app)?;
    Ok(if report.is_none_or(|report| report.ok) { Exit::Done } else { Exit::Failed })
}

fn print(one: &Configured, target: &Path, report: Option<&Report>, app: &mut App<'_>) -> anyhow::Result<()> {
    let name = &one.name;
    if app.ui.is_json() {
        let counted: Map<_, _> = counted(one, report)
            .into_iter()
            .map(|(tool, counted)| {
                (tool, json!({ "facets": counted.facets, "said": counted.by != By::Nobody }))
            })
            .collect();
        let document = json!({ "added": name, "file": target, "test": report, "counts_as": counted });
        app.ui.json(&document)?;
        return Ok(());
    }
    let paint = app.ui.paint();
    app.ui.line(format!("{} added {} to {}", paint.good("✓"), paint.bold(name), short(target)))?;
    let Some(report) = report else { return Ok(()) };
    test::print(report, app.ui)?;
    print_counted(one, report, app)?;
    match &report.error {
        None => {
            app.ui.note(format!("helve tools list --namespace {name} · helve call {name}/TOOL key=value"))?
        }
        Some(error) if error.code == "integration_missing" => {
            app.ui.note(format!("it asks for a login: helve mcp login {name}"))?;
        }
        Some(_) => {
            let said = report.error.iter().map(|error| error.message.clone());
            let words: Vec<_> = report.stderr.iter().cloned().chain(said).collect();
            if let Some(lacked) = show::lacked(name, &one.config, &words) {
                app.ui.note(lacked)?;
            }
            app.ui.note(format!(
                "it stays in {}; mend it and `helve mcp test {name}`, or `helve mcp remove {name}`",
                short(target)
            ))?;
        }
    }
    Ok(())
}

/// What each tool counts as for labels.
fn counted(one: &Configured, report: Option<&Report>) -> Vec<(String, Counted)> {
    let tools = report.into_iter().flat_map(|report| &report.tools);
    let read = tools.filter_map(|tool| serde_json::from_str::<Value>(tool.get()).ok());
    read.map(|tool| {
        let counted = Counted::tool(&one.name, &one.config, Account::Unknown, &tool);
        (tool["name"].as_str().unwrap_or_default().to_owned(), counted)
    })
    .collect()
}

/// Says what the tools count as, and loudly where nobody has said it.
fn print_counted(one: &Configured, report: &Report, app: &mut App<'_>) -> anyhow::Result<()> {
    let all = counted(one, Some(report));
    if all.is_empty() {
        return Ok(());
    }
    app.ui.heading("Count as")?;
    let mut table = Table::bare().indented();
    for (tool, counted) in &all {
        let tone = if counted.by == By::Nobody { Tone::Warn } else { Tone::Plain };
        table.row([Cell::new(escape::one_line(tool, 64), Tone::Strong), Cell::new(counted.words(), tone)]);
    }
    app.ui.table(table)?;
    if let Some(unsaid) = show::unsaid(&one.name, &one.config) {
        app.ui.note(format!("! {}", escape::one_line(&unsaid, 600)))?;
    }
    Ok(())
}

/// What its box shows it, in words.
fn shown(config: &ServerConfig) -> Option<String> {
    let paths: Vec<_> = config.read.iter().map(|path| short(path)).collect();
    (config.confined && !paths.is_empty()).then(|| escape::one_line(&paths.join(", "), 600))
}

/// A server as it is to be added.
struct Described {
    config: ServerConfig,
    /// What a person should know of it.
    note: Option<String>,
    /// Whether it may do more than was typed, so that a person is asked.
    asks: bool,
}

/// The server as it was typed, with what it needs on this machine. `folder` is that of the file it goes into.
fn described(args: &Args, work_dir: &Path, folder: &Path) -> Result<Described, Failure> {
    if let Some(url) = &args.url {
        let mut config = ServerConfig::remote(url);
        config.headers = settings("--header", &args.header)?;
        config.transport = args.transport.into();
        return Ok(Described { config, note: None, asks: false });
    }
    let (program, rest) = args.command.split_first().ok_or_else(|| {
        let name = &args.name;
        Failure::usage(format!("where is `{name}`? a server has an address or a command"))
            .hint(format!("`helve mcp add {name} https://…`, or `helve mcp add {name} -- CMD ARGS…`"))
    })?;
    let mut config = ServerConfig::program(program, rest);
    config.env = settings("--env", &args.env)?;
    // Paths were typed from here, and are read from the file's folder.
    if let Some(Place::Command(command)) = config.place()
        && command.components().count() > 1
    {
        config.command = Some(work_dir.join(command));
    }
    let typed = |paths: &[PathBuf]| paths.iter().map(|path| work_dir.join(path)).collect::<Vec<_>>();
    config.read = typed(&args.grants.read);
    config.write = typed(&args.grants.write);
    config.network.clone_from(&args.grants.network);
    config.confined = !args.grants.unconfined;
    let mut prepared = prepare::program(config, folder);
    let has_grants = !args.grants.is_empty() && !args.grants.unconfined;
    // A user who says what a package runner may do wants it in a box.
    prepared.plan.config.confined |= has_grants;
    let asks = !prepared.plan.worked_out.is_empty() || prepared.plan.runner.is_some();
    let is_news = prepared.plan.runner.is_some() || prepared.plan.not_found.is_some();
    let note = prepared.note(&args.name).filter(|_| is_news && !args.grants.unconfined);
    Ok(Described { config: prepared.plan.config, note, asks })
}
