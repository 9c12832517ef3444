//! What a project brings, as a person must see it before it counts. Nothing in it can hide.

use helve::Registry;
use helve_mcp::trust::Verdict;
use serde_json::Value;

use crate::app::App;
use crate::commands::mcp::show::quoted;
use crate::commands::mcp::trust::print_diff;
use crate::commands::{hooks, mcp, rules};
use crate::config::Loaded;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, escape};
use crate::wire;
use crate::wire::trust::{Brought, What};
use crate::wire::unboxed::Unboxed;

/// Shows one thing.
pub(super) fn print(one: &Brought, loaded: &Loaded, app: &mut App<'_>) -> anyhow::Result<()> {
    match &one.what {
        What::Tool(tool, pinned) => print_tool(tool, pinned.as_ref(), one, loaded, app),
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

fn print_tool(
    tool: &Unboxed,
    pinned: Option<&Value>,
    one: &Brought,
    loaded: &Loaded,
    app: &mut App<'_>,
) -> anyhow::Result<()> {
    app.ui.heading("Tool without a box")?;
    let paint = app.ui.paint();
    let origin = tool.origin.to_string();
    app.ui.line(format!(
        "{}  {}",
        paint.bold(escape::one_line(&tool.name, 128)),
        paint.dim(escape::one_line(&origin, 200))
    ))?;
    app.ui.table(facts(tool, pinned, wire::registry(loaded).ok().as_ref()))?;
    if let Verdict::Changed { diff, .. } = &one.verdict {
        app.ui.line(format!("  {}", paint.warn("it has changed since it was trusted:")))?;
        print_diff(diff, app)?;
    }
    Ok(())
}

/// What of a definition has a line in words of its own.
const SHOWN: [&str; 8] = ["name", "command", "starts", "args", "work_dir", "env", "confined", "description"];

fn facts(tool: &Unboxed, pinned: Option<&Value>, registry: Option<&Registry>) -> Table {
    let mut table = Table::bare().indented();
    let mut fact = |name: &str, value: String, tone: Tone| {
        if !value.is_empty() {
            table.row([Cell::new(name, Tone::Dim), Cell::new(value, tone)]);
        }
    };
    let config = &tool.config;
    let command = config.command.to_string_lossy();
    let words = std::iter::once(quoted(&command)).chain(config.args.iter().map(|word| quoted(word)));
    fact("runs", words.collect::<Vec<_>>().join(" "), Tone::Strong);
    // The file that is trusted, not the one that lies there now.
    let starts = pinned.and_then(|pinned| pinned["starts"].as_str());
    match starts {
        Some(file) if file != command => fact("which is", file.to_owned(), Tone::Plain),
        Some(_) => {}
        None => fact("which is", "not there".to_owned(), Tone::Warn),
    }
    let folder = config.work_dir.as_deref().map(|folder| folder.display().to_string());
    fact("in", folder.unwrap_or_default(), Tone::Plain);
    let variables: Vec<_> = config.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    fact("with", variables.join(", "), Tone::Plain);
    fact("box", "NOT confined: it can do all that you can".to_owned(), Tone::Bad);
    fact("says", config.common.description.clone(), Tone::Plain);
    // All else that is trusted with it: risk, annotations, other names, how it is undone, what follows it.
    for (key, value) in pinned.and_then(Value::as_object).into_iter().flatten() {
        if !SHOWN.contains(&key.as_str()) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            fact(key, text, Tone::Plain);
        }
    }
    let overrides = registry.and_then(|registry| registry.get(&tool.name)).map(|one| one.overrides);
    let overrides: Vec<_> = overrides.iter().flatten().map(|layer| layer.as_str()).collect();
    if !overrides.is_empty() {
        fact("replaces", format!("the {} tool of this name", overrides.join(" and ")), Tone::Warn);
    }
    table
}
