//! `helve mcp status`: how servers are.

use helve_host::config::Loaded;
use helve_host::wire;
use helve_host::wire::mcp::{self, Which};
use helve_mcp::servers::{ServerState, ServerStatus};

use super::instance::Running;
use super::show;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::servers;
use crate::exit::Exit;
use crate::ui::table::{Cell, Tone, Yield};
use crate::ui::{Table, escape};

const AFTER_HELP: &str = "\
Asks the `helve up` that runs. If none runs, connects to each server once.

Exit codes:
  0 all are connected   1 one is not   2 wrong use   3 one waits to be trusted

Examples:
  helve mcp status
  helve mcp status github --json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only this server
    name: Option<String>,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    if let Some(name) = &args.name {
        mcp::find_configured(&loaded, name)?;
    }
    let which = args.name.as_deref().map_or(Which::All, Which::Named);
    let held: Vec<_> = mcp::configured(&loaded)
        .into_iter()
        .filter(|one| one.hold().is_some() && one.config.enabled)
        .map(|one| one.name)
        .collect();
    let status = match Running::find(&loaded) {
        Some(running) => {
            let mut all = running.status().to_vec();
            let held = mcp::configured(&loaded).into_iter().filter_map(|one| one.held_status());
            all.extend(held.filter_map(|one| serde_json::to_value(one).ok()));
            all.retain(|one| args.name.as_ref().is_none_or(|name| one["name"] == name.as_str()));
            all
        }
        None => {
            let registry = wire::registry(&loaded)?;
            let status = block_on(async {
                let attached = servers::attach(&loaded, &registry, which, app).await?;
                let status = attached.status();
                attached.close().await;
                Ok(status)
            })?;
            status.iter().map(|one: &ServerStatus| serde_json::to_value(one)).collect::<Result<_, _>>()?
        }
    };
    if app.ui.is_json() {
        app.ui.json(&status)?;
    } else if status.is_empty() {
        app.ui.note("no MCP server is configured; `helve mcp add` adds one")?;
    } else {
        print(&status, app)?;
        if args.name.is_some() {
            print_tools(&status, app)?;
        }
        for one in &status {
            let name = one["name"].as_str().unwrap_or_default();
            if one["state"] == ServerState::Failed.as_str()
                && let Some(lacked) = lacked(name, &loaded)
            {
                app.ui.note(format!("{name}: {lacked}"))?;
            }
        }
    }
    let state = |one: &serde_json::Value| one["state"].as_str().unwrap_or_default().to_owned();
    let good = |one: &serde_json::Value| {
        let state = state(one);
        (state == ServerState::Connected.as_str() && one["reason"].is_null())
            || state == ServerState::Disabled.as_str()
    };
    let waits = |one: &serde_json::Value| held.iter().any(|name| one["name"] == name.as_str());
    Ok(match status.iter().find(|one| !good(one)) {
        None => Exit::Done,
        Some(_) if status.iter().all(|one| good(one) || waits(one)) => Exit::Waiting,
        Some(_) => Exit::Failed,
    })
}

/// The tools of the one server that was asked for.
fn print_tools(status: &[serde_json::Value], app: &mut App<'_>) -> anyhow::Result<()> {
    let names = status.iter().filter_map(|one| one["tool_names"].as_array()).flatten();
    for name in names.filter_map(serde_json::Value::as_str) {
        app.ui.line(format!("  {}", escape::one_line(name, 200)))?;
    }
    Ok(())
}

/// What a server that failed says that its box did not let it do.
fn lacked(name: &str, loaded: &Loaded) -> Option<String> {
    let one = mcp::find_configured(loaded, name).ok()?;
    let words: Vec<_> = mcp::kept_log(&one).ok()?.into_iter().map(|line| line.text).collect();
    show::lacked(name, &one.config, &words[words.len().saturating_sub(40)..])
}

fn print(status: &[serde_json::Value], app: &mut App<'_>) -> anyhow::Result<()> {
    const YIELDS: &[Yield] = &[Yield::Drop(6), Yield::Drop(5), Yield::Drop(3), Yield::Cut(2, 16)];
    let mut table = Table::new(["name", "state", "server", "speaks", "tools", "latency", "restarts"])
        .one_line_rows(YIELDS);
    for one in status {
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        let state = text("state");
        let tone = match state.as_str() {
            "connected" => Tone::Good,
            "failed" => Tone::Bad,
            "disabled" => Tone::Dim,
            _ => Tone::Warn,
        };
        let speaks: Vec<_> =
            [text("transport"), text("protocol")].into_iter().filter(|t| !t.is_empty()).collect();
        let latency = one["latency_ms"].as_f64().map(|ms| format!("{ms:.1} ms")).unwrap_or_default();
        table.row([
            Cell::new(text("name"), Tone::Strong),
            Cell::new(state, tone),
            Cell::from(text("server")),
            Cell::from(speaks.join(" ")),
            Cell::from(one["tools"].to_string()),
            Cell::new(latency, Tone::Dim),
            Cell::new(one["restarts"].to_string(), Tone::Dim),
        ]);
    }
    app.ui.table(table)?;
    let paint = app.ui.paint();
    for one in status {
        let name = one["name"].as_str().unwrap_or_default();
        let remarks = one["remarks"].as_array().into_iter().flatten().filter_map(|remark| remark.as_str());
        for said in one["reason"].as_str().into_iter().chain(remarks) {
            app.ui.line(format!("{} {name}: {}", paint.warn("!"), escape::one_line(said, 600)))?;
        }
    }
    Ok(())
}
