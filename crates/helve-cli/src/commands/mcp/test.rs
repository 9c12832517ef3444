//! `helve mcp test`: one look at a server, with short deadlines.

use std::slice;
use std::time::Duration;

use helve::ErrorCode;
use helve_host::blocking::run_within;
use helve_host::config::{Loaded, load};
use helve_host::wire;
use helve_mcp::config::{Secrets, ServerConfig, TransportChoice};
use helve_mcp::servers::{Probe, Report, ReportError, Surroundings};
use serde_json::{Value, json};

use super::add::{self, TransportArg};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, Ui, count, escape};

/// How late the report may be before it is not waited for.
const MARGIN: Duration = Duration::from_secs(1);

const AFTER_HELP: &str = "\
A command runs as you, with PATH, HOME and what `--env` gives as its only variables; `--confined` puts
it in a box. Nothing is kept, and nothing needs trust, because you typed it.

Exit codes:
  0 all that was asked for worked   1 something did not   2 wrong use

Examples:
  helve mcp test -- npx -y @modelcontextprotocol/server-everything
  helve mcp test https://mcp.example.com/mcp --call echo --args '{\"message\": \"hi\"}'
  helve mcp test --json -- python3 server.py
  helve mcp test NAME";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// An address, or the name of a server that is configured
    #[arg(value_name = "URL|NAME", required_unless_present = "command", conflicts_with = "command")]
    target: Option<String>,
    /// Call this tool too, by the server's name for it
    #[arg(long, value_name = "TOOL")]
    call: Option<String>,
    /// The arguments to call the tool with
    #[arg(long, value_name = "JSON", requires = "call", default_value = "{}", hide_default_value = true)]
    args: String,
    /// How long connecting, listing and calling may take each; all of it three times as long
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout_s: u64,
    /// Run the command in a box
    #[arg(long, requires = "command")]
    confined: bool,
    /// A variable of the command's environment; `K=env:VAR` takes it from yours
    #[arg(long, value_name = "K=V", requires = "command")]
    env: Vec<String>,
    /// A header of every request; `K=env:VAR` takes it from your environment
    #[arg(long, value_name = "K=V", requires = "target")]
    header: Vec<String>,
    /// How the address is spoken to
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto", requires = "target")]
    transport: TransportArg,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let (probe, config, surroundings) = match task(&args, app) {
        // A reader of reports finds the reason in one, also where nothing was begun.
        Err(failure) if app.ui.is_json() => {
            app.ui.json(&unbegun(&failure))?;
            return Ok(failure.exit);
        }
        other => other?,
    };
    let total = probe.total;
    let looked = run_within(total + MARGIN, async move { probe.look(config, surroundings).await })?;
    let report = looked.unwrap_or_else(|| Report::unheard(total));
    if app.ui.is_json() {
        app.ui.json(&report)?;
    } else {
        print(&report, app.ui)?;
    }
    Ok(if report.ok { Exit::Done } else { Exit::Failed })
}

/// What is to be done, and to whom.
fn task(args: &Args, app: &mut App<'_>) -> Result<(Probe, ServerConfig, Surroundings), Failure> {
    let call = args.call.clone().map(|tool| Ok::<_, Failure>((tool, arguments(&args.args)?))).transpose()?;
    let step = Duration::from_secs(args.timeout_s);
    let (config, surroundings) = target(args, app)?;
    // Where the configuration is broken the test is done without it.
    let limit = load(&app.inputs).map(|loaded| loaded.config.registry.tools_max);
    let tools_max = limit.unwrap_or(Probe::default().tools_max);
    Ok((Probe { step, total: step * 3, call, tools_max }, config, surroundings))
}

/// The report of a test that was not begun.
fn unbegun(failure: &Failure) -> Report {
    let code = match failure.exit {
        Exit::Denied => ErrorCode::NotAuthorized,
        _ => ErrorCode::ValidationFailed,
    };
    let message = [slice::from_ref(&failure.message), &failure.details].concat().join(": ");
    let error = Some(ReportError { code: code.as_str(), message });
    Report { error, remarks: failure.hints.clone(), ..Report::default() }
}

fn arguments(text: &str) -> Result<Value, Failure> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| Failure::usage("`--args` is not JSON").because(&error))?;
    match value {
        Value::Object(_) => Ok(value),
        _ => Err(Failure::usage("`--args` must be an object, as in '{\"message\": \"hi\"}'")),
    }
}

