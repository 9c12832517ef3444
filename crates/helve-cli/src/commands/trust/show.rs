//! What a project brings, as a person must see it before it counts. Nothing in it can hide.

use helve_host::config::ToolKind;
use helve_host::config::asked::AskedSettings;
use helve_host::wire::brought::BroughtTool;
use helve_host::wire::demands::Demand;
use helve_host::wire::trust::{Brought, What};
use helve_mcp::trust::Verdict;
use helve_tools::program::ProgramToolConfig;
use serde_json::Value;

use crate::app::App;
use crate::commands::mcp::show::quoted;
use crate::commands::mcp::trust::print_diff;
use crate::commands::{hooks, mcp, rules};
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, escape};

/// Shows one thing.
pub(super) fn print(one: &Brought, app: &mut App<'_>) -> anyhow::Result<()> {
    match &one.what {
        What::Tool(tool, pinned) => print_tool(tool, pinned.as_ref(), one, app),
        What::Settings(settings, _) => print_settings(settings, one, app),
        What::Server(server) => {
            app.ui.heading("MCP server")?;
            mcp::trust::print(server, app)
        }
        What::Hooks(value) => {
            app.ui.heading("Hooks")?;
            hooks::trust::print(value, &one.verdict, app)
        }
        What::Rules { held, .. } => {
            app.ui.heading("Rules")?;
            rules::trust::print(held, app)?;
            if matches!(one.verdict, Verdict::Changed { .. }) {
                let said = app.ui.paint().warn("the rules have changed since they were trusted");
                app.ui.line(format!("  {said}"))?;
            }
            Ok(())
        }
        What::Gone(_) => Ok(()),
    }
}

fn print_settings(settings: &AskedSettings, one: &Brought, app: &mut App<'_>) -> anyhow::Result<()> {
    app.ui.heading("Settings that reach beyond this folder")?;
    let mut table = Table::bare().indented();
    for ((key, text), asked) in settings.shown().into_iter().zip(&settings.asked) {
        let origin = Cell::new(asked.origin.to_string(), Tone::Dim);
        table.row([Cell::new(key, Tone::Strong), Cell::new(text, Tone::Warn), origin]);
    }
    app.ui.table(table)?;
    print_change(&one.verdict, app)
}

fn print_change(verdict: &Verdict, app: &mut App<'_>) -> anyhow::Result<()> {
    if let Verdict::Changed { diff, .. } = verdict {
        let said = app.ui.paint().warn("it has changed since it was trusted:");
        app.ui.line(format!("  {said}"))?;
        print_diff(diff, app)?;
    }
    Ok(())
}

fn print_tool(
    tool: &BroughtTool,
    pinned: Option<&Value>,
    one: &Brought,
    app: &mut App<'_>,
) -> anyhow::Result<()> {
    let demands = tool.demands();
    app.ui.heading(match tool.kind {
        _ if demands.contains(&Demand::NoBox) => "Tool without a box",
        ToolKind::OpenApi => "API",
        ToolKind::Http | ToolKind::Program | ToolKind::Composed(_) => "Tool",
    })?;
    let paint = app.ui.paint();
    let origin = tool.origin.to_string();
    app.ui.line(format!(
        "{}  {}",
        paint.bold(escape::one_line(&tool.name, 128)),
        paint.dim(escape::one_line(&origin, 200))
    ))?;
    app.ui.table(facts(tool, &demands, pinned))?;
    print_change(&one.verdict, app)
}

/// What of a definition has a line in words of its own.
const SHOWN: [&str; 2] = ["name", "asks_for"];
const SHOWN_OF_PROGRAM: [&str; 7] =
    ["command", "starts", "args", "work_dir", "env", "confined", "description"];

fn facts(tool: &BroughtTool, demands: &[Demand], pinned: Option<&Value>) -> Table {
    let mut table = Table::bare().indented();
    let mut fact = |name: &str, value: String, tone: Tone| {
        if !value.is_empty() {
            table.row([Cell::new(name, Tone::Dim), Cell::new(value, tone)]);
        }
    };
    if let Some(program) = &tool.program {
        let starts = pinned.and_then(|pinned| pinned["starts"].as_str());
        facts_of_program(program, starts, &mut fact);
    }
    for demand in demands {
        let tone = match demand {
            Demand::NoBox => Tone::Bad,
            Demand::Read(_)
            | Demand::Write(_)
            | Demand::Start(_)
            | Demand::Network(_)
            | Demand::Secret(_)
            | Demand::Address(_)
            | Demand::Fetch(_)
            | Demand::AnyServer
            | Demand::Replace(_)
            | Demand::Call(_)
            | Demand::Combine(..)
            | Demand::Remember
            | Demand::More(..) => Tone::Warn,
        };
        fact(demand.word(), demand.to_string(), tone);
    }
    if let Some(program) = &tool.program {
        fact("says", program.common.description.clone(), Tone::Plain);
    }
    // All else that is trusted with it: risk, annotations, other names, how it is undone, what follows it.
    let in_words =
        |key: &str| SHOWN.contains(&key) || tool.program.is_some() && SHOWN_OF_PROGRAM.contains(&key);
    for (key, value) in pinned.and_then(Value::as_object).into_iter().flatten() {
        if !in_words(key) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            fact(key, text, Tone::Plain);
        }
    }
    table
}

/// `starts` is the file that is trusted, not the one that lies there now.
fn facts_of_program(
    config: &ProgramToolConfig,
    starts: Option<&str>,
    fact: &mut impl FnMut(&str, String, Tone),
) {
    let command = config.command.to_string_lossy();
    let words = std::iter::once(quoted(&command)).chain(config.args.iter().map(|word| quoted(word)));
    fact("runs", words.collect::<Vec<_>>().join(" "), Tone::Strong);
    match starts {
        Some(file) if file != command => fact("which is", file.to_owned(), Tone::Plain),
        Some(_) => {}
        None => fact("which is", "not there".to_owned(), Tone::Warn),
    }
    let folder = config.work_dir.as_deref().map(|folder| folder.display().to_string());
    fact("in", folder.unwrap_or_default(), Tone::Plain);
    let variables: Vec<_> = config.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    fact("with", variables.join(", "), Tone::Plain);
}
