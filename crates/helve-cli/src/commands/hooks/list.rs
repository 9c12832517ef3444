//! `helve hooks list`: every hook that is configured. Nothing is started.

use helve::Layer;
use helve_host::config::Loaded;
use helve_host::wire::hooks;
use helve_mcp::trust::Verdict;
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::ui::table::{Cell, Tone, Yield};
use crate::ui::{Table, escape};

pub(super) fn run(app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let broken = hooks::set(&loaded).broken;
    let verdict = hooks::verdict(&loaded);
    if app.ui.is_json() {
        let broken = broken.iter().map(|line| json!({ "broken": line }));
        app.ui.json(&documents(&loaded, &verdict).into_iter().chain(broken).collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    for line in &broken {
        app.ui.note(format!("✗ {}", escape::visible(line)))?;
    }
    if loaded.hooks.is_empty() && broken.is_empty() {
        app.ui.note("no hook is configured; `helve hooks import` takes over those of Claude Code")?;
        return Ok(Exit::Done);
    }
    app.ui.table(table(&loaded, &verdict))?;
    if verdict != Verdict::Trusted {
        app.ui.note("calls that the project's hooks would see are denied until: helve trust")?;
    } else if app.ui.on_terminal() {
        app.ui.note("\nhelve hooks test PreToolUse --tool NAME --args JSON")?;
    }
    Ok(Exit::Done)
}

/// Hooks as a table. None of their words can hide.
fn table(loaded: &Loaded, verdict: &Verdict) -> Table {
    const YIELDS: &[Yield] = &[Yield::Cut(2, 24), Yield::Drop(4)];
    let mut table = Table::new(["event", "of", "hook", "may run", "from"]).one_line_rows(YIELDS);
    for section in &loaded.hooks {
        let (word, tone) = may_run(section.layer, verdict);
        for hook in &section.group.hooks {
            let matcher = section.group.matcher.as_deref().unwrap_or("*");
            table.row([
                Cell::new(escape::one_line(&section.event, 64), Tone::Strong),
                Cell::from(escape::one_line(matcher, 80)),
                Cell::from(escape::one_line(&hook.label(), 300)),
                Cell::new(word, tone),
                Cell::new(section.origin().to_string(), Tone::Dim),
            ]);
        }
    }
    table
}

fn may_run(layer: Layer, verdict: &Verdict) -> (&'static str, Tone) {
    match (layer, verdict) {
        (Layer::BuiltIn | Layer::Org, _) => ("yes, yours", Tone::Good),
        (Layer::Project, Verdict::Trusted) => ("yes, trusted", Tone::Good),
        (Layer::Project, Verdict::Changed { .. }) => ("no, changed", Tone::Bad),
        (Layer::Project, Verdict::Unknown) => ("not yet trusted", Tone::Warn),
    }
}

fn documents(loaded: &Loaded, verdict: &Verdict) -> Vec<serde_json::Value> {
    let group = |section: &helve_host::config::HookSection| {
        let (trust, scope) = match (section.layer, verdict) {
            (Layer::BuiltIn | Layer::Org, _) => ("trusted", "user"),
            (Layer::Project, Verdict::Trusted) => ("trusted", "project"),
            (Layer::Project, Verdict::Changed { .. }) => ("changed", "project"),
            (Layer::Project, Verdict::Unknown) => ("unknown", "project"),
        };
        json!({ "event": section.event, "group": section.group, "scope": scope, "trust": trust,
            "origin": section.origin() })
    };
    loaded.hooks.iter().map(group).collect()
}