fn target(args: &Args, app: &mut App<'_>) -> Result<(ServerConfig, Surroundings), Failure> {
    let work_dir = app.inputs.work_dir.clone();
    let config = match &args.target {
        None => {
            let (program, rest) = args.command.split_first().ok_or_else(|| {
                Failure::usage("there is nothing to test").hint("`helve mcp test -- CMD ARGS…`")
            })?;
            let mut config = ServerConfig::program(program, rest);
            config.env = add::settings("--env", &args.env)?;
            config.confined = args.confined;
            config.relative_to(&work_dir)
        }
        Some(url) if url.contains("://") => {
            let mut config = ServerConfig::remote(url);
            config.headers = add::settings("--header", &args.header)?;
            config.transport = TransportChoice::from(args.transport);
            config
        }
        Some(name) => {
            let loaded = app.load_config()?;
            let one = wire::mcp::find_configured(&loaded, name)?;
            if let Some(reason) = one.hold() {
                return Err(Failure::denied(format!("MCP server `{name}`: {reason}")));
            }
            let found = wire::mcp::surroundings(&loaded, &[], &[&one.config])?;
            return Ok((one.config, found));
        }
    };
    if let Some(problem) = config.check("server").into_iter().next() {
        return Err(Failure::usage(format!("this cannot be tested: {problem}")));
    }
    let found = surroundings(&config, app)?;
    Ok((config, found))
}

/// What a server that a person typed needs of the world. Where the configuration is broken the test
/// is done without it: it may be what the user needs to mend it.
fn surroundings(config: &ServerConfig, app: &App<'_>) -> Result<Surroundings, Failure> {
    let loaded: Option<Loaded> = load(&app.inputs).ok();
    let policy = loaded.as_ref().map(|loaded| loaded.config.net.clone()).unwrap_or_default();
    let sandbox = loaded.as_ref().map(wire::sandbox).unwrap_or_default();
    Ok(Surroundings {
        secrets: Secrets::system(sandbox.clone()),
        sandbox,
        net: wire::mcp::client(&policy, &[config])?,
        pins: None,
        sampler: None,
        tokens: None,
    })
}

/// The report for a person.
pub(super) fn print(report: &Report, ui: &mut Ui) -> anyhow::Result<()> {
    let paint = ui.paint();
    let sign = if report.ok { paint.good("✓") } else { paint.bad("✗") };
    let server = report.server.as_deref().map(|name| escape::one_line(name, 100));
    let how = [report.transport.map(str::to_owned), report.protocol.clone(), server];
    let how: Vec<_> = how.into_iter().flatten().collect();
    if let Some(error) = &report.error {
        let stage = json!(report.stage);
        let stage = stage.as_str().unwrap_or_default();
        ui.line(format!("{sign} {stage}: {}  {}", escape::visible(&error.message), paint.dim(error.code)))?;
    }
    if !how.is_empty() {
        let sign = if report.error.is_some() { " ".to_owned() } else { sign };
        let counts =
            [(report.tools.len(), "tool"), (report.resources, "resource"), (report.prompts, "prompt")];
        let counts = counts.into_iter().filter(|(n, noun)| *n > 0 || *noun == "tool");
        let counts: Vec<_> = counts.map(|(n, noun)| count(n, noun)).collect();
        let took = format!("{} ms", report.duration_ms);
        ui.line(format!("{sign} {}: {}  {}", how.join(" · "), counts.join(", "), paint.dim(took)))?;
    }
    let mut table = Table::bare().indented();
    for tool in &report.tools {
        let tool: Value = serde_json::from_str(tool.get()).unwrap_or_default();
        let text = |field: &str| tool.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let description = text("description");
        let first = description.lines().next().unwrap_or_default();
        table.row([Cell::new(text("name"), Tone::Strong), Cell::from(escape::one_line(first, 120))]);
    }
    ui.table(table)?;
    if let Some(call) = &report.call {
        ui.heading(&format!("Result of {}", escape::one_line(&call.tool, 64)))?;
        let result = call.result.clone().unwrap_or_default();
        ui.paragraph(&match result {
            Value::String(text) => text,
            other => crate::ui::json::pretty(&other)?,
        })?;
    }
    for remark in &report.remarks {
        ui.line(format!("  {} {}", paint.warn("!"), escape::one_line(remark, 600)))?;
    }
    if report.error.is_some() && !report.stderr.is_empty() {
        ui.heading("Its last words")?;
        for line in &report.stderr {
            ui.line(format!("  {}", paint.dim(escape::one_line(line, 300))))?;
        }
    }
    Ok(())
}
