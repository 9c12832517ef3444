//! `helve mcp add`: a server into helve.toml.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use helve_mcp::config::{Place, ServerConfig, Setting, TransportChoice};
use helve_mcp::import::insert_server;
use helve_mcp::servers::{Probe, Report};
use serde_json::json;

use super::{file, test};
use crate::app::App;
use crate::config::load;
use crate::config::origin::short;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;
use crate::wire;
use crate::wire::mcp::Configured;
use crate::wire::trust::Store;

/// Programs that fetch what they then run: they need the network, and a cache in your home.
const RUNNERS: [&str; 12] =
    ["npx", "bunx", "pnpx", "pnpm", "yarn", "npm", "bun", "deno", "uvx", "uv", "pipx", "docker"];

const AFTER_HELP: &str = "\
A secret does not belong in the file: `--env TOKEN=env:GITHUB_TOKEN` writes a reference to your
environment variable. What you add is trusted as you typed it, and tested once.

Examples:
  helve mcp add time -- uvx mcp-server-time
  helve mcp add files -- /usr/local/bin/mcp-files /srv/docs
  helve mcp add github --header 'Authorization=Bearer env:GITHUB_TOKEN' https://api.example.com/mcp
  helve mcp add --user notes http://127.0.0.1:3000/mcp";

/// As typed.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Its name, which stands before the names of its tools
    name: String,
    /// Its address
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
    /// Do not connect to it now
    #[arg(long)]
    no_test: bool,
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
    let (config, runner) = described(&args, &app.inputs.work_dir)?;
    let problems = config.check(name);
    if !problems.is_empty() {
        return Err(Failure::usage(format!("`{name}` cannot be added like this"))
            .details(problems.iter().map(ToString::to_string))
            .hint("`helve config keys mcp` documents what a server can have")
            .into());
    }
    let target = file::target(&before, args.user, &app.inputs.work_dir)?;
    file::change(&target, |text| {
        insert_server(text, name, &config).map_err(|error| Failure::usage(error.to_string()))
    })?;
    let after = load(&app.inputs)?;
    let one = wire::mcp::find_configured(&after, name)?;
    // Who typed it has seen it.
    wire::trust::open(Store::Servers)?.accept(&one.scope, name, &one.config)?;
    if let Some(runner) = runner {
        app.ui.note(format!(
            "note: `{runner}` fetches what it runs, so `{name}` is written with `confined = false`: it can do all that \
             you can. To confine it, install the server, name its program, and take that line out"
        ))?;
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
            Some(wire::block_on(async { Ok(probe.look(one.config.clone(), found).await) })?)
        }
    };
    print(&one, &target, report.as_ref(), app)?;
    Ok(if report.is_none_or(|report| report.ok) { Exit::Done } else { Exit::Failed })
}

fn print(one: &Configured, target: &Path, report: Option<&Report>, app: &mut App<'_>) -> anyhow::Result<()> {
    let name = &one.name;
    if app.ui.is_json() {
        app.ui.json(&json!({ "added": name, "file": target, "test": report }))?;
        return Ok(());
    }
    let paint = app.ui.paint();
    app.ui.line(format!("{} added {} to {}", paint.good("✓"), paint.bold(name), short(target)))?;
    let Some(report) = report else { return Ok(()) };
    test::print(report, app.ui)?;
    match &report.error {
        None => {
            app.ui.note(format!("helve tools list --namespace {name} · helve call {name}/TOOL key=value"))?
        }
        Some(error) if error.code == "integration_missing" => {
            app.ui.note(format!("it wants somebody to log in: helve mcp login {name}"))?;
        }
        Some(_) => {
            for path in unseen(&one.config) {
                let path = escape::one_line(&path.display().to_string(), 300);
                app.ui.note(format!(
                    "its box does not show it {path}: add `read = [\"{path}\"]`, or the folder that it needs, to \
                     [mcp.servers.{name}]"
                ))?;
            }
            app.ui.note(format!(
                "it stays in {}; mend it and `helve mcp test {name}`, or `helve mcp remove {name}`",
                short(target)
            ))?;
        }
    }
    Ok(())
}

/// What its command line names and its box does not show.
fn unseen(config: &ServerConfig) -> Vec<&Path> {
    let shown: Vec<&Path> =
        [&config.read, &config.write].into_iter().flatten().map(PathBuf::as_path).collect();
    let is_shown =
        |path: &Path| shown.iter().chain(&config.cwd.as_deref()).any(|seen| path.starts_with(seen));
    let system = ["/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc"];
    let words = config.args.iter().map(Path::new);
    let words = words.filter(|word| word.is_absolute() && word.exists() && !is_shown(word));
    words.filter(|word| config.confined && !system.iter().any(|folder| word.starts_with(folder))).collect()
}

/// The server as it was typed, and the package runner that starts it, if one does.
fn described(args: &Args, work_dir: &Path) -> Result<(ServerConfig, Option<String>), Failure> {
    if let Some(url) = &args.url {
        let mut config = ServerConfig::remote(url);
        config.headers = settings("--header", &args.header)?;
        config.transport = args.transport.into();
        return Ok((config, None));
    }
    let (program, rest) = args.command.split_first().ok_or_else(|| {
        let name = &args.name;
        Failure::usage(format!("where is `{name}`? a server has an address or a command"))
            .hint(format!("`helve mcp add {name} https://…`, or `helve mcp add {name} -- CMD ARGS…`"))
    })?;
    let mut config = ServerConfig::program(program, rest);
    config.env = settings("--env", &args.env)?;
    // A path was typed from here, and is read from the file's folder.
    if let Some(Place::Command(command)) = config.place()
        && command.components().count() > 1
    {
        config.command = Some(work_dir.join(command));
    }
    let runner = Path::new(program).file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let runner = runner.filter(|name| RUNNERS.contains(&name.as_str()) || name == "podman");
    config.confined = runner.is_none();
    Ok((config, runner))
}
